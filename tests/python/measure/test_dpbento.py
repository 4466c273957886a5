"""Boxes of dpBento are read unmodified, and nothing in them disappears."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import Json
from overside.bench import dpbento
from overside.bench.dpbento_tasks import size_bytes
from overside.bench.problems import InvalidBoxError
from overside.plugins.scripts import SCRIPTS

HERE = Path(__file__).parent / "plugins"
SHARED = Path(
    os.environ.get("OVERSIDE_SHARED", Path(__file__).resolve().parents[3].parent / "shared")
)
SHIPPED = sorted((SHARED / "boxes" / "dpbento").glob("*.json"))


def load(path: Path) -> Json:
    value = json.loads(path.read_text())
    assert dpbento.is_dpbento(value)
    return dpbento.load(value, path)


def read(value: Json) -> Json:
    return dpbento.load(value, Path("/nowhere/box.json"))


def count(entry: Json) -> int:
    return math.prod(len(values) for values in entry["parameters"].values())


@pytest.mark.skipif(not SHIPPED, reason=f"no boxes of dpBento in {SHARED}/boxes/dpbento")
def test_shipped_boxes_load() -> None:
    for path in SHIPPED:
        form = load(path)
        assert form["tasks"], path
        for entry in form["tasks"]:
            assert count(entry) >= 1
            assert set(entry) <= {
                *("task", "description", "parameters", "exclude", "metrics", "skip", "pointer"),
            }


@pytest.mark.skipif(not SHIPPED, reason=f"no boxes of dpBento in {SHARED}/boxes/dpbento")
@pytest.mark.parametrize(
    ("name", "tests", "skipped"),
    [
        # operation_type x distribution x thread
        ("KVS-bf3_test", 8, 8),
        ("KVS-host_test", 12, 12),
        ("RDB-rdb_test", 44, 44),
        ("storage_test-storage_test", 20, 20),
        # five sizes by read and write by order
        ("memory_test-memory_test", 20, 0),
        # each item is a test of its own where no plug-in takes them together
        ("compute-test", 2, 2),
        ("communication-communication_test", 2, 2),
        ("ML-test", 10, 10),
        # ten sizes by three items; threaded-single is what single is here
        ("compression-compression_test", 30, 10),
        ("regex-test", 20, 0),
        # two sizes by two items; doca_sha256 needs a DPU
        ("hashing-hashing_test", 4, 2),
    ],
)
def test_every_test_of_a_shipped_box_exists(name: str, tests: int, skipped: int) -> None:
    entries = load(SHARED / "boxes" / "dpbento" / f"{name}.json")["tasks"]
    assert sum(count(entry) for entry in entries) == tests
    assert sum(count(entry) for entry in entries if "skip" in entry) == skipped


def test_the_form_of_the_repository() -> None:
    form = load(HERE / "boxes" / "classes.json")
    assert form["name"] == "classes"
    run = [entry for entry in form["tasks"] if "skip" not in entry]
    assert [(entry["task"], entry["parameters"]["buffer_size"]) for entry in run] == [
        ("compress", [4096, 65536]),
        ("decompress", [4096, 65536]),
        ("hash", [64, 4096]),
    ]
    assert run[0]["metrics"] == ["latency_mean"]
    assert run[0]["pointer"] == "/benchmarks/0"
    assert run[0]["description"] == "One buffer after the other"
    assert run[2]["parameters"]["algorithm"] == ["sha256"]


def test_what_cannot_run_is_skipped_with_its_reason() -> None:
    form = load(HERE / "boxes" / "classes.json")
    skipped = {
        (entry["task"], str(entry["parameters"].get("benchmark_items", [""])[0])): entry
        for entry in form["tasks"]
        if "skip" in entry
    }
    assert "same as `single`" in (skipped["compression", "threaded-single"]["skip"])
    assert "needs a DPU's compression engine" in skipped["compression", "doca"]["skip"]
    assert skipped["compression", ""]["skip"].startswith("data_size '3 parsecs': is no size")
    assert skipped["compression", ""]["parameters"]["data_size"] == ["3 parsecs"]
    assert skipped["hasing", ""]["parameters"]["misalign"] == [1]
    kvs = skipped["KVS_Octeon", "rocksdb"]
    assert "the class KVS is not built in yet" in kvs["skip"]
    assert "plugins/KVS" in kvs["skip"]
    assert kvs["parameters"]["operation_type"] == [[1, 0, 0, 0], [0.5, 0.5, 0, 0]]
    assert "nothing implements the class 'teleport'" in skipped["teleport", ""]["skip"]
    assert count(skipped["teleport", ""]) == 2


def test_what_is_not_used_is_warned_about_with_its_place() -> None:
    warnings = {
        w["pointer"]: w["message"] for w in load(HERE / "boxes" / "classes.json")["warnings"]
    }
    assert set(warnings) == {
        "/output_dir",
        "/benchmarks/0/parameters/block_size",
        "/benchmarks/0/metrics/1",
        "/benchmarks/3/wormhole",
        "/benchmarks/3/benchmark_class",
    }
    assert warnings["/benchmarks/3/wormhole"] == "unknown key 'wormhole', not used"


def test_the_form_of_the_paper() -> None:
    form = load(HERE / "boxes" / "paper.json")
    assert form["name"] == "as-the-paper-writes-boxes"
    run = [entry for entry in form["tasks"] if "skip" not in entry]
    assert {entry["task"] for entry in run} == {"match"}
    assert sorted(
        (entry["parameters"]["variant"][0], entry["parameters"]["threads"][0]) for entry in run
    ) == [("hyperscan", 1), ("hyperscan", 2), ("re2", 1), ("re2", 2)]
    (network,) = [entry for entry in form["tasks"] if "skip" in entry]
    assert (network["task"], network["parameters"]) == ("network", {"size": [64, 1500]})


@pytest.mark.parametrize("name", ["KVS_BF3", "KVS"])
def test_a_plugin_directory_goes_first(name: str, tmp_path: Path) -> None:
    """The directory of the class's own name, or of the name that it is a variant of."""
    folder = tmp_path / "plugins" / name
    folder.mkdir(parents=True)
    for script in SCRIPTS:
        (folder / script).touch()
    value = {
        "benchmarks": [
            {
                "benchmark_class": "KVS_BF3",
                "benchmark_items": ["rocksdb", "leveldb"],
                "parameters": {"thread": [1, 8], "thread_description": "how many", "aloud": True},
                "metrics": ["latency"],
            }
        ]
    }
    form = dpbento.load(value, tmp_path / "box.json")
    (entry,) = form["tasks"]
    assert entry["task"] == name
    assert "skip" not in entry
    # All items go into one call, and what is handed to the plug-in keeps its order.
    assert list(entry["parameters"].items()) == [
        ("benchmark_items", [["rocksdb", "leveldb"]]),
        ("thread", [1, 8]),
        ("thread_description", ["how many"]),
        ("aloud", [True]),
    ]
    assert entry["metrics"] == ["latency"]
    assert form["measure"]["rounds"] == 1


def test_without_items_a_plugin_gets_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "things"
    for name in ("b", "a", "my_env", "__pycache__", ".git"):
        (folder / name).mkdir(parents=True)
    for script in SCRIPTS:
        (folder / script).touch()
    form = dpbento.load({"benchmarks": [{"benchmark_class": "things"}]}, tmp_path / "box.json")
    assert form["tasks"][0]["parameters"] == {"benchmark_items": [["a", "b"]]}


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), (4096, 4096), ("4K", 4096), ("4k", 4096), ("1M", 1 << 20), ("2KB", 2000)],
)
def test_sizes(text: object, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "0", "1.5M", "2G", "1e9", True, None, [4]])
def test_what_is_no_size(text: object) -> None:
    with pytest.raises(ValueError, match=r"is no size|1 byte to 1 GiB"):
        size_bytes(text)


def test_minus_one_thread_is_all_cores() -> None:
    entry = {
        "benchmark_class": "compression",
        "benchmark_items": ["threading"],
        "parameters": {"threads": -1},
    }
    form = read({"benchmarks": [entry]})
    assert form["tasks"][0]["parameters"]["threads"] == ["all"]


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ({"benchmarks": []}, True),
        ({"tasks": [{"task_name": "x"}]}, True),
        ({"tasks": [{"task": "compress"}]}, False),
        ({"schema": "box/1", "tasks": [{"task_name": "x"}]}, False),
        ({}, False),
        ({"tasks": 3}, False),
    ],
)
def test_which_boxes_are_of_dpbento(value: Json, is_one: bool) -> None:
    assert dpbento.is_dpbento(value) is is_one


@pytest.mark.parametrize(
    ("value", "pointer", "message"),
    [
        ({"benchmarks": {}}, "/benchmarks", "must be a list"),
        ({"benchmarks": [3]}, "/benchmarks/0", "must be an object"),
        ({"benchmarks": [{}]}, "/benchmarks/0/task_name", "is missing"),
        (
            {"benchmarks": [{"benchmark_class": "x", "parameters": [1]}]},
            "/benchmarks/0/parameters",
            "must be an object",
        ),
        (
            {"benchmarks": [{"benchmark_class": "x", "parameters": {"a/b": [1]}}]},
            "/benchmarks/0/parameters/a~1b",
            "a parameter's name",
        ),
        (
            {"benchmarks": [{"benchmark_class": "x", "parameters": {"a": []}}]},
            "/benchmarks/0/parameters/a",
            "has no values",
        ),
        (
            {"benchmarks": [{"benchmark_class": "x", "parameters": {"a": {"b": 1}}}]},
            "/benchmarks/0/parameters/a",
            "must be a number, a text",
        ),
        (
            {
                "benchmarks": [
                    {
                        "benchmark_class": "x",
                        "parameters": {name: list(range(100)) for name in "abc"},
                    }
                ]
            },
            "/benchmarks/0",
            "more than 100000 tests",
        ),
    ],
)
def test_a_wrong_box_is_explained(value: Json, pointer: str, message: str) -> None:
    with pytest.raises(InvalidBoxError) as error:
        read(value)
    problem = error.value.problems[0]
    assert problem.pointer == pointer
    assert message in problem.message


def test_no_json_breaks_the_reader() -> None:
    dice = random.Random(7)
    words = [
        *("benchmark_class", "task_name", "parameters", "metrics", "benchmark_items"),
        *("compression", "regex", "hashing", "KVS", "operation", "data_size", "threads", "bytes"),
        *("algorithm", "single", "4K", "-1", "", "a/b~c", "x_description", "x"),
    ]

    def value(depth: int) -> Any:
        kind = dice.randrange(9 if depth < 4 else 6)
        if kind < 6:
            return [None, True, dice.randrange(-2, 99), 1.5, "", dice.choice(words)][kind]
        if kind < 8:
            return {dice.choice(words): value(depth + 1) for _ in range(dice.randrange(6))}
        return [value(depth + 1) for _ in range(dice.randrange(4))]

    for _ in range(3000):
        entry = {"benchmark_class": dice.choice(words)}
        for key in ("parameters", "metrics", "benchmark_items"):
            if dice.random() < 0.8:
                entry[key] = value(1)
        try:
            form = read({"benchmarks": [entry]})
        except InvalidBoxError:
            continue
        json.dumps(form)
        assert all(count(task) >= 1 for task in form["tasks"])


def test_a_copy_of_a_box_beside_its_tree_finds_its_plugins(tmp_path: Path) -> None:
    shutil.copytree(HERE / "tree", tmp_path / "tree")
    box = tmp_path / "tree" / "configs_user" / "counting" / "counting.json"
    box.parent.mkdir(parents=True)
    shutil.copy(HERE / "boxes" / "counting.json", box)
    (entry,) = load(box)["tasks"]
    assert entry["task"] == "counting"
    assert "skip" not in entry
