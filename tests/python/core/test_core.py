"""The native module: what crosses between Python and Rust, and how it refuses."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from overside import _core


@pytest.fixture
def copy_test(tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "data"
    file.write_bytes(b"said three times " * 4096)
    return {
        "device": "cpu",
        "operation": "copy",
        "buffer_size": 4096,
        "depth": 4,
        "batch": 2,
        "data": {"name": "made", "files": [str(file)], "sample_bytes": 65536},
        "warmup_s": 0.0,
        "sample_s": 0.001,
        "timeout_s": 10,
        "seed": 1,
    }


def test_a_test_becomes_a_sample(copy_test: dict[str, Any]) -> None:
    sample = json.loads(_core.Worker().measure(json.dumps(copy_test)))
    assert sample["status"] == "ok"
    assert sample["applied"]["device"] == "cpu"
    assert sample["metrics"]["throughput"] > 0
    merged = json.loads(_core.merge_histograms([sample["histogram"]] * 2))
    assert merged["count"] == 2 * sample["work"]["jobs"]
    assert merged["min_ns"] <= merged["p50_ns"] <= merged["p999_ns"] <= merged["max_ns"]
    assert merged["curve"][0][0] == 0
    assert merged["curve"][-1][0] == 1


def test_what_is_no_test_is_a_value_error(copy_test: dict[str, Any]) -> None:
    worker = _core.Worker()
    for text in ["", "[]", "\0", json.dumps(copy_test | {"depht": 3})]:
        with pytest.raises(ValueError, match="not a test"):
            worker.measure(text)
    with pytest.raises(ValueError, match="depth is 0"):
        worker.measure(json.dumps(copy_test | {"depth": 0}))
    # The worker is none the worse for it.
    assert json.loads(worker.measure(json.dumps(copy_test)))["status"] == "ok"


def test_other_threads_run_while_it_measures(copy_test: dict[str, Any]) -> None:
    worker = _core.Worker()
    test = json.dumps(copy_test | {"sample_s": 0.3, "completion": "event"})
    measuring = threading.Thread(target=worker.measure, args=(test,))
    measuring.start()
    turns = 0
    while measuring.is_alive():
        turns += 1
        measuring.join(0.001)
    assert turns > 5


def test_boxes_are_read_or_all_that_is_wrong_is_told() -> None:
    box = {"schema": "box/1", "name": "one", "tasks": [{"task": "copy", "parameters": {}}]}
    parsed = json.loads(_core.parse_box(json.dumps(box)))
    assert parsed["measure"]["rounds"] == 6
    with pytest.raises(_core.BoxError) as caught:
        _core.parse_box(json.dumps(box | {"tsaks": 1}))
    assert isinstance(caught.value, ValueError)
    [problem] = json.loads(str(caught.value))
    assert problem["pointer"] == "/tsaks"
    assert problem["suggestion"] == "tasks"
    assert json.loads(_core.box_schema())["$schema"].startswith("https://json-schema.org/")
    assert _core.suggest("copmress", ["compress", "match"]) == "compress"
    assert _core.suggest("zzz", ["compress", "match"]) is None


def test_devices_operations_and_profiles_are_told() -> None:
    backends = {one["prefix"]: one for one in json.loads(_core.backends())}
    assert list(backends) == ["cpu", "emulated", "dpdk", "*/"]
    assert backends["cpu"]["cost"] is None
    assert backends["dpdk"]["wildcard"] == "dpdk:*"
    listed = [*json.loads(_core.devices("cpu")), *json.loads(_core.devices("emulated"))]
    devices = {device["name"]: device for device in listed}
    assert devices["cpu"]["unavailable"] is None
    assert devices["cpu"]["provenance"] == "measured"
    assert devices["emulated:bf2"]["timing"] == "replay"
    operations = {one["operation"]: one["variants"] for one in json.loads(_core.variants())}
    assert {variant["name"] for variant in operations["compress-deflate"]} >= {"zlib", "libdeflate"}
    zlib = next(one for one in operations["compress-deflate"] if one["name"] == "zlib")
    low, high = zlib["levels"]
    assert low <= zlib["default_level"] <= high
    assert operations["copy"][0]["levels"] is None
    assert {profile["name"] for profile in json.loads(_core.profiles())} >= {"bf2", "bf3"}


def test_what_is_no_histogram_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="histogram 0"):
        _core.merge_histograms(["nonsense"])
    with pytest.raises(TypeError):
        _core.merge_histograms([1])  # type: ignore[list-item]


def test_what_is_wrong_with_patterns_is_said_before_they_are_used() -> None:
    assert _core.pattern_problem(["on (.+) at (.+)", "[0-9]+"]) is None
    problem = _core.pattern_problem(["fine", "a(b"])
    assert problem is not None
    assert problem.startswith('pattern "a(b" does not compile: ')
    assert "at least one pattern" in (_core.pattern_problem([]) or "")
    assert "longer than 1000 bytes" in (_core.pattern_problem(["a" * 1001]) or "")
