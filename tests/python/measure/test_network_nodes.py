"""The task `network` between this machine and agents, which the tests start."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import (
    PATIENCE_S,
    Json,
    agents,
    manifest,
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


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[None]:
    """Two agents of this machine, `dpu0` with keys and `dpu1` in the clear, and one that plays no
    part, `shy`."""
    shy = ["--insecure", "--no-probes"]
    with agents(tmp_path, dpu0=["--keys"], dpu1=["--insecure"], shy=shy):
        yield


def box(directory: Path, measure: dict[str, float] | None = None, **parameters: object) -> Path:
    """A short box of one network entry."""
    measure = {"rounds": 2} | (measure or {})
    return short_box(directory, {"task": "network", "parameters": parameters}, **measure)


def ends(run: Path) -> dict[str, tuple[str, str]]:
    """Source and destination of each test."""
    return {
        test["id"]: (test["parameters"]["source"], test["parameters"]["destination"])
        for test in manifest(run)["tests"]
    }


@pytest.mark.usefixtures("nodes")
def test_any_two_nodes_are_measured_and_told_apart(tmp_path: Path) -> None:
    nodes = ["host", "dpu0", "dpu1"]
    run = ran(box(tmp_path, source=nodes, destination=nodes, depth=4))
    between = ends(run)
    assert len(between) == 9
    assert {test["block"] for test in manifest(run)["tests"]} == {0}, "they are compared"
    for sample in samples(run):
        assert sample["status"] == "ok", sample
        source, destination = between[sample["test"]]
        both = f"{source} to {destination}"
        here = (source, destination) == ("host", "host")
        assert sample["applied"]["device"] == ("host" if here else both)
        assert sample["provenance"] == "measured"
        assert (sample["cpu"]["dpu_s"] > 0) == (not here)
        assert (sample["cpu"]["host_s"] > 0) == ("host" in (source, destination))
        assert "machine_cpu" in sample["metrics"]
        kinds = {warning["kind"] for warning in sample["warnings"]}
        assert ("one-machine" in kinds) == (not here)
    page = (run / "report.html").read_text()
    for label in ("host to dpu0", "dpu0 to host", "dpu1 to dpu0", "loopback"):
        assert label in page


@pytest.mark.usefixtures("nodes")
def test_streams_and_open_loop_come_back_whole(tmp_path: Path) -> None:
    slices = {"source": "dpu0", "pattern": "stream", "slice_ms": 10}
    paced = {"source": "dpu0", "rate": 2000, "depth": 8}
    tasks = [{"task": "network", "parameters": one} for one in (slices, paced)]
    run = ran(short_box(tmp_path, *tasks, sample_s=0.5, rounds=3))
    streams, paced_ones = [], []
    for sample in samples(run):
        assert sample["status"] == "ok", sample
        (paced_ones if sample.get("series") is None else streams).append(sample)
    # On a busy machine the other end may stand still for most of a sample.
    assert max(len(stream["series"]["throughput"]) for stream in streams) >= 5
    for stream in streams:
        assert stream["work"]["bytes"] == stream["work"]["jobs"] * 131_072
    for sample in paced_ones:
        assert sample["work"]["jobs"] == 1000
        assert sample["histogram"]


@pytest.mark.usefixtures("nodes")
def test_jobs_run_beside_what_this_machine_sends_to_an_agent(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("all work and no play makes a dull text\n" * 20000)
    beside = {"jobs": "copy", "data": "words.txt", "sample_bytes": 262_144}
    path = box(tmp_path, {"sample_s": 0.3}, pattern="stream", destination="dpu0", **beside)
    for sample in samples(ran(path)):
        assert sample["status"] == "ok", sample
        begin, end = sample["series"]["jobs_s"]
        # A third of the time after this end was asked to begin, which a busy machine does late.
        assert 0 < begin < end
        assert sample["metrics"]["job_throughput"] > 0


@pytest.mark.usefixtures("nodes")
def test_a_third_node_sends_while_another_runs_the_jobs(tmp_path: Path) -> None:
    stream = {"pattern": "stream", "protocol": "udp", "rate": 1000, "message_size": 256}
    dma = {"jobs": "dma-write", "buffer_size": 65_536}
    path = box(
        tmp_path,
        {"sample_s": 0.3, "rounds": 1},
        **(stream | dma),
        source="dpu1",
        destination=["host", "dpu0"],
        job_node=["local", "dpu0"],
    )
    run = ran(path)
    assert len(samples(run)) == 4
    for sample in samples(run):
        assert sample["status"] == "ok", sample
        assert sample["work"]["jobs"] + sample["metrics"]["lost"] == 300
        begin, end = sample["series"]["jobs_s"]
        assert 0 < begin < end
        assert sample["metrics"]["job_throughput_alone"] > 0
    gone = overside("plan", box(tmp_path, **(stream | dma), job_node="nobody"), cwd=tmp_path)
    assert "no agent is called 'nobody'" in said(gone)


@pytest.mark.long
@pytest.mark.parametrize(
    # Long after the test has given up, the time of the sample would be over, or that of the run.
    ("source", "limits"),
    [
        ("host", {"sample_s": 300}),
        ("dpu1", {"sample_s": 300}),
        ("host", {"sample_s": 50, "max_s": 60}),
    ],
)
def test_a_destination_that_stops_is_noticed_and_named(
    tmp_path: Path, source: str, limits: Json
) -> None:
    with agents(tmp_path, dpu0=["--insecure"], dpu1=["--insecure"]) as running:
        path = box(tmp_path, {"rounds": 1} | limits, source=source, destination="dpu0")
        stopped = running["dpu0"]
        with start("run", path, cwd=tmp_path) as run:
            wait_for(lambda: is_answering(stopped.pid))
            stopped.send_signal(signal.SIGSTOP)
            try:
                _, said = run.communicate(timeout=PATIENCE_S / 2)
            finally:
                stopped.send_signal(signal.SIGCONT)
                run.kill()
    (sample,) = samples(only_run(tmp_path))
    assert sample["status"] == "failed", said
    assert sample["error"]["kind"] == "lost"
    assert "dpu0" in sample["error"]["message"]
    assert "does not answer" in sample["error"]["message"]


def is_answering(agent: int) -> bool:
    """`True` if an agent has served traffic for a while: a thread that answers has used time
    of a core."""
    for thread in Path(f"/proc/{agent}/task").iterdir():
        try:
            name = (thread / "comm").read_text()
            fields = (thread / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if name.startswith("net-session") and int(fields[11]) + int(fields[12]) > 5:
            return True
    return False


@pytest.mark.usefixtures("nodes")
def test_what_cannot_be_is_said_before_anything_runs(tmp_path: Path) -> None:
    path = box(tmp_path, destination=["dpu0", "gone"], source=["host", "shy"])
    reasons = {
        (test["parameters"]["source"], test["parameters"]["destination"]): test.get("reason")
        for test in planned(path)
    }
    assert reasons["host", "dpu0"] is None
    assert "is `overside agent` running?" in reasons["host", "gone"]
    for parameters, expected in [
        ({"source": "dpu0", "mode": "bridge"}, "leave source and destination away"),
        ({"jobs": "dma-read", "job_node": "gone"}, "is `overside agent` running?"),
        ({"jobs": "copy", "device": "dpu0/nothing"}, "no such device"),
    ]:
        assert expected in planned(box(tmp_path, **parameters))[0]["reason"]


@pytest.mark.usefixtures("nodes")
def test_nodes_that_nobody_added_make_a_box_invalid(tmp_path: Path) -> None:
    wrong = overside("validate", box(tmp_path, source="dpu"), cwd=tmp_path, code=2)
    assert "no agent is called 'dpu'; `overside agents add dpu HOST:PORT` adds it" in said(wrong)
    assert "dpu0" in said(wrong), "which is what was meant"
    overside("run", box(tmp_path, destination="elsewhere"), cwd=tmp_path, code=2)


@pytest.mark.usefixtures("nodes")
def test_an_agent_that_plays_no_part_is_the_reason_why_a_test_is_skipped(tmp_path: Path) -> None:
    run = ran(box(tmp_path, destination=["shy", "dpu1"]), code=None)
    between = ends(run)
    statuses = {between[sample["test"]][1]: sample for sample in samples(run)}
    assert statuses["dpu1"]["status"] == "ok"
    assert statuses["shy"]["status"] == "skipped"
    assert "--no-probes" in statuses["shy"]["reason"]
