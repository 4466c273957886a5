"""Vega-Lite specifications, as plain dicts, for the kinds of charts that reports have.

Colours are names of CSS variables, so that the page's light and dark themes and its print style
reach into the drawing. Points are dicts; in all of them `who` (drawn as colour and shape) and
`how` (line style) name a line, `label` both.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from overside.bench.statistics import Estimate
from overside.report import formatting

Spec = dict[str, Any]
Point = dict[str, Any]

#: Above this ratio of the largest to the smallest figure the axis is logarithmic.
LOG_FROM = 30
#: And where one line is this many times above the next.
SQUASHES_FROM = 5

#: Colours that the page has for lines: `--series-1` and so on.
COLOURS = 8
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke", "wedge")
DASHES = ([1, 0], [5, 3], [2, 2], [8, 3, 2, 3])

#: A line as wide as two symbols, so that its dashes are seen in the legend.
DASH_SYMBOL = "M-2,0L2,0"

HEIGHT = 230

#: Style of all charts, in the page and as pictures.
CONFIG: Spec = {
    "aria": False,
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "domainColor": "var(--line)",
        "gridColor": "var(--grid)",
        "tickColor": "var(--line)",
        "labelColor": "var(--muted)",
        "titleColor": "var(--muted)",
        "titleFontWeight": 400,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titlePadding": 8,
        "labelPadding": 5,
        "tickSize": 4,
    },
    "axisY": {"domain": False, "ticks": False, "tickCount": 5},
    "legend": {
        "labelColor": "var(--ink)",
        "labelFontSize": 11.5,
        "symbolStrokeWidth": 1.75,
        "rowPadding": 4,
        "columnPadding": 14,
        "labelLimit": 220,
        "offset": 10,
        "layout": {"top": {"direction": "vertical", "anchor": "start", "margin": 4}},
    },
    "text": {"fontSize": 11},
    "title": {"color": "var(--ink)", "subtitleColor": "var(--muted)", "fontSize": 14},
}
#: The share of a bar from which there is room for its figure.
_TEXT_FROM = 0.12
#: Word in the place of a time that no study has published.
UNPUBLISHED = "unpublished"
#: Mark in its place in a chart, and the sentence about it.
UNPUBLISHED_MARK = "?"
UNPUBLISHED_NOTE = "?: no study has published how long this takes, so it has no length here."

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


def _size_labels(points: Sequence[Point]) -> str:
    """An expression for the ticks of an axis of sizes: the words of the points, else units."""
    words = {str(one["size"]): one["buffer"] for one in points if one.get("buffer")}
    return f"{json.dumps(words, ensure_ascii=False)}[datum.value] || ({_SIZE_LABEL})"


def point(estimate: Estimate, who: str, how: str = "", **more: Any) -> Point:
    """A figure with its interval, of the line that `who` and `how` name."""
    return {
        "who": who,
        "how": how,
        "label": f"{who}, {how}" if how else who,
        "value": estimate.median,
        "low": estimate.low,
        "high": estimate.high,
        "median": formatting.number(estimate.median),
        "interval": formatting.span(estimate.low, estimate.high),
        **more,
    }


def stage_points(name: str, times_s: Mapping[str, float | None]) -> list[Point]:
    """The parts of a bar of `shares` or `times`: each stage, and its share of the sum of all.

    Stages whose time is unpublished, `None`, have their place and no length.
    """
    known_s = {stage: time_s or 0.0 for stage, time_s in times_s.items()}
    whole = sum(known_s.values())
    label = f"{name} · {formatting.duration(whole)}"
    return [
        {
            "label": label,
            "stage": stage,
            "order": order,
            "share": time_s / whole,
            "time_ms": 1e3 * time_s,
            "time": UNPUBLISHED if times_s[stage] is None else formatting.duration(time_s),
            "mark": UNPUBLISHED_MARK if times_s[stage] is None else "",
            "text": f"{time_s / whole:.0%}" if time_s / whole >= _TEXT_FROM else "",
        }
        for order, (stage, time_s) in enumerate(known_s.items())
    ]


def channel(field: str, kind: str, **more: Any) -> Spec:
    """The encoding of a field of the points."""
    return {"field": field, "type": kind, **more}


def _scale(domain: Sequence[Any], values: Sequence[Any], **legend: Any) -> Spec:
    """Colours or the like for names, and their legend above the chart."""
    legend = {"title": None, "orient": "top", **legend}
    return {"scale": {"domain": list(domain), "range": list(values)}, "legend": legend}


def layer(
    mark: str, look: Mapping[str, Any], points: Sequence[Mapping[str, Any]] | None = None, **on: Any
) -> Spec:
    """Marks of one look; `on` says which field of the points is drawn on which channel."""
    data = {} if points is None else {"data": {"values": list(points)}}
    return {**data, "mark": {"type": mark, **look}, "encoding": on}


def _tooltip(**fields: str) -> list[dict[str, str]]:
    return [{"field": field, "title": title} for field, title in fields.items()]


def _of_size(unit: str) -> list[dict[str, str]]:
    return _tooltip(label="What", buffer="Buffer", median=unit, interval="Interval")


def palette_of(points: Sequence[Point], provenance: str) -> Spec:
    """Colour, and shape as its second carrier, for each `who`. Emulated cards start elsewhere, so
    that they do not look like the first libraries."""
    unique = list(dict.fromkeys(point["who"] for point in points))
    first = 0 if provenance == "measured" else 3
    places = [(first + index) % COLOURS for index in range(len(unique))]
    colours = [f"var(--series-{place + 1})" for place in places]
    colour = _scale(unique, colours)
    shape = _scale(unique, [SHAPES[place] for place in places])
    if len(unique) == 1:
        # The title names it.
        colour["legend"] = shape["legend"] = None
    return {
        "color": channel("who", "nominal", **colour),
        "shape": channel("who", "nominal", **shape),
    }


def _dash(points: Sequence[Point]) -> Spec:
    """Line styles where the same library runs in several ways: the usual one, which most lines
    have, is full."""
    lines = Counter(how for how, _ in dict.fromkeys((p["how"], p["who"]) for p in points))
    if len(lines) < 2:
        return {}
    unique = [how for how, _ in lines.most_common()]
    styles = [DASHES[index % len(DASHES)] for index in range(len(unique))]
    scale = _scale(unique, styles, symbolType=DASH_SYMBOL, labelOffset=16)
    return {"strokeDash": channel("how", "nominal", **scale)}


def _is_squashing(points: Sequence[Point]) -> bool:
    """Returns `True` if one line is so far above all others that these would look flat."""
    tops: dict[str, float] = {}
    for one in points:
        tops[one["label"]] = max(tops.get(one["label"], 0.0), one["value"])
    ordered = sorted(tops.values())
    return len(ordered) > 1 and ordered[-1] > SQUASHES_FROM * max(ordered[-2], 1e-12)


def _value_axis(unit: str, values: Sequence[float], *, squashed: bool = False) -> Spec:
    """The axis of the figures: from zero, or logarithmic and saying so."""
    smallest, largest = min(values), max(values)
    if smallest > 0 and (squashed or largest / smallest > LOG_FROM):
        ticks, scale = log_axis(smallest, largest)
        return {"scale": scale, "axis": {"title": f"{unit} (log scale)", "values": ticks}}
    above = [value for value in values if value > 0]
    if smallest == 0 and above and largest / min(above) > LOG_FROM:
        # Some cost nothing, which a logarithm has no place for.
        ticks, _ = log_axis(min(above), largest)
        powers = [tick for tick in ticks if math.log10(tick) % 1 == 0]
        scale = {"type": "symlog", "constant": min(above), "domain": [0, max(largest, ticks[-1])]}
        axis = {"title": f"{unit} (log scale)", "values": [0, *powers], "format": ",~r"}
        return {"scale": scale, "axis": axis}
    return _from_zero(unit)


def _from_zero(unit: str) -> Spec:
    return {"scale": {"zero": True, "nice": True}, "axis": {"title": unit}}


def log_axis(smallest: float, largest: float) -> tuple[list[float], Spec]:
    """Ticks at 1, 2, 5, 10, ... that enclose the bounds, or at powers of ten where those would be
    many; and the scale that ends with them."""
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    low = max((tick for tick in ticks if tick <= smallest), default=ticks[0])
    high = min((tick for tick in ticks if tick >= largest), default=ticks[-1])
    kept = [tick for tick in ticks if low <= tick <= high]
    return kept, {"type": "log", "domain": [low, max(high, low * 2)], "nice": False}


def _curves(
    points: Sequence[Point], x: Spec, y: Spec, *, palette: Spec, tooltip: object, size: int
) -> Spec:
    """A line with symbols for each label."""
    value = {**y, "field": "value"}
    symbols = {"shape": palette["shape"], "tooltip": tooltip}
    return {
        "height": HEIGHT,
        "data": {"values": list(points)},
        "encoding": {"x": x, "color": palette["color"], "detail": {"field": "label"}},
        "layer": [
            layer("line", {"strokeWidth": 1.75}, y=value, **_dash(points)),
            layer("point", {"filled": True, "size": size, "opacity": 1}, y=value, **symbols),
        ],
    }


def lines(
    points: Sequence[Point],
    unit: str,
    provenance: str,
    title: str = "Buffer size",
    curves: Sequence[Sequence[Point]] = (),
    **axis: Any,
) -> Spec:
    """Figures with error bars against buffer size, or against the quantity of `title` and `axis`.

    A point has `x` (where it is drawn), `size` (its tick), `value`, `low`, `high`, and as texts
    `buffer`, `median`, `interval`; `bounded` ones have a band between their ends. `curves` are
    published ones, whose points have `x`, `value`, and as texts `printed`, `curve`, and `name` at
    their end.
    """
    bounds = [point[end] for point in points for end in ("low", "high")]
    bounds += [point["value"] for curve in curves for point in curve]
    y = {"type": "quantitative", **_value_axis(unit, bounds, squashed=_is_squashing(points))}
    x = channel(
        "x",
        "quantitative",
        scale={"type": "log", "base": 2, "nice": False, "padding": 14},
        axis={
            "title": f"{title} (log scale)",
            "values": sorted({point["size"] for point in points}),
            "labelOverlap": "greedy",
            "labelSeparation": 8,
            "grid": False,
            **(axis or {"labelExpr": _size_labels(points)}),
        },
    )
    palette = palette_of(points, provenance)
    spec = _curves(points, x, y, palette=palette, tooltip=_of_size(unit), size=52)
    spec["layer"].insert(0, layer("rule", {"strokeWidth": 1.5}, **_ends(y)))
    band = [point for point in points if point.get("bounded")]
    if band:
        spec["layer"].insert(0, layer("area", {"fillOpacity": 0.15}, band, **_ends(y)))
    for place, curve in enumerate(curves):
        spec["layer"] += _published(curve, y, place)
    return spec


def _published(curve: Sequence[Point], y: Spec, place: int) -> list[Spec]:
    """A dashed curve without colour, named below its end, where rising lines leave room."""
    value = {**y, "field": "value"}
    shared = {"y": value, "color": {"value": "var(--muted)"}, "detail": {"field": "curve"}}
    tooltip = _tooltip(curve="What", printed="Published")
    name = {"align": "right", "baseline": "middle", "dx": -4, "fontSize": 10.5}
    name["dy"] = 13 * (place + 1)
    dashed = {"strokeDash": [6, 4], "strokeWidth": 1.5}
    hollow = {"filled": False, "size": 30, "strokeWidth": 1.25, "opacity": 1, "shape": "circle"}
    return [
        layer("line", dashed, curve, **shared),
        layer("point", hollow, curve, tooltip=tooltip, **shared),
        layer("text", name, curve, text={"field": "name"}, **shared),
    ]


def rounds(points: Sequence[Point], unit: str, provenance: str) -> Spec:
    """A figure of each round. A point has `round`, `value` and, as text, `median`."""
    last = max(point["round"] for point in points)
    x = channel(
        "round",
        "quantitative",
        scale={"domain": [1, max(last, 2)], "nice": False, "padding": 14},
        axis={"title": "Round", "tickMinStep": 1, "format": "d", "grid": False},
    )
    y = {"type": "quantitative", "scale": {"zero": False, "nice": True}, "axis": {"title": unit}}
    palette = palette_of(points, provenance)
    tooltip = _tooltip(label="What", round="Round", median=unit or "Figure")
    spec = _curves(points, x, y, palette=palette, tooltip=tooltip, size=52)
    # The samples are what is to be seen; the line only says which belong together.
    spec["layer"][0]["mark"] |= {"strokeWidth": 0.75, "opacity": 0.5}
    return spec


def histogram(points: Sequence[Point], provenance: str) -> Spec:
    """Shares of jobs by their latency. A point has `from` and `to` in microseconds, `value` in
    percent and, as texts, `range` and `share`."""
    colour = palette_of(points, provenance)["color"]
    ends = [point[end] for point in points for end in ("from", "to")]
    axis = {"title": "Latency (log scale)", "labelExpr": _TIME_LABEL, "grid": False}
    scale = {"type": "log", "domain": [min(ends), max(ends)], "nice": False}
    step = channel("from", "quantitative", scale=scale, axis=axis)
    tooltip = _tooltip(label="What", range="Latency", share="Share of jobs")
    value = {"field": "value", "type": "quantitative", "axis": {"title": "% of jobs"}}
    look = {"interpolate": "step-after", "strokeWidth": 1.5, "fillOpacity": 0.08, "line": True}
    return {
        "height": HEIGHT,
        "data": {"values": list(points)},
        "encoding": {"x": step, "color": colour, "detail": {"field": "label"}},
        "layer": [
            layer("area", look, y={**value, "stack": None}),
            layer("point", {"opacity": 0, "size": 60}, y=value, tooltip=tooltip),
        ],
    }


def _ends(y: Spec, low: str = "low", high: str = "high") -> Spec:
    return {"y": {**y, "field": low}, "y2": {"field": high}}


def _names(limit: int) -> Spec:
    """The names of bars, drawn next to them."""
    axis = {"title": None, "labelLimit": limit}
    return channel("label", "nominal", sort=None, axis=axis)


def bars(points: Sequence[Point], unit: str, colour: str = "series-1") -> Spec:
    """One size only: bars from zero, with their names next to them."""
    x = {"type": "quantitative", "scale": {"zero": True}, "axis": {"title": unit}}
    bar = {"color": f"var(--{colour})", "height": 14}
    rule = {"color": "var(--ink)", "strokeWidth": 1.5}
    return {
        "height": 26 * len(points),
        "data": {"values": list(points)},
        "encoding": {"y": _names(220)},
        "layer": [
            layer("bar", bar, x={**x, "field": "value"}, tooltip=_of_size(unit)),
            layer("rule", rule, x={**x, "field": "low"}, x2={"field": "high"}),
        ],
    }


#: Color and shape of each verdict of a comparison.
_VERDICTS = {
    "slower": ("var(--bad)", "triangle-down"),
    "faster": ("var(--measured)", "triangle-up"),
    "ambiguous": ("var(--modelled)", "diamond"),
    "same": ("var(--muted)", "circle"),
}
#: Possible ticks of the axis of ratios.
_NEAR_ONE = (0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25)
_RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, *_NEAR_ONE, 2, 5, 10, 20, 50, 100)
_RATIO_LABEL = (
    "datum.value >= 2 ? datum.value + ' times'"
    " : datum.value == 1 ? 'no change'"
    " : (datum.value > 1 ? '+' : '−') + format(abs(datum.value - 1) * 100, '.0f') + ' %'"
)


def changes(points: Sequence[Point]) -> Spec:
    """Ratios with their intervals, one line each below its name; intervals are cut where the axis
    ends. A point has `label`, `value`, `low`, `high`, `verdict` and, as texts, `change` and
    `interval`."""
    values = [point["value"] for point in points]
    least = min(0.95, *values, max(0.5, min(point["low"] for point in points)))
    most = max(1.05, *values, min(2, max(point["high"] for point in points)))
    low = max((one for one in _RATIOS if one <= least), default=least)
    high = min((one for one in _RATIOS if one >= most), default=most)
    axis = {
        "title": "B over A (log scale)",
        "values": [one for one in _RATIOS if low <= one <= high],
        "labelExpr": _RATIO_LABEL,
        "labelOverlap": "greedy",
        "labelSeparation": 8,
    }
    scale = {"type": "log", "domain": [low, high], "nice": False}
    x = {"type": "quantitative", "scale": scale, "axis": axis}
    told = [one for one in _VERDICTS if any(point["verdict"] == one for point in points)]
    colours, shapes = zip(*(_VERDICTS[one] for one in told), strict=True)
    colour = channel("verdict", "nominal", **_scale(told, colours))
    shape = channel("verdict", "nominal", **_scale(told, shapes))
    tooltip = _tooltip(label="What", change="Change", interval="Interval", verdict="Verdict")
    name = {"align": "left", "baseline": "middle", "dy": -13, "fontSize": 10.5, "limit": 620}
    name["color"] = "var(--muted)"
    interval = {"strokeWidth": 1.5, "clip": True}
    dot = {"filled": True, "size": 60, "opacity": 1}
    unchanged = {"color": "var(--line)", "strokeWidth": 1.5}
    whole = {"y": {"value": 0}, "y2": {"value": "height"}}
    return {
        "height": 34 * len(points),
        "data": {"values": list(points)},
        "encoding": {"y": channel("label", "nominal", sort=None, axis=None)},
        "layer": [
            layer("rule", unchanged, [{"at": 1}], x={**x, "field": "at"}, **whole),
            layer("rule", interval, x={**x, "field": "low"}, x2={"field": "high"}, color=colour),
            layer(
                "point", dot, x={**x, "field": "value"}, color=colour, shape=shape, tooltip=tooltip
            ),
            layer("text", name, x={"value": 4}, text={"field": "label"}),
        ],
    }


def grid(points: Sequence[Point], unit: str, rows: str) -> Spec:
    """A heat map: figures by buffer size and by `row`, whose axis is called `rows`. The figure
    stands in each cell; the darker, the greater."""
    values = [point["value"] for point in points if point["value"] > 0]
    wide = bool(values) and max(values) / min(values) > LOG_FROM
    sizes = sorted({(point["size"], point["buffer"]) for point in points})
    across = {"title": "Buffer size", "labelAngle": 0, "grid": False}
    # On a narrow screen not all have room.
    across |= {"labelOverlap": "greedy", "labelSeparation": 4}
    down = {"title": rows, "grid": False}
    # Text has to be read on the darkest.
    scale = {"type": "log" if wide else "linear", "range": [0.04, 0.5]}
    opacity = channel("value", "quantitative", scale=scale, legend=None)
    return {
        "height": 26 * len({point["row"] for point in points}),
        "data": {"values": list(points)},
        "encoding": {
            "x": channel("buffer", "ordinal", sort=[name for _, name in sizes], axis=across),
            "y": channel("row", "ordinal", sort="descending", axis=down),
        },
        "layer": [
            layer("rect", {"color": "var(--series-1)"}, opacity=opacity, tooltip=_of_size(unit)),
            layer("text", {"color": "var(--ink)", "fontSize": 10.5}, text={"field": "short"}),
        ],
    }


def latencies(points: Sequence[Point], order: Sequence[str], provenance: str) -> Spec:
    """Latency in µs (`value`) at each `percentile`, in the given order."""
    values = [point["value"] for point in points]
    ticks, scale = log_axis(min(values), max(values))
    up = {"title": "Latency (log scale)", "values": ticks, "labelExpr": _TIME_LABEL}
    across = {"title": "Share of jobs at or below", "labelAngle": 0, "grid": False}
    tooltip = _tooltip(label="What", percentile="Share of jobs", median="µs", interval="Interval")
    return _curves(
        points,
        channel("percentile", "ordinal", sort=list(order), axis=across),
        {"type": "quantitative", "scale": scale, "axis": up},
        palette=palette_of(points, provenance),
        tooltip=tooltip,
        size=44,
    )


#: The panels of `over_time`: from and to, in pixels from the top.
_TRAFFIC_PANEL, _TIMES_PANEL = (18, 200), (232, 390)


def over_time(
    points: Sequence[Point],
    times: Sequence[Point],
    spans: Sequence[Mapping[str, Any]],
    provenance: str,
) -> Spec:
    """MB/s (`value`) at each second (`s`), and below it microseconds, if there are any `times`.
    `spans` (`begin` to `end`) are shaded, where they are `dark`, and have their `name` above."""
    scale: Spec = {"nice": False}
    if spans:
        ends = [points[0]["s"], points[-1]["s"]]
        ends += [span[end] for span in spans for end in ("begin", "end")]
        scale["domain"] = [min(ends), max(ends)]
    x = {"type": "quantitative", "axis": {"title": "Seconds", "tickCount": 8}, "scale": scale}
    colour = palette_of(points, provenance)["color"]
    shade = {"color": "var(--ink)", "opacity": 0.08}
    names = {"baseline": "top", "fontSize": 10, "color": "var(--muted)"}
    named = [{**span, "s": (span["begin"] + span["end"]) / 2} for span in spans if span.get("name")]
    line = {"strokeWidth": 1.25}

    def panel(values: Sequence[Point], axis: Spec, pixels: tuple[int, int]) -> Spec:
        top, bottom = pixels
        scale = {**axis["scale"], "range": [bottom, top]}
        y = channel("value", "quantitative", scale=scale, axis={**axis["axis"], "orient": "left"})
        return layer("line", line, values, x={**x, "field": "s"}, y=y, color=colour)

    dark = [{"begin": one["begin"], "end": one["end"]} for one in spans if one.get("dark", True)]
    layers = [
        layer("rect", shade, dark, x={**x, "field": "begin"}, x2={"field": "end"}),
        panel(points, _from_zero("MB/s"), _TRAFFIC_PANEL),
    ]
    if named:
        text = {"field": "name", "type": "nominal"}
        at = {**x, "field": "s"}
        layers.append(layer("text", names, named, x=at, y={"value": 0}, text=text))
    if times:
        axis = _value_axis("µs", [point["value"] for point in times], squashed=True)
        layers.append(panel(times, axis, _TIMES_PANEL))
    return {
        "height": (_TIMES_PANEL if times else _TRAFFIC_PANEL)[1],
        "layer": layers,
        "resolve": {"scale": {"y": "independent"}},
    }


#: The two panels of `shares_of_work`: from and to, in pixels from the top; the fields that are
#: drawn, and their unit.
_PANELS = (
    (0, 200, ("value", "low", "high"), "MB/s"),
    (236, 340, ("use", "use_low", "use_high"), "Host CPU, % of a core"),
)


def shares_of_work(points: Sequence[Point], provenance: str) -> Spec:
    """Throughput above, host CPU use below, against the percent of the work on the device.

    A point has `who`, `share`, `value`, `low`, `high` (MB/s), `use`, `use_low`, `use_high` (%),
    `best`, `optimum` (its name) and `adaptive`. Both panels are one view with two vertical scales,
    so that they share the horizontal axis and the width of the page.
    """
    palette = palette_of(points, provenance)
    # The diamond is for adaptive.
    palette["shape"]["scale"]["range"] = ["circle", "square"]
    panels = []
    for top, bottom, fields, unit in _PANELS:
        bounds = [point[name] for point in points for name in fields[1:] if point[name] is not None]
        if bounds:
            # Percent of a core always start at zero.
            axis = _value_axis(unit, bounds) if not top else _from_zero(unit)
            count = {} if "values" in axis["axis"] else {"tickCount": 4}
            y = {
                "type": "quantitative",
                "scale": {**axis["scale"], "range": [bottom, top]},
                "axis": {**axis["axis"], "orient": "left", **count},
            }
            panels.append(_panel(points, fields, y, palette))
    across = {
        "title": "Share of the bytes on the device, %",
        "values": list(range(0, 101, 10)),
        "grid": False,
    }
    scale = {"domain": [0, 100], "nice": False, "padding": 12}
    return {
        "height": _PANELS[-1][1],
        "encoding": {
            "x": channel("share", "quantitative", scale=scale, axis=across),
            "color": palette["color"],
        },
        "layer": panels,
        "resolve": {"scale": {"y": "independent"}},
    }


def _panel(points: Sequence[Point], fields: tuple[str, str, str], y: Spec, palette: Spec) -> Spec:
    """The layers of one panel; all have the same vertical scale."""
    fixed = [point for point in points if not point["adaptive"]]
    free = [point for point in points if point["adaptive"]]
    name, low, high = fields
    value = {**y, "field": name}
    tooltip = _tooltip(
        label="What",
        on_device="On the device, %",
        median="MB/s",
        interval="Interval",
        cpu="Host CPU, %",
    )
    size = {"condition": {"test": "datum.best", "value": 190}, "value": 44}
    symbols = {"shape": palette["shape"], "size": size, "tooltip": tooltip}
    marks = [
        layer("rule", {"strokeWidth": 1.5}, fixed, **_ends(y, low, high)),
        layer("line", {"strokeWidth": 1.75}, fixed, y=value),
        layer("point", {"filled": True, "opacity": 1}, fixed, y=value, **symbols),
    ]
    if name == "value":
        best = [point for point in fixed if point["best"]]
        text = {"dy": 18, "fontWeight": 600}
        marks.append(layer("text", text, best, y=value, text={"field": "optimum"}))
    if free:
        rule = {"strokeDash": [2, 4], "strokeWidth": 1.25}
        diamond = {"shape": "diamond", "size": 120, "strokeWidth": 2}
        diamond |= {"fill": "var(--surface)", "opacity": 1}
        marks += [
            layer("rule", rule, free, y=value, x={"value": 0}, x2={"value": "width"}),
            layer("point", diamond, free, y=value, tooltip=tooltip),
        ]
    return {"layer": marks}


def shares(points: Sequence[Point], stages: Sequence[str]) -> Spec:
    """Bars made of shares: of `label`, each `stage` (one of `stages`) has a `share`."""
    axis = {"title": "Share of the time", "format": "%", "tickCount": 5}
    x = channel("share", "quantitative", stack="zero", scale={"domain": [0, 1]}, axis=axis)
    return _stacked(points, stages, x)


def times(points: Sequence[Point], stages: Sequence[str]) -> Spec:
    """Bars made of times, in milliseconds: of `label`, each `stage` (one of `stages`) has a
    `time_ms`."""
    x = channel("time_ms", "quantitative", stack="zero", axis={"title": "Time, ms"})
    sums: dict[str, float] = {}
    for point in points:
        sums[point["label"]] = sums.get(point["label"], 0.0) + point["time_ms"]
    least = _TEXT_FROM * max(sums.values())
    shown = [point | {"text": point["text"] * (point["time_ms"] >= least)} for point in points]
    return _stacked(shown, stages, x)


def _stacked(points: Sequence[Point], stages: Sequence[str], x: Spec) -> Spec:
    """Bars made of stages, one behind the other along `x`."""
    place = {stage: index + 1 for index, stage in enumerate(stages)}
    present = [stage for stage in stages if any(point["stage"] == stage for point in points)]
    colours = [f"var(--stage-{place[stage]})" for stage in present]
    colour = channel("stage", "nominal", **_scale(present, colours, symbolType="square"))
    tooltip = _tooltip(label="What", stage="Stage", time="Mean time")
    bar = {"height": 18, "stroke": "var(--surface)", "strokeWidth": 1}
    middle = {**x, "bandPosition": 0.5}
    look = {"color": "var(--on-stage)", "fontSize": 10.5}
    detail = {"field": "stage"}
    # A part without a length is a line: its mark stands behind it, where it is whole.
    behind = look | {"align": "left", "dx": 3}
    mark = layer("text", behind, x=middle, text={"field": "mark"}, detail=detail, tooltip=tooltip)
    return {
        "height": 28 * len({point["label"] for point in points}),
        "data": {"values": list(points)},
        "encoding": {"y": _names(260), "order": channel("order", "quantitative")},
        "layer": [
            layer("bar", bar, x=x, color=colour, tooltip=tooltip),
            layer("text", look, x=middle, text={"field": "text"}, detail=detail),
            *([mark] if any(point["mark"] for point in points) else []),
        ],
    }
