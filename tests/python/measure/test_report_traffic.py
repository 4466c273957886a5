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
    assert [row[2] for row in chart.rows] == ["5.00", "4.00", "5.00"]


def test_jobs_that_outlast_the_traffic_are_shaded_up_to_its_end_and_told() -> None:
    figures = {"throughput_before": 5.0, "throughput_during": 4.0}
    *_, chart = traffic.charts([streamed([0.3, 7.5], figures)], "measured")
    assert chart.spec["layer"][0]["data"]["values"] == [{"begin": 0.3, "end": 1.0}]
    assert "Where nothing stands after them, they ran until the traffic ended." in chart.caption
    assert chart.rows[-1][-1] == "–"


def test_five_phases_are_named_and_have_their_figures() -> None:
    test = streamed(
        [0.3, 0.6],
        {
            "throughput_before": 5.0,
            "throughput_during": 4.0,
            "throughput_after": 5.5,
            "delay_before": 20.0,
            "delay_during": 900.0,
            "delay_after": 30.0,
            "catch_up": 12.5,
            "job_throughput": 300.0,
            "job_throughput_alone": 400.0,
        },
    )
    names = ("idle", "alone", "before", "during", "after")
    assert test.series is not None
    test.series["latency_mean"] = [None, *[20.0] * 9]
    test.series["phases"] = [
        {"name": name, "begin_s": place / 5 - 0.4, "end_s": place / 5 - 0.2}
        for place, name in enumerate(names)
    ]
    *_, chart = traffic.charts([test], "measured")
    assert "Throughput and delay over time" in chart.title
    assert [row[1].partition(":")[0] for row in chart.rows] == list(names[1:])
    figures = dict(zip(chart.columns, zip(*chart.rows, strict=True), strict=True))
    assert figures["Jobs, MB/s"] == ("400", "–", "300", "–")
    assert figures["Caught up after, ms"] == ("–", "–", "–", "12.5")
    shaded, _, labels, delays = chart.spec["layer"]
    assert [round(one["begin"], 1) for one in shaded["data"]["values"]] == [-0.2, 0.2]
    assert [one["name"] for one in labels["data"]["values"]] == list(names)
    assert len(delays["data"]["values"]) == 9


def kv(pipeline: int, **given: object) -> TestSummary:
    """A key-value server under a load."""
    parameters = {
        "server": "overside",
        "protocol": "redis",
        "design": "cpu-only",
        "driver": "epoll",
    }
    rounds = {"rate": [1000.0]}
    return summary_of("kv", {**parameters, "pipeline": pipeline, **given}, rounds, asked=("rate",))


def series(tests: list[TestSummary]) -> list[tuple[str, str]]:
    """Names in the legend, with a color or a dash, in order."""
    (chart,) = traffic.charts(tests, "measured")
    values = chart.spec["data"]["values"]
    return list(dict.fromkeys((point["who"], point["how"]) for point in values))


def test_a_line_has_a_colour_of_its_own_where_not_all_is_done_in_all_ways() -> None:
    loads = [("cpu-only", "client"), ("cpu-only", "dpu"), ("dpu-only", "client")]
    tests = [kv(p, design=d, load_from=load) for d, load in loads for p in (1, 16)]
    assert series(tests) == [
        ("everything on one machine, load from client", ""),
        ("everything on one machine, load from dpu", ""),
        ("everything on the DPU, load from client", ""),
    ]


def test_lines_of_one_thing_are_told_apart_by_colour_in_the_order_of_their_numbers() -> None:
    tests = [kv(p, threads=threads) for threads in (8, 1, 2) for p in (1, 16)]
    assert series(tests) == [("threads 1", ""), ("threads 2", ""), ("threads 8", "")]


def test_dashes_tell_the_ways_where_everything_is_done_in_each() -> None:
    tests = [
        kv(p, server=s, threads=t) for s in ("overside", "redis") for t in (1, 2) for p in (1, 16)
    ]
    assert set(series(tests)) == {
        (who, f"threads {threads}") for who in ("Overside", "Redis") for threads in (1, 2)
    }
