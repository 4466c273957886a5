"""Check of a plug-in's description, its answer to `describe` (docs/measure/plugins.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from overside.tasks.common import Json

#: The version of the protocol.
PROTOCOL = "1"
TIMEOUT_S_MAX = 86_400.0
#: Parameters, and metrics.
NAMES_MAX = 200
#: The largest number: its square, and sums of as many as there may be, are finite.
NUMBER_MAX = 1e100

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_/%. -]{0,63}")
_KINDS = ("string", "integer", "number", "boolean", "strings", "integers", "any")
_DESCRIBE_KEYS = {
    "plugin",
    "name",
    "description",
    "parameters",
    "metrics",
    "verifies",
    "changes_system",
    "timeout_s",
}
_PARAMETER_KEYS = {"type", "description", "default", "unit", "choices", "minimum", "maximum"}
_METRIC_KEYS = {"unit", "better", "description"}


def describe_problems(about: Json, name: str) -> list[str]:
    """Returns the problems with an answer to `describe`, each in a few words."""
    problems = [f"unknown key {key!r}" for key in sorted(set(about) - _DESCRIBE_KEYS)]
    if about.get("plugin") != PROTOCOL:
        problems.append(f'"plugin" must be "{PROTOCOL}", the version of the protocol')
    if about.get("name") != name:
        problems.append(f"it calls itself {about.get('name')!r}, but boxes call it {name!r}")
    if not isinstance(about.get("description"), str) or not about["description"].strip():
        problems.append("it has no description")
    if not isinstance(about.get("verifies", False), bool):
        problems.append('"verifies" must be true or false')
    timeout_s = about.get("timeout_s", 1)
    if not is_number(timeout_s) or not 0 < timeout_s <= TIMEOUT_S_MAX:
        problems.append(f'"timeout_s" must be above 0 and at most {TIMEOUT_S_MAX:.0f}')
    changes = about.get("changes_system", [])
    if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
        problems.append('"changes_system" must be a list of texts')
    problems += _entry_problems(about, "parameters", _PARAMETER_KEYS, _parameter_problem)
    problems += _entry_problems(about, "metrics", _METRIC_KEYS, _metric_problem)
    if not about.get("metrics"):
        problems.append("it names no metric")
    return problems


def _entry_problems(
    about: Json, what: str, keys: set[str], check: Callable[[Json], str | None]
) -> Iterator[str]:
    entries = about.get(what)
    if not isinstance(entries, dict) or len(entries) > NAMES_MAX:
        yield f"{what!r} must be an object of at most {NAMES_MAX} entries"
        return
    for name, entry in entries.items():
        if not _NAME.fullmatch(name):
            yield f"{what}: {name[:80]!r} is no name: letters, digits, _ / % . - and spaces, 64"
        elif not isinstance(entry, dict):
            yield f"{what}.{name} must be an object"
        elif unknown := sorted(set(entry) - keys):
            yield f"{what}.{name} has the unknown key {unknown[0]!r}"
        elif problem := check(entry):
            yield f"{what}.{name} {problem}"


def _parameter_problem(entry: Json) -> str | None:
    if entry.get("type") not in _KINDS:
        return f"must have a type of {', '.join(_KINDS)}"
    choices = entry.get("choices", [])
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        return "must have a list of texts as its choices"
    if choices and entry.get("default") is not None and entry["default"] not in choices:
        return f"has the default {entry['default']!r}, which is not one of its choices"
    for bound in ("minimum", "maximum"):
        if entry.get(bound) is not None and not is_number(entry[bound]):
            return f"must have a number as its {bound}"
    if not isinstance(entry.get("unit", ""), str):
        return "must have a text as its unit"
    return None if isinstance(entry.get("description", ""), str) else "has a strange description"


def _metric_problem(entry: Json) -> str | None:
    if entry.get("better", "higher") not in ("higher", "lower"):
        return 'must say "better": "higher" or "lower"'
    if not isinstance(entry.get("unit", ""), str):
        return "must have a text as its unit"
    return None if isinstance(entry.get("description", ""), str) else "has a strange description"


def is_number(value: object) -> bool:
    """Returns `True` for a number small enough that sums and means of many are finite.

    `True` is not a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -NUMBER_MAX <= value <= NUMBER_MAX
