"""Boxes on an agent's devices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Json, agents, planned, ran, samples, tiny_box


@pytest.fixture
def dpu0(tmp_path: Path) -> Iterator[None]:
    """An agent of this machine."""
    with agents(tmp_path, dpu0=["--insecure"]):
        yield


def by_device(run: Path) -> dict[str, list[Json]]:
    """Samples by the device that ran them."""
    found: dict[str, list[Json]] = {}
    for sample in samples(run):
        applied = sample.get("applied") or {}
        found.setdefault(str(applied.get("device")), []).append(sample)
    return found


@pytest.mark.usefixtures("dpu0")
def test_a_box_runs_on_an_agents_device(tmp_path: Path) -> None:
    box = tiny_box(tmp_path, rounds=1)
    found = by_device(ran(box, "--set", "compress.device=cpu,dpu0/cpu"))
    assert set(found) == {"cpu", "dpu0/cpu"}
    for sample in found["dpu0/cpu"]:
        assert sample["applied"]["provenance"] == "measured", sample
        assert "by agent" in sample["applied"]["driver"], sample


@pytest.mark.usefixtures("dpu0")
def test_a_share_can_go_to_an_agent(tmp_path: Path) -> None:
    box = tiny_box(tmp_path, rounds=1)
    where = ("--set", "decompress.device=dpu0/cpu", "--set", "decompress.placement=split:50")
    for sample in samples(ran(box, "--filter", "task=decompress", *where)):
        assert "dpu0/cpu" in json.dumps(sample), sample


@pytest.mark.usefixtures("dpu0")
def test_an_agent_that_is_away_is_the_reason_why_a_test_is_skipped(tmp_path: Path) -> None:
    box = tiny_box(tmp_path)
    devices = ["cpu", "dpu0/cpu", "gone/cpu", "nobody/cpu"]
    tests = planned(box, "--set", f"compress.device={','.join(devices)}", cwd=tmp_path)
    reasons = {test["parameters"]["device"]: test.get("reason") for test in tests}
    assert [reasons[device] for device in devices[:2]] == [None, None]
    assert "is `overside agent` running?" in reasons["gone/cpu"]
    assert reasons["nobody/cpu"] == "nobody/cpu: there is no such device here"
