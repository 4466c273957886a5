"""The charts of a run, each with the table behind it.

A chart shows tests of one group and one provenance. `vega` draws it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from overside import tasks
from overside.bench.statistics import Estimate, TestSummary
from overside.report import formatting, groups, published, vega
from overside.report.groups import Group
from overside.report.published import Curve
from overside.report.vega import Point, Spec
from overside.tasks.common import Metric, presentation

#: The most lines in one chart; more cannot be distinguished. The table has them all.
SERIES_MAX = 8
#: The most bars in one chart of stages.
BARS_MAX = 12
#: The most bars in one chart of a figure.
FIGURE_BARS_MAX = 24
#: The most depths whose latencies are drawn.
DEPTHS_MAX = 2
#: The fewest buffer sizes and batches that are drawn as a heat map.
GRID_FROM = 3
#: The most published curves in one chart.
CURVES_MAX = 3
#: Distance between the marks of neighboring lines, as a share of the axis.
ASIDE = 0.01

LATENCIES = (
    ("latency_min", "min"),
    ("latency_p50", "50 %"),
    ("latency_p90", "90 %"),
    ("latency_p99", "99 %"),
    ("latency_p999", "99.9 %"),
    ("latency_max", "max"),
)

#: Metrics drawn against buffer size: title, unit, and `True` if only for tests that move bytes.
AGAINST_SIZE = {
    "latency_p50": ("Median latency", "µs", True),
    "throughput": ("Throughput", "MB/s", False),
    "initiator_utilisation": ("CPU time of the initiator, one core being 100 %,", "%", True),
    "cpu_cost": ("Host CPU cost", "CPU s/GB", False),
}

#: Parameters along the axis of tests that have no neighbour of another size.
ALONG = {"batch": "Jobs at one doorbell", "depth": "Jobs in flight", "threads": "Threads"}
#: The fewest values of such a parameter that are drawn as a line.
ALONG_FROM = 3

STAGES = (
    ("stage_queueing", "Queueing"),
    ("stage_start", "Starting the job"),
    ("stage_transfer", "Transfer"),
    ("stage_engine", "Engine"),
)
#: Stages of a context before its job and after it, where each job has a context of its own.
CONTEXT_BEGIN = (
    ("stage_discovery", "Finding the device"),
    ("stage_init", "Setting up the context"),
    ("stage_memory", "Memory"),
)
CONTEXT_END = (("stage_end", "Ending the context"),)
#: Terms of an emulated device's time, as its model lists them if no study has published them.
TERMS = {
    "stage_init": "initialisation of a context",
    "stage_start": "latency from the doorbell to the engine",
    "stage_end": "end of a context",
}


@dataclass(frozen=True)
class Chart:
    """One chart, with text for a reader without eyes or colours."""

    id: str
    title: str
    #: Description of the chart, how to read it, and the tests that were left out.
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
    kind = presentation(group.task)["charts"]
    if kind == "traffic":
        from overside.report import traffic  # noqa: PLC0415 (it draws by what is here)

        return traffic.charts(tests, provenance)
    moves = kind == "moves"
    along, sized = _along(tests)
    series = _series(sized)
    left_out = len(alone) - len(tests)
    found = list(_grids(provenance, tests)) if moves else []
    if found:
        return [_with_stand_ins(_with_left_out(chart, left_out), tests) for chart in found]
    latencies = list(_latency(provenance, series))
    if latencies and any(_depth(test) == 1 for test in tests):
        found.append(latencies.pop(0))
    for metric, (_, _, only_moves) in AGAINST_SIZE.items():
        many = metric != "latency_p50" or len(group.sizes()) > 1
        if many and (moves or not only_moves):
            found += _against_size(provenance, series, metric)
            for parameter, some in along.items():
                found += _against(provenance, some, metric, parameter)
    found += [*latencies, *_stages(provenance, series)]
    out = [_with_left_out(chart, left_out) for chart in found]
    if not any("throughput" in test.metrics for test in tests):
        out += _figures(group, provenance, series)
    return [_with_stand_ins(chart, tests) for chart in out]


def metric_table(what: str, unit: str, size: str = "Buffer") -> tuple[str, ...]:
    """The columns of a table whose rows end in `cells`."""
    figure = f"Median, {unit}" if unit else "Median"
    return (what, *([size] if size else []), figure, "Low", "High", "Rounds")


def cells(estimate: Estimate | None) -> tuple[str, str, str, str]:
    """Median, bounds and rounds, for a table."""
    if estimate is None:
        return ("–", "–", "–", "0")
    low, high = (formatting.number(bound, 4) for bound in (estimate.low, estimate.high))
    return (formatting.number(estimate.median), low, high, str(estimate.n))


def name_of(metric: str) -> str:
    """A metric's name as a title."""
    return metric.replace("_", " ").capitalize()


def sentence(text: str) -> str:
    """A description as a caption."""
    return f"{text[:1].upper()}{text[1:]}."


def _grids(provenance: str, tests: Sequence[TestSummary]) -> Iterator[Chart]:
    """Figures by buffer size and batch, a heat map for each of the other choices; none where there
    are few of either, which lines show better."""
    batches = {test.parameters.get("batch") for test in tests}
    sizes = {groups.size_bytes(test) for test in tests} - {None}
    if min(len(batches), len(sizes)) < GRID_FROM:
        return
    found: dict[str, list[TestSummary]] = {}
    for test in tests:
        alike = [other for other in tests if other.parameters["batch"] == test.parameters["batch"]]
        found.setdefault(groups.label(test, alike), []).append(test)
    for name in dict.fromkeys(name for test in tests for name in test.asked):
        for place, (label, some) in enumerate(found.items()):
            told = [test for test in some if name in test.metrics]
            if told:
                yield _grid(provenance, place, label, told, name)


def _grid(provenance: str, place: int, label: str, told: Sequence[TestSummary], name: str) -> Chart:
    task = tasks.find(told[0].task)
    about = task.metrics[name] if task is not None else Metric("", "higher", name)
    points = [
        {**point, "row": test.parameters["batch"], "short": formatting.short(point["value"])}
        for test in told
        for point in _points([_Series(label, "", (test,))], name)
    ]
    return Chart(
        id=f"{name}-{place}-{provenance}",
        title=f"{name_of(name)}, {about.unit}: {label}",
        caption=sentence(about.description),
        provenance=provenance,
        spec=vega.grid(points, about.unit, "Operations at one doorbell"),
        columns=metric_table("Batch", about.unit),
        rows=tuple(
            (str(test.parameters["batch"]), _size(test), *cells(test.metrics[name]))
            for test in told
        ),
    )


def _with_left_out(chart: Chart, left_out: int) -> Chart:
    if not left_out or chart.id.startswith("cpu_cost-"):
        return chart
    verb = "is" if left_out == 1 else "are"
    note = (
        f" {formatting.plural(left_out, 'test')} {verb} not drawn: "
        "timing invalid (late) or none (functional)."
    )
    return replace(chart, caption=(chart.caption + note).strip())


def _with_stand_ins(chart: Chart, tests: Sequence[TestSummary]) -> Chart:
    """Says on the chart itself where software stands in for a device or its side of a link."""
    names = {
        formatting.device(name)
        for t in tests
        if formatting.is_stand_in(name := t.parameters.get("device") or "")
    }
    if not names:
        return chart
    ends = any(test.parameters.get("initiator") is not None for test in tests)
    both = "; both initiators are cores of this machine" if ends else ""
    note = f" Software stand-in: {formatting.listing(sorted(names))}{both}."
    return replace(chart, caption=(chart.caption + note).strip())


def _series(tests: Sequence[TestSummary]) -> list[_Series]:
    """The lines of a chart, in the order of the tests."""
    found: dict[tuple[str, str], list[TestSummary]] = {}
    for test in tests:
        found.setdefault(groups.label_parts(test, tests), []).append(test)
    return [_Series(who, how, tuple(some)) for (who, how), some in found.items()]


def _fastest(series: Sequence[_Series]) -> tuple[list[_Series], str]:
    """At most `SERIES_MAX` lines, and a note about the others."""

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


def _against_size(provenance: str, series: Sequence[_Series], metric: str) -> Iterator[Chart]:
    title, unit, _ = AGAINST_SIZE[metric]
    shown, note = _fastest(series)
    points = _points(shown, metric)
    if points:
        where = f"in {points[0]['buffer']} buffers"
        words = (title, where, note.strip())
        yield _by_size(provenance, metric, unit, words=words, points=points, series=series)


def _along(
    tests: Sequence[TestSummary],
) -> tuple[dict[str, list[TestSummary]], list[TestSummary]]:
    """Tests that differ in one parameter of `ALONG` and have no neighbour of another size, by that
    parameter, and all others."""

    def alike(test: TestSummary, but: str) -> str:
        return json.dumps({k: v for k, v in test.parameters.items() if k != but}, sort_keys=True)

    rest = list(tests)
    found: dict[str, list[TestSummary]] = {}
    sizes = Counter(alike(t, presentation(t.task)["size"]) for t in tests)
    for name in ALONG:
        alone = [t for t in rest if sizes[alike(t, presentation(t.task)["size"])] == 1]
        families = Counter(alike(t, name) for t in alone if isinstance(t.parameters.get(name), int))
        mine = [t for t in alone if families[alike(t, name)] >= ALONG_FROM]
        if mine:
            found[name] = mine
            rest = [t for t in rest if t not in mine]
    return found, rest


def _against(
    provenance: str, tests: Sequence[TestSummary], metric: str, parameter: str
) -> Iterator[Chart]:
    """A metric against a parameter of `ALONG`."""
    title, unit, _ = AGAINST_SIZE[metric]
    found: dict[tuple[str, str], list[TestSummary]] = {}
    for test in tests:
        here = test.parameters[parameter]
        alike = [other for other in tests if other.parameters[parameter] == here]
        found.setdefault(groups.label_parts(test, alike), []).append(test)
    series = [_Series(who, how, tuple(some)) for (who, how), some in found.items()]
    shown, note = _fastest(series)
    points = [
        point | {"size": (at := test.parameters[parameter]), "x": at, "buffer": str(at)}
        for one in shown
        for test in one.tests
        for point in _points([replace(one, tests=(test,))], metric)
    ]
    if not points:
        return
    others = published.curves(tests, metric, unit, parameter, published.core())[:CURVES_MAX]
    sizes = {size for test in tests if (size := groups.size_bytes(test))}
    where = f", {formatting.size(min(sizes))} buffers" if len(sizes) == 1 else ""
    chart = Chart(
        id=f"{metric}-{parameter}-{provenance}",
        title=f"{title} against {ALONG[parameter].lower()}{where}{_alone(points)}",
        caption=_with_bands(points, note.strip()),
        provenance=provenance,
        spec=vega.lines(
            points, unit, provenance, ALONG[parameter], _curve_points(others), format="d"
        ),
        columns=metric_table("What", unit, ALONG[parameter]),
        rows=tuple(
            (one.label, str(test.parameters[parameter]), *cells(test.bounded(metric)))
            for one in series
            for test in one.tests
        ),
    )
    yield _with_curves(chart, others, formatting.number)


def _curve_points(curves: Sequence[Curve]) -> list[list[Point]]:
    """Published curves as points; the last one of each carries its name."""
    return [
        [
            {
                "x": at,
                "value": value,
                "printed": printed,
                "curve": one.label,
                "name": one.label if place == len(one.points) - 1 else "",
            }
            for place, (at, value, printed) in enumerate(one.points)
        ]
        for one in curves
    ]


def _with_curves(chart: Chart, curves: Sequence[Curve], amount: Callable[[float], str]) -> Chart:
    """Names the published curves, and adds their figures to the table."""
    if not curves:
        return chart
    about = ". ".join(one.about.rstrip(".") for one in curves)
    cited = " ".join(dict.fromkeys(one.citation for one in curves))
    note = f"Dashed, without color: published by others, in no comparison. {about}. From {cited}"
    rows = tuple(
        (one.label, amount(at), formatting.number(value), "–", "–", "–")
        for one in curves
        for at, value, _ in one.points
    )
    caption = f"{chart.caption} {note}".strip()
    return replace(chart, caption=caption, rows=chart.rows + rows)


def _by_size(
    provenance: str,
    metric: str,
    unit: str,
    *,
    words: tuple[str, str, str],
    points: Sequence[Point],
    series: Sequence[_Series],
) -> Chart:
    """A metric against buffer size, or bars where there is one size. `words` are the title, the
    title for a single size, and the caption."""
    title, where, caption = words
    many = len({point["size"] for point in points}) > 1
    tests = [test for one in series for test in one.tests]
    along = presentation(tests[0].task)["size"]
    others = published.curves(tests, metric, unit, along, published.core()) if many else []
    others = others[:CURVES_MAX]
    spec = (
        vega.lines(points, unit, provenance, curves=_curve_points(others))
        if many
        else vega.bars(points, unit)
    )
    chart = Chart(
        id=f"{metric}-{provenance}",
        title=f"{title} {'against buffer size' if many else where}{_alone(points)}",
        caption=_with_bands(points, caption),
        provenance=provenance,
        spec=spec,
        columns=metric_table("What", unit),
        rows=tuple(
            (one.label, _size(test), *cells(test.bounded(metric)))
            for one in series
            for test in one.tests
        ),
    )
    return _with_curves(chart, others, lambda size: formatting.size(round(size)))


def _figures(group: Group, provenance: str, series: Sequence[_Series]) -> Iterator[Chart]:
    """Yields a chart for each requested metric of a built-in task whose figures are its own."""
    task = tasks.find(group.task)
    asked = dict.fromkeys(name for one in series for test in one.tests for name in test.asked)
    for name in asked:
        about = task.metrics.get(name) if task is not None else None
        told = [
            replace(one, tests=tests)
            for one in series
            if (tests := tuple(test for test in one.tests if name in test.metrics))
        ]
        sizes = {groups.size_bytes(test) for one in told for test in one.tests} - {None}
        if about is None or not sizes:
            continue
        most = SERIES_MAX
        if len(sizes) == 1:
            # Bars stand in their order.
            most = FIGURE_BARS_MAX
            best_first = about.better == "higher"
            told.sort(key=lambda one: one.tests[0].metrics[name].median, reverse=best_first)
        hidden = len(told) - most
        note = f" {formatting.plural(hidden, 'other')} in the table." if hidden > 0 else ""
        points = _points(told[:most], name)
        where = f"with {formatting.size(min(filter(None, sizes)))}"
        words = (name_of(name), where, sentence(about.description) + note)
        unit = "" if about.unit == "-" else about.unit
        yield _by_size(provenance, name, unit, words=words, points=points, series=told)


def _points(series: Sequence[_Series], metric: str) -> list[Point]:
    points = []
    sizes = [size for one in series for t in one.tests if (size := groups.size_bytes(t))]
    octaves = math.log2(max(sizes) / min(sizes)) if sizes else 0
    for place, one in enumerate(series):
        # A little to the side of the true size, so that error bars do not hide each other.
        aside = 2 ** ((place - (len(series) - 1) / 2) * octaves * ASIDE)
        for test in one.tests:
            estimate, size = test.bounded(metric), groups.size_bytes(test)
            if estimate is not None and size is not None:
                at = {"size": size, "x": size * aside, "buffer": formatting.size(size)}
                at["bounded"] = metric in test.bounds
                points.append(vega.point(estimate, one.who, one.how, **at))
    return points


def _with_bands(points: Sequence[Point], caption: str) -> str:
    """Says what the bands of emulated figures are."""
    if not any(point.get("bounded") for point in points):
        return caption
    return f"{caption} Bands, Low and High: what the published values allow.".strip()


def _size(test: TestSummary) -> str:
    size = groups.size_bytes(test)
    return formatting.size(size) if size is not None else "–"


def _latency(provenance: str, series: Sequence[_Series]) -> Iterator[Chart]:
    """Latency percentiles at one size, for each depth: one job at a time first."""
    depths = sorted({_depth(test) for one in series for test in one.tests})
    for depth in depths[:DEPTHS_MAX]:
        # Named by what they differ in among themselves: the title has the depth.
        alike = [test for one in series for test in one.tests if _depth(test) == depth]
        yield from _latency_at(provenance, _series(alike), depth)


def _latency_at(provenance: str, series: Sequence[_Series], depth: int) -> Iterator[Chart]:
    size = _typical_size(series)
    shown, note = _fastest(_at(series, size))
    points = [
        vega.point(estimate, one.who, one.how, percentile=percentile, buffer=_size(test))
        for one in shown
        for test in one.tests
        for name, percentile in LATENCIES
        if (estimate := test.metrics.get(name)) is not None and estimate.median > 0
    ]
    if points:
        names = [name for _, name in LATENCIES]
        waits = (
            "One job at a time, from submission to reaping."
            if depth == 1
            else f"From submission to reaping with {depth} jobs in flight: most of it is waiting "
            "for the jobs before."
        )
        where = f", {formatting.size(size)} buffers" if size else ""
        yield Chart(
            id=f"latency-{provenance}" + (f"-depth-{depth}" if depth > 1 else ""),
            title=f"Latency at depth {depth}{where}{_alone(points)}",
            caption=f"{waits}{note}",
            provenance=provenance,
            spec=vega.latencies(points, names, provenance),
            columns=("What", "Buffer", *(f"{name}, µs" for name in names)),
            rows=_medians(series, LATENCIES),
        )


def _alone(points: Sequence[Point]) -> str:
    """Returns the part of a title that names the line, if the chart has only one."""
    labels = {point["label"] for point in points}
    return f": {labels.pop()}" if len(labels) == 1 else ""


def _stages(provenance: str, series: Sequence[_Series]) -> Iterator[Chart]:
    """Yields a chart of a job's time as shares of the stages that the device reports.

    With several jobs in flight waiting follows from the closed loop, and is no finding: there it is
    left out, and where nothing else is left to compare there is no chart.
    """
    told = [replace(one, tests=tuple(t for t in one.tests if _tells(t))) for one in series]
    told = [one for one in told if one.tests]
    alone = all(_depth(test) == 1 for one in told for test in one.tests)
    stages: tuple[tuple[str, str], ...] = STAGES if alone else STAGES[1:]
    if all(_is_set_up_again(test) for one in told for test in one.tests):
        stages = (*CONTEXT_BEGIN, *stages, *CONTEXT_END)
    present = {name for one in told for t in one.tests for name, _ in stages if name in t.metrics}
    if len(present) < 2:
        return
    present |= {name for one in told for test in one.tests for name in unpublished(test)}
    stages = tuple(one for one in stages if one[0] in present)
    size = _typical_size(told)
    few = sum(len(one.tests) for one in told) <= BARS_MAX
    shown, note = _fastest(told if few else _at(told, size))
    several = len({_size(test) for one in shown for test in one.tests}) > 1
    points = []
    for one in shown:
        for test in one.tests:
            unknown = unpublished(test)
            times_s = {
                label: None if name in unknown else max(test.metrics[name].median, 0.0) / 1e6
                for name, label in stages
                if name in unknown or name in test.metrics
            }
            bar = one.label + (f", {_size(test)}" if several else "")
            points += vega.stage_points(bar, times_s)
    where = "" if several or size is None else f" of {formatting.size(size)}"
    names = [name for _, name in stages]
    waiting = "" if alone else " Waiting for other jobs is left out."
    if any(point["mark"] for point in points):
        waiting += f" {vega.UNPUBLISHED_NOTE}"
    yield Chart(
        id=f"stages-{provenance}",
        title=f"Where the time of a job{where} goes",
        caption="These are shares of a job's mean time; the number after each name is their "
        f"sum.{waiting}{note}",
        provenance=provenance,
        spec=vega.shares(points, names),
        columns=("What", "Buffer", *(f"{name}, µs" for name in names)),
        rows=_medians(told, stages),
    )


def unpublished(test: TestSummary) -> list[str]:
    """Returns the stages of an emulated device that take a time which no study has published."""
    missing = (test.model or {}).get("missing") or ()
    return [name for name, term in TERMS.items() if term in missing]


def _is_set_up_again(test: TestSummary) -> bool:
    """`True` if each job has a context of its own, whose set-up is a part of the job's time."""
    return (
        test.parameters.get("setting") == "reconfiguration"
        and test.parameters.get("placement") is None
    )


def _depth(test: TestSummary) -> int:
    """Jobs in flight; a test without that has one."""
    depth = test.parameters.get("depth")
    return depth if isinstance(depth, int) and depth > 0 else 1


def _tells(test: TestSummary) -> bool:
    return sum(e.median for name, _ in STAGES if (e := test.metrics.get(name))) > 0


def _typical_size(series: Sequence[_Series]) -> int | None:
    sizes = {groups.size_bytes(test) for one in series for test in one.tests}
    return groups.typical_size(sorted(filter(None, sizes)))


def _at(series: Sequence[_Series], size: int | None) -> list[_Series]:
    """Returns the lines with the tests of one size only."""
    out = [
        replace(one, tests=tuple(test for test in one.tests if groups.size_bytes(test) == size))
        for one in series
    ]
    return [one for one in out if one.tests]


def _medians(
    series: Sequence[_Series], metrics: Sequence[tuple[str, str]]
) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (one.label, _size(test), *(_median(test, name) for name, _ in metrics))
        for one in series
        for test in one.tests
    )


def _median(test: TestSummary, metric: str) -> str:
    if metric not in test.metrics and metric in unpublished(test):
        return vega.UNPUBLISHED
    return cells(test.metrics.get(metric))[0]
