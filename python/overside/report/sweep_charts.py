"""The charts of a sweep: throughput and CPU use against the share, and where the time goes."""

from __future__ import annotations

from collections.abc import Iterator

from overside.report import formatting, sweeps, vega
from overside.report.charts import Chart
from overside.report.sweeps import Point, Series, Sweep

#: Stages of a leg's life and of its jobs, in the order in which they pass; of `stages` in a sample.
STAGES = (
    ("discovery", "Discovery"),
    ("init", "Context init"),
    ("memory", "Memory init"),
    ("transfer", "Transfer"),
    ("engine", "Engine"),
    ("end", "Context end"),
)

#: Those that a context has once; the others are a job's.
_ONCE = {"discovery", "init", "memory", "end"}


def charts(sweep: Sweep) -> list[Chart]:
    """Both charts, as far as there is something to draw."""
    return [chart for chart in (_shares(sweep), _stages(sweep)) if chart is not None]


def _shares(sweep: Sweep) -> Chart | None:
    if not any(series.points for series in sweep.series):
        return None
    points = [_point(series, point) for series in sweep.series for point in series.all]
    many = len(sweep.series) > 1
    caption = (
        "Large mark: the best share. Diamond: adaptive, at the share that it chose; the dashed "
        "line carries its figure across."
    )
    if not any(series.adaptive for series in sweep.series):
        caption = "Large mark: the best share."
    if many:
        caption += " Static: contexts and buffers are reused."
    return Chart(
        id=f"shares-{sweep.provenance}",
        title="Throughput and host CPU use against the share on the device",
        caption=caption,
        provenance=sweep.provenance,
        spec=vega.shares_of_work(points, sweep.provenance),
        columns=sweeps.COLUMNS,
        rows=tuple(sweeps.table(sweep)),
    )


def _point(series: Series, point: Point) -> vega.Point:
    use = point.test.metrics.get("cpu_utilisation")
    share = point.share if point.asked is None else point.asked
    return {
        "who": series.title,
        "how": "",
        "label": f"{series.title}, {point.name}",
        "share": share,
        "adaptive": point.asked is None,
        "best": point is series.optimum,
        "optimum": f"{share:g} %",
        "value": point.throughput.median,
        "low": point.throughput.low,
        "high": point.throughput.high,
        "use": use.median if use else None,
        "use_low": use.low if use else None,
        "use_high": use.high if use else None,
        "median": formatting.number(point.throughput.median),
        "interval": formatting.span(point.throughput.low, point.throughput.high),
        "cpu": formatting.number(use.median) if use else "–",
        "on_device": formatting.number(point.share),
    }


def _stages(sweep: Sweep) -> Chart | None:
    """Where the device's time goes in each setting, with everything on it."""
    found = [(s, p) for s in sweep.series if (p := _most(s)) is not None]
    told = [(s, p, dict(_totals(p))) for s, p in found]
    told = [(s, p, totals) for s, p, totals in told if sum(totals.values()) > 0]
    if not told:
        return None
    points: list[vega.Point] = []
    for series, _, totals in told:
        points += _shares_of(series, totals)
    rows = [row for series, point, totals in told for row in _rows(series, point, totals)]
    return Chart(
        id=f"stages-{sweep.provenance}",
        title="Where the device’s time goes",
        caption="Shares of the sum of all stages of the contexts and of the jobs, with everything "
        "on the device. Static: the context is set up once, before the clock starts.",
        provenance=sweep.provenance,
        spec=vega.shares(points, [label for _, label in STAGES]),
        columns=("Setting", "Stage", "Each, ms", "How many", "In total, ms"),
        rows=tuple(rows),
    )


def _most(series: Series) -> Point | None:
    """The point with the most on the device."""
    used = [point for point in series.points if point.share > 0]
    return max(used, key=lambda point: point.share, default=None)


def _totals(point: Point) -> Iterator[tuple[str, float]]:
    """Each stage's total in nanoseconds, as far as the device tells."""
    for stage, _ in STAGES:
        total = point.test.stages.get(f"device_{stage}_total_ns")
        if stage == "memory" and point.share >= 100:
            # Buffers are the executor's; with one leg they are all for it.
            total = (total or 0.0) + point.test.stages.get("buffers_total_ns", 0.0)
        if total is not None:
            yield stage, max(total, 0.0)


def _shares_of(series: Series, totals: dict[str, float]) -> list[vega.Point]:
    whole = sum(totals.values())
    name = "set up anew" if series.setting == "reconfiguration" else series.title
    label = f"{name} · {formatting.duration(whole / 1e9)}"
    names = [(stage, name) for stage, name in STAGES if stage in totals]
    return [
        {
            "label": label,
            "stage": name,
            "order": index,
            "share": totals[stage] / whole,
            "time": formatting.duration(totals[stage] / 1e9),
            "text": f"{totals[stage] / whole:.0%}" if totals[stage] / whole >= 0.12 else "",
        }
        for index, (stage, name) in enumerate(names)
    ]


def _rows(series: Series, point: Point, totals: dict[str, float]) -> Iterator[tuple[str, ...]]:
    leg = (point.test.placement or {}).get("device") or {}
    for stage, name in STAGES:
        if stage in totals:
            count = leg.get("setups" if stage in _ONCE else "jobs")
            many = count if isinstance(count, int) and count > 0 else None
            yield (
                series.title,
                name,
                formatting.number(totals[stage] / 1e6 / many) if many else "–",
                f"{many:,}" if many else "–",
                formatting.number(totals[stage] / 1e6),
            )
