"""Charts of tasks that send traffic (`network`, `kv`) or data (`pushdown`, `partition`): figures
against each parameter that is swept, and bars where none is; where the time goes, of tasks with
stages; throughput over time where a test has it in slices."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from overside import tasks
from overside.bench.statistics import TestSummary
from overside.report import formatting, phases, vega
from overside.report.charts import (
    BARS_MAX,
    FIGURE_BARS_MAX,
    SERIES_MAX,
    Chart,
    cells,
    metric_table,
    name_of,
    sentence,
)
from overside.report.vega import Point
from overside.tasks.common import Json, Metric, presentation

_TITLES = {
    "latency_p50": "Median latency",
    "latency_p99": "99th percentile of latency",
    "host_cpu": "CPU of the host for a request",
    "dpu_cpu": "CPU of the DPU for a request",
    "host_cores_used": "Cores of the host that are busy",
    "dpu_cores_used": "Cores of the DPU that are busy",
    "link_writes": "Writes over the link for a request",
    "link_bytes": "Bytes over the link",
    "link_sent_bytes": "Bytes of requests over the link",
    "link_received_bytes": "Bytes of answers over the link",
    "packet_bytes": "Bytes of requests in packets",
    "reply_bytes": "Bytes of replies in packets",
    "link_latency": "Time of a message over the link",
    "link_message_bytes": "Length of messages over the link",
    "host_rate": "Requests a second to the host",
    "dpu_rate": "Requests a second to the DPU",
    "client_busy": "Time in which the load was busy",
    "throughput": "Throughput",
    "unpack_throughput": "Throughput of unpacking",
    "partition_throughput": "Throughput of partitioning",
    "repack_throughput": "Throughput of packing",
    "output_bytes": "Bytes of all partitions",
    "ratio": "Packed bytes over bytes of the table",
    "bit_rate": "Bit rate",
    "cpu_cost": "Host CPU cost",
    "hop_cpu": "CPU of the hop's processes",
    "machine_cpu": "CPU of the whole machine",
    "client_cpu": "CPU of the client",
    "server_cpu": "CPU of the server",
    "connection_throughput_min": "Throughput of the slowest connection",
    "connection_throughput_max": "Throughput of the fastest connection",
    "throughput_before": "Throughput before the jobs",
    "throughput_during": "Throughput during the jobs",
    "throughput_after": "Throughput after the jobs",
    "throughput_after_max": "Throughput of the fastest slice after the jobs",
    "job_throughput": "Throughput of the jobs beside the traffic",
    "job_throughput_alone": "Throughput of the jobs alone",
    "delay_p50": "Median one-way delay",
    "delay_p99": "99th percentile of the one-way delay",
    "delay_during": "Mean one-way delay during the jobs",
    "delay_before": "Mean one-way delay before the jobs",
    "delay_after": "Mean one-way delay after the jobs",
    "delay_max_during": "Longest one-way delay during the jobs",
    "loss": "Messages lost",
    "loss_during": "Messages lost during the jobs",
    "catch_up": "Time until the traffic had caught up",
    "latency_during": "Mean round trip during the jobs",
    "latency_before": "Mean round trip before the jobs",
    "latency_after": "Mean round trip after the jobs",
}
#: Metrics of one sweep that are drawn, of those that the box asks for.
_METRICS_MAX = 4
#: Units of stages in seconds of a chart's thousandths.
_UNITS_S = {"ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def _metric(test: TestSummary, name: str) -> Metric:
    task = tasks.find(test.task)
    assert task is not None
    about = task.metrics[name]
    return replace(about, unit="") if about.unit == "-" else about


def _axes(tests: Sequence[TestSummary]) -> dict[str, str]:
    """Returns the parameters that can be swept, with the titles of their axes."""
    return {one["name"]: one["title"] for one in presentation(tests[0].task)["axes"]}


def _in_bytes(test: TestSummary, parameter: str) -> bool:
    task = tasks.find(test.task)
    return task is not None and task.parameters[parameter].unit == "bytes"


def charts(tests: Sequence[TestSummary], provenance: str) -> list[Chart]:
    """The charts of a group's tests of one provenance."""
    rest = list(tests)
    out: list[Chart] = []
    if not rest:
        return out
    for axis in _axes(tests):
        swept = [line for line in _lines(rest, axis) if len(line) > 1]
        swept.sort(key=lambda line: _place(line[0]))
        inside = {id(test) for line in swept for test in line}
        for metric in _metrics([test for line in swept for test in line]):
            out += _sweep(swept, axis, metric, provenance)
        rest = [test for test in rest if id(test) not in inside]
    shown = phases.of_all(rest)
    for metric in _metrics(rest):
        if not (shown and phases.is_of_one(metric)):
            out += _bars(rest, metric, provenance)
    out += phases.bars(shown, [_label(test, shown) for test in shown], provenance)
    out += _breakdown(tests, provenance)
    out += _over_time(tests, provenance)
    return out


def _metrics(tests: Sequence[TestSummary]) -> list[str]:
    """The metrics to draw: those asked for that there are."""
    names = dict.fromkeys(name for test in tests for name in test.asked if name in test.metrics)
    if "bit_rate" in names:
        names.pop("throughput", None)  # the same in another unit
    return list(names)[:_METRICS_MAX]


def _lines(tests: Sequence[TestSummary], axis: str) -> list[list[TestSummary]]:
    """Tests that differ in nothing but `axis`, in its order."""
    found: dict[str, list[TestSummary]] = {}
    for test in tests:
        if test.parameters.get(axis) is not None:
            others = {name: value for name, value in test.parameters.items() if name != axis}
            found.setdefault(json.dumps(others, sort_keys=True, default=str), []).append(test)
    return [sorted(line, key=lambda test: float(test.parameters[axis])) for line in found.values()]


def _place(test: TestSummary) -> list[float]:
    """Returns the sort key of a test's line: the values of the parameters that can be swept."""
    values = [test.parameters.get(axis) for axis in _axes([test])]
    return [float(value) if isinstance(value, int | float) else 0.0 for value in values]


def _who(test: TestSummary, beside: Sequence[TestSummary]) -> str:
    """Returns the beginning of a label: the parameters that distinguish a test from the others."""
    first = presentation(test.task)["labels"]["parameters"]
    mine = test.parameters
    telling = [
        name
        for name in first
        if any(other.parameters.get(name) != mine.get(name) for other in beside)
    ]
    parts = [formatting.choice(test.task, name, mine) for name in telling or first]
    if mine.get("mode"):
        parts.append(formatting.clean(mine["mode"], 60))
    return ", ".join(parts) or formatting.ends(mine)


def _how(test: TestSummary, beside: Sequence[TestSummary], axis: str | None) -> str:
    """The parameters that distinguish it from the others."""
    form = presentation(test.task)
    said = {axis, *form["labels"]["parameters"], "mode", "source", "destination"}
    parts = []
    for name in dict.fromkeys((*_axes([test]), *form["ways"], "jobs")):
        mine = test.parameters.get(name)
        if name in said or mine is None:
            continue
        # Others do not have what belongs to one way only; whether there are jobs is a difference.
        same = (mine,) if name == "jobs" else (mine, None)
        if any(other.parameters.get(name) not in same for other in beside):
            is_size = _in_bytes(test, name)
            text = formatting.size(mine) if is_size else formatting.value(mine)
            is_message = name == form["size"] and is_size
            parts.append(text if is_message else f"{name.replace('_', ' ')} {text}")
    return ", ".join(parts)


def _label(test: TestSummary, beside: Sequence[TestSummary]) -> str:
    return ", ".join(filter(None, (_who(test, beside), _how(test, beside, None))))


def _names(tests: Sequence[TestSummary], axis: str | None) -> list[tuple[str, str]]:
    """Returns for each test the name that gets a color, and the way that gets a dash.

    If not every name has every way, each combination gets a color, as long as there are enough.
    """
    names = [(_who(test, tests), _how(test, tests, axis)) for test in tests]
    all_of_them = set(names)
    things, ways = ({name[part] for name in names} for part in (0, 1))
    is_grid = len(things) > 1 and len(all_of_them) == len(things) * len(ways)
    if is_grid or len(all_of_them) > vega.COLOURS:
        return names
    # What is the same of all is not said.
    told = [name if len(things) > 1 else name[1:] for name in names]
    joined = [", ".join(filter(None, name)) for name in told]
    return [(one or name[0], "") for one, name in zip(joined, names, strict=True)]


def _points(tests: Sequence[TestSummary], metric: str, axis: str | None) -> list[Point]:
    return [
        vega.point(test.metrics[metric], who, how, buffer="")
        for test, (who, how) in zip(tests, _names(tests, axis), strict=True)
    ]


def _sweep(
    swept: Sequence[Sequence[TestSummary]], axis: str, metric: str, provenance: str
) -> Iterator[Chart]:
    everyone = [test for line in swept for test in line if metric in test.metrics]
    if not everyone:
        return
    about = _metric(everyone[0], metric)
    title, is_size = _axes(everyone)[axis], _in_bytes(everyone[0], axis)
    points, rows = [], []
    named = iter(_points(everyone, metric, axis))
    for place, line in enumerate(swept):
        for test in line:
            if metric not in test.metrics:
                continue
            value = test.parameters[axis]
            at = formatting.size(value) if is_size else formatting.number(float(value))
            point = next(named)
            rows.append((point["label"], at, *cells(test.metrics[metric])))
            if place < SERIES_MAX:
                points.append(point | {"x": value, "size": value, "buffer": at})
    labels: dict[str, Any] = {} if is_size else {"format": ",~r"}
    hidden = len(swept) - SERIES_MAX
    note = f" {formatting.plural(hidden, 'other')} in the table." if hidden > 0 else ""
    yield Chart(
        id=f"{metric}-{axis}-{provenance}",
        title=f"{_title(metric, about.unit)} against {title[:1].lower()}{title[1:]}",
        caption=sentence(about.description) + note,
        provenance=provenance,
        spec=vega.lines(points, about.unit, provenance, title, **labels),
        columns=metric_table("What", about.unit, title),
        rows=tuple(rows),
    )


def _bars(tests: Sequence[TestSummary], metric: str, provenance: str) -> Iterator[Chart]:
    told = [test for test in tests if metric in test.metrics]
    points = _points(told, metric, None)
    if points:
        about = _metric(told[0], metric)
        yield Chart(
            id=f"{metric}-bars-{provenance}",
            title=_title(metric, about.unit),
            caption=sentence(about.description),
            provenance=provenance,
            spec=vega.bars(points[:FIGURE_BARS_MAX], about.unit),
            columns=metric_table("What", about.unit, size=""),
            rows=tuple(
                (point["label"], *cells(test.metrics[metric]))
                for point, test in zip(points, told, strict=True)
            ),
        )


def _breakdown(tests: Sequence[TestSummary], provenance: str) -> Iterator[Chart]:
    """The parts of a time, one after the other, of tasks that declare such."""
    stages = {one["name"]: one["title"] for one in presentation(tests[0].task)["stages"]}
    told = [test for test in tests if any(name in test.metrics for name in stages)]
    if not told:
        return
    unit = _metric(told[0], next(iter(stages))).unit
    unit_s = _UNITS_S[unit]
    points, rows = [], []
    labels = [", ".join(filter(None, name)) for name in _names(told, None)]
    for test, label in zip(told, labels, strict=True):
        estimates = {name: test.metrics[name] for name in stages if name in test.metrics}
        rows.append((label, *(cells(estimates.get(name))[0] for name in stages)))
        if len(rows) <= BARS_MAX:
            times_s = {stages[name]: one.median * unit_s for name, one in estimates.items()}
            points += vega.stage_points(label, times_s)
    hidden = len(told) - BARS_MAX
    note = f" {formatting.plural(hidden, 'other')} in the table." if hidden > 0 else ""
    yield Chart(
        id=f"stages-{provenance}",
        title="Where the time goes",
        caption=f"Medians of the stages; the number after each name is their sum.{note}",
        provenance=provenance,
        spec=vega.times(points, list(stages.values())),
        columns=("What", *(f"{title}, {unit}" for title in stages.values())),
        rows=tuple(rows),
    )


def _title(metric: str, unit: str) -> str:
    if metric == "rate":
        return f"{unit.removesuffix('/s').capitalize()} a second"
    return _TITLES.get(metric, name_of(metric))


def _over_time(tests: Sequence[TestSummary], provenance: str) -> Iterator[Chart]:
    """Throughput, and how long messages took, in slices of the last round; a chart for each kind of
    jobs beside."""
    by_jobs: dict[str, list[TestSummary]] = {}
    for test in tests:
        if test.series:
            by_jobs.setdefault(str(test.parameters.get("jobs") or ""), []).append(test)
    for jobs, told in by_jobs.items():
        points, times = [], []
        rows: list[tuple[str, ...]] = []
        for test in told[:SERIES_MAX]:
            label = _label(test, told)
            series = test.series or {}
            points += _in_slices(series, "throughput", label)
            times += _in_slices(series, "latency_mean", label)
            rows += [(label, *row) for row in phases.rows(test)]
        if not points:
            continue
        spans = phases.spans(told[0].series or {}, points[-1]["s"])
        about = f" while {formatting.clean(jobs, 40)} runs beside" if jobs else ""
        what = "Throughput"
        if times:
            is_stream = told[0].parameters.get("pattern") == "stream"
            what += " and delay" if is_stream else " and round trips"
        columns, rows = phases.table(rows)
        yield Chart(
            id=f"time-{formatting.clean(jobs, 40) or 'plain'}-{provenance}",
            title=f"{what} over time{about}",
            caption="The slices of one sample, that of the last round." + phases.about(told, spans),
            provenance=provenance,
            spec=vega.over_time(points, times, spans, provenance),
            columns=columns,
            rows=tuple(rows),
        )


def _in_slices(series: Json, figure: str, who: str) -> list[Point]:
    """A figure at the end of each slice that has one."""
    ends, values = series.get("end_s"), series.get(figure)
    if not isinstance(ends, list) or not isinstance(values, list):
        return []
    return [
        {"who": who, "s": float(end), "value": float(value)}
        for end, value in zip(ends, values, strict=False)
        if isinstance(end, int | float) and isinstance(value, int | float)
    ]
