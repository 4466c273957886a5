"""Check of the names and values in a box against the parameters of its tasks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from overside import _core
from overside.errors import UserError
from overside.tasks.common import Json, Machine, Parameter, Task, device_names

#: JSON pointer below the entry, message, suggestion.
Finding = tuple[str, str, str | None]


def entry(entry: Json, task: Task, here: Machine) -> Iterator[Finding]:
    """All that is wrong with a task entry of a parsed box."""
    if not task.is_open:
        yield from _metrics(entry["metrics"], task)
    for name, values in entry["parameters"].items():
        place = f"/parameters/{name}"
        parameter = task.parameters.get(name)
        if parameter is None:
            if name == "node" and task.no_nodes:
                yield place, f"{task.name} takes no node: {task.no_nodes}", None
            elif not task.is_open:
                yield place, *_unknown("parameter", name, list(task.parameters), task.name)
            continue
        for value in values:
            finding = _value(value, parameter) or _name(value, parameter, here)
            if finding is not None:
                yield place, *finding


def _metrics(names: Sequence[str], task: Task) -> Iterator[Finding]:
    for index, name in enumerate(names):
        if name not in task.metrics:
            yield f"/metrics/{index}", *_unknown("metric", name, list(task.metrics), task.name)


def _unknown(kind: str, name: str, known: list[str], task: str) -> tuple[str, str | None]:
    hint = _core.suggest(name, known)
    message = f"{task} has no {kind} {name!r}"
    if not hint:
        message += f"; it has {', '.join(known)}" if known else "; it has none"
    return message, hint


def _value(value: Any, parameter: Parameter) -> tuple[str, str | None] | None:
    """Returns the problem with a value's type, choice or size; `None` if there is none.

    A suggestion comes with it, if there is one.
    """
    if isinstance(value, str) and value in parameter.words:
        return None
    shown = json.dumps(value, ensure_ascii=False)[:80]
    if not _is(value, parameter.kind):
        words = "".join(f" or {word!r}" for word in parameter.words)
        return f"{shown} is not {_KINDS[parameter.kind]}{words}", None
    if parameter.choices and value not in parameter.choices:
        hint = _core.suggest(str(value), list(parameter.choices))
        tail = "" if hint else f"; it can be {', '.join(parameter.choices)}"
        return f"{shown} is none of the choices{tail}", hint
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = parameter.minimum, parameter.maximum
        if (low is not None and value < low) or (high is not None and value > high):
            unit = f" {parameter.unit}" if parameter.unit else ""
            return f"{shown} is out of bounds; it can be {_range(low, high)}{unit}", None
    most = parameter.most_values
    if most is not None and isinstance(value, list) and len(value) > most:
        return f"a list of {len(value)} values is too long; the most is {most}", None
    return None


def _range(low: float | None, high: float | None) -> str:
    """Bounds in words; whole numbers are written out."""
    first, last = (f"{x:.0f}" if x is not None and x == int(x) else str(x) for x in (low, high))
    if low is None:
        return f"at most {last}"
    return f"at least {first}" if high is None else f"{first} to {last}"


_KINDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "strings": "a text or a list of texts",
    "integers": "a list of whole numbers",
    "any": "a value",
}


def _is(value: Any, kind: str) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return whole
        case "number":
            return whole or (isinstance(value, float) and math.isfinite(value))
        case "boolean":
            return isinstance(value, bool)
        case "strings":
            if isinstance(value, str):
                return True
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "integers":
            return isinstance(value, list) and all(
                isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value
            )
    return True


def _name(value: Any, parameter: Parameter, here: Machine) -> tuple[str, str | None] | None:
    """Returns the problem with a name that is a value, and a suggestion; `None` if it is right.

    The parameter determines the kind of name: a device, a node, a variant and so on.
    """
    match parameter.refers_to:
        case "device":
            return _device(value, here, parameter)
        case "node":
            return node(value, here, str(parameter.default))
        case "variant":
            return _variant(value, here)
        case "placement":
            return _placement(value)
        case "patterns":
            return _patterns(value)
        case "data":
            return _data(value)
    return None


#: Devices that a box may name though this build has no backend of them: its tests are skipped.
_OTHER_BACKENDS = ("doca",)


def _device(names: str, here: Machine, parameter: Parameter) -> tuple[str, str | None] | None:
    wrong = (_one_device(name, here, parameter) for name in device_names(names))
    return next((problem for problem in wrong if problem), None)


def _one_device(name: str, here: Machine, parameter: Parameter) -> tuple[str, str | None] | None:
    links = parameter.links
    if name in links or name in parameter.cards:
        return None
    agent, slash, rest = name.partition("/")
    if slash and rest in links:
        return node(agent, here)
    if links and name.rpartition("/")[2] == "tcp":
        ucx = name.removesuffix("tcp") + "ucx"
        return f"{name!r} is no link: use device {ucx!r} with variant 'tcp'", ucx
    known = [*links, *parameter.cards]
    known += [device["name"] for device in here.devices if not device["name"].endswith(":*")]
    # One that is elsewhere or not available makes its tests skipped, not the box invalid.
    if "/" in name or name.partition(":")[0] in {*here.costly, *_OTHER_BACKENDS}:
        return None
    if here.device(name) is not None and not name.endswith(":*"):
        return None
    if f"emulated:{name}" in known:
        # A card and its emulation must never be confused.
        return f"{name!r} is a card's name, not a device", f"emulated:{name}"
    hint = _core.suggest(name, known)
    return f"there is no device {name!r}{'' if hint else '; there are ' + ', '.join(known)}", hint


def node(name: str, here: Machine, own: str = "host") -> tuple[str, str | None] | None:
    """Returns the problem with the name of a node, and a suggestion; `None` if the name is right.

    `own` is the name of this machine. An agent that was never added is a problem. One that is away
    is not: its tests are skipped.
    """
    if name == own:
        return None
    if ":" in name:
        return (
            f"{name!r} is an address, and a node is {own} or an agent's name: start "
            "`overside agent` there, add it with `overside agents add NAME HOST`, and name it",
            None,
        )
    known = here.nodes()
    # Where it is not known which there are, its tests are skipped.
    if known is None or name in known:
        return None
    return here.no_agent(name), _core.suggest(name, [own, *known])


def _variant(name: str, here: Machine) -> tuple[str, str | None] | None:
    known = {"auto"}
    for operation in here.operations:
        known.update(variant["name"] for variant in operation["variants"])
    for device in here.devices:
        for capability in device.get("capabilities") or ():
            known.update(capability["variants"])
    if name in known:
        return None
    words = sorted(known)
    hint = _core.suggest(name, words)
    return f"there is no variant {name!r}{'' if hint else '; there are ' + ', '.join(words)}", hint


def _placement(text: str) -> tuple[str, str | None] | None:
    try:
        _core.placement(text)
    except ValueError as error:
        return str(error), None
    return None


def _data(name: str) -> tuple[str, str | None] | None:
    from overside import data  # noqa: PLC0415 (only measured tasks have data)

    known = data.names()
    # One that has a name but is not at hand makes its tests skipped, not the box invalid.
    if name in known or data.absent(name) is None:
        return None
    hint = _core.suggest(name, known)
    message = f"there is no data set, file or directory {name!r}"
    return message + ("" if hint else "; `overside data list` shows the data sets"), hint


def _patterns(value: str | list[str]) -> tuple[str, str | None] | None:
    """All engines take the same patterns, within the same limits."""
    from overside.tasks.offload import query  # noqa: PLC0415 (only matching has patterns)

    written = [value] if isinstance(value, str) else value
    problem = _core.pattern_problem([query(pattern) for pattern in written])
    return None if problem is None else (problem, None)


def measure(name: str, value: Any) -> None:
    """Checks a value of a box's `measure` that was given on the command line.

    Raises `UserError` if a box cannot have it.
    """
    form = {"schema": "box/1", "name": "x", "tasks": [{"task": "x"}], "measure": {name: value}}
    try:
        _core.parse_box(json.dumps(form))
    except _core.BoxError as error:
        message = json.loads(str(error))[0]["message"]
        raise UserError(f"measure.{name}: {message}") from None
