"""Published series, drawn as curves beside what was measured."""

from __future__ import annotations

from typing import Any

from make_run import view
from overside.bench.statistics import TestSummary
from overside.report import charts, groups
from overside.report.charts import Chart
from test_report_published_loops import measured

KIB = 1024


def chased(size: int, nanoseconds: float, **given: Any) -> TestSummary:
    given = {"pattern": "chase", "pages": "small", "buffer_size": size} | given
    return measured("memory", {"read_latency": nanoseconds}, **given)


def matched(batch: int, rate: float, **given: Any) -> TestSummary:
    usual = {"patterns": ["q4"], "buffer_size": KIB, "batch": batch, "depth": 1024, "threads": 1}
    usual |= {"device": "emulated:bf2", "provenance": "emulated"}
    return measured("match", {"throughput": rate}, **usual | given)


def drawn(*tests: TestSummary, provenance: str = "measured") -> list[Chart]:
    (group,) = groups.groups(view(*tests))
    return charts.charts(group, provenance)


def dashed(chart: Chart) -> list[Any]:
    return [one for one in chart.spec["layer"] if one["mark"].get("strokeDash") == [6, 4]]


def test_latencies_of_blocks_have_the_curve_of_a_card() -> None:
    (chart,) = drawn(*(chased(size * KIB, 4.0 + size / 100) for size in (64, 256, 1024, 4096)))
    (line,) = dashed(chart)
    points = line["data"]["values"]
    assert points[0] | {"x": 65536, "value": 3.5, "printed": "3.5 ns"} == points[0]
    assert points[-1]["name"] == "published: coproc.sbc.bf2.lat"
    assert points[-1]["x"] <= 2 * 4096 * KIB, "a curve ends where the measured figures do"
    assert "published by others, in no comparison" in chart.caption
    assert "by tinymembench" in chart.caption
    assert "PVLDB" in chart.caption
    rows = [row for row in chart.rows if "published" in row[0]]
    assert rows[0][1:] == ("64 KiB", "3.50", "–", "–", "–")


def test_other_work_and_single_figures_have_no_curve() -> None:
    (few,) = drawn(chased(64 * KIB, 4.0), chased(65 * KIB, 4.0, pages="huge"))
    assert not dashed(few), "two of its sizes are no curve"
    (other,) = drawn(*(chased(size * KIB, 4.0, pattern="walk") for size in (64, 256, 1024, 4096)))
    assert not dashed(other)


def test_batches_of_one_size_are_a_line_of_their_own() -> None:
    found = drawn(
        *(matched(batch, 1000.0 + batch) for batch in (1, 4, 16, 64)), provenance="emulated"
    )
    chart = found[0]
    assert chart.title.startswith("Throughput against jobs at one doorbell, 1 KiB buffers")
    assert [row[1] for row in chart.rows[:4]] == ["1", "4", "16", "64"]
    (line,) = dashed(chart)
    assert [point["x"] for point in line["data"]["values"]] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert line["data"]["values"][0]["value"] == 1375.0, "11 Gb/s"
