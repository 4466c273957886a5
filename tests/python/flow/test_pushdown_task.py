"""The task `pushdown`: a server and a client are started and counted for boxes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from command import ran, short_box
from overside.bench import network_path
from overside.bench.statistics import load_run
from overside.processes import ProcessError
from overside.report.groups import groups
from overside.tasks import pushdown, pushdown_client
from overside.tasks.common import Machine

needs_namespaces = pytest.mark.skipif(
    network_path.unavailable("direct") is not None, reason="no network namespaces here"
)


def asked(**given: object) -> dict[str, Any]:
    return pushdown.TASK.normal(given)


def taken(directory: Path, **given: object) -> tuple[Path, list[dict[str, Any]]]:
    """A run of one short sample of each test, and the samples."""
    small = {"scale_factor": 0.01, "queries": 1, "selectivity": 5, **given}
    metrics = ["rate", "time", "link_bytes", "server_cpu", "client_cpu"]
    run = ran(short_box(directory, {"task": "pushdown", "parameters": small, "metrics": metrics}))
    lines = (run / "samples.jsonl").read_text().splitlines()
    return run, [json.loads(line) for line in lines]


def test_what_has_no_effect_is_left_out() -> None:
    assert asked(way="local") == asked(way="local", rate=1)
    assert asked() != asked(rate=1)


def test_a_condition_selects_its_share() -> None:
    assert pushdown_client.condition("scattered", 1, 1) == "l_partkey <= 2000"
    assert pushdown_client.condition("clustered", 0.1, 10) == "l_orderkey <= 60000"


def test_checksums_are_of_rows_whatever_their_order() -> None:
    table = pa.table({"a": [1, 2, 2], "b": ["x", None, "y"]})
    found = pushdown_client.checksum(table)
    assert found == pushdown_client.checksum(table.take([2, 0, 1]))
    assert found != pushdown_client.checksum(table.take([2, 2, 1]))
    assert found[0] == 3
    with duckdb.connect() as connection:
        empty = connection.sql("SELECT 1 AS a WHERE false").to_arrow_table()
    assert pushdown_client.checksum(empty) == (0, 0)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said = pushdown.TASK.unavailable(asked(cores=256), Machine())
    assert said is not None
    assert said.startswith("cores=256, and there are")
    monkeypatch.setattr(network_path, "unavailable", lambda _: None)
    assert pushdown.TASK.unavailable(asked(rate=1), Machine()) is None
    monkeypatch.setattr(network_path, "unavailable", lambda _: "no namespaces")
    assert pushdown.TASK.unavailable(asked(rate=1), Machine()) == "no namespaces"


def test_a_slow_link_delays_the_last_rows() -> None:
    late = pushdown_client.late_ns
    # 1 Gb/s moves a byte in 8 ns. What came at once has to wait for itself alone.
    assert late([(100, 7)], 1000, 1) == pytest.approx(8_000)
    # Both parts take 4,000 ns; the second comes when the first is there, or later.
    assert late([(0, 7), (1_000, 7)], 1000, 1) == pytest.approx(7_000)
    assert late([(0, 7), (9_000, 7)], 1000, 1) == pytest.approx(4_000)
    # A result without rows is messages.
    assert late([], 1000, 1) == late([(5, 0)], 1000, 1) == pytest.approx(8_000)


def test_a_wrong_result_is_a_failed_sample() -> None:
    with pytest.raises(ProcessError) as raised:
        pushdown._sample(asked(), {"queries": [], "wrong": "(1, 2) rows", "table_rows": 5})
    assert raised.value.kind == "verification"


@needs_namespaces
def test_ways_are_measured_side_by_side(tmp_path: Path) -> None:
    run, found = taken(tmp_path, way=["pushdown", "whole-table", "local"], selectivity=[1, 5])
    assert len(found) == 6
    moved: dict[str, float] = {}
    for sample in found:
        assert (sample["status"], sample["provenance"]) == ("ok", "measured"), sample
        metrics, way = sample["metrics"], sample["applied"]["variant"]
        assert metrics["rate"] == pytest.approx(60_175 / metrics["time"] * 1e3)
        assert metrics["time"] > 0
        if way == "local":
            assert set(metrics) == {"rate", "time", "server_cpu"}
        else:
            moved[way] = max(moved.get(way, 0), metrics["link_bytes"])
    # A twentieth of the rows, and what surrounds them.
    assert moved["pushdown"] < moved["whole-table"] / 8
    (group,) = groups(load_run(run))
    assert group.title == "Filter on a served table, rows scattered over the file"
    page = (run / "report.html").read_text()
    assert "against rows that are selected" in page
    assert "columns and filter pushed down" in page


@needs_namespaces
def test_a_link_has_the_rate_that_it_is_given(tmp_path: Path) -> None:
    run, found = taken(tmp_path, way=["whole-table", "pushdown"], rate=[0.05, 1])
    times = {}
    for sample in found:
        assert sample["status"] == "ok", sample
        assert (sample["provenance"], sample["timing"]) == ("emulated", "virtual")
        rate = 0.05 if "a virtual link of 0.05 Gb/s" in sample["applied"]["device"] else 1.0
        metrics, way = sample["metrics"], sample["applied"]["variant"]
        times[rate, way] = metrics["time"]
        # Bits by rate, in milliseconds, is the least that any link takes.
        assert metrics["time"] >= metrics["link_bytes"] * 8 / rate / 1e6
        for name, (low, high) in sample["bounds"].items():
            assert low <= metrics[name] <= high, name
    assert len(times) == 4
    # The whole table is 7 MB, which take 1.1 s at 0.05 Gb/s.
    assert times[0.05, "whole-table"] > 1_000
    assert times[0.05, "whole-table"] > 4 * times[0.05, "pushdown"]
    assert "against link, gb/s" in (run / "report.html").read_text().lower()
