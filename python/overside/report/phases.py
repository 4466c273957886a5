"""Traffic beside jobs, by the phases of its samples: idle, the jobs alone, the traffic before,
during and after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from overside.bench.statistics import TestSummary
from overside.report import formatting, vega
from overside.report.charts import FIGURE_BARS_MAX, Chart, cells, metric_table
from overside.tasks.common import LOCAL, Json

#: Phases in their order, with descriptions.
PHASES = {
    "idle": "neither traffic nor jobs",
    "alone": "the jobs alone",
    "before": "the traffic alone",
    "during": "both",
    "after": "the traffic until it has recovered",
}
#: Figures of phases, and the metrics that have them; `{}` is the phase.
_FIGURES = {
    "Traffic, MB/s": "throughput_{}",
    "Mean delay, µs": "delay_{}",
    "Longest delay, µs": "delay_max_{}",
    "Mean round trip, µs": "latency_{}",
    "Lost, %": "loss_{}",
    "Jobs, MB/s": "job_throughput_{}",
    "Caught up after, ms": "catch_up_{}",
    "Busy cores, %": "machine_cpu_{}",
}
#: Figures that have a chart, with its title and unit.
_CHARTS = {
    "delay_{}": ("Mean one-way delay by phase", "µs"),
    "latency_{}": ("Mean round trip by phase", "µs"),
    "throughput_{}": ("Throughput of the traffic by phase", "MB/s"),
    "job_throughput_{}": ("Throughput of the jobs by phase", "MB/s"),
}
#: Metrics that are of one phase, by the names that they would have.
_OF_ONE_PHASE = {"job_throughput_during": "job_throughput", "catch_up_after": "catch_up"}
_NONE = "–"


def of_all(tests: Sequence[TestSummary]) -> list[TestSummary]:
    """The tests that have phases, if all have."""
    told = [test for test in tests if "throughput_before" in test.metrics]
    return told if len(told) == len(tests) else []


def is_of_one(metric: str) -> bool:
    """Returns `True` if a metric belongs to a phase, so that a chart or table of phases has it."""
    return any(
        _metric(name.format(phase)) == metric for name in _FIGURES.values() for phase in PHASES
    )


def bars(tests: Sequence[TestSummary], labels: Sequence[str], provenance: str) -> Iterator[Chart]:
    """A chart for each figure that two phases have."""
    for name, (title, unit) in _CHARTS.items():
        points, rows = [], []
        for test, label in zip(tests, labels, strict=True):
            for phase in PHASES:
                estimate = test.metrics.get(_metric(name.format(phase)))
                if estimate is not None:
                    who = f"{phase}, {label}" if len(tests) > 1 else phase
                    points.append(vega.point(estimate, who, buffer=""))
                    rows.append((who, *cells(estimate)))
        if len(points) < 2:
            continue
        yield Chart(
            id=f"{name.format('phase')}-{provenance}",
            title=title,
            caption="The phases: see the chart over time.",
            provenance=provenance,
            spec=vega.bars(points[:FIGURE_BARS_MAX], unit),
            columns=metric_table("Phase", unit, size=""),
            rows=tuple(rows),
        )


def rows(test: TestSummary) -> Iterator[tuple[str, ...]]:
    """The phases of a test with jobs, and the figures of each."""
    for phase, what in PHASES.items():
        figures = [_figure(test, name.format(phase)) for name in _FIGURES.values()]
        if any(figure != _NONE for figure in figures) or phase in ("before", "during", "after"):
            yield (f"{phase}: {what}", *figures)


def table(
    rows: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The columns of rows that begin with their subject, and the rows, without empty columns."""
    columns = ("What", "Phase", *_FIGURES)
    kept = [
        place
        for place in range(len(columns))
        if place < 2 or any(row[place] != _NONE for row in rows)
    ]

    def pick(row: Sequence[str]) -> tuple[str, ...]:
        return tuple(row[place] for place in kept)

    return pick(columns), [pick(row) for row in rows]


def _metric(name: str) -> str:
    return _OF_ONE_PHASE.get(name, name)


def _figure(test: TestSummary, name: str) -> str:
    estimate = test.metrics.get(_metric(name))
    return formatting.number(estimate.median) if estimate else _NONE


def about(told: Sequence[TestSummary], spans: Sequence[Json]) -> str:
    """Returns sentences about the shaded time and the phases; empty without shaded time."""
    if not spans:
        return ""
    text = f" Jobs ran in the shaded time, on {_device(told[0])}."
    if any(_figure(test, "throughput_after") == _NONE for test in told):
        text += " Where nothing stands after them, they ran until the traffic ended."
    if len(spans) > 1:
        named = "; ".join(f"{name}, {what}" for name, what in PHASES.items())
        text += f" The phases: {named}."
    return text


def _device(test: TestSummary) -> str:
    name = test.parameters.get("device")
    node = test.parameters.get("job_node")
    if node not in (None, LOCAL):
        return f"{formatting.device(name or '')} of {formatting.clean(node, 40)}"
    if name == "cpu":
        return "this machine's cores: a card's accelerators do not disturb traffic like that"
    return formatting.device(name or "")


def spans(series: Json, last: float) -> list[Json]:
    """From when to when the phases were, or, in runs of older releases, the jobs."""
    phases = series.get("phases")
    if isinstance(phases, list) and phases:
        return [
            {
                "begin": float(phase["begin_s"]),
                "end": float(phase["end_s"]),
                "name": formatting.clean(phase["name"], 20),
                "dark": phase["name"] in ("alone", "during"),
            }
            for phase in phases
        ]
    jobs_s = series.get("jobs_s")
    if not isinstance(jobs_s, list) or len(jobs_s) != 2:
        return []
    begin, end = (min(float(at), last) for at in jobs_s)
    return [{"begin": begin, "end": end}]
