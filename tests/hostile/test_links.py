"""One end of a link is killed or stopped: the other notices in bounded time, says what is gone, and
gives back what it held."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import agents
import pytest
from agents import Agent
from command import children, is_playing, native, only_run, samples, short_box, wait_for

if TYPE_CHECKING:
    from conftest import Trials

#: Seconds after which an end that has stopped has been noticed, however busy the machine is.
NOTICED_S = 60
#: Side that is interrupted, and the signal.
ENDS = [("agent", signal.SIGKILL), ("host", signal.SIGKILL), ("agent", signal.SIGSTOP)]
WORDS = b"all work and no play makes a dull text\n"


@contextmanager
def compressing(agent: Agent, text: bytes, where: str) -> Iterator[subprocess.Popen[bytes]]:
    """A host that compresses on the agent what comes out of a pipe, bit by bit."""
    words = ["compress", "-c", "--chunk", "64k", "--device", "dpu0/cpu", "--placement", where]
    with subprocess.Popen(
        [*native(), *words, "--stats", "json"],
        env=agent.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as host:
        source = host.stdin
        assert source is not None

        def feed() -> None:
            with suppress(BrokenPipeError):
                for at in range(0, len(text), 1 << 18):
                    source.write(text[at : at + (1 << 18)])
                    time.sleep(0.005)
            with suppress(BrokenPipeError):
                source.close()

        feeder = threading.Thread(target=feed)
        feeder.start()
        host.stdin = None
        try:
            yield host
        finally:
            host.kill()
            feeder.join()


def test_a_stream_outlives_an_agent_that_is_killed_or_stops(tmp_path: Path, trials: Trials) -> None:
    for trial in trials(quick=2):
        with trial() as rng, agents.agent(tmp_path, secure=rng.random() < 0.7) as agent:
            text = (rng.randbytes(10_000) + WORDS * 300) * 500
            # One that is killed has chunks, one that stops has all of them.
            where = rng.choice(["device", "split:50", "adaptive"])
            ends = rng.choice([signal.SIGKILL, signal.SIGSTOP])
            with compressing(agent, text, where) as host:
                timer = threading.Timer(rng.uniform(0.1, 0.5), agent.process.send_signal, [ends])
                timer.start()
                out, err = host.communicate(timeout=NOTICED_S)
                timer.join()
            if host.returncode != 0:
                # It had gone before the host had come.
                assert b"dpu0" in err, err
                continue
            assert gzip.decompress(out) == text
            report = json.loads(err.splitlines()[-1])["summary"]["report"]
            said = " ".join(event["message"] for event in report["events"])
            # It may have been done before.
            if report["devices"][0]["failed"]:
                assert "dpu0/cpu" in said, report


def test_a_host_that_stops_for_a_while_finds_its_jobs_done(tmp_path: Path, trials: Trials) -> None:
    for trial in trials(quick=1):
        with trial() as rng, agents.agent(tmp_path, secure=rng.random() < 0.5) as agent:
            text = (rng.randbytes(10_000) + WORDS * 300) * 500
            with compressing(agent, text, "device") as host:
                time.sleep(rng.uniform(0.1, 0.4))
                host.send_signal(signal.SIGSTOP)
                # Longer than a job may take.
                time.sleep(rng.choice([12.7, 15]) if trials.minutes else 1)
                host.send_signal(signal.SIGCONT)
                out, err = host.communicate(timeout=NOTICED_S)
            assert host.returncode == 0, err
            assert gzip.decompress(out) == text
            report = json.loads(err.splitlines()[-1])["summary"]["report"]
            assert report["devices"][0]["failed"] == 0, report["events"]
            assert report["events"] == []


@pytest.mark.parametrize("link", ["shm", "ucx"])
def test_a_side_of_a_link_that_is_killed_or_stops_is_noticed(
    tmp_path: Path, trials: Trials, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for trial in trials(quick=1):
        directory = tmp_path / str(trials.tried)
        directory.mkdir()
        with trial() as rng, agents.agent(directory) as agent:
            monkeypatch.setenv("OVERSIDE_AGENTS", str(agent.inventory))
            # A host that stops and goes on may find the link as it was, and one that copies shared
            # memory by itself needs nobody on the other side before the clock stops.
            ends = ENDS[:2] if link == "shm" else ENDS
            whose, how = rng.choice(ends)
            parameters = {
                "device": f"dpu0/{link}",
                "initiator": rng.choice(["host", "dpu"]),
                "operation": rng.choice(["read", "write", "send"]),
                "completion": rng.choice(["poll", "event"]),
                "measure": rng.choice(["latency", "throughput"]),
                "buffer_size": rng.choice([64, 65536]),
            }
            entry = {"task": "dma", "parameters": parameters}
            # Long after the other end has noticed, the time of the sample would be over.
            box = short_box(directory, entry, sample_s=300, max_s=600)
            (sample,) = interrupted(agent, box, whose, how, rng.uniform(0.2, 1))
            if sample["status"] == "skipped":
                pytest.skip(sample["reason"])
            assert sample["status"] == "failed", sample
            said = sample["error"]["message"]
            named = "dpu0" if whose == "agent" else "SIGKILL"
            assert named in said, said


def interrupted(
    agent: Agent, box: Path, whose: str, how: signal.Signals, after_s: float
) -> list[dict[str, object]]:
    """Runs a box with an agent, and ends or stops that or the process that measures. Of a host that
    has gone nothing is left with the agent."""
    with subprocess.Popen(
        [*agents.python(), "run", box],
        cwd=box.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as run:
        try:
            wait_for(lambda: run.poll() is not None or is_playing(agent.process.pid))
            if run.poll() is None:
                time.sleep(after_s)
                victim = agent.process.pid if whose == "agent" else worker(run.pid)
                os.kill(victim, how)
                if whose == "host":
                    wait_for(lambda: not is_playing(agent.process.pid))
            run.communicate(timeout=NOTICED_S)
        finally:
            run.kill()
    return samples(only_run(box.parent))


def worker(run: int) -> int:
    """The process that measures."""
    (found,) = wait_for(lambda: children(run))
    return int(found)
