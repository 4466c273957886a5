"""Boxes as users meet them: what is wrong with one, what it stands for, in which order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Json, overside, planned, short_box, tiny_box, write_box
from syrupy.assertion import SnapshotAssertion

WRONG = {
    "schema": "box/1",
    "name": "wrong",
    "tasks": [
        {"task": "compres"},
        {
            "task": "match",
            "parameters": {
                "device": ["bf2", "cpuu", "emulated:bf2"],
                "variant": "hyperscam",
                "kindd": "count",
                "levle": 3,
                "buffer_size": [0, "4K", True],
                "data": "silesa",
                "patterns": [["fine", 3]],
                "cores": 1,
            },
            "metrics": ["thruput", "throughput"],
        },
    ],
    "nodes": ["dpu0"],
}


def test_everything_that_is_wrong_is_said_at_once(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    write_box(tmp_path, WRONG, "wrong.json")
    done = overside("validate", "wrong.json", cwd=tmp_path, code=2)
    assert done.stdout == ""
    assert done.stderr == snapshot
    for verb in ("run", "plan"):
        again = overside(verb, "wrong.json", cwd=tmp_path, code=2)
        assert again.stderr.replace(f"overside {verb}", "overside validate") == done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
def test_problems_as_json_have_pointers_and_suggestions(tmp_path: Path, verb: str) -> None:
    write_box(tmp_path, WRONG, "wrong.json")
    done = overside(verb, "wrong.json", "--json", cwd=tmp_path, code=2)
    assert "wrong.json: 14 problems" in done.stderr
    answer = json.loads(done.stdout)
    assert answer["schema"] == "error/1"
    assert answer["valid"] is False
    found = {problem["pointer"]: problem["suggestion"] for problem in answer["problems"]}
    assert found["/tasks/0/task"] == "compress"
    assert found["/tasks/1/metrics/0"] == "throughput"
    assert found["/tasks/1/parameters/data"] == "silesia"


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
def test_a_pattern_that_does_not_compile_is_found_before_anything_runs(
    tmp_path: Path, verb: str
) -> None:
    patterns = [["q1", "fine"], ["[a-z]+", "a(b"], "x{9999}"]
    match = {"task": "match", "parameters": {"patterns": patterns, "data": "noise"}}
    path = short_box(tmp_path, {"task": "copy", "parameters": {"data": "noise"}}, match)
    done = overside(verb, path, cwd=tmp_path, code=2)
    place = "/tasks/1/parameters/patterns: "
    first, second = (line for line in done.stderr.splitlines() if place in line)
    assert 'pattern "a(b" does not compile' in first
    assert 'pattern "x{9999}" does not compile' in second
    assert not (tmp_path / "results").exists()
    done = overside("plan", path, "--set", "match.patterns=a[", cwd=tmp_path, code=2)
    assert f'{place}pattern "a[" does not compile' in done.stderr


def test_a_syntax_error_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"schema": "box/1",\n "name": }')
    done = overside("validate", "broken.json", cwd=tmp_path, code=2)
    assert "line 2" in done.stderr
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{")
    assert "not UTF-8" in overside("validate", "bytes.json", cwd=tmp_path, code=2).stderr


@pytest.mark.parametrize(
    ("name", "hint"),
    [("quikc", "did you mean 'quick'"), ("nowhere/x.json", "overside list boxes")],
)
def test_a_box_that_is_not_there(tmp_path: Path, name: str, hint: str) -> None:
    done = overside("plan", name, cwd=tmp_path, code=2)
    assert f"there is no box {name}" in done.stderr
    assert hint in done.stderr


@pytest.mark.begun_first
def test_ready_made_boxes_are_valid_and_found_by_name(tmp_path: Path) -> None:
    listed = json.loads(overside("list", "boxes", "--json", cwd=tmp_path).stdout)
    names = [box["name"] for box in listed["boxes"]]
    assert "quick" in names
    for name in names:
        overside("validate", name, cwd=tmp_path, code=0)


PLANNED = {
    "schema": "box/1",
    "name": "planned",
    "tasks": [
        {
            "task": "compress",
            "parameters": {
                "device": ["cpu", "emulated:bf2", "emulated:bf3"],
                "variant": ["zlib", "libdeflate"],
                "buffer_size": {"pow2": [12, 13]},
                "timing": ["replay", "paced"],
                "data": "noise",
            },
            "exclude": [{"device": ["emulated:bf2", "emulated:bf3"], "variant": "libdeflate"}],
        },
        {"task": "copy", "parameters": {"batch": [64, 128], "depth": [8, 16], "data": "noise"}},
    ],
    "measure": {"rounds": 6, "sample_s": 0.5},
}


def test_plan_shows_tests_order_and_time(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    write_box(tmp_path, PLANNED, "planned.json")
    own = str(tmp_path / "cache")
    done = overside("plan", "planned.json", cwd=tmp_path, code=0, OVERSIDE_CACHE=own)
    assert done.stdout == snapshot
    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "cache").exists(), "nothing is made"


def plan(directory: Path, *words: str) -> Json:
    """The plan of the box `planned`."""
    write_box(directory, PLANNED, "planned.json")
    done = overside("plan", "planned.json", "--json", *words, cwd=directory, code=0)
    answer: Json = json.loads(done.stdout)
    return answer


def test_what_has_no_effect_makes_no_further_test(tmp_path: Path) -> None:
    tests = plan(tmp_path)["tests"]
    cpu = [t for t in tests if t["task"] == "compress" and t["parameters"]["device"] == "cpu"]
    assert len(cpu) == 4, "a real device has no emulated timing"
    copies = [test["parameters"] for test in tests if test["task"] == "copy"]
    assert [(p["batch"], p["depth"]) for p in copies] == [(8, 8), (16, 16)]


def test_what_is_compared_stands_together(tmp_path: Path) -> None:
    tests = [test for test in plan(tmp_path)["tests"] if test["task"] == "compress"]
    sizes = [test["parameters"]["buffer_size"] for test in tests]
    assert sizes == sorted(sizes), "devices, libraries and timings of one size are neighbours"


def test_a_test_has_the_same_name_in_every_run(tmp_path: Path) -> None:
    tests = plan(tmp_path)["tests"]
    assert len({test["id"] for test in tests}) == len(tests)
    narrowed = plan(tmp_path, "--set", "copy.depth=16", "--set", "measure.rounds=9")
    assert narrowed["rounds"] == 9
    (copy,) = [test["id"] for test in narrowed["tests"] if test["task"] == "copy"]
    assert copy in [test["id"] for test in tests]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "copy.dept=3"), "did you mean 'depth'?"),
        (("--set", "cpy.depth=3"), "did you mean copy?"),
        (("--set", "depth=3"), "write task.parameter=value"),
        (("--set", "measure.rounds=0"), "0 is too small, the least is 1"),
        (("--set", "measure.round=3"), "did you mean measure.rounds?"),
        (("--set", "mesure.rounds=3"), "did you mean measure?"),
        (("--filter", "depth"), "not KEY=GLOB"),
        (("--filter", "dept=8"), "did you mean depth?"),
        (("--filter", "colour=red"), "filter by batch, buffer_size, "),
        (("--filter", "patterns=q1"), "no task of the box has a parameter patterns"),
    ],
)
def test_changes_that_make_no_sense(tmp_path: Path, words: tuple[str, str], message: str) -> None:
    write_box(tmp_path, PLANNED, "planned.json")
    assert message in overside("plan", "planned.json", *words, cwd=tmp_path, code=2).stderr


def test_large_boxes_are_cut_into_blocks_of_at_most_128_tests(tmp_path: Path) -> None:
    box = json.loads(tiny_box(tmp_path).read_text())
    box["tasks"][1]["parameters"] |= {
        "variant": ["zlib", "libdeflate", "isal"],
        "buffer_size": [4096 + i for i in range(100)],
    }
    write_box(tmp_path, box)
    blocks: dict[int, list[Json]] = {}
    for test in planned(tmp_path / "tiny.json"):
        blocks.setdefault(test["block"], []).append(test["parameters"])
    assert [len(block) for block in blocks.values()] == [2, 126, 126, 48]
    for block in list(blocks.values())[1:]:
        sizes = [parameters["buffer_size"] for parameters in block]
        assert all(sizes.count(size) == 3 for size in sizes), "no comparison is torn apart"


def test_more_patterns_than_a_matcher_takes_are_refused(tmp_path: Path) -> None:
    patterns = [[f"a{i}" for i in range(1001)]]
    path = short_box(tmp_path, {"task": "match", "parameters": {"patterns": patterns}})
    done = overside("validate", path, cwd=tmp_path, code=2)
    assert "/tasks/0/parameters/patterns: a list of 1001 values is too long" in done.stderr


def test_a_plan_says_which_tests_depend_on_their_data(tmp_path: Path) -> None:
    parameters = {
        "device": ["cpu", "emulated:bf3"],
        "buffer_size": {"pow2": [20, 22]},
        "data": "noise",
    }
    path = short_box(tmp_path, {"task": "decompress", "parameters": parameters})
    found = {
        (test["parameters"]["device"], test["parameters"]["buffer_size"] >> 20): (
            test["status"],
            "doubt" in test,
        )
        for test in planned(path)
    }
    # What does not shrink is longer than the 2 MiB that the card takes; what does may fit.
    assert found == {
        ("cpu", 1): ("planned", False),
        ("cpu", 2): ("planned", False),
        ("cpu", 4): ("planned", False),
        ("emulated:bf3", 1): ("planned", False),
        ("emulated:bf3", 2): ("planned", True),
        ("emulated:bf3", 4): ("skipped", False),
    }
    text = overside("plan", path, cwd=tmp_path, code=0).stdout
    assert "may be skipped: emulated:bf3 takes at most 2097152 bytes" in text
    assert "5 of 6 tests" in text
    assert "1 of these may be skipped" in text
    overside(
        *("run", path, "--filter", "device=emu*", "--filter", "buffer_size=2097152"),
        cwd=tmp_path,
        code=3,
    )


def test_devices_of_other_machines_are_skipped_not_refused(tmp_path: Path) -> None:
    devices = ["dpdk:compress_isal", "dpu0/dpdk:mlx5_0", "cpu"]
    path = short_box(
        tmp_path, {"task": "copy", "parameters": {"device": devices, "buffer_size": 4096}}
    )
    status = {test["parameters"]["device"]: test["status"] for test in planned(path)}
    assert status == {devices[0]: "skipped", devices[1]: "skipped", "cpu": "planned"}
    overside("run", path, "--filter", "device=dp*", cwd=tmp_path, code=3)
