"""Moving bytes between this machine and an agent."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import (
    PATIENCE_S,
    agents,
    is_playing,
    only_run,
    overside,
    planned,
    ran,
    said,
    samples,
    short_box,
    start,
    wait_for,
)


@pytest.fixture(params=["--insecure", "--keys"], ids=["clear", "encrypted"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """An agent of this machine that the inventory calls `dpu0`."""
    with agents(tmp_path, dpu0=[request.param]) as running:
        yield running["dpu0"]


def box(directory: Path, measure: dict[str, float] | None = None, **parameters: object) -> Path:
    """Tests of `dma` that take milliseconds."""
    task = {"task": "dma", "parameters": parameters, "metrics": ["latency_p50"]}
    return short_box(directory, task, **({"sample_s": 0.01} | (measure or {})))


@pytest.mark.usefixtures("agent")
def test_every_operation_from_either_side(tmp_path: Path) -> None:
    path = box(
        tmp_path,
        device=["dpu0/ucx", "dpu0/shm"],
        variant="tcp",
        completion="event",
        initiator=["host", "dpu"],
        operation=["read", "write", "send"],
    )
    # A side that gets no turn for seconds on a busy machine loses its link: run it again.
    for attempt in range(5):
        try:
            run = ran(path)
            break
        except AssertionError as error:
            is_away = "the peer is gone" in str(error) or "did not answer in time" in str(error)
            if not is_away or attempt == 4:
                raise
    found = samples(run)
    assert len(found) == 12
    for sample in found:
        applied = sample["applied"]
        assert applied["device"] in ("dpu0/ucx", "dpu0/shm"), sample
        assert "with the agent at 127.0.0.1" in applied["driver"], sample
        assert applied["provenance"] == "measured", sample
        assert sample["metrics"]["latency_p50"] > 0, sample
        assert [w["kind"] for w in sample["warnings"]].count("one-machine") == 1, sample
    page = (run / "report.html").read_text()
    assert "UCX with dpu0" in page


@pytest.mark.usefixtures("agent")
def test_who_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    devices = ["dpu0/ucx", "dpu0/cpu", "gone/ucx"]
    tests = planned(box(tmp_path, device=devices), cwd=tmp_path)
    reasons = {test["parameters"]["device"]: test.get("reason") or "" for test in tests}
    assert not reasons["dpu0/ucx"]
    assert "the links are dpu0/shm, dpu0/ucx" in reasons["dpu0/cpu"]
    assert "is `overside agent` running?" in reasons["gone/ucx"]
    done = overside("plan", box(tmp_path, device="nobody/ucx"), cwd=tmp_path)
    assert done.returncode != 0
    assert "no agent is called 'nobody'" in said(done)


def test_the_name_of_a_link_that_is_gone_says_which_one_to_take(tmp_path: Path) -> None:
    for device in ("tcp", "dpu0/tcp"):
        done = overside("plan", box(tmp_path, device=device), cwd=tmp_path, code=2)
        ucx = device.replace("tcp", "ucx")
        assert f"use device {ucx!r} with variant 'tcp'" in said(done)


@pytest.mark.begun_first
def test_an_agent_that_dies_fails_the_sample_and_says_why(
    tmp_path: Path, agent: subprocess.Popen[str]
) -> None:
    # Long after the agent has died, the time of the sample would be over.
    measure = {"sample_s": 300, "max_s": 600}
    path = box(tmp_path, measure, device="dpu0/shm", initiator="dpu", operation="send")
    with start("run", path, cwd=tmp_path) as run:
        try:
            wait_for(lambda: is_playing(agent.pid))
            # Until the sample is taken it has next to nothing to do.
            begun_s = cpu_s(agent.pid)
            wait_for(lambda: cpu_s(agent.pid) > begun_s + 0.05)
            agent.kill()
            run.communicate(timeout=PATIENCE_S)
        finally:
            run.kill()
    (sample,) = samples(only_run(tmp_path))
    assert sample["status"] == "failed"
    assert sample["error"]["kind"] == "lost", sample


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far; ticks are hundredths."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
