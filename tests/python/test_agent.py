"""Boxes on an agent's devices."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Json, only_run, overside, samples, tiny_box

#: The native command, beside the interpreter that the tests run with.
COMMAND = Path(sys.executable).parent / "overside"
#: Seconds after which an agent that was asked to end should have ended.
PATIENCE_S = 60


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An inventory with an agent of this machine, `dpu0`, and one that is not there, `gone`."""
    if not COMMAND.exists():
        pytest.skip(f"there is no {COMMAND}: install the package")
    inventory = tmp_path / "agents.toml"
    monkeypatch.setenv("OVERSIDE_AGENTS", str(inventory))
    words = ["agent", "--insecure", "--listen", "127.0.0.1:0", "--json", "-p", "1"]
    words += ["--device", "cpu"]
    with subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, text=True) as agent:
        try:
            assert agent.stdout is not None
            address = json.loads(agent.stdout.readline())["address"]
            inventory.write_text(
                f'[agents.dpu0]\naddress = "{address}"\n[agents.gone]\naddress = "localhost:1"\n'
            )
            yield inventory
        finally:
            agent.terminate()
            agent.wait(PATIENCE_S)


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
