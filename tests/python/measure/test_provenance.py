"""Provenance of the samples of tasks that run programs: no emulated device takes part in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import ran, short_box
from overside import tasks
from overside.tasks import rdma
from overside.tasks.common import ExternalTask, Machine

EXTERNAL = [name for name in tasks.NAMES if isinstance(tasks.find(name), ExternalTask)]


def samples_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]


def test_no_parameter_of_theirs_names_a_device_that_may_be_emulated() -> None:
    assert {"kv", "rdma", "pushdown"} == set(EXTERNAL)
    for name in EXTERNAL:
        task = tasks.find(name)
        assert task is not None
        named = {key for key, one in task.parameters.items() if one.refers_to or one.links}
        # A machine, whose cores and cards are real.
        assert named <= {"node"}, name


@pytest.mark.parametrize("device", ["emulated:bf2", "dpu0/emulated:bf2"])
def test_an_emulated_card_has_no_rdma(device: str) -> None:
    # What no directory of the kernel's lists is no RDMA device, wherever it comes from.
    for end in ("device", "destination_device"):
        reason = rdma.TASK.unavailable(rdma.TASK.normal({end: device}), Machine())
        assert reason is not None
        assert "RDMA device" in reason


def test_a_store_is_measured_on_real_cores_in_every_design(tmp_path: Path) -> None:
    """An agent that is started here in place of a DPU is real; what it is stands in `applied`."""
    parameters = {
        "design": ["cpu-only", "lat", "sav", "dual", "shrd", "proc", "dpu-only"],
        "records": 200,
        "connections": 2,
        "seconds": 0.2,
    }
    run = ran(short_box(tmp_path, {"task": "kv", "parameters": parameters}), code=None)
    found = samples_of(run)
    assert len(found) == 7
    measured = [sample for sample in found if sample["status"] == "ok"]
    for sample in measured:
        weakest = (sample["provenance"], sample["applied"]["provenance"])
        assert weakest == ("measured", "measured")
        assert (sample["timing"], sample["cpu"]["emulator_s"]) == ("real", 0)
        assert sample["cpu"]["host_s"] + sample["cpu"]["dpu_s"] > 0
    # On a machine that is too busy for an answer there is no figure at all.
    assert all("too busy" in sample["error"]["message"] for sample in found if "error" in sample)
    assert len(measured) + sum("error" in sample for sample in found) == 7
    assert measured
