"""Output of the verbs for programs, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def document(schema: str, /, **values: Any) -> None:
    """Prints one JSON object on a line of stdout; `schema` names its form, as in `runs/1`, unless
    the values name it."""
    print(json.dumps({"schema": schema, **values}, ensure_ascii=False), flush=True)


def answer(as_json: bool, schema: str, values: dict[str, Any], text: Callable[[], str]) -> None:
    """Prints the document if `as_json`, and the text otherwise."""
    if as_json:
        document(schema, **values)
    else:
        print(text())
