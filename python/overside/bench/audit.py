"""Audit of the harness on this machine: mistakes of other suites, planted in real tests.

The harness can be trusted if each of them is caught.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from overside import _core
from overside.tasks.common import Json

#: The warning of a run in which a mistake was not caught.
UNTRUSTED: Json = {
    "kind": "audit",
    "message": "a mistake that was planted in the harness was not caught: do not trust the figures",
    "remedy": "`overside audit` says which; please report it",
}


def plant_mistakes() -> list[Json]:
    """Plants each mistake in a real test: what came of it (docs/measure/audit.md). About a second.

    Raises `OSError` if no scratch file can be written.
    """
    with tempfile.TemporaryDirectory(prefix="overside-audit-") as scratch:
        found: list[Json] = json.loads(_core.audit(scratch))
    return found


def before_run() -> tuple[list[Json], list[Json]]:
    """Audits the harness before a run; returns the planted mistakes and the warnings for the run.

    A run continues without an audit if no scratch file can be written.
    """
    try:
        found = plant_mistakes()
    except OSError as error:
        message = f"the harness was not audited: no scratch file can be written ({error})"
        remedy = "make room, or set TMPDIR; `overside audit` does it later"
        return [], [{"kind": "audit", "message": message, "remedy": remedy}]
    return found, [] if trusted(found) else [UNTRUSTED]


def trusted(found: Sequence[Json]) -> bool:
    """Returns `True` if every mistake was caught, in a test that works without it."""
    return all(one["caught"] and one["works_without"] for one in found)


def outcome(one: Mapping[str, Any]) -> str:
    """Returns in words whether a planted mistake was caught."""
    if not one.get("works_without"):
        return "the test fails without it, too"
    return "caught" if one.get("caught") else "not caught"
