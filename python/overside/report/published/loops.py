"""Links, memory and networks beside published figures.

Others measured a card's DMA engine behind PCIe, a card's memory, a cable. The link, memory or
network here comes first among the differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from overside.bench.statistics import RunView, TestSummary
from overside.report import best, formatting, groups
from overside.report.published.conditions import (
    SHORT_BYTES,
    RequestedConditions,
    conditions_of,
)
from overside.report.published.figures import (
    FIGURES_MAX,
    Comparison,
    Figure,
    Json,
    figure,
    in_turn,
    machine_of,
    studies,
)
from overside.report.published.study import said

TASKS = ("dma", "memory", "network")
#: The most published figures beside one of them: they are of several kinds.
_SHOWN = 2 * FIGURES_MAX
#: Sizes that differ by less are the same: studies write KB for KiB.
_SAME_SIZE = 1.1
_HERE = {
    "engine": "a thread of this machine that copies within its memory: no engine, no PCIe",
    "caller": "a copy by whoever starts it, within this machine’s memory: no engine, no PCIe",
}
_REAPED = {"poll": "polling", "event": "event"}


def comparisons(view: RunView, facts: Sequence[Json]) -> list[Comparison]:
    """Returns comparisons of links, memory and networks in a run with published figures."""
    alike: dict[tuple[str, str], list[TestSummary]] = {}
    for test in view.tests:
        is_real = test.provenance == "measured" and test.timing == "real"
        if test.task in TASKS and is_real and groups.trusted(test):
            alike.setdefault(_title(test), []).append(test)
    out = []
    for (title, detail), tests in alike.items():
        pairs = [pair for fact in facts for pair in _figures(view, fact, tests)]
        found = in_turn(pairs)
        if not found:
            continue
        shown = found[:_SHOWN]
        figures = tuple(one for one, _ in shown)
        out.append(
            Comparison(
                title=title,
                detail=detail,
                measured=tuple(dict.fromkeys(ours for _, ours in shown)),
                figures=figures,
                studies=studies(facts, figures),
                left_out=len(found) - len(shown),
                chosen="the nearest in its conditions",
            )
        )
    return out


def _title(test: TestSummary) -> tuple[str, str]:
    """Returns the operation of a test, and the detail that distinguishes it from others."""
    if test.task == "dma":
        device = f"Move bytes over {formatting.device(test.parameters.get('device'))}"
        how = {"engine": "a thread copies", "caller": "whoever starts it copies"}
        variant = formatting.clean(test.parameters.get("variant") or "", 40)
        return device, how.get(variant, variant)
    mode = test.parameters.get("mode")
    return formatting.operation(test.task, test.parameters), f"through {mode}" if mode else ""


def _figures(
    view: RunView, fact: Json, tests: Sequence[TestSummary]
) -> Iterator[tuple[Figure, str]]:
    """A fact's figures that one of our tests is near to, with that test's in words."""
    for one in fact["figures"]:
        wanted = conditions_of(fact, one)
        test = _nearest(wanted, tests) if wanted else None
        if wanted is None or test is None:
            continue
        other = _other(wanted, test, tests)
        if wanted.against and other is None:
            continue
        machine, keys = machine_of(fact, one)
        what = ", ".join([f"{fact['workload']}: {fact['metric']}", *keys])
        differs = tuple(_differences(fact, machine, wanted, test))
        yield figure(fact, one, machine, what, differs), _ours(view, wanted, test, other)


def _size(test: TestSummary) -> float:
    return float(groups.size_bytes(test) or 0)


def _nearest(wanted: RequestedConditions, tests: Sequence[TestSummary]) -> TestSummary | None:
    """The test that is nearest to a published figure's conditions; of several the best."""
    fit = [
        test
        for test in tests
        if test.task == wanted.task
        and wanted.metric in test.metrics
        and test.metrics[wanted.metric].median > 0
        and all(test.parameters.get(name) in values for name, values in wanted.must.items())
    ]

    def apart(test: TestSummary) -> tuple[float, ...]:
        far = []
        for name, there in wanted.near.items():
            here = test.parameters.get(name)
            known = isinstance(here, int | float) and here > 0
            far.append(abs(math.log(float(here or 0) / there)) if known else math.inf)
        low = wanted.metric.startswith(("latency", "read_latency"))
        value = test.metrics[wanted.metric].median
        return (*far, value if low else -value)

    return min(fit, key=apart, default=None)


def _other(
    wanted: RequestedConditions, test: TestSummary, tests: Sequence[TestSummary]
) -> TestSummary | None:
    """The test on the other side of a ratio, which differs only in the ratio's parameter."""
    if wanted.against is None:
        return None
    name, value = wanted.against
    same = test.parameters | {name: value}
    return next(
        (
            one
            for one in tests
            if one.parameters == same
            and wanted.metric in one.metrics
            and one.metrics[wanted.metric].median > 0
        ),
        None,
    )


def _ours(
    view: RunView, wanted: RequestedConditions, test: TestSummary, other: TestSummary | None
) -> str:
    """Returns our figure and its conditions, in words."""
    mine = test.metrics[wanted.metric]
    unit = str(view.metric(test.task, wanted.metric)["unit"])
    if other is not None and wanted.against is not None:
        name, right = wanted.against
        left = str(test.parameters[name])
        theirs = other.metrics[wanted.metric]
        sides = (
            f"{_side(name, left)} {_amount(mine.median, unit)}, "
            f"{_side(name, right)} {_amount(theirs.median, unit)}"
        )
        times = formatting.times(mine.median / theirs.median)
        return f"{_label(wanted)}, {_what(test, but=name)}: {sides}; {times} times"
    spread = best.interval(mine)
    return f"{_label(wanted)}, {_what(test)}: {_amount(mine.median, unit)} ({spread})"


def _label(wanted: RequestedConditions) -> str:
    known = {
        "initiator_utilisation": "use of the initiator’s core",
        "best_bandwidth": "bandwidth",
        "latency_mean": "mean latency",
        "read_latency": "latency of a read",
        "access_rate": "accesses",
    }
    return known.get(wanted.metric, wanted.metric)


def _amount(value: float, unit: str) -> str:
    text = formatting.short(value) if value >= 1e6 else formatting.number(value)
    return f"{text} {unit}".rstrip()


def _side(name: str, value: str) -> str:
    return (
        _REAPED.get(value, value) if name == "completion" else f"from the {formatting.side(value)}"
    )


def _what(test: TestSummary, but: str = "") -> str:
    """A test's conditions in the shortest form, without the parameter `but`."""
    given = test.parameters
    size = formatting.size(_size(test))
    threads = formatting.plural(int(given.get("threads") or 1), "thread")
    if test.task == "memory":
        pattern = given.get("pattern")
        if pattern == "stream":
            return f"{given.get('kernel')} of {size} arrays with {threads}"
        if pattern == "access":
            return f"{given.get('order')} {given.get('access')}s in {size} with {threads}"
        return f"in {size} on {given.get('pages')} pages with {threads}"
    if test.task == "network":
        connections = formatting.plural(int(given.get("connections") or 1), "connection")
        return f"messages of {size}, {connections}, {threads}"
    parts = [f"{given.get('operation')}s of {size}"]
    if but != "initiator":
        parts[0] += f" from the {formatting.side(given.get('initiator'))}"
    if but != "completion":
        parts.append(_REAPED.get(str(given.get("completion")), ""))
    parts.append(f"{given.get('depth')} in flight, {given.get('batch')} at a doorbell, {threads}")
    return ", ".join(parts)


def _differences(
    fact: Json, machine: str, wanted: RequestedConditions, test: TestSummary
) -> Iterator[str]:
    """Yields the differences between a published figure's conditions and ours, a phrase each."""
    there = formatting.clean(machine, 80)
    if wanted.task == "dma":
        yield f"{there}: a card’s DMA engine behind PCIe; here {_link(test)}"
        yield from _unsaid(wanted, test)
    elif wanted.task == "network":
        yield f"{there} over a cable; here {_road(test)}"
    else:
        yield f"on {there}; here on this machine"
    yield from _sizes(wanted, test)
    yield from _counts(wanted, test)
    yield from _methods(fact, wanted)


def _link(test: TestSummary) -> str:
    """Returns the name of the engine or link that moves the bytes here."""
    device = str(test.parameters.get("device"))
    name = str(test.parameters.get("variant")) if device == "shm" else device
    applied = test.applied or {}
    carried = applied.get("variant" if device == "ucx" else "library")
    known = _HERE.get(name)
    return known or f"{formatting.device(device)} ({formatting.clean(carried or 'unknown', 120)})"


def _road(test: TestSummary) -> str:
    """Returns the path of messages between the ends of our test, in words."""
    mode, ends = test.parameters.get("mode"), formatting.ends(test.parameters)
    if mode:
        return f"between two namespaces of this machine, through {formatting.clean(mode, 40)}"
    if ends == "loopback":
        return "loopback within this machine"
    between = ends if " to " in ends else f"to {ends}"
    way = str((test.applied or {}).get("library"))
    within = "loopback" in way or "within one machine" in way
    return f"{between}, within one machine" if within else between


def _unsaid(wanted: RequestedConditions, test: TestSummary) -> Iterator[str]:
    """Yields the conditions that a study does not state, with ours."""
    said = {"initiator": "who starts it", "operation": "read or write", "completion": "completion"}
    missing = [name for name in said if name not in wanted.must]
    if missing:
        there = formatting.listing([said[name] for name in missing])
        here = [formatting.side(test.parameters.get(name)) for name in missing]
        yield f"{there} not stated; here {', '.join(here)}"


def _sizes(wanted: RequestedConditions, test: TestSummary) -> Iterator[str]:
    here = _size(test)
    name = "message_size" if test.task == "network" else "buffer_size"
    there = wanted.near.get(name)
    if there is None:
        yield f"size not stated; here {formatting.size(here)}"
    elif there <= SHORT_BYTES and test.task == "dma":
        if here > there:
            yield f"short ones; here {formatting.size(here)}"
    elif not 1 / _SAME_SIZE < here / there < _SAME_SIZE:
        yield f"{formatting.clean(wanted.stated, 20)}; here {formatting.size(here)}"


def _counts(wanted: RequestedConditions, test: TestSummary) -> Iterator[str]:
    threads = int(test.parameters.get("threads") or 1)
    there = wanted.near.get("threads")
    if there is not None and there != threads:
        here = formatting.plural(threads, "thread")
        yield f"{formatting.plural(int(there), 'core')}; here {here}"
    if test.task == "dma" and wanted.metric in {"throughput", "rate"}:
        batch = wanted.near.get("batch")
        said = "batch not stated" if batch is None else f"batch {int(batch)}"
        load = f"{test.parameters.get('depth')} in flight, {test.parameters.get('batch')}"
        yield f"{said}; here {load} at a doorbell"


def _methods(fact: Json, wanted: RequestedConditions) -> Iterator[str]:
    """Another program, and another way to count."""
    program = said(fact["id"]).get("program")
    if program is not None:
        yield program
    if wanted.metric == "best_bandwidth":
        yield "STREAM’s own loops; here the same kernels, of the fastest pass as STREAM tells"
