"""Boxes of tasks without a device's queue and without data: memory, and bare calls of hashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import Json, manifest, only_run, overside, planned, samples, short_box
from overside.bench import box
from overside.bench.statistics import load_run
from overside.report import view_model
from overside.tasks.hash import TASK as HASH
from overside.tasks.memory import TASK

SIZES = [16384, 65536]


def entry(task: str, *metrics: str, **parameters: Any) -> Json:
    return {"task": task, "parameters": parameters, "metrics": list(metrics)}


#: Both tasks.
ENTRIES = [
    entry(*("memory", "read_latency", "dtlb_misses"), buffer_size=SIZES, pages=["system", "small"]),
    entry(
        *("memory", "bandwidth"),
        pattern="stream",
        kernel=["copy", "triad"],
        buffer_size=65536,
        threads=[1, 2],
    ),
    entry(
        *("memory", "access_time"),
        pattern="access",
        access=["read", "write"],
        order=["sequential", "random"],
        buffer_size=SIZES,
    ),
    entry(
        *("hash", "call_latency", "call_bandwidth"),
        algorithm=["md5", "city-64"],
        calls=["chain", "row"],
        buffer_size=16,
    ),
]


def test_a_box_of_the_machine_itself_runs_and_is_reported(tmp_path: Path) -> None:
    path = short_box(tmp_path, *ENTRIES, rounds=2, sample_s=0.002)
    assert len(planned(path)) == 4 + 4 + 8 + 4
    done = overside("run", "tiny.json", cwd=tmp_path, code=0)
    text = " ".join((done.stdout + done.stderr).split())
    for words in ("for one read", "STREAM [MEASURED]: peak", "for one call"):
        assert words in text, words
    run = only_run(tmp_path)
    assert manifest(run)["data"] == []
    # One figure a label: what tells tests apart, as the number of threads, stands in it.
    labels = [
        (row.operation, row.how, row.size_bytes, row.parameters)
        for row in view_model.of_figures(load_run(run))
    ]
    assert len(labels) == len(set(labels)) == 20
    assert {how for _, how, _, _ in labels} >= {"Triad, 1 thread", "Triad, 2 threads"}
    taken = samples(run)
    assert len(taken) == 2 * 20
    assert all(sample["provenance"] == "measured" for sample in taken)
    assert all(sample["applied"]["device"] == "cpu" for sample in taken)
    assert all(sample["check"]["buffers"] > 0 for sample in taken)
    page = (run / "report.html").read_text()
    for words in (
        "Dependent (pointer-chasing) memory reads",
        "Read latency against buffer size",
        "Bandwidth with 64 KiB",
        "Random writes",
        "Call latency with 16 B",
        "CityHash, 64 bits",
    ):
        assert words in page, words
    overside("report", run, "--format", "md", cwd=tmp_path, code=0)
    overside("report", run, "--format", "csv", cwd=tmp_path, code=0)
    answer = json.loads(overside("compare", run, run, "--json", cwd=tmp_path).stdout)
    assert answer


def test_a_test_of_memory_has_only_what_its_pattern_has() -> None:
    chase = TASK.normal({"kernel": "add", "order": "random"})
    assert chase["kernel"] is chase["access"] is chase["order"] is None
    assert TASK.normal({"pattern": "stream"})["kernel"] == "copy"
    access = TASK.normal({"pattern": "access", "kernel": "add", "access": "write"})
    assert (access["access"], access["order"], access["kernel"]) == ("write", "sequential", None)
    assert TASK.test(access)["kind"] == "memory"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"buffer_size": 100}, "128 bytes or more, in multiples of 64, not 100"),
        ({"pattern": "stream", "buffer_size": 12}, "in multiples of 8"),
        ({"pattern": "access", "order": "random", "buffer_size": 24000}, "power of two"),
    ],
)
def test_what_a_pattern_cannot_do_is_skipped_with_the_reason(parameters: Json, words: str) -> None:
    reason = TASK.unavailable(TASK.normal(parameters), box.machine())
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize("name", ["memory", "hash"])
def test_the_ready_made_boxes_are_planned_whole(name: str, tmp_path: Path) -> None:
    tests = planned(name, cwd=tmp_path)
    assert len(tests) == {"memory": 66, "hash": 40}[name]
    assert {test["status"] for test in tests} == {"planned"}


def test_hash_calls_have_no_queue_and_no_data() -> None:
    calls = HASH.normal({"calls": "chain", "device": "cpu", "depth": 16, "data": "noise"})
    assert {name for name, value in calls.items() if value is not None} == {
        *("algorithm", "variant", "buffer_size", "calls")
    }
    assert HASH.normal({"device": "cpu"})["depth"] == 16
    reason = HASH.unavailable(calls | {"variant": "teleport"}, box.machine())
    assert reason == "there is no teleport for hash-xxh3; there is xxhash"
