"""What verbs print for programs."""

from __future__ import annotations

import json
from typing import Any

from overside import tasks
from overside.bench import plan
from overside.report import formatting


def document(schema: str, /, **values: Any) -> None:
    """Prints one JSON object on a line of stdout; `schema` names its form, as in `runs/1`, unless
    the values name it."""
    print(json.dumps({"schema": schema, **values}, ensure_ascii=False), flush=True)


def parameter(task: str, key: str, value: object) -> str:
    """A parameter's value for people: sizes in the unit that fits them."""
    known = tasks.find(task)
    about = known.parameters.get(key) if known is not None else None
    if about is not None and about.unit == "bytes" and isinstance(value, int):
        return formatting.size(value)
    return plan.text(value)
