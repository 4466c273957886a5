"""Boxes on an agent's devices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Json, only_run, overside, running_agent, samples, tiny_box


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An inventory with an agent of this machine, `dpu0`, and one that is not there, `gone`."""
    inventory = tmp_path / "agents.toml"
    monkeypatch.setenv("OVERSIDE_AGENTS", str(inventory))
    with running_agent("--insecure") as (_, said):
        inventory.write_text(
            f'[agents.dpu0]\naddress = "{said["address"]}"\n'
            '[agents.gone]\naddress = "localhost:1"\n'
        )
        yield inventory


def by_device(directory: Path) -> dict[str, list[Json]]:
    """Samples by the device that ran them."""
    found: dict[str, list[Json]] = {}
    for sample in samples(only_run(directory)):
        applied = sample.get("applied") or {}
        found.setdefault(str(applied.get("device")), []).append(sample)
    return found


@pytest.mark.usefixtures("agents")
def test_a_box_runs_on_an_agents_device(tmp_path: Path) -> None:
    box = tiny_box(tmp_path, rounds=1)
    overside("run", box, "--set", "compress.device=cpu,dpu0/cpu", cwd=tmp_path, code=0)
    found = by_device(tmp_path)
    assert set(found) == {"cpu", "dpu0/cpu"}
    for sample in found["dpu0/cpu"]:
        assert sample["applied"]["provenance"] == "measured", sample
        assert "by agent" in sample["applied"]["driver"], sample


@pytest.mark.usefixtures("agents")
def test_a_share_can_go_to_an_agent(tmp_path: Path) -> None:
    box = tiny_box(tmp_path, rounds=1)
    overside(
        *("run", box, "--filter", "task=decompress"),
        *("--set", "decompress.device=dpu0/cpu", "--set", "decompress.placement=split:50"),
        cwd=tmp_path,
        code=0,
    )
    for sample in samples(only_run(tmp_path)):
        assert "dpu0/cpu" in json.dumps(sample), sample


@pytest.mark.usefixtures("agents")
def test_an_agent_that_is_away_is_the_reason_why_a_test_is_skipped(tmp_path: Path) -> None:
    box = tiny_box(tmp_path)
    devices = ["cpu", "dpu0/cpu", "gone/cpu", "nobody/cpu"]
    where = ("--set", f"compress.device={','.join(devices)}", "--json")
    planned = json.loads(overside("plan", box, *where, cwd=tmp_path, code=0).stdout)
    reasons = {test["parameters"]["device"]: test.get("reason") for test in planned["tests"]}
    assert [reasons[device] for device in devices[:2]] == [None, None]
    assert "is `overside agent` running?" in reasons["gone/cpu"]
    assert reasons["nobody/cpu"] == "nobody/cpu: there is no such device here"
