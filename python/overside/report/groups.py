"""Tests that can be compared, put together.

Two tests are in the same group if they do the same work: the same operation with the same
parameters on the same data. How the work is done (device, library, threads, depth, ...) and the
buffer size differ inside a group. Tests of different provenance share a group's heading and
never a chart or a comparison.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from overside.bench.statistics import RunView, TestSummary
from overside.report import formatting
from overside.tasks.common import operation, presentation
from overside.tasks.offload import query

#: Beginning of `applied.library` if the patterns match every record or none.
NO_ENGINE = "no engine needed"

#: The size that latency and stages are shown at where there are many.
TYPICAL_SIZE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Group:
    """Tests that do the same work."""

    key: str
    #: `Compress to DEFLATE`.
    title: str
    #: Other properties that distinguish this group from others: `level 1, data system`.
    detail: str
    task: str
    parameters: dict[str, Any]
    tests: tuple[TestSummary, ...]

    @property
    def operation(self) -> str | None:
        """The operation's name in profiles: `compress-deflate`; `None` if it has none."""
        return operation(self.task, self.parameters)

    @property
    def patterns(self) -> list[str]:
        """The regular expressions that were matched; published queries go by their names."""
        patterns = self.parameters.get("patterns")
        chosen = [patterns] if isinstance(patterns, str) else patterns or ()
        return [query(str(pattern)) for pattern in chosen]

    def of(self, provenance: str) -> tuple[TestSummary, ...]:
        """The tests of one provenance that were verified; their emulated timing may be invalid."""
        return tuple(t for t in self.tests if t.provenance == provenance and verified(t))

    def sizes(self, tests: Iterable[TestSummary] | None = None) -> list[int]:
        """The buffer sizes in bytes, ascending."""
        found = {size_bytes(test) for test in (self.tests if tests is None else tests)}
        return sorted(size for size in found if size is not None)


def trusted(test: TestSummary) -> bool:
    """`True` if it passed in every round and its results were verified."""
    return test.status == "ok" and test.verified


def verified(test: TestSummary) -> bool:
    """Returns `True` if the results were verified in every round.

    Emulated timing may still be invalid.
    """
    return test.status in ("ok", "invalid") and test.verified


def has_times(test: TestSummary) -> bool:
    """Returns `True` if times can be shown: they are neither invalid nor without a clock."""
    return test.status != "invalid" and test.timing != "functional"


def timed(test: TestSummary) -> bool:
    """Returns `True` if times can be shown as results: they are trusted and have a clock."""
    return trusted(test) and has_times(test)


def size_bytes(test: TestSummary) -> int | None:
    """A test's buffer size; of network tests the messages'."""
    size = test.parameters.get(presentation(test.task)["size"])
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


def groups(view: RunView) -> list[Group]:
    """The groups of a run, in the order in which its tests were planned."""
    found: dict[str, list[TestSummary]] = {}
    for test in view.tests:
        found.setdefault(_key(test), []).append(test)
    found = _along_axes(found)
    same_title: dict[str, list[dict[str, Any]]] = {}
    for tests in found.values():
        title = formatting.operation(tests[0].task, tests[0].parameters)
        same_title.setdefault(title, []).append(_common(tests))
    data = {str(test.parameters["data"]) for test in view.tests if test.parameters.get("data")}
    out = []
    for key, tests in found.items():
        title = formatting.operation(tests[0].task, tests[0].parameters)
        parameters = _common(tests)
        detail = _detail(parameters, same_title[title], len(data) > 1)
        task = tests[0].task
        out.append(Group(key, title, detail, task, parameters, tuple(tests)))
    return out


def _along_axes(found: dict[str, list[TestSummary]]) -> dict[str, list[TestSummary]]:
    """Puts groups together whose tests differ in nothing but one parameter that is an axis."""
    joined: dict[str, list[TestSummary]] = {}
    for key, tests in found.items():
        axes = (axis["name"] for axis in presentation(tests[0].task)["axes"])
        work = work_parameters(tests[0])
        name = next((axis for axis in axes if axis in work), None)
        others = sorted(_without(test.parameters, name) for test in tests) if name else key
        joined.setdefault(f"{tests[0].task} {name} {others}", []).extend(tests)
    out: dict[str, list[TestSummary]] = {}
    for tests in joined.values():
        out.setdefault(_key(tests[0], _common(tests)), []).extend(tests)
    return out


def _without(parameters: dict[str, Any], name: str) -> str:
    rest = {other: value for other, value in parameters.items() if other != name}
    return json.dumps(rest, sort_keys=True, default=str)


def _common(tests: Sequence[TestSummary]) -> dict[str, Any]:
    """The work that all of them do."""
    first, *others = map(work_parameters, tests)
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }


def work_parameters(test: TestSummary) -> dict[str, Any]:
    """The parameters that define the work."""
    form = presentation(test.task)
    left_out = {*form["ways"], form["size"], *_labelled(test)}
    return {name: value for name, value in test.parameters.items() if name not in left_out}


def _labelled(test: TestSummary) -> tuple[str, ...]:
    """The parameters by which the tests of a group differ."""
    labels = presentation(test.task)["labels"]
    holds = labels["when"] is None or test.parameters.get(labels["when"])
    return tuple(labels["parameters"]) if holds else ()


def _key(test: TestSummary, work: dict[str, Any] | None = None) -> str:
    work = work_parameters(test) if work is None else work
    return json.dumps([test.task, work], sort_keys=True, default=str)


def _detail(parameters: dict[str, Any], alike: Sequence[dict[str, Any]], many_data: bool) -> str:
    """Returns the details of a group's heading.

    They are the level, the data set if the run has several, and other parameters that distinguish
    groups.
    """
    parts = []
    for name, value in parameters.items():
        differs = any(other.get(name) != value for other in alike)
        match name:
            case _ if name in formatting.named():
                continue
            case "level" if value is not None:
                parts.append(f"level {formatting.value(value)}")
            case "setting" if value == "reconfiguration" or differs:
                parts.append(f"{formatting.value(value)} setting")
            case "data" if differs or many_data:
                parts.append(f"on “{formatting.value(value)}”")
            case _ if differs:
                parts.append(
                    f"{formatting.clean(name, 60).replace('_', ' ')} {formatting.value(value)}"
                )
    return ", ".join(parts)


def label(test: TestSummary, beside: Sequence[TestSummary]) -> str:
    """A test among others of its group: the library, and the choices that differ."""
    return ", ".join(part for part in label_parts(test, beside) if part)


def prose(test: TestSummary, beside: Sequence[TestSummary]) -> str:
    """The label inside a sentence: `ISA-L with 2 threads`."""
    return " with ".join(part for part in label_parts(test, beside) if part)


def label_parts(test: TestSummary, beside: Sequence[TestSummary]) -> tuple[str, str]:
    """The label in two parts: the library or device, and the way."""
    parameters = test.parameters
    device = str(parameters.get("device") or "")
    who, work = library(test), ""
    if not presentation(test.task)["variants"] and (labelled := _labelled(test)):
        work = ", ".join(formatting.choice(test.task, name, parameters) for name in labelled)
        who = work
    is_cpu = device in {"cpu", ""}
    if device.startswith("emulated:") and "+" not in device:
        card = formatting.card(device.removeprefix("emulated:"))
        who = f"{card}, {work}" if work else card
    elif not is_cpu:
        who = f"{formatting.device(device)}, {who}" if who else formatting.device(device)
    if test.task == "network" and len({formatting.ends(t.parameters) for t in (test, *beside)}) > 1:
        who = ", ".join(filter(None, (formatting.ends(parameters), who)))
    how = []
    for name in presentation(test.task)["ways"]:
        if name in ("device", "variant"):
            continue
        if test.task == "network" and name in ("source", "destination"):
            continue  # part of who it is
        mine = parameters.get(name)
        differs = any(other.parameters.get(name) != mine for other in beside)
        if name == "initiator":
            # Part of who it is: the same link from its two ends.
            if differs and mine is not None:
                side = f"from the {formatting.side(mine)}"
                who = f"{who}, {side}" if _links_differ(beside) else side[:1].upper() + side[1:]
            continue
        if name == "threads" and isinstance(mine, int) and (differs or is_cpu):
            how.append(formatting.plural(mine, "thread"))
        elif name == "threads" and isinstance(mine, str):
            how.append(f"threads: {formatting.choice(test.task, name, parameters)}")
        elif differs and mine is not None:
            how.append(f"{name} {formatting.value(mine)}")
    return who or formatting.clean(test.task, 60), ", ".join(how)


def _links_differ(tests: Sequence[TestSummary]) -> bool:
    """Returns `True` if bytes go over several links, or are moved in several ways."""
    names = ("device", "variant")
    return any(len({str(t.parameters.get(name)) for t in tests}) > 1 for name in names)


def library(test: TestSummary) -> str:
    """The library that really ran, by the name people call it, or that none was needed; empty if it
    is unknown."""
    applied = test.applied or {}
    needed, colon, why = str(applied.get("library") or "").partition(": ")
    if needed == NO_ENGINE and colon:
        return f"no engine ({formatting.clean(why, 60)})"
    variant = applied.get("variant") or test.parameters.get("variant")
    return formatting.library(variant) if variant and variant != "auto" else ""


def typical_size(sizes: Sequence[int]) -> int | None:
    """The size nearest to 64 KiB: where one must stand for all."""
    if not sizes:
        return None
    return min(sizes, key=lambda size: abs(size.bit_length() - TYPICAL_SIZE_BYTES.bit_length()))
