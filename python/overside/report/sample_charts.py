"""Charts of single samples, drawn on demand (`report --chart`): the figures of each round, and the
spread of latencies."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence

from overside import tasks
from overside.bench.statistics import TestSummary
from overside.report import formatting, groups, vega
from overside.report.charts import SERIES_MAX, Chart, name_of
from overside.report.groups import Group
from overside.report.vega import Point

#: Bars of a histogram, of equal width on a logarithmic axis.
BINS = 48
#: The share at either end that a histogram does not show: single ones would squeeze all others.
_TAIL = 0.001


def charts(group: Group, provenance: str) -> Iterator[Chart]:
    """The charts of a group's tests of one provenance: at most `SERIES_MAX` tests, of one size."""
    tests = [test for test in group.of(provenance) if groups.timed(test)]
    sizes = sorted({size for test in tests if (size := groups.size_bytes(test))})
    size = groups.typical_size(sizes)
    alike = [test for test in tests if groups.size_bytes(test) == size]
    shown = _fastest(alike)
    left_out = len(tests) - len(shown)
    where = f", {formatting.size(size)} buffers" if size else ""
    note = f" {formatting.plural(left_out, 'test')} not drawn." if left_out else ""
    yield from _rounds(shown, provenance, where, note)
    yield from _histogram(shown, provenance, where, note)


def _fastest(tests: Sequence[TestSummary]) -> list[TestSummary]:
    def rate(test: TestSummary) -> float:
        found = test.metrics.get("throughput")
        return found.median if found is not None else 0.0

    kept = sorted(tests, key=rate, reverse=True)[:SERIES_MAX]
    return [test for test in tests if test in kept]


def _named(tests: Sequence[TestSummary]) -> list[tuple[str, TestSummary]]:
    return [(groups.label(test, tests), test) for test in tests]


def _rounds(
    tests: Sequence[TestSummary], provenance: str, where: str, note: str
) -> Iterator[Chart]:
    """A figure of each round: the first metric that the box asked for."""
    metric = next((name for test in tests for name in test.asked if name in test.values), None)
    told = [(label, test) for label, test in _named(tests) if metric in test.values]
    if metric is None or not told:
        return
    task = tasks.find(told[0][1].task)
    about = task.metrics.get(metric) if task is not None else None
    unit = "" if about is None or about.unit == "-" else about.unit
    points: list[Point] = [
        {
            "who": label,
            "how": "",
            "label": label,
            "round": number + 1,
            "value": value,
            "median": formatting.number(value),
        }
        for label, test in told
        for number, value in sorted(test.values[metric].items())
    ]
    yield Chart(
        id=f"rounds-{provenance}",
        title=f"{name_of(metric)} of each round{where}",
        caption=f"Each round is a fresh process. The axis does not begin at zero.{note}",
        provenance=provenance,
        spec=vega.rounds(points, unit, provenance),
        columns=("What", "Round", unit or "Figure"),
        rows=tuple((point["label"], str(point["round"]), point["median"]) for point in points),
    )


def _histogram(
    tests: Sequence[TestSummary], provenance: str, where: str, note: str
) -> Iterator[Chart]:
    """Yields a histogram of the latencies of all jobs, all rounds together."""
    told = [(label, m["curve"]) for label, test in _named(tests) if (m := test.latency())]
    ends = [end for _, curve in told for end in _ends(curve)]
    if not ends or min(ends) <= 0:
        return
    low, high = min(ends), max(*ends, min(ends) * 1.1)
    step = (high / low) ** (1 / BINS)
    edges = [low * step**place for place in range(BINS + 1)]
    points: list[Point] = []
    for label, curve in told:
        below = [_share_below(curve, edge) for edge in edges]
        points += [
            {
                "who": label,
                "how": "",
                "label": label,
                "from": first / 1e3,
                "to": last / 1e3,
                "value": 100 * (upper - lower),
                "range": f"{formatting.number(first / 1e3)} to {formatting.number(last / 1e3)} µs",
                "share": f"{formatting.number(100 * (upper - lower))} %",
            }
            for first, last, lower, upper in zip(edges, edges[1:], below, below[1:], strict=False)
        ]
    yield Chart(
        id=f"histogram-{provenance}",
        title=f"Latencies{where}",
        caption=f"All rounds together; the first and last {_TAIL:.1%} are not drawn.{note}",
        provenance=provenance,
        spec=vega.histogram(points, provenance),
        columns=("What", "Latency", "Share of jobs"),
        rows=tuple((p["label"], p["range"], p["share"]) for p in points if p["value"] > 0),
    )


def _ends(curve: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Between which times nearly all lie, in nanoseconds."""
    inside = [time for share, time in curve if _TAIL <= share <= 1 - _TAIL]
    times = inside or [time for _, time in curve]
    return (times[0], times[-1]) if times else (math.nan, math.nan)


def _share_below(curve: Sequence[Sequence[float]], time: float) -> float:
    """The share of latencies up to a time, between the curve's points on a line."""
    place = bisect.bisect_right([at for _, at in curve], time)
    if place == 0:
        return 0.0
    if place == len(curve):
        return 1.0
    (share, at), (more, later) = curve[place - 1], curve[place]
    return share + (more - share) * ((time - at) / (later - at) if later > at else 1.0)
