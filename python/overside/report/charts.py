"""The charts of a run, each with the table behind it.

A chart shows tests of one group and one provenance. `vega` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from overside import tasks
from overside.bench.statistics import Estimate, TestSummary
from overside.report import formatting, groups, vega
from overside.report.groups import Group
from overside.report.vega import Point, Spec
from overside.tasks.common import Metric, presentation

#: The most lines in one chart; more cannot be told apart. The table has them all.
SERIES_MAX = 8
#: The most bars in one chart of stages.
BARS_MAX = 12
#: The most bars in one chart of a figure.
FIGURE_BARS_MAX = 24
#: The fewest buffer sizes and batches that are drawn as a heat map.
GRID_FROM = 3
#: How far apart the marks of neighbouring lines stand, as a share of the axis.
ASIDE = 0.01

LATENCIES = (
    ("latency_min", "min"),
    ("latency_p50", "50 %"),
    ("latency_p90", "90 %"),
    ("latency_p99", "99 %"),
    ("latency_p999", "99.9 %"),
    ("latency_max", "max"),
)

#: Metrics drawn against buffer size: title and unit.
AGAINST_SIZE = {
    "throughput": ("Throughput", "MB/s"),
    "cpu_cost": ("Host CPU cost", "CPU s/GB"),
    "latency_p50": ("Median latency", "µs"),
    "initiator_utilisation": ("CPU time of the initiator, one core being 100 %,", "%"),
}

STAGES = (
    ("stage_queueing", "Queueing"),
    ("stage_transfer", "Transfer"),
    ("stage_engine", "Engine"),
)


@dataclass(frozen=True)
class Chart:
    """One chart and what a reader without eyes or colours needs."""

    id: str
    title: str
    #: What is drawn, how to read it, and what was left out.
    caption: str
    provenance: str
    spec: Spec
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class _Series:
    """One line: a way to do the work."""

    who: str
    how: str
    tests: tuple[TestSummary, ...]

    @property
    def label(self) -> str:
        return f"{self.who}, {self.how}" if self.how else self.who


def charts(group: Group, provenance: str) -> list[Chart]:
    """The charts of a group's tests of one provenance; none if there is nothing to draw."""
    # Placements have charts of their own.
    alone = [test for test in group.of(provenance) if test.parameters.get("placement") is None]
    tests = [test for test in alone if groups.timed(test)]
    left_out = len(alone) - len(tests)
    if presentation(group.task)["charts"] == "traffic":
        from overside.report import traffic  # noqa: PLC0415 (it draws by what is here)

        return traffic.charts(tests, provenance)
    series = _series(tests)
    grids = _grids(group, provenance, tests)
    if grids:
        return [_with_left_out(chart, left_out) for chart in grids]
    out = []
    for draw in (_throughput, _median_latency, _utilisation, _cpu_cost, _latency, _stages):
        chart = draw(group, provenance, series)
        if chart is not None:
            out.append(chart if draw is _cpu_cost else _with_left_out(chart, left_out))
    if not any("throughput" in test.metrics for test in tests):
        out += _figures(group, provenance, series)
    return out


def _grids(group: Group, provenance: str, tests: Sequence[TestSummary]) -> list[Chart]:
    """Figures by buffer size and batch, a heat map for each of the other choices; none where there
    are few of either, which lines show better."""
    batches = {test.parameters.get("batch") for test in tests}
    if not _moves(group) or min(len(batches), len(group.sizes(tests))) < GRID_FROM:
        return []
    found: dict[str, list[TestSummary]] = {}
    for test in tests:
        alike = [other for other in tests if other.parameters["batch"] == test.parameters["batch"]]
        found.setdefault(groups.label(test, alike), []).append(test)
    asked = dict.fromkeys(name for test in tests for name in test.asked)
    return [
        _grid(provenance, place, label, some, name)
        for name in asked
        for place, (label, some) in enumerate(found.items())
        if any(name in test.metrics for test in some)
    ]


def _grid(
    provenance: str, place: int, label: str, tests: Sequence[TestSummary], name: str
) -> Chart:
    task = tasks.find(tests[0].task)
    about = task.metrics[name] if task is not None else Metric("", "higher", name)
    told = [test for test in tests if name in test.metrics]
    points = [
        {**point, "row": test.parameters["batch"], "short": formatting.short(point["value"])}
        for test in told
        for point in _points([_Series(label, "", (test,))], name)
    ]
    return Chart(
        id=f"{name}-{place}-{provenance}",
        title=f"{name.replace('_', ' ').capitalize()}, {about.unit}: {label}",
        caption=f"{about.description[:1].upper()}{about.description[1:]}.",
        provenance=provenance,
        spec=vega.grid(points, about.unit, "Operations at one doorbell"),
        columns=("Batch", "Buffer", f"Median, {about.unit}", "Low", "High", "Rounds"),
        rows=tuple(
            (str(test.parameters["batch"]), _size(test), *_cells(test.metrics.get(name)))
            for test in told
        ),
    )


def _with_left_out(chart: Chart, left_out: int) -> Chart:
    if not left_out:
        return chart
    verb = "is" if left_out == 1 else "are"
    note = (
        f" {formatting.plural(left_out, 'test')} {verb} not drawn: "
        "timing invalid (late) or none (functional)."
    )
    return replace(chart, caption=(chart.caption + note).strip())


def _series(tests: Sequence[TestSummary]) -> list[_Series]:
    """The lines of a chart, in the order of the tests."""
    found: dict[tuple[str, str], list[TestSummary]] = {}
    for test in tests:
        found.setdefault(groups.label_parts(test, tests), []).append(test)
    return [_Series(who, how, tuple(some)) for (who, how), some in found.items()]


def _fastest(series: Sequence[_Series]) -> tuple[list[_Series], str]:
    """At most `SERIES_MAX` lines, and what to say of the others."""

    def peak(one: _Series) -> float:
        found = [e.median for t in one.tests if (e := t.metrics.get("throughput"))]
        return max(found, default=0.0)

    if len(series) <= SERIES_MAX:
        return list(series), ""
    kept = sorted(series, key=peak, reverse=True)[:SERIES_MAX]
    hidden = len(series) - SERIES_MAX
    note = (
        f" The {SERIES_MAX} fastest are drawn; {formatting.plural(hidden, 'other')} in the table."
    )
    return [one for one in series if one in kept], note


def _throughput(_: Group, provenance: str, series: Sequence[_Series]) -> Chart | None:
    """Throughput against buffer size."""
    return _against_size(provenance, series, "throughput")


def _cpu_cost(_: Group, provenance: str, series: Sequence[_Series]) -> Chart | None:
    """Host CPU seconds per GB against buffer size."""
    return _against_size(provenance, series, "cpu_cost")


def _median_latency(group: Group, provenance: str, series: Sequence[_Series]) -> Chart | None:
    """The time of one operation against its size, where moving bytes is what was measured."""
    many = len(group.sizes()) > 1
    return _against_size(provenance, series, "latency_p50") if many and _moves(group) else None


def _utilisation(group: Group, provenance: str, series: Sequence[_Series]) -> Chart | None:
    """How busy cores are that wait for bytes to be moved."""
    if not _moves(group):
        return None
    return _against_size(provenance, series, "initiator_utilisation")


def _moves(group: Group) -> bool:
    return bool(presentation(group.task)["charts"] == "moves")


def _against_size(provenance: str, series: Sequence[_Series], metric: str) -> Chart | None:
    title, unit = AGAINST_SIZE[metric]
    shown, note = _fastest(series)
    points = _points(shown, metric)
    if not points:
        return None
    sizes = sorted({point["size"] for point in points})
    rows = tuple(
        (one.label, _size(test), *_cells(test.metrics.get(metric)))
        for one in series
        for test in one.tests
    )
    against = "against buffer size" if len(sizes) > 1 else f"in {formatting.size(sizes[0])} buffers"
    many = len(sizes) > 1
    return Chart(
        id=f"{metric}-{provenance}",
        title=f"{title} {against}",
        caption=note.strip(),
        provenance=provenance,
        spec=vega.lines(points, unit, provenance) if many else vega.bars(points, unit),
        columns=("What", "Buffer", f"Median, {unit}", "Low", "High", "Rounds"),
        rows=rows,
    )


def _figures(group: Group, provenance: str, series: Sequence[_Series]) -> list[Chart]:
    """What the box asked for, of a built-in task whose figures are its own: a chart each."""
    task = tasks.find(group.task)
    if task is None:
        return []
    asked = dict.fromkeys(name for one in series for test in one.tests for name in test.asked)
    charts = []
    for name in asked:
        about = task.metrics.get(name)
        if about is not None:
            chart = _figure(provenance, series, name, about)
            if chart is not None:
                charts.append(chart)
    return charts


def _figure(provenance: str, series: Sequence[_Series], name: str, about: Metric) -> Chart | None:
    """One figure against buffer size; at a single size, bars in its order."""
    told = [
        _Series(one.who, one.how, tests)
        for one in series
        if (tests := tuple(test for test in one.tests if name in test.metrics))
    ]
    sizes = {groups.size_bytes(test) for one in told for test in one.tests} - {None}
    if not sizes:
        return None
    many = len(sizes) > 1
    if not many:
        best_first = about.better == "higher"
        told.sort(key=lambda one: one.tests[0].metrics[name].median, reverse=best_first)
    most = SERIES_MAX if many else FIGURE_BARS_MAX
    points = _points(told[:most], name)
    hidden = len(told) - most
    where = "against buffer size" if many else f"with {formatting.size(min(filter(None, sizes)))}"
    unit = "" if about.unit == "-" else about.unit
    figure = f"Median, {unit}" if unit else "Median"
    note = f" {formatting.plural(hidden, 'other')} in the table." if hidden > 0 else ""
    return Chart(
        id=f"{name}-{provenance}",
        title=f"{name.replace('_', ' ').capitalize()} {where}",
        caption=f"{about.description[:1].upper()}{about.description[1:]}.{note}",
        provenance=provenance,
        spec=vega.lines(points, unit, provenance) if many else vega.bars(points, unit),
        columns=("What", "Buffer", figure, "Low", "High", "Rounds"),
        rows=tuple(
            (one.label, _size(test), *_cells(test.metrics.get(name)))
            for one in told
            for test in one.tests
        ),
    )


def _points(series: Sequence[_Series], metric: str) -> list[Point]:
    points = []
    sizes = [size for one in series for t in one.tests if (size := groups.size_bytes(t))]
    octaves = math.log2(max(sizes) / min(sizes)) if sizes else 0
    for place, one in enumerate(series):
        # A little to the side of the true size, so that error bars do not hide each other.
        aside = 2 ** ((place - (len(series) - 1) / 2) * octaves * ASIDE)
        for test in one.tests:
            estimate, size = test.metrics.get(metric), groups.size_bytes(test)
            if estimate is not None and size is not None:
                points.append(
                    {
                        "who": one.who,
                        "how": one.how,
                        "label": one.label,
                        "size": size,
                        "x": size * aside,
                        "value": estimate.median,
                        "low": estimate.low,
                        "high": estimate.high,
                        "buffer": formatting.size(size),
                        "interval": formatting.span(estimate.low, estimate.high),
                        "median": formatting.number(estimate.median),
                    }
                )
    return points


def _cells(estimate: Estimate | None) -> tuple[str, str, str, str]:
    if estimate is None:
        return ("–", "–", "–", "0")
    low, high = (formatting.number(bound, 4) for bound in (estimate.low, estimate.high))
    return (formatting.number(estimate.median), low, high, str(estimate.n))


def _size(test: TestSummary) -> str:
    size = groups.size_bytes(test)
    return formatting.size(size) if size is not None else "–"


def _latency(group: Group, provenance: str, series: Sequence[_Series]) -> Chart | None:
    """Latency percentiles at one size."""
    size = groups.typical_size(group.sizes(t for one in series for t in one.tests))
    shown, note = _fastest(_at(series, size))
    points = []
    for one in shown:
        for test in one.tests:
            for name, percentile in LATENCIES:
                estimate = test.metrics.get(name)
                if estimate is not None and estimate.median > 0:
                    points.append(
                        {
                            "who": one.who,
                            "how": one.how,
                            "label": one.label,
                            "percentile": percentile,
                            "value": estimate.median,
                            "low": estimate.low,
                            "high": estimate.high,
                            "median": formatting.number(estimate.median),
                            "interval": formatting.span(estimate.low, estimate.high),
                            "buffer": _size(test),
                        }
                    )
    if not points:
        return None
    rows = tuple(
        (one.label, _size(test), *(_median(test, name) for name, _ in LATENCIES))
        for one in series
        for test in one.tests
    )
    return Chart(
        id=f"latency-{provenance}",
        title=f"Latency of a job{f' of {formatting.size(size)}' if size else ''}",
        caption=f"From submission to reaping, waiting for earlier jobs included.{note}",
        provenance=provenance,
        spec=vega.latencies(points, [name for _, name in LATENCIES], provenance),
        columns=("What", "Buffer", *(f"{name}, µs" for _, name in LATENCIES)),
        rows=rows,
    )


def _stages(group: Group, provenance: str, series: Sequence[_Series]) -> Chart | None:
    """Where a job's time goes, as shares of the stages that the device tells."""
    told = [_Series(one.who, one.how, tuple(t for t in one.tests if _tells(t))) for one in series]
    told = [one for one in told if one.tests]
    if not told:
        return None
    rows = tuple(
        (one.label, _size(test), *(_median(test, name) for name, _ in STAGES))
        for one in told
        for test in one.tests
    )
    size = groups.typical_size(group.sizes(t for one in told for t in one.tests))
    few = sum(len(one.tests) for one in told) <= BARS_MAX
    shown, note = _fastest(told if few else _at(told, size))
    several = len({_size(test) for one in shown for test in one.tests}) > 1
    points = [
        point for one in shown for test in one.tests for point in _stage_points(one, test, several)
    ]
    where = "" if several or size is None else f" of {formatting.size(size)}"
    return Chart(
        id=f"stages-{provenance}",
        title=f"Where the time of a job{where} goes",
        caption=f"Shares of a job's mean time; the number after each name is their sum.{note}",
        provenance=provenance,
        spec=vega.shares(points, [name for _, name in STAGES]),
        columns=("What", "Buffer", *(f"{name}, µs" for _, name in STAGES)),
        rows=rows,
    )


def _tells(test: TestSummary) -> bool:
    return sum(e.median for name, _ in STAGES if (e := test.metrics.get(name))) > 0


def _stage_points(one: _Series, test: TestSummary, several: bool) -> list[Point]:
    times = {
        label: max(e.median, 0.0)
        for name, label in STAGES
        if (e := test.metrics.get(name)) is not None
    }
    total = sum(times.values())
    size = f", {_size(test)}" if several else ""
    name = f"{one.label}{size} · {formatting.duration(total / 1e6)}"
    return [
        {
            "label": name,
            "stage": stage,
            "order": index,
            "share": time_us / total,
            "time": formatting.duration(time_us / 1e6),
            "text": f"{time_us / total:.0%}" if time_us / total >= 0.12 else "",
        }
        for index, (stage, time_us) in enumerate(times.items())
    ]


def _at(series: Sequence[_Series], size: int | None) -> list[_Series]:
    """The same lines at one size only."""
    chosen: Callable[[TestSummary], bool] = lambda test: groups.size_bytes(test) == size  # noqa: E731
    out = [_Series(one.who, one.how, tuple(filter(chosen, one.tests))) for one in series]
    return [one for one in out if one.tests]


def _median(test: TestSummary, name: str) -> str:
    estimate = test.metrics.get(name)
    return formatting.number(estimate.median) if estimate is not None else "–"
