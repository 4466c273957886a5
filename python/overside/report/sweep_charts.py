"""The charts of a sweep: throughput and CPU use against the share, and where the time goes."""

from __future__ import annotations

from collections.abc import Iterator

from overside.report import formatting, sweeps, vega
from overside.report.charts import Chart, unpublished
from overside.report.sweeps import Point, Series, Sweep

#: Stages of a target's life and of its jobs, in their order; of `stages` in a sample.
STAGES = (
    ("discovery", "Discovery"),
    ("init", "Context init"),
    ("memory", "Memory init"),
    ("start", "Starting the job"),
    ("transfer", "Transfer"),
    ("engine", "Engine"),
    ("end", "Context end"),
)

#: Stages that a context has once; each job has the others.
_ONCE = {"discovery", "init", "memory", "end"}


def charts(sweep: Sweep) -> list[Chart]:
    """All charts of a sweep, as far as there is something to draw."""
    if len(sweep.devices) > 1:
        return [*_targets(sweep)]
    return [*_shares(sweep), *_stages(sweep)]


def _shares(sweep: Sweep) -> Iterator[Chart]:
    if not any(series.points for series in sweep.series):
        return
    caption = "Large mark: the best share."
    if any(series.adaptive for series in sweep.series):
        caption += (
            " Diamond: adaptive, at the share that it chose; the dashed line carries its figure "
            "across."
        )
    if len(sweep.series) > 1:
        caption += " Static: contexts and buffers are reused."
    points = [_point(series, point) for series in sweep.series for point in series.all]
    yield Chart(
        id=f"shares-{sweep.provenance}",
        title="Throughput and host CPU use against the share on the device",
        caption=caption,
        provenance=sweep.provenance,
        spec=vega.shares_of_work(points, sweep.provenance),
        columns=sweeps.COLUMNS,
        rows=tuple(sweeps.table(sweep)),
    )


def _targets(sweep: Sweep) -> Iterator[Chart]:
    """Yields a chart with a bar for each placement on several devices.

    One share would not distinguish these placements.
    """
    if not any(series.points for series in sweep.series):
        return
    many = len(sweep.series) > 1
    chunk = formatting.size(sweep.chunk_bytes) if sweep.chunk_bytes else "–"
    points = [
        vega.point(point.throughput, point.name, series.title if many else "", buffer=chunk)
        for series in sweep.series
        for point in series.all
    ]
    yield Chart(
        id=f"targets-{sweep.provenance}",
        title="Throughput by placement",
        caption="Shares are of the bytes, for each device in its order; the rest is the CPU's.",
        provenance=sweep.provenance,
        spec=vega.bars(points, "MB/s", sweep.provenance),
        columns=sweeps.COLUMNS,
        rows=tuple(sweeps.table(sweep)),
    )


def _point(series: Series, point: Point) -> vega.Point:
    use = point.test.metrics.get("cpu_utilisation")
    share = point.share if point.asked is None else point.asked
    return vega.point(point.throughput, series.title) | {
        "label": f"{series.title}, {point.name}",
        "share": share,
        "adaptive": point.asked is None,
        "best": point is series.optimum,
        "optimum": f"{share:g} %",
        "use": use.median if use else None,
        "use_low": use.low if use else None,
        "use_high": use.high if use else None,
        "cpu": formatting.number(use.median) if use else "–",
        "on_device": formatting.number(point.share),
    }


def _stages(sweep: Sweep) -> Iterator[Chart]:
    """Yields a chart of the device's time by stage in each setting.

    All work is on the device.
    """
    points: list[vega.Point] = []
    rows: list[tuple[str, ...]] = []
    for series in sweep.series:
        point = _most(series)
        totals = dict(_totals(point)) if point is not None else {}
        if point is not None and sum(totals.values()) > 0:
            name = "set up again" if series.setting == "reconfiguration" else series.title
            unknown = _unpublished(series, point)
            times_s = {
                label: None if stage in unknown else totals[stage] / 1e9
                for stage, label in STAGES
                if stage in unknown or stage in totals
            }
            points += vega.stage_points(name, times_s)
            rows += _rows(series, point, totals)
    if points:
        note = f" {vega.UNPUBLISHED_NOTE}" if any(point["mark"] for point in points) else ""
        yield Chart(
            id=f"stages-{sweep.provenance}",
            title="Where the device’s time goes",
            caption="Shares of the sum of all stages of the contexts and of the jobs, with "
            "everything on the device. Static: the context is set up once, before the clock "
            f"starts.{note}",
            provenance=sweep.provenance,
            spec=vega.shares(points, [label for _, label in STAGES]),
            columns=("Setting", "Stage", "Each, ms", "How many", "In total, ms"),
            rows=tuple(rows),
        )


def _unpublished(series: Series, point: Point) -> list[str]:
    """Returns the stages that the device has in this setting and whose time is unpublished."""
    is_set_up = series.setting == "reconfiguration"
    found = [name.removeprefix("stage_") for name in unpublished(point.test)]
    return [stage for stage in found if is_set_up or stage not in _ONCE]


def _most(series: Series) -> Point | None:
    """The point with the most on the device."""
    used = [point for point in series.points if point.share > 0]
    return max(used, key=lambda point: point.share, default=None)


def _totals(point: Point) -> Iterator[tuple[str, float]]:
    """Each stage's total in nanoseconds, as far as the device reports it."""
    for stage, _ in STAGES:
        total = point.test.stages.get(f"device_{stage}_total_ns")
        if stage == "memory" and point.share >= 100:
            # Buffers are the executor's; with one target they are all for it.
            total = (total or 0.0) + point.test.stages.get("buffers_total_ns", 0.0)
        if total is not None:
            yield stage, max(total, 0.0)


def _rows(series: Series, point: Point, totals: dict[str, float]) -> Iterator[tuple[str, ...]]:
    target = ((point.test.placement or {}).get("devices") or [{}])[0]
    unknown = _unpublished(series, point)
    for stage, name in STAGES:
        if stage in unknown and stage not in totals:
            yield (series.title, name, vega.UNPUBLISHED, "–", vega.UNPUBLISHED)
        elif stage in totals:
            count = target.get("setups" if stage in _ONCE else "jobs")
            many = count if isinstance(count, int) and count > 0 else None
            yield (
                series.title,
                name,
                formatting.number(totals[stage] / 1e6 / many) if many else "–",
                f"{many:,}" if many else "–",
                formatting.number(totals[stage] / 1e6),
            )
