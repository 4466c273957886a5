"""Charts of bytes that were moved."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from make_run import around, view
from overside.bench.statistics import TestSummary
from overside.report import charts, groups
from overside.report.charts import Chart
from test_report_best import summary

SIZES = (64, 4096, 65536)


def moved(size: int, batch: int, core: int) -> TestSummary:
    """A write over shared memory, faster in larger batches and pieces."""
    parameters = {"operation": "write", "batch": batch, "cores": [core], "initiator": "host"}
    one = summary(
        "engine", around(size * batch / 10), size=size, device="shm", parameters=parameters
    )
    return replace(one, task="dma", id=f"dma/{size}-{batch}-{core}")


def drawn(sizes: tuple[int, ...], batches: tuple[int, ...], cores: tuple[int, ...]) -> list[Chart]:
    tests = [moved(*point) for point in product(sizes, batches, cores)]
    (group,) = groups.groups(view(*tests))
    return charts.charts(group, "measured")


def test_sizes_by_batches_are_a_heat_map_for_each_core() -> None:
    both = drawn(SIZES, (1, 8, 64), (0, 1))
    assert len(both) == 2
    for chart, core in zip(both, "01", strict=True):
        assert chart.title.startswith("Throughput, MB/s:")
        assert chart.title.endswith(core)
        points = chart.spec["data"]["values"]
        assert {(point["size"], point["row"]) for point in points} == set(
            product(SIZES, (1, 8, 64))
        )
        assert [layer["mark"]["type"] for layer in chart.spec["layer"]] == ["rect", "text"]
        assert chart.spec["encoding"]["x"]["sort"] == ["64 B", "4 KiB", "64 KiB"]
        assert {point["short"] for point in points} >= {"6.40", "419k"}
        assert len(chart.rows) == 9
    assert len({chart.id for chart in both}) == 2


def test_few_batches_are_lines() -> None:
    first, *_ = drawn(SIZES, (1, 64), (0,))
    assert first.title == "Throughput against buffer size"
