"""The charts as Vega-Lite specifications (plain dicts), each with the table behind it.

A chart shows tests of one group and one provenance. Colours are names of CSS variables, so that
the page's light and dark themes and its print style reach into the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from overside.bench.statistics import Estimate, TestSummary
from overside.report import groups, words
from overside.report.groups import Group

Spec = dict[str, Any]

#: The most lines in one chart; more cannot be told apart. The table has them all.
SERIES_MAX = 8
#: The most bars in one chart of stages.
BARS_MAX = 12
#: Above this ratio of the largest to the smallest figure the axis is logarithmic.
LOG_FROM = 30

#: How far apart the marks of neighbouring lines stand, as a share of the axis.
ASIDE = 0.01

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke", "wedge")
DASHES = ([1, 0], [5, 3], [2, 2], [8, 3, 2, 3])

#: A line as wide as two symbols, so that its dashes are seen in the legend.
DASH_SYMBOL = "M-2,0L2,0"

LATENCIES = (
    ("latency_min", "min"),
    ("latency_p50", "50 %"),
    ("latency_p90", "90 %"),
    ("latency_p99", "99 %"),
    ("latency_p999", "99.9 %"),
    ("latency_max", "max"),
)

#: Metrics drawn against buffer size: title and unit.
AGAINST_SIZE = {"throughput": ("Throughput", "MB/s"), "cpu_cost": ("Host CPU cost", "CPU s/GB")}

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


def charts(group: Group, provenance: str, limit: float) -> list[Chart]:
    """The charts of a group's tests of one provenance; none if there is nothing to draw.

    `limit` is the share of late completions above which emulated timing is invalid.
    """
    tests = [test for test in group.of(provenance) if groups.timed(test, limit)]
    left_out = len(group.of(provenance)) - len(tests)
    series = _series(tests)
    out = []
    for draw in (_throughput, _cpu_cost, _latency, _stages):
        chart = draw(group, provenance, series)
        if chart is not None:
            out.append(chart if draw is _cpu_cost else _with_left_out(chart, left_out))
    return out


def _with_left_out(chart: Chart, left_out: int) -> Chart:
    if not left_out:
        return chart
    verb = "is" if left_out == 1 else "are"
    note = (
        f" {words.plural(left_out, 'test')} {verb} not drawn: "
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
    note = f" The {SERIES_MAX} fastest are drawn; {words.plural(hidden, 'other')} in the table."
    return [one for one in series if one in kept], note


def _throughput(_: Group, provenance: str, series: Sequence[_Series]) -> Chart | None:
    """Throughput against buffer size."""
    return _against_size(provenance, series, "throughput")


def _cpu_cost(_: Group, provenance: str, series: Sequence[_Series]) -> Chart | None:
    """Host CPU seconds per GB against buffer size."""
    return _against_size(provenance, series, "cpu_cost")


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
    against = "against buffer size" if len(sizes) > 1 else f"in {words.size(sizes[0])} buffers"
    many = len(sizes) > 1
    return Chart(
        id=f"{metric}-{provenance}",
        title=f"{title} {against}",
        caption=note.strip(),
        provenance=provenance,
        spec=_lines(points, shown, unit, provenance) if many else _bars(points, unit),
        columns=("What", "Buffer", f"Median, {unit}", "Low", "High", "Rounds"),
        rows=rows,
    )


def _points(series: Sequence[_Series], metric: str) -> list[dict[str, Any]]:
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
                        "buffer": words.size(size),
                        "interval": words.span(estimate.low, estimate.high),
                        "median": words.number(estimate.median),
                    }
                )
    return points


def _cells(estimate: Estimate | None) -> tuple[str, str, str, str]:
    if estimate is None:
        return ("–", "–", "–", "0")
    low, high = (words.number(bound, 4) for bound in (estimate.low, estimate.high))
    return (words.number(estimate.median), low, high, str(estimate.n))


def _size(test: TestSummary) -> str:
    size = groups.size_bytes(test)
    return words.size(size) if size is not None else "–"


# --- specifications ---------------------------------------------------------------------------

_SIZE_LABEL = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB'"
    " : datum.value >= 1048576 ? datum.value / 1048576 + ' MiB'"
    " : datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
)

_TIME_LABEL = (
    "datum.value >= 1000000 ? datum.value / 1000000 + ' s'"
    " : datum.value >= 1000 ? datum.value / 1000 + ' ms'"
    " : datum.value >= 1 ? datum.value + ' µs' : datum.value * 1000 + ' ns'"
)


def _palette(names: Sequence[str], provenance: str) -> dict[str, Any]:
    """Colour, and shape as its second carrier, for each name. Emulated cards start elsewhere, so
    that they do not look like the first libraries."""
    unique = list(dict.fromkeys(names))
    first = 0 if provenance == "measured" else 3
    places = [(first + index) % SERIES_MAX for index in range(len(unique))]
    colours = [f"var(--series-{place + 1})" for place in places]
    shapes = [SHAPES[place] for place in places]
    return {
        "color": {
            "field": "who",
            "type": "nominal",
            "scale": {"domain": unique, "range": colours},
            "legend": {"title": None, "orient": "top"},
        },
        "shape": {
            "field": "who",
            "type": "nominal",
            "scale": {"domain": unique, "range": shapes},
            "legend": {"title": None, "orient": "top"},
        },
    }


def _dash(hows: Sequence[str]) -> dict[str, Any]:
    """Line styles where the same library runs in several ways."""
    unique = list(dict.fromkeys(hows))
    if len(unique) < 2:
        return {}
    return {
        "strokeDash": {
            "field": "how",
            "type": "nominal",
            # Most threads, the last, are drawn as the full line.
            "scale": {
                "domain": unique[::-1],
                "range": [DASHES[index % len(DASHES)] for index in range(len(unique))],
            },
            "legend": {
                "title": None,
                "orient": "top",
                "symbolType": DASH_SYMBOL,
                "labelOffset": 16,
            },
        }
    }


def _value_axis(unit: str, values: Sequence[float]) -> dict[str, Any]:
    """The axis of the figures: from zero, or logarithmic and saying so."""
    smallest, largest = min(values), max(values)
    if smallest > 0 and largest / smallest > LOG_FROM:
        ticks, scale = _log_axis(smallest, largest)
        return {"scale": scale, "axis": {"title": f"{unit} (log scale)", "values": ticks}}
    return {"scale": {"zero": True, "nice": True}, "axis": {"title": unit}}


def _log_axis(smallest: float, largest: float) -> tuple[list[float], dict[str, Any]]:
    """Ticks at 1, 2, 5, 10, ... that enclose the bounds, or at powers of ten where those would be
    many; and the scale that ends with them."""
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    low = max((tick for tick in ticks if tick <= smallest), default=ticks[0])
    high = min((tick for tick in ticks if tick >= largest), default=ticks[-1])
    kept = [tick for tick in ticks if low <= tick <= high]
    return kept, {"type": "log", "domain": [low, max(high, low * 2)], "nice": False}


def _lines(
    points: list[dict[str, Any]], series: Sequence[_Series], unit: str, provenance: str
) -> Spec:
    sizes = sorted({point["size"] for point in points})
    axis = _value_axis(unit, [point["low"] for point in points] + [p["high"] for p in points])
    y = {"type": "quantitative", **axis}
    palette = _palette([one.who for one in series], provenance)
    return {
        "height": 230,
        "data": {"values": points},
        "encoding": {
            "x": {
                "field": "x",
                "type": "quantitative",
                "scale": {"type": "log", "base": 2, "nice": False, "padding": 14},
                "axis": {
                    "title": "Buffer size (log scale)",
                    "values": list(sizes),
                    "labelExpr": _SIZE_LABEL,
                    "labelOverlap": "greedy",
                    "labelSeparation": 8,
                    "grid": False,
                },
            },
            "color": palette["color"],
            "detail": {"field": "label"},
        },
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.75},
                "encoding": {
                    "y": {**y, "field": "value"},
                    **_dash([one.how for one in series]),
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 52, "opacity": 1},
                "encoding": {
                    "y": {**y, "field": "value"},
                    "shape": palette["shape"],
                    "tooltip": _tooltip(unit),
                },
            },
        ],
    }


def _tooltip(unit: str) -> list[dict[str, str]]:
    return [
        {"field": "label", "title": "What"},
        {"field": "buffer", "title": "Buffer"},
        {"field": "median", "title": unit},
        {"field": "interval", "title": "Interval"},
    ]


def _bars(points: list[dict[str, Any]], unit: str) -> Spec:
    """One size only: bars from zero, with their names beside them."""
    x = {"type": "quantitative", "scale": {"zero": True}, "axis": {"title": unit}}
    y = {
        "field": "label",
        "type": "nominal",
        "sort": None,
        "axis": {"title": None, "labelLimit": 220},
    }
    return {
        "height": 26 * len(points),
        "data": {"values": points},
        "encoding": {"y": y},
        "layer": [
            {
                "mark": {"type": "bar", "color": "var(--series-1)", "height": 14},
                "encoding": {"x": {**x, "field": "value"}, "tooltip": _tooltip(unit)},
            },
            {
                "mark": {"type": "rule", "color": "var(--ink)", "strokeWidth": 1.5},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}},
            },
        ],
    }


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
                            "median": words.number(estimate.median),
                            "interval": words.span(estimate.low, estimate.high),
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
        title=f"Latency of a job{f' of {words.size(size)}' if size else ''}",
        caption=f"From submission to reaping, waiting for earlier jobs included.{note}",
        provenance=provenance,
        spec=_latency_spec(points, shown, provenance),
        columns=("What", "Buffer", *(f"{name}, µs" for _, name in LATENCIES)),
        rows=rows,
    )


def _latency_spec(points: list[dict[str, Any]], series: Sequence[_Series], provenance: str) -> Spec:
    palette = _palette([one.who for one in series], provenance)
    values = [point["value"] for point in points]
    ticks, scale = _log_axis(min(values), max(values))
    y = {
        "type": "quantitative",
        "scale": scale,
        "axis": {
            "title": "Latency (log scale)",
            "values": ticks,
            "labelExpr": _TIME_LABEL,
        },
    }
    order = [name for _, name in LATENCIES]
    return {
        "height": 230,
        "data": {"values": points},
        "encoding": {
            "x": {
                "field": "percentile",
                "type": "ordinal",
                "sort": order,
                "axis": {"title": "Share of jobs at or below", "labelAngle": 0, "grid": False},
            },
            "color": palette["color"],
            "detail": {"field": "label"},
        },
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 1.75},
                "encoding": {
                    "y": {**y, "field": "value"},
                    **_dash([one.how for one in series]),
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 44, "opacity": 1},
                "encoding": {
                    "y": {**y, "field": "value"},
                    "shape": palette["shape"],
                    "tooltip": [
                        {"field": "label", "title": "What"},
                        {"field": "percentile", "title": "Share of jobs"},
                        {"field": "median", "title": "µs"},
                        {"field": "interval", "title": "Interval"},
                    ],
                },
            },
        ],
    }


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
    where = "" if several or size is None else f" of {words.size(size)}"
    return Chart(
        id=f"stages-{provenance}",
        title=f"Where the time of a job{where} goes",
        caption=f"Shares of a job's mean time; the number after each name is their sum.{note}",
        provenance=provenance,
        spec=_stage_spec(points),
        columns=("What", "Buffer", *(f"{name}, µs" for _, name in STAGES)),
        rows=rows,
    )


def _tells(test: TestSummary) -> bool:
    return sum(e.median for name, _ in STAGES if (e := test.metrics.get(name))) > 0


def _stage_points(one: _Series, test: TestSummary, several: bool) -> list[dict[str, Any]]:
    times = {
        label: max(e.median, 0.0)
        for name, label in STAGES
        if (e := test.metrics.get(name)) is not None
    }
    total = sum(times.values())
    size = f", {_size(test)}" if several else ""
    name = f"{one.label}{size} · {words.duration(total / 1e6)}"
    return [
        {
            "label": name,
            "stage": stage,
            "order": index,
            "share": time_us / total,
            "time": words.duration(time_us / 1e6),
            "text": f"{time_us / total:.0%}" if time_us / total >= 0.12 else "",
        }
        for index, (stage, time_us) in enumerate(times.items())
    ]


def _stage_spec(points: list[dict[str, Any]]) -> Spec:
    present = [label for _, label in STAGES if any(p["stage"] == label for p in points)]
    stage_of = {label: index + 1 for index, (_, label) in enumerate(STAGES)}
    x = {
        "field": "share",
        "type": "quantitative",
        "stack": "zero",
        "scale": {"domain": [0, 1]},
        "axis": {"title": "Share of the time", "format": "%", "tickCount": 5},
    }
    return {
        "height": 28 * len({point["label"] for point in points}),
        "data": {"values": points},
        "encoding": {
            "y": {
                "field": "label",
                "type": "nominal",
                "sort": None,
                "axis": {"title": None, "labelLimit": 260},
            },
            "order": {"field": "order", "type": "quantitative"},
        },
        "layer": [
            {
                "mark": {"type": "bar", "height": 18, "stroke": "var(--surface)", "strokeWidth": 1},
                "encoding": {
                    "x": x,
                    "color": {
                        "field": "stage",
                        "type": "nominal",
                        "scale": {
                            "domain": present,
                            "range": [f"var(--stage-{stage_of[label]})" for label in present],
                        },
                        "legend": {"title": None, "orient": "top", "symbolType": "square"},
                    },
                    "tooltip": [
                        {"field": "label", "title": "What"},
                        {"field": "stage", "title": "Stage"},
                        {"field": "time", "title": "Mean time"},
                    ],
                },
            },
            {
                "mark": {"type": "text", "color": "var(--on-stage)", "fontSize": 10.5},
                "encoding": {
                    "x": {**x, "bandPosition": 0.5},
                    "text": {"field": "text"},
                    "detail": {"field": "stage"},
                },
            },
        ],
    }


def _at(series: Sequence[_Series], size: int | None) -> list[_Series]:
    """The same lines at one size only."""
    chosen: Callable[[TestSummary], bool] = lambda test: groups.size_bytes(test) == size  # noqa: E731
    out = [_Series(one.who, one.how, tuple(filter(chosen, one.tests))) for one in series]
    return [one for one in out if one.tests]


def _median(test: TestSummary, name: str) -> str:
    estimate = test.metrics.get(name)
    return words.number(estimate.median) if estimate is not None else "–"
