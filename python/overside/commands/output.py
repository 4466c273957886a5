"""Output of the verbs for programs, as JSON."""

from __future__ import annotations

import json
from typing import Any


def document(schema: str, /, **values: Any) -> None:
    """Prints one JSON object on a line of stdout; `schema` names its form, as in `runs/1`, unless
    the values name it."""
    print(json.dumps({"schema": schema, **values}, ensure_ascii=False), flush=True)
