"""Charts of networks: throughput over time, with jobs beside."""

from __future__ import annotations

from make_run import summary_of
from overside.bench.statistics import TestSummary
from overside.report import traffic


def streamed(jobs_s: list[float], figures: dict[str, float]) -> TestSummary:
    """A stream of ten slices with jobs beside."""
    parameters = {"pattern": "stream", "message_size": 65536, "jobs": "copy", "device": "cpu"}
    ends = [(number + 1) / 10 for number in range(10)]
    series = {"slice_s": 0.1, "end_s": ends, "throughput": [5.0] * 10, "jobs_s": jobs_s}
    rounds = {name: [value] for name, value in figures.items()}
    return summary_of("network", parameters, rounds, series=series)


def test_the_time_of_the_jobs_is_shaded() -> None:
    figures = {"throughput_before": 5.0, "throughput_during": 4.0, "throughput_after": 5.0}
    *_, chart = traffic.charts([streamed([0.3, 0.6], figures)], "measured")
    assert chart.spec["layer"][0]["data"]["values"] == [{"begin": 0.3, "end": 0.6}]
    assert "until the traffic ended" not in chart.caption
    assert chart.rows[0][1:] == ("5.00", "4.00", "5.00")


def test_jobs_that_outlast_the_traffic_are_shaded_up_to_its_end_and_told() -> None:
    figures = {"throughput_before": 5.0, "throughput_during": 4.0}
    *_, chart = traffic.charts([streamed([0.3, 7.5], figures)], "measured")
    assert chart.spec["layer"][0]["data"]["values"] == [{"begin": 0.3, "end": 1.0}]
    assert "Where nothing stands after them, they ran until the traffic ended." in chart.caption
    assert chart.rows[0][-1] == "–"
