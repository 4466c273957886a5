"""The task `network` on this machine: through real boxes and real namespaces."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from command import (
    children,
    manifest,
    overside,
    planned,
    ran,
    said,
    samples,
    short_box,
    start,
    wait_for,
)
from overside.bench import network_path
from overside.tasks.network import TASK

MODES = [
    pytest.param(
        mode,
        marks=pytest.mark.skipif(
            network_path.unavailable(mode) is not None, reason=network_path.unavailable(mode) or ""
        ),
    )
    for mode in network_path.MODES
]


def test_every_mode_can_be_built() -> None:
    assert TASK.parameters["mode"].choices == tuple(network_path.MODES)


def box(directory: Path, measure: dict[str, float] | None = None, **parameters: Any) -> Path:
    """A short box of one network entry."""
    return short_box(directory, {"task": "network", "parameters": parameters}, **(measure or {}))


def test_more_than_there_can_be_is_refused_by_the_plan(tmp_path: Path) -> None:
    large = {"pattern": "stream", "message_size": 16 << 20}
    path = box(tmp_path, connections=[1, 64, 65], **large)
    reasons = [test.get("reason") for test in planned(path)]
    assert reasons[:2] == [None, None]
    assert "connections * message_size is 1090519040" in reasons[2]
    path = box(tmp_path, message_size=1 << 20, connections=256, batch=[4, 5])
    reasons = [test.get("reason") for test in planned(path)]
    assert reasons[0] is None
    assert reasons[1] == "batch is 5; it can be 1 to 4"


def test_round_trips_and_streams_are_measured_and_reported(tmp_path: Path) -> None:
    path = box(tmp_path, pattern=["round-trip", "stream"], message_size=[64, 4096])
    run = ran(path)
    patterns = {t["id"]: t["parameters"]["pattern"] for t in manifest(run)["tests"]}
    for sample in samples(run):
        assert sample["status"] == "ok", sample
        assert sample["provenance"] == "measured"
        has_latency = "latency_p50" in sample["metrics"]
        assert has_latency == (patterns[sample["test"]] == "round-trip")
        assert set(sample["metrics"]) <= set(TASK.metrics)
    page = (run / "report.html").read_text()
    assert "TCP round trips" in page
    assert "TCP stream" in page
    assert "against message size" in page


def test_what_has_no_effect_makes_no_test(tmp_path: Path) -> None:
    path = box(tmp_path, pattern="stream", depth=[1, 16], job_depth=[1, 2])
    assert len(planned(path)) == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_hop_is_built_and_leaves_nothing(mode: str, tmp_path: Path) -> None:
    before = links()
    (sample,) = samples(ran(box(tmp_path, pattern="stream", mode=mode)))
    assert sample["status"] == "ok", sample
    assert sample["applied"]["variant"] == mode
    assert network_path.MODES[mode] in sample["applied"]["library"]
    assert ("hop_cpu" in sample["metrics"]) == (mode in network_path.BY_PROGRAM)
    assert sample["metrics"].get("hop_cpu", 1) > 0
    assert links() == before


@pytest.mark.skipif(
    network_path.unavailable("bridge") is not None, reason="namespaces cannot be made"
)
def test_modes_stand_in_one_block_and_follow_each_other_in_one_process(tmp_path: Path) -> None:
    path = box(tmp_path, {"rounds": 2}, mode=["direct", "bridge"], pattern="round-trip")
    run = ran(path)
    assert {test["block"] for test in manifest(run)["tests"]} == {0}
    taken = samples(run)
    assert [sample["status"] for sample in taken] == ["ok"] * 4
    kinds = [sample["applied"]["variant"] for sample in taken]
    assert kinds == ["direct", "bridge", "bridge", "direct"]


@pytest.mark.skipif(
    network_path.unavailable("bridge") is not None, reason="namespaces cannot be made"
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_leaves_no_hop(number: signal.Signals, tmp_path: Path) -> None:
    before = links()
    path = box(tmp_path, {"sample_s": 60}, mode="bridge", pattern="stream")
    process = start("run", path, cwd=tmp_path)
    inside = wait_for(lambda: measuring(process.pid))
    process.send_signal(number)
    process.communicate(timeout=60)
    wait_for(lambda: not Path(f"/proc/{inside}").exists())
    assert links() == before


def measuring(process: int) -> int | None:
    """The worker in its own namespaces, once its threads run."""
    for child in children(process):
        for inner in children(child):
            try:
                threads = len(os.listdir(f"/proc/{inner}/task"))
            except OSError:
                continue
            if threads >= 5:
                return inner
    return None


def links() -> set[str]:
    """The interfaces and named namespaces that this machine shows."""
    named = Path("/run/netns")
    return set(os.listdir("/sys/class/net")) | set(os.listdir(named) if named.is_dir() else ())


def test_an_address_is_no_end_and_what_to_do_instead_is_said(tmp_path: Path) -> None:
    for end in ("source", "destination"):
        path = box(tmp_path, **{end: "10.0.0.2:5300"})
        done = overside("run", path, cwd=tmp_path, code=2)
        assert "'10.0.0.2:5300' is an address" in said(done)
        assert "start `overside agent` there" in said(done)


def test_jobs_beside_a_stream_have_their_time(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("all work and no play makes a dull text\n" * 20000)
    path = box(
        tmp_path,
        {"sample_s": 0.3},
        pattern="stream",
        jobs="copy",
        data="words.txt",
        sample_bytes=262144,
    )
    run = ran(path)
    (sample,) = samples(run)
    begin, end = sample["series"]["jobs_s"]
    assert 0.09 <= begin < end
    for name in ("throughput_before", "job_throughput"):
        assert sample["metrics"][name] > 0
    assert any(warning["kind"] == "not-a-card" for warning in sample["warnings"])
    page = (run / "report.html").read_text()
    assert "Throughput over time" in page
    assert "accelerators do not disturb traffic like that" in page


def test_five_phases_of_a_stream_at_a_given_rate(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("all work and no play makes a dull text\n" * 20000)
    shared = {"pattern": "stream", "protocol": "udp", "bit_rate": 0.01}
    matching = {"jobs": "match-count", "data": "words.txt", "job_patterns": ["dull"]}
    tasks = [
        {"task": "network", "parameters": {**shared, **own}}
        for own in ({"jobs": "dma-read", "buffer_size": 65536}, matching)
    ]
    # So long that there are whole slices before the jobs on a busy machine too.
    run = ran(short_box(tmp_path, *tasks, sample_s=1, rounds=1))
    # 0.01 Gb/s are 893 datagrams of 1400 bytes a second.
    sent = 0.01e9 / 8 / 1400
    for sample in samples(run):
        assert sample["status"] == "ok", sample
        metrics = sample["metrics"]
        assert abs(sample["work"]["jobs"] + metrics["lost"] - sent) <= 1
        names = [phase["name"] for phase in sample["series"]["phases"]]
        assert names[:4] == ["idle", "alone", "before", "during"]
        for name in ("delay_before", "delay_p99", "job_throughput", "job_throughput_alone"):
            assert metrics[name] > 0, name
    page = (run / "report.html").read_text()
    assert "UDP stream beside jobs (dma-read)" in page
    assert "Throughput and delay over time" in page
    assert "idle, neither traffic nor jobs" in page


def test_what_cannot_be_offered_says_why(tmp_path: Path) -> None:
    stream = {"pattern": "stream", "protocol": "udp"}
    for parameters, reason in [
        (stream, "only for streams with a rate"),
        (stream | {"rate": 10, "bit_rate": 1}, "leave one away"),
        (stream | {"rate": 10, "message_size": 8}, "16 to 65507"),
        (stream | {"bit_rate": 1000}, "it can be 0.001 to 10000000"),
    ]:
        (test,) = planned(box(tmp_path, **parameters))
        assert reason in test["reason"], test


def test_more_messages_than_a_sample_can_have_are_refused_beforehand(tmp_path: Path) -> None:
    # 2^24 are the most, a few of them before the clock starts.
    paced = box(tmp_path, pattern="stream", rate=10_000_000)
    (test,) = planned(paced, "--set", "measure.sample_s=1")
    assert test["status"] == "planned", test
    for longer in ("measure.sample_s=2", "measure.warmup_s=2"):
        (test,) = planned(paced, "--set", longer)
        assert test["status"] == "skipped"
        assert "rate * sample_s" in test["reason"]
        assert test["reason"].endswith(
            "a lower rate, longer messages of a bit_rate, or shorter samples"
        )
