"""Answers of a run about other things than operations that a device could take over: networks,
links, memory, hashes, stores, plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from overside import tasks
from overside.bench.statistics import RunView, TestSummary
from overside.report import best, formatting, groups, view_model
from overside.report.groups import Group
from overside.tasks.common import Json, presentation

#: An interval whose ends lie further apart than this is no headline.
WIDEST = 2.0
#: A latency is flat as long as it is within this factor of the least.
FLAT = 2.0
#: Times of one thing: said of the smallest size, and up to which size they hold.
_TIMES = {
    "latency_p50": "median",
    "read_latency": "for one read",
    "call_latency": "for one call",
    "access_time": "for one access",
    "time": "",
}
#: Metrics that are reported of a task, the most important first; without any of them, those that
#: its box asked for.
_PEAKS = ("bit_rate", "throughput", "bandwidth", "call_bandwidth", "rate", "access_rate")
#: The most plug-in tests that are answered.
_PLUGINS_MAX = 6


@dataclass(frozen=True)
class Answer:
    """Result of one task, in words."""

    #: `Loopback TCP`.
    title: str
    #: `26.9 µs median to 16 KiB; peak 26.5 Gb/s (17.9–28.9) at 1 MiB`.
    text: str
    #: `measured`, `emulated`; with `unverified` if the result was not checked.
    provenance: str
    #: `True` if one of its intervals is too wide for a headline.
    is_wide: bool = False

    @property
    def line(self) -> str:
        """Whole text; every format quotes these words."""
        return f"{self.title} [{self.provenance.upper()}]: {self.text}."

    def json(self) -> Json:
        """For programs."""
        return {
            "title": self.title,
            "provenance": self.provenance,
            "text": self.line,
        }


def of_run(view: RunView, *, is_beside: bool = False) -> Iterator[Answer]:
    """The answers of a run, in the order of its tests; with `is_beside`, verdicts on devices come
    first, and jobs that no device takes over are left to the table of the fastest."""
    links: dict[tuple[str, str], list[Answer]] = {}
    for group in groups.groups(view):
        # What a card's engines may do has verdicts of its own.
        if group.task not in tasks.NAMES or presentation(group.task)["engine"]:
            continue
        for answer in _of_group(view, group, is_beside=is_beside):
            links.setdefault((answer.title, answer.provenance), []).append(answer)
    for some in links.values():
        text = "; ".join(one.text for one in some)
        yield replace(some[0], text=text, is_wide=any(one.is_wide for one in some))
    yield from _plugins(view)


def _of_group(view: RunView, group: Group, *, is_beside: bool) -> Iterator[Answer]:
    for provenance in ("measured", "emulated"):
        tests = [test for test in group.of(provenance) if groups.has_times(test)]
        if not tests or (provenance == "emulated" and group.operation is not None):
            continue
        for ends in dict.fromkeys(_where(test) for test in tests):
            own = [test for test in tests if _where(test) == ends]
            jobs = group.operation is not None and any("throughput" in t.asked for t in own)
            if jobs and is_beside:
                continue
            text = _fastest(own) if jobs else _figures(view, own)
            if text:
                yield Answer(_title(group, ends), text, provenance, _is_wide(own, text))


def _is_wide(tests: Sequence[TestSummary], text: str) -> bool:
    """Returns `True` if a figure in the text has an interval too wide for a headline."""
    return any(
        one.low <= 0 or one.high / one.low > WIDEST
        for test in tests
        for one in test.metrics.values()
        if one.low != one.high and f"({best.interval(one)})" in text
    )


def _where(test: TestSummary) -> str:
    """Between whom, or over which device."""
    if test.task == "network":
        mode = test.parameters.get("mode")
        via = f" ({formatting.clean(mode, 40)})" if mode not in (None, "as-is") else ""
        return formatting.ends(test.parameters).capitalize() + via
    device = test.parameters.get("device")
    return formatting.over(device) if device not in (None, "cpu") else ""


def _title(group: Group, where: str) -> str:
    if group.task == "network":
        beside = group.parameters.get("jobs")
        protocol = formatting.choice(group.task, "protocol", group.parameters)
        return f"{where} {protocol}" + (
            f" beside jobs ({formatting.clean(beside, 40)})" if beside else ""
        )
    title = group.title + (f" ({group.detail})" if group.detail else "")
    return f"{title} over {where}" if where else title


def _fastest(tests: Sequence[TestSummary]) -> str:
    """Returns the fastest way of jobs that no card's engine does."""
    told = [test for test in tests if "throughput" in test.metrics]
    if not told:
        return ""
    top = max(told, key=lambda test: test.metrics["throughput"].median)
    size = groups.size_bytes(top)
    at = f" in {formatting.size(size)} buffers" if size else ""
    figure = _figure(top, "throughput", "MB/s")
    return f"{groups.prose(top, told)}, {figure}{at}; no card's engine does this"


def _figures(view: RunView, tests: Sequence[TestSummary]) -> str:
    """The time of one, and the peak of many; of traffic beside jobs their cost to it."""
    if beside_jobs := [test for test in tests if "throughput_during" in test.metrics]:
        return _by_phase(view, beside_jobs)
    asked = list(dict.fromkeys(name for test in tests for name in test.asked))
    parts = []
    for name in [name for name in asked if name in _TIMES][:1]:
        parts.append(_time(view, [t for t in tests if name in t.asked], name))
    peaks = [name for name in _PEAKS if name in asked]
    if peaks:
        parts.append(_peak(view, [t for t in tests if peaks[0] in t.asked], peaks[0]))
    if not any(parts) and asked:
        parts.append(_peak(view, tests, asked[0]))
    return "; ".join(filter(None, parts))


def _by_phase(view: RunView, tests: Sequence[TestSummary]) -> str:
    """Returns the figures of traffic before, during and after the jobs.

    Of several tests it is the one that the jobs affected most.
    """
    families = {"delay": "mean delay", "latency": "mean round trip", "throughput": "throughput"}
    name = next(name for name in families if f"{name}_during" in tests[0].metrics)
    told = [test for test in tests if f"{name}_during" in test.metrics]
    choose = min if name == "throughput" else max
    top = choose(told, key=lambda test: test.metrics[f"{name}_during"].median)
    unit = view_model.metric_unit(view, f"{name}_during").strip()
    whens = [when for when in ("before", "during", "after") if f"{name}_{when}" in top.metrics]
    figures = [f"{_figure(top, f'{name}_{when}', unit)} {when}" for when in whens]
    text = f"{families[name]} {formatting.listing(figures)} the jobs"
    if how := _how(top, told):
        text += f" ({how})"
    if "catch_up" in top.metrics:
        text += f", caught up {_figure(top, 'catch_up', 'ms')} after them"
    return text


def _time(view: RunView, tests: Sequence[TestSummary], name: str) -> str:
    """The time of one at a time, and up to which size it stays."""
    told = [test for test in tests if name in test.metrics]
    alone = [test for test in told if test.parameters.get("depth") in (None, 1)]
    alone = [test for test in alone if test.parameters.get("rate") is None] or told
    if not alone:
        return ""
    # One way to do it, so that sizes are compared with nothing else.
    ways: dict[str, list[TestSummary]] = {}
    for test in alone:
        ways.setdefault(_how(test, alone), []).append(test)
    of = {label: [test.metrics[name].median for test in some] for label, some in ways.items()}
    label = min(of, key=lambda one: min(of[one]))
    line = sorted(ways[label], key=lambda test: groups.size_bytes(test) or 0)
    top = min(line, key=lambda test: test.metrics[name].median)
    least = top.metrics[name].median
    flat = [test for test in line if test.metrics[name].median <= FLAT * least][-1]
    unit = view_model.metric_unit(view, name).strip()
    text = " ".join(filter(None, (_figure(top, name, unit), _TIMES[name])))
    size, last = groups.size_bytes(flat), line[-1]
    if size and len(line) > 1:
        text += f" to {formatting.size(size)}"
        if last is not flat:
            figure = _figure(last, name, unit, is_short=True)
            text += f", {figure} at {formatting.size(groups.size_bytes(last) or 0)}"
    return f"{text} ({label})" if label else text


def _peak(view: RunView, tests: Sequence[TestSummary], name: str) -> str:
    """The best of many, and how it came about."""
    told = [test for test in tests if name in test.metrics]
    if not told:
        return ""
    lower = _better(told[0], name) == "lower"
    choose = min if lower else max
    top = choose(told, key=lambda test: test.metrics[name].median)
    unit = view_model.metric_unit(view, name).strip()
    size = groups.size_bytes(top)
    where = [f"at {formatting.size(size)}" if size else "", _how(top, told)]
    word = "least" if lower else "peak"
    if name not in _PEAKS:
        word = f"{name.replace('_', ' ')} {word}"
    return f"{word} {_figure(top, name, unit)} {', '.join(filter(None, where))}".strip()


def _how(test: TestSummary, beside: Sequence[TestSummary]) -> str:
    """Returns the parameters that distinguish a test from others of its task, except the size."""
    form = presentation(test.task)
    names = [*form["labels"]["parameters"], *form["ways"], *(one["name"] for one in form["axes"])]
    parts = []
    for name in dict.fromkeys((*names, "depth")):
        mine = test.parameters.get(name)
        others = (other.parameters.get(name) for other in beside)
        if name == form["size"] or mine is None or all(other == mine for other in others):
            continue
        parts.append(_choice(test.task, name, mine, test))
    return ", ".join(parts)


def _choice(task: str, name: str, mine: object, test: TestSummary) -> str:
    """One choice in words: `polling`, `from the DPU`, `2 threads`."""
    match name, mine:
        case "completion", "poll":
            return "polling"
        case "completion", "event":
            return "with events"
        case "initiator", _:
            return f"from the {formatting.side(mine)}"
        case "threads" | "connections" | "queue_pairs", int():
            return formatting.plural(mine, name.removesuffix("s").replace("_", " "))
        case "variant", _:
            return groups.library(test) or formatting.clean(mine, 40)
    text = formatting.choice(task, name, test.parameters)
    if text != formatting.clean(mine, 60):
        return text
    return f"{name.replace('_', ' ')} {formatting.value(mine)}"


def _better(test: TestSummary, name: str) -> str:
    task = tasks.find(test.task)
    metric = task.metrics.get(name) if task is not None else None
    return metric.better if metric is not None else "higher"


def _figure(test: TestSummary, name: str, unit: str, *, is_short: bool = False) -> str:
    """A figure with its interval, unless it `is_short`; a limit if an emulated one lacks terms."""
    estimate = test.bounded(name) or test.metrics[name]
    if test.provenance == "emulated" and (test.model or {}).get("missing"):
        is_time = _better(test, name) == "lower"
        limit = formatting.number(estimate.low if is_time else estimate.high)
        return f"{'at least' if is_time else 'at most'} {limit} {unit}".strip()
    figure = f"{formatting.number(estimate.median)} {unit}".strip()
    if is_short or estimate.low == estimate.high:
        return figure
    return f"{figure} ({best.interval(estimate)})"


def _plugins(view: RunView) -> Iterator[Answer]:
    rows = [row for row in view_model.of_plugins(view) if row.status == "passed"]
    for row in rows[:_PLUGINS_MAX]:
        title = ", ".join(filter(None, (row.operation, row.parameters)))
        provenance = row.provenance.lower() or "measured"
        yield Answer(title, row.others, provenance if row.verified else f"{provenance}, unverified")
