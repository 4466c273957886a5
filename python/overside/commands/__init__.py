"""The verbs of `overside`, a module each, with `main(args) -> int`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from overside.runs import find

#: Values of a verb's options, by the options' names.
Arguments = SimpleNamespace

#: Directory of the runs by default.
RESULTS = Path("results")


def value(found: dict[str, Any]) -> Any:
    """Returns what an object of a parsed command line stands for: a path, a run, or values by name.

    Raises `UserError` if there is no such run.
    """
    match found:
        case {"$path": path}:
            return Path(path)
        case {"$run": name}:
            return find(name, RESULTS)
    return Arguments(**found)
