"""Check of the form of a run's files.

Damaged or edited files are found here, with the place of the error, and not when their content is
used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from overside.tasks.common import Json

_KINDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    bool: "true or false",
}

_MANIFEST = {
    "box": dict,
    "box_digest": str,
    "box_path": str,
    "data": list,
    "metrics": dict,
    "seed": int,
    "version": str,
    "warnings": list,
}
_TEST = {"id": str, "task": str, "parameters": dict}
_TEST_MORE = {"metrics": list, "status": str, "block": int}
_SAMPLE = {"test": str, "round": int, "status": str}
#: Keys of a sample that may be absent or null.
_SAMPLE_MORE = {
    "applied": dict,
    "bounds": dict,
    "card_mode": str,
    "check": dict,
    "cpu": dict,
    "error": dict,
    "histogram": str,
    "late": int,
    "late_of": int,
    "metrics": dict,
    "model": dict,
    "placement": dict,
    "series": dict,
    "stages": dict,
    "warnings": list,
    "work": dict,
}
#: Objects of numbers.
_FIGURES = ("cpu", "metrics", "stages", "work")


def manifest(content: Json, *, needed: bool) -> None:
    """Raises `ValueError` if something in a manifest is not as results.md describes it, or is
    absent though it is needed. A report can be made of what there is (`tests` finds what it cannot
    do without); a run that is compared must be right, and one that is resumed, whole."""
    _have(content, _MANIFEST, "", needed=needed)
    tests(content["tests"], needed=needed)
    for kind in ("data", "warnings"):
        for index, entry in enumerate(content.get(kind) or ()):
            _is(entry, dict, f"/{kind}/{index}")


def tests(entries: Sequence[Any], *, needed: bool) -> None:
    """Checks a manifest's tests."""
    for index, test in enumerate(entries):
        place = f"/tests/{index}"
        _have(test, _TEST, place, needed=True)
        _have(test, _TEST_MORE, place, needed=needed)
        for number, name in enumerate(test.get("metrics") or ()):
            _is(name, str, f"{place}/metrics/{number}")


def sample(content: Any) -> None:
    """Raises `ValueError` if a sample is not as docs/measure/results.md describes it."""
    _is(content, dict, "")
    _have(content, _SAMPLE, "", needed=True)
    _have(content, _SAMPLE_MORE, "", needed=False)
    if content["round"] < 0:
        raise ValueError("/round is below 0")
    status = content["status"]
    if status not in ("ok", "failed", "skipped"):
        raise ValueError(f"/status is {status!r}")
    if status == "ok" and content.get("metrics") is None:
        raise ValueError("/metrics is missing")
    if status == "failed":
        _have(content.get("error"), {"kind": str, "message": str}, "/error", needed=True)
    for part in _FIGURES:
        for name, value in (content.get(part) or {}).items():
            if value is not None:
                _is(value, float, f"/{part}/{name}")
    for name, ends in (content.get("bounds") or {}).items():
        _is(ends, list, f"/bounds/{name}")
        if len(ends) != 2:
            raise ValueError(f"/bounds/{name} has {len(ends)} ends")
        for end in ends:
            _is(end, float, f"/bounds/{name}")
    for index, warning in enumerate(content.get("warnings") or ()):
        _have(warning, {"message": str}, f"/warnings/{index}", needed=True)


def _have(content: Any, kinds: Mapping[str, type], place: str, *, needed: bool) -> None:
    """Checks that `content` has the `needed` keys, and that all values are of their kinds.

    Raises `ValueError` with the place of the error.
    """
    _is(content, dict, place)
    for key, kind in kinds.items():
        value = content.get(key)
        if value is not None:
            _is(value, kind, f"{place}/{key}")
        elif needed:
            raise ValueError(f"{place}/{key} is missing")


def _is(value: Any, kind: type, place: str) -> None:
    allowed: type | tuple[type, ...] = (int, float) if kind is float else kind
    right = isinstance(value, allowed) and (kind is bool or not isinstance(value, bool))
    if right and isinstance(value, float):
        right = math.isfinite(value)
    if not right:
        raise ValueError(f"{place or 'the line'} is not {_KINDS[kind]}")
