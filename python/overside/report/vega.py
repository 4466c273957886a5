"""Vega-Lite specifications, as plain dicts, for the kinds of charts that reports have.

Colours are names of CSS variables, so that the page's light and dark themes and its print style
reach into the drawing. Points are dicts; in all of them `who` (drawn as colour and shape) and
`how` (line style) name a line, `label` both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Spec = dict[str, Any]
Point = dict[str, Any]

#: Above this ratio of the largest to the smallest figure the axis is logarithmic.
LOG_FROM = 30

#: Colours that the page has for lines: `--series-1` and so on.
COLOURS = 8
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke", "wedge")
DASHES = ([1, 0], [5, 3], [2, 2], [8, 3, 2, 3])

#: A line as wide as two symbols, so that its dashes are seen in the legend.
DASH_SYMBOL = "M-2,0L2,0"

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


def palette_of(points: Sequence[Point], provenance: str) -> dict[str, Any]:
    """Colour, and shape as its second carrier, for each `who`. Emulated cards start elsewhere, so
    that they do not look like the first libraries."""
    unique = list(dict.fromkeys(point["who"] for point in points))
    first = 0 if provenance == "measured" else 3
    places = [(first + index) % COLOURS for index in range(len(unique))]
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


def _dash(points: Sequence[Point]) -> dict[str, Any]:
    """Line styles where the same library runs in several ways."""
    unique = list(dict.fromkeys(point["how"] for point in points))
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


def lines(points: Sequence[Point], unit: str, provenance: str) -> Spec:
    """Figures with error bars against buffer size.

    A point has `x` (where it is drawn), `size` (bytes), `value`, `low`, `high`, and as texts
    `buffer`, `median`, `interval`.
    """
    sizes = sorted({point["size"] for point in points})
    axis = _value_axis(unit, [point["low"] for point in points] + [p["high"] for p in points])
    y = {"type": "quantitative", **axis}
    palette = palette_of(points, provenance)
    return {
        "height": 230,
        "data": {"values": list(points)},
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
                    **_dash(points),
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


def bars(points: Sequence[Point], unit: str) -> Spec:
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
        "data": {"values": list(points)},
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


def grid(points: Sequence[Point], unit: str, rows: str) -> Spec:
    """A heat map: figures by buffer size and by `row`, whose axis is called `rows`. The figure
    stands in each cell; the darker, the greater."""
    values = [point["value"] for point in points if point["value"] > 0]
    wide = bool(values) and max(values) / min(values) > LOG_FROM
    sizes = sorted({(point["size"], point["buffer"]) for point in points})
    height = 26 * len({point["row"] for point in points})
    return {
        "height": height,
        "data": {"values": list(points)},
        "encoding": {
            "x": {
                "field": "buffer",
                "type": "ordinal",
                "sort": [name for _, name in sizes],
                "axis": {"title": "Buffer size", "labelAngle": 0, "grid": False},
            },
            "y": {
                "field": "row",
                "type": "ordinal",
                "sort": "descending",
                "axis": {"title": rows, "grid": False},
            },
        },
        "layer": [
            {
                "mark": {"type": "rect", "color": "var(--series-1)"},
                "encoding": {
                    "opacity": {
                        "field": "value",
                        "type": "quantitative",
                        # Text has to be read on the darkest.
                        "scale": {"type": "log" if wide else "linear", "range": [0.04, 0.5]},
                        "legend": None,
                    },
                    "tooltip": _tooltip(unit),
                },
            },
            {
                "mark": {"type": "text", "color": "var(--ink)", "fontSize": 10.5},
                "encoding": {"text": {"field": "short"}},
            },
        ],
    }


def latencies(points: Sequence[Point], order: Sequence[str], provenance: str) -> Spec:
    """Latency in µs (`value`) at each `percentile`, in the given order."""
    palette = palette_of(points, provenance)
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
    return {
        "height": 230,
        "data": {"values": list(points)},
        "encoding": {
            "x": {
                "field": "percentile",
                "type": "ordinal",
                "sort": list(order),
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
                    **_dash(points),
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


#: The two panels of `shares_of_work`, in pixels from the top.
_PANELS = {"upper": (0, 200), "lower": (236, 340)}


def shares_of_work(points: Sequence[Point], provenance: str) -> Spec:
    """Throughput above, host CPU use below, against the percent of the work on the device.

    A point has `who`, `share`, `value`, `low`, `high` (MB/s), `use`, `use_low`, `use_high` (%),
    `best`, `optimum` (its name) and `adaptive`. Both panels are one view with two vertical scales,
    so that they share the horizontal axis and the width of the page.
    """
    fixed = [point for point in points if not point["adaptive"]]
    free = [point for point in points if point["adaptive"]]
    palette = palette_of(points, provenance)
    # The diamond is for adaptive.
    palette["shape"]["scale"]["range"] = ["circle", "square"]
    panels = []
    for place, (field, low, high, unit) in {
        "upper": ("value", "low", "high", "MB/s"),
        "lower": ("use", "use_low", "use_high", "Host CPU, % of a core"),
    }.items():
        bounds = [p[name] for p in points for name in (low, high) if p[name] is not None]
        if bounds:
            # Percent of a core always start at zero.
            bounds = bounds if place == "upper" else [0.0, *bounds]
            y = _panel_axis(unit, bounds, *_PANELS[place])
            names = {"y": field, "low": low, "high": high}
            panels.append(_panel(fixed, free, names, y, palette))
    return {
        "height": _PANELS["lower"][1],
        "encoding": {
            "x": {
                "field": "share",
                "type": "quantitative",
                "scale": {"domain": [0, 100], "nice": False, "padding": 12},
                "axis": {
                    "title": "Share of the bytes on the device, %",
                    "values": list(range(0, 101, 10)),
                    "grid": False,
                },
            },
            "color": palette["color"],
        },
        "layer": panels,
        "resolve": {"scale": {"y": "independent"}},
    }


def _panel_axis(unit: str, bounds: Sequence[float], top: int, bottom: int) -> dict[str, Any]:
    axis = _value_axis(unit, bounds)
    count = {} if "values" in axis["axis"] else {"tickCount": 4}
    return {
        "type": "quantitative",
        "scale": {**axis["scale"], "range": [bottom, top]},
        "axis": {**axis["axis"], "orient": "left", **count},
    }


def _panel(
    fixed: Sequence[Point],
    free: Sequence[Point],
    names: dict[str, str],
    y: dict[str, Any],
    palette: dict[str, Any],
) -> Spec:
    """The layers of one panel; all have the same vertical scale."""
    value = {**y, "field": names["y"]}
    tooltip = [
        {"field": "label", "title": "What"},
        {"field": "on_device", "title": "On the device, %"},
        {"field": "median", "title": "MB/s"},
        {"field": "interval", "title": "Interval"},
        {"field": "cpu", "title": "Host CPU, %"},
    ]
    marks: list[Spec] = [
        {
            "data": {"values": list(fixed)},
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {"y": {**y, "field": names["low"]}, "y2": {"field": names["high"]}},
        },
        {
            "data": {"values": list(fixed)},
            "mark": {"type": "line", "strokeWidth": 1.75},
            "encoding": {"y": value},
        },
        {
            "data": {"values": list(fixed)},
            "mark": {"type": "point", "filled": True, "opacity": 1},
            "encoding": {
                "y": value,
                "shape": palette["shape"],
                "size": {"condition": {"test": "datum.best", "value": 190}, "value": 44},
                "tooltip": tooltip,
            },
        },
    ]
    if names["y"] == "value":
        marks.append(
            {
                "data": {"values": [point for point in fixed if point["best"]]},
                "mark": {"type": "text", "dy": 18, "fontWeight": 600},
                "encoding": {"y": value, "text": {"field": "optimum"}},
            }
        )
    if free:
        marks += [
            {
                "data": {"values": list(free)},
                "mark": {"type": "rule", "strokeDash": [2, 4], "strokeWidth": 1.25},
                "encoding": {"y": value, "x": {"value": 0}, "x2": {"value": "width"}},
            },
            {
                "data": {"values": list(free)},
                "mark": {
                    "type": "point",
                    "shape": "diamond",
                    "size": 120,
                    "strokeWidth": 2,
                    "fill": "var(--surface)",
                    "opacity": 1,
                },
                "encoding": {"y": value, "tooltip": tooltip},
            },
        ]
    return {"layer": marks}


def shares(points: Sequence[Point], stages: Sequence[str]) -> Spec:
    """Bars made of shares: of `label`, each `stage` (one of `stages`) has a `share`."""
    present = [stage for stage in stages if any(p["stage"] == stage for p in points)]
    place = {stage: index + 1 for index, stage in enumerate(stages)}
    x = {
        "field": "share",
        "type": "quantitative",
        "stack": "zero",
        "scale": {"domain": [0, 1]},
        "axis": {"title": "Share of the time", "format": "%", "tickCount": 5},
    }
    return {
        "height": 28 * len({point["label"] for point in points}),
        "data": {"values": list(points)},
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
                            "range": [f"var(--stage-{place[stage]})" for stage in present],
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
