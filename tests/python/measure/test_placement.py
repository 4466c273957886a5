"""Placements in boxes: which values they have, which tests come of them, what is skipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import overside, planned, short_box
from overside import _core
from overside.bench import plan
from overside.tasks import find
from overside.tasks.common import Machine


def box(directory: Path, **changes: Any) -> Path:
    """Every placement of one work."""
    parameters = {
        "device": "emulated:bf2",
        "placement": ["cpu", "split:50", "device", "adaptive"],
        "setting": ["static", "reconfiguration"],
        "buffer_size": 16384,
        "sample_bytes": 131072,
        "data": "system",
        **changes,
    }
    metrics = ["throughput", "device_share"]
    return short_box(
        directory, {"task": "decompress", "parameters": parameters, "metrics": metrics}
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("cpu", "cpu"),
        ("device", "device"),
        ("adaptive", "adaptive"),
        ("split:40", "split:40"),
        ("split:040.50", "split:40.5"),
        ("split:0", "cpu"),
        ("split:100.0", "device"),
        ("split:10+80", "split:10+80"),
        ("split:10+90", "split:10+90"),
        ("split:0+0", "cpu"),
    ],
)
def test_a_placement_has_one_way_to_be_written(text: str, canonical: str) -> None:
    assert _core.placement(text) == canonical


@pytest.mark.parametrize("text", ["", "gpu", "split", "split:", "split:101", "split:-1", "split:x"])
def test_what_is_no_placement_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"placement|percentage"):
        _core.placement(text)


def normal(**given: Any) -> dict[str, Any]:
    task = find("decompress")
    assert task is not None
    return task.normal({"device": "emulated:bf2", "data": "system", **given})


def test_what_a_target_does_without_is_not_part_of_the_test() -> None:
    alone = normal(placement="cpu", threads=2, depth=7)
    # On the clock of the placements that it is compared with.
    assert (alone["device"], alone["depth"], alone["timing"]) == ("cpu", None, "virtual")
    assert normal(placement="cpu", timing="paced")["timing"] is None
    assert normal(device="dpdk:compress_isal", placement="cpu")["timing"] is None
    assert (alone["variant"], alone["threads"]) == ("auto", 2)
    # The same whatever the device beside it is: one test, not two.
    assert alone == normal(device="emulated:bf3", placement="cpu", threads=2)
    device = normal(placement="device", threads=2, cpu_variant="zlib")
    assert (device["threads"], device["cpu_variant"], device["depth"]) == (1, None, 16)
    split = normal(placement="split:50", threads=2, cpu_variant="zlib")
    assert (split["threads"], split["cpu_variant"], split["timing"]) == (2, "zlib", "virtual")
    # Other than without a placement, jobs stay in flight in the reconfiguration setting.
    assert normal(placement="split:50", setting="reconfiguration")["depth"] == 16
    without = normal(cpu_variant="zlib")
    assert (without["placement"], without["cpu_variant"], without["batch"]) == (None, None, 16)


def test_all_placements_of_one_work_stand_in_one_block_and_are_compared(tmp_path: Path) -> None:
    tests = planned(box(tmp_path))
    assert len(tests) == 8
    assert {test["block"] for test in tests} == {0}
    groups = {plan.Test.from_json(test).group for test in tests}
    assert len(groups) == 2, "one each setting"


def test_a_box_says_which_placement_is_wrong(tmp_path: Path) -> None:
    path = box(tmp_path, placement=["cpu", "split:140"], cpu_variant="zlip")
    error = overside("validate", path, cwd=tmp_path, code=2).stderr
    assert '/tasks/0/parameters/placement: "140" is not a percentage from 0 to 100' in error
    assert "did you mean 'zlib'?" in error


def test_each_target_must_be_able() -> None:
    def device(name: str, *variants: str) -> dict[str, Any]:
        capability = {
            "operation": "decompress-deflate",
            "variants": list(variants),
            "max_source_bytes": 1 << 20,
            "max_destination_bytes": 1 << 20,
            "max_depth": 16,
            "event": False,
        }
        return {"name": name, "unavailable": None, "capabilities": [capability] if variants else []}

    task = find("decompress")
    assert task is not None
    machine = Machine(devices=[device("cpu", "zlib"), device("emulated:bf2", "x"), device("none")])

    def why(**given: Any) -> str | None:
        return task.unavailable(task.normal({"data": "system", **given}), machine)

    assert why(device="emulated:bf2", placement="split:50") is None
    assert why(device="none", placement="cpu") is None
    assert why(device="none", placement="adaptive") == "none cannot do decompress-deflate"
    wrong = why(device="emulated:bf2", placement="split:50", cpu_variant="isal")
    assert wrong == "cpu has no isal for decompress-deflate; it has zlib"
    assert why(device="emulated:bf2", placement="device", cpu_variant="isal") is None


def test_a_sweep_is_measured_and_reported(tmp_path: Path) -> None:
    done = overside("run", box(tmp_path), "--out", "runs", "--json", cwd=tmp_path)
    view = json.loads(done.stdout)
    # Where others keep the machine busy, emulated timing may be invalid.
    assert {test["status"] for test in view["tests"]} <= {"ok", "invalid"}
    by_placement = {
        (test["parameters"]["placement"], test["parameters"]["setting"]): test
        for test in view["tests"]
    }
    split = by_placement["split:50", "static"]
    assert split["provenance"] == "emulated"
    assert split["metrics"]["device_share"]["median"] == pytest.approx(50, abs=13)
    alone = by_placement["cpu", "static"]
    assert (alone["provenance"], alone["timing"]) == ("measured", "virtual")
    assert alone["metrics"]["wall_throughput"]["median"] > 0
    anew = by_placement["device", "reconfiguration"]["placement"]
    assert anew["devices"][0]["setups"] == anew["streams"] >= 1
    run = next((tmp_path / "runs").iterdir())
    page = (run / "report.html").read_text()
    assert "Sharing work between CPU and device" in page


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("coprocessing-compress-deflate", {"cpu", "emulated:bf2"}),
        ("coprocessing-decompress-lz4-soc", {"cpu", "emulated:bf3-soc"}),
        ("coprocessing-match", {"cpu", "emulated:bf2"}),
    ],
)
def test_ready_made_sweeps_run_and_say_what_a_card_cannot_do(
    tmp_path: Path, name: str, there: set[str]
) -> None:
    task = name.split("-")[1]
    small = {
        "measure.rounds": 1,
        "measure.warmup_s": 0,
        "measure.sample_s": 0.02,
        f"{task}.sample_bytes": 524288,
        f"{task}.data": "accidents" if task == "match" else "system",
    }
    words = [word for key, value in small.items() for word in ("--set", f"{key}={value}")]
    words += ["--filter", "placement=cpu,split:50,device,adaptive"]
    done = overside("run", name, *words, "--json", cwd=tmp_path, code=0)
    tests = json.loads(done.stdout)["tests"]
    measured = [test for test in tests if test["status"] in ("ok", "invalid")]
    assert {test["parameters"]["device"] for test in measured} == there
    skipped = [t for t in tests if t["status"] == "skipped"]
    assert skipped
    assert all("cannot do" in t["reason"] for t in skipped)
    settings = {(t["parameters"]["placement"], t["parameters"]["setting"]) for t in tests}
    assert len(settings) == 8
