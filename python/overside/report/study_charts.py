"""Charts of a study's figure: published values beside those of this run, with their ratios.

A chart has figures of one unit and one provenance. A row is one of our figures, with all published
values that stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from overside.report import formatting, vega
from overside.report.charts import Chart
from overside.report.published.reproduced import Amount, Pair, Reproduction
from overside.report.vega import Point, Spec, channel, layer

#: The most rows in one chart; the table has them all.
ROWS_MAX = 40
#: Height of a row in pixels: two lines of text and the marks.
ROW_HEIGHT = 50
#: Factor by which the axis goes beyond the first and the last mark.
MARGIN = 1.2
HERE = "this run"
COLUMNS = ("What", "Machine of the study", "Published", "Here", "Here / published", "Emulated")


def charts(found: Reproduction) -> list[Chart]:
    """The charts of a figure, the measured ones first."""
    pairs = sorted(found.pairs, key=lambda pair: (pair.provenance != "measured", pair.unit))
    alike = groupby(pairs, key=lambda pair: (pair.provenance, pair.unit))
    out = []
    for place, ((provenance, unit), some) in enumerate(alike):
        mine = list(some)
        listed = rows(mine)
        caption = "Above each row: this run over the published value."
        if len(listed) > ROWS_MAX:
            caption += f" {len(listed) - ROWS_MAX} more rows are in the table."
        chart = Chart(
            id=f"study-{place}-{provenance}",
            title=f"{found.figure.label}, {unit or 'shares'}: published and here",
            caption=caption,
            provenance=provenance,
            spec=_spec(listed[:ROWS_MAX], unit),
            columns=COLUMNS,
            rows=tuple(table(mine)),
        )
        out.append(chart)
    return out


def table(pairs: Sequence[Pair]) -> Iterator[tuple[str, ...]]:
    """Yields a row for each published value, as `COLUMNS` names them."""
    for pair in (pair for row in rows(pairs) for pair in row):
        origin = pair.origin or "–"
        yield pair.what, pair.machine, pair.printed, _here(pair), _times(pair.ratio), origin


def sentence(row: Sequence[Pair]) -> str:
    """`STREAM copy: bandwidth, threads 1: 9,580 MB/s; BF-2 4.6×, BF-3 1.9×`."""
    emulated = " emulated" if row[0].provenance == "emulated" else ""
    return f"{row[0].what}: {_here(row[0])}{emulated}; {_ratios(row)}"


def _here(pair: Pair) -> str:
    return f"{formatting.number(pair.ours.value)} {pair.unit}".rstrip()


def _ratios(row: Sequence[Pair]) -> str:
    return ", ".join(f"{pair.machine} {_times(pair.ratio)}" for pair in row)


def rows(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Pairs of one figure of ours, in the order of the registry, series by their amounts."""
    found: dict[tuple[str, Amount], list[Pair]] = {}
    works = list(dict.fromkeys(pair.work for pair in pairs))
    for pair in sorted(pairs, key=lambda pair: (works.index(pair.work), pair.at)):
        found.setdefault((pair.what, pair.ours), []).append(pair)
    return list(found.values())


def _times(ratio: Amount) -> str:
    """`1.9×`, or `0.8–1.2×` beside a published range."""
    low, high = formatting.times(ratio.low), formatting.times(ratio.high)
    return f"{low}×" if low == high else f"{low}–{high}×"


def _spec(listed: Sequence[Sequence[Pair]], unit: str) -> Spec:
    """Marks of this run and of each machine of the study on one logarithmic axis."""
    published = [
        _point(pair, pair.machine, pair.published, at, pair.printed)
        for at, row in enumerate(listed)
        for pair in row
    ]
    ours = [_point(row[0], HERE, row[0].ours, at, _here(row[0])) for at, row in enumerate(listed)]
    names = [
        {"row": at, "name": row[0].what, "ratios": _ratios(row)} for at, row in enumerate(listed)
    ]
    every = [end for one in [*published, *ours] for end in (one["low"], one["high"])]
    ticks, scale = vega.log_axis(min(every) / MARGIN, max(every) * MARGIN)
    axis: Spec = {"title": f"{unit or 'share'} (log scale)", "values": ticks, "format": ",.3~r"}
    axis |= {"labelOverlap": "greedy", "labelSeparation": 8}
    x = {"type": "quantitative", "scale": scale, "axis": axis}
    palette = vega.palette_of([*ours, *published], "measured")
    colour, shape = palette["color"], palette["shape"]
    ends: Spec = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour}
    tooltip = [{"field": name, "title": name.capitalize()} for name in ("who", "what", "figure")]
    marks: Spec = {"x": {**x, "field": "value"}, "color": colour, "shape": shape}
    marks |= {"tooltip": tooltip}
    order = channel("row", "quantitative")
    curve: Spec = {"x": marks["x"], "color": colour, "detail": {"field": "series"}, "order": order}
    text = {"align": "left", "baseline": "middle", "limit": {"expr": "width - 4"}}
    name = {**text, "dy": -23, "fontSize": 11, "color": "var(--ink)"}
    ratios = {**text, "dy": -11, "fontSize": 10.5, "color": "var(--muted)"}
    hollow = {"filled": False, "size": 60, "strokeWidth": 1.75}
    return {
        "height": ROW_HEIGHT * len(listed),
        "encoding": {"y": channel("row", "ordinal", axis=None)},
        "layer": [
            layer("line", {"strokeWidth": 1, "opacity": 0.6}, [*published, *ours], **curve),
            layer("rule", {"strokeWidth": 1.5, "strokeDash": [3, 2]}, published, **ends),
            layer("rule", {"strokeWidth": 1.5}, ours, **ends),
            layer("point", hollow, published, **marks),
            layer("point", {"filled": True, "size": 75, "opacity": 1}, ours, **marks),
            layer("text", name, names, x={"value": 2}, text={"field": "name"}),
            layer("text", ratios, names, x={"value": 2}, text={"field": "ratios"}),
        ],
    }


def _point(pair: Pair, who: str, amount: Amount, row: int, figure: str) -> Point:
    out = {"row": row, "who": who, "what": pair.what, "figure": figure, "series": pair.work}
    return out | vars(amount)
