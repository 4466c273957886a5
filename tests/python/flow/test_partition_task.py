"""The task `partition`: tables are made, and unpacked, partitioned and packed for boxes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from command import ran, short_box
from overside import data
from overside.bench import box as boxes
from overside.bench.statistics import load_run
from overside.report.groups import groups
from overside.tasks import partition
from overside.tasks.common import Machine

STAGES = ("unpack", "partition", "repack")


def asked(**given: object) -> dict[str, Any]:
    return partition.TASK.normal(given)


def taken(directory: Path, *entries: dict[str, Any]) -> tuple[Path, list[dict[str, Any]]]:
    """A run of one short sample of each test, and the samples."""
    metrics = ["throughput", "time", "output_bytes", "ratio"]
    tasks = [
        {
            "task": "partition",
            "parameters": {"passes": 1} | given,
            "metrics": metrics,
        }
        for given in entries
    ]
    run = ran(short_box(directory, *tasks))
    lines = (run / "samples.jsonl").read_text().splitlines()
    return run, [json.loads(line) for line in lines]


def test_what_has_no_effect_is_left_out() -> None:
    assert asked() == asked(key="id", time="t", rows=1_000_000)
    assert asked(algorithm="none") == asked(algorithm="none", partitions=8, method="hash", key="x")
    assert asked(table="ships")["key"] == "MMSI"
    assert asked(partitions=8) != asked()


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    def said(**given: object) -> str | None:
        return partition.TASK.unavailable(asked(**given), Machine())

    assert said() is None
    assert said(partitions=6, method="hash") is None
    assert "no power of two" in (said(partitions=6) or "")
    assert "nor a file" in (said(table="absent.parquet") or "")
    assert "nothing is compressed" in (said(device="emulated:bf2") or "")
    assert "no such device" in (said(device="emulated:no", compression="lz4") or "")
    path = tmp_path / "table.parquet"
    path.touch()
    assert "needs a key" in (said(table=str(path)) or "")
    assert said(table=str(path), algorithm="none") is None
    assert "threads=unbounded" in (said(table=str(path), key="a", threads="unbounded") or "")


def test_threads_are_those_of_this_machine_or_of_the_columns() -> None:
    assert partition.threads(asked(threads="4")) == 4
    assert partition.threads(asked(threads="all")) == "all"
    assert partition.threads(asked(threads="unbounded")) == 20
    assert partition.threads(asked(table="ships", threads="unbounded")) == 34


def test_algorithms_are_measured_side_by_side(tmp_path: Path) -> None:
    run, found = taken(
        tmp_path,
        {
            "rows": 20_000,
            "algorithm": ["one-pass", "filters"],
            "partitions": [2, 8],
            "compression": "lz4",
        },
    )
    assert len(found) == 4
    checks = set()
    for sample in found:
        assert (sample["status"], sample["provenance"]) == ("ok", "measured"), sample
        metrics, work = sample["metrics"], sample["work"]
        assert work["bytes"] == 20_000 * 80
        stages = [metrics[f"{stage}_time"] for stage in STAGES]
        assert sum(stages) == pytest.approx(metrics["time"])
        assert metrics["throughput"] == pytest.approx(1.6e3 / metrics["time"])
        assert metrics["ratio"] == metrics["output_bytes"] / work["bytes"] < 1
        assert 1 <= metrics["imbalance"] < 1.2
        assert "other algorithm" in sample["check"]["method"]
        checks.add(sample["check"]["value"])
    # Batches are cut otherwise.
    assert len(checks) == 4
    (group,) = groups(load_run(run))
    assert group.title == "Partition particles"
    page = (run / "report.html").read_text()
    assert "against partitions" in page
    assert "Where the time goes" in page


def test_an_engine_takes_messages_from_two_threads(tmp_path: Path) -> None:
    _, found = taken(
        tmp_path,
        {
            "table": "ships",
            "rows": 20_000,
            "algorithm": "none",
            "compression": "outer-deflate",
            "device": "emulated:bf2",
            "threads": ["1", "2"],
        },
        {"rows": 20_000, "algorithm": "none", "compression": "zstd", "device": "emulated:bf2"},
    )
    *engine, skipped = sorted(found, key=lambda sample: sample["status"] == "skipped")
    assert len(engine) == 2
    for sample in engine:
        assert (sample["status"], sample["provenance"]) == ("ok", "emulated"), sample
        assert (sample["timing"], sample["applied"]["device"]) == ("virtual", "emulated:bf2")
        assert sample["cpu"]["emulator_s"] > 0
        assert "partition_time" not in sample["metrics"]
    assert "does nothing of it" in skipped["reason"]


def test_files_are_enlarged(tmp_path: Path) -> None:
    table = pa.table({"a": range(1000), "b": [float(i) for i in range(1000)]})
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(table, path)
    file = {"table": str(path), "key": "a", "method": "hash", "partitions": 3}
    _, found = taken(tmp_path, file, file | {"rows": 2500})
    rows = {sample["work"]["bytes"] // 16 for sample in found}
    assert rows == {1000, 2500}
    assert [entry for entry in data.cache.cached() if "-2500-" in entry.key]


def test_ready_made_boxes_fit() -> None:
    here = boxes.machine()
    for name in ("partition", "partition-compression", "partition-offload"):
        assert boxes.load(name, (), here).tasks, name
