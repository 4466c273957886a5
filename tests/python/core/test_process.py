"""Worker processes that do not answer as they should."""

from __future__ import annotations

import math
import os
import platform
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import children, wait_for
from overside.bench.process import WorkerFailure, WorkerProcess
from overside.tasks.offload import OffloadTask


@pytest.fixture
def interrupt() -> Iterator[tuple[int, int]]:
    """The ends of a pipe: what the runner watches, and what makes it readable."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def request(directory: Path, **changes: Any) -> dict[str, Any]:
    (directory / "data").write_bytes(bytes(65536))
    copy = OffloadTask("copy")
    test = copy.test(copy.normal({"buffer_size": 4096, "data": "data", "sample_bytes": 4096}))
    test["data"]["files"] = [str(directory / "data")]
    return test | {"warmup_s": 0, "sample_s": 0.001, "timeout_s": 60, "seed": 0} | changes


def stopped(worker: WorkerProcess) -> None:
    """Makes the process hang."""
    (pid,) = children(os.getpid())
    os.kill(pid, signal.SIGSTOP)


def test_a_worker_that_hangs_is_ended(tmp_path: Path, interrupt: tuple[int, int]) -> None:
    worker = WorkerProcess(tmp_path / "log")
    assert isinstance(worker.measure(request(tmp_path), 60, math.inf, interrupt[0]), dict)
    stopped(worker)
    ended = worker.measure(request(tmp_path), 0.1, math.inf, interrupt[0])
    assert isinstance(ended, WorkerFailure)
    assert ended.why == "timeout"
    assert not worker.alive
    worker.close()
    assert not (tmp_path / "log").exists(), "it said nothing"


def test_the_end_of_the_run_is_no_fault_of_the_test(
    tmp_path: Path, interrupt: tuple[int, int]
) -> None:
    worker = WorkerProcess(tmp_path / "log")
    stopped(worker)
    assert worker.measure(
        request(tmp_path), 60, time.monotonic() + 0.05, interrupt[0]
    ) == WorkerFailure("time")
    worker.close()


def test_an_interrupt_is_noticed_at_once(tmp_path: Path, interrupt: tuple[int, int]) -> None:
    worker = WorkerProcess(tmp_path / "log")
    os.write(interrupt[1], b"x")
    slow = request(tmp_path, sample_s=30)
    assert worker.measure(slow, 60, math.inf, interrupt[0]) == WorkerFailure("interrupt")
    worker.close()
    wait_for(lambda: not children(os.getpid()))


def test_what_is_no_test_is_a_failed_sample(tmp_path: Path, interrupt: tuple[int, int]) -> None:
    worker = WorkerProcess(tmp_path / "log")
    reply = worker.measure(request(tmp_path, depth=0), 60, math.inf, interrupt[0])
    assert isinstance(reply, dict)
    assert reply["error"]["kind"] == "internal"
    assert "depth" in reply["error"]["message"]
    again = worker.measure(request(tmp_path), 60, math.inf, interrupt[0])
    assert isinstance(again, dict)
    assert again["status"] == "ok", "it goes on"
    worker.close()
    assert "depth" in (tmp_path / "log").read_text()


def test_a_worker_that_cannot_start_says_why(
    tmp_path: Path, interrupt: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "overside"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('a library is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = WorkerProcess(tmp_path / "log")
    ended = worker.measure(request(tmp_path), 60, math.inf, interrupt[0])
    assert isinstance(ended, WorkerFailure)
    assert ended.why == "crash"
    assert "a library is missing" in ended.message
    worker.close()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_the_allocator_keeps_what_is_freed_unless_the_user_says_otherwise(
    tmp_path: Path, interrupt: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    tell = ["sh", "-c", f'echo "$GLIBC_TUNABLES" > {seen}; exec "$@"', "sh"]
    told = []
    for own in ["", "glibc.malloc.trim_threshold=4096"]:
        monkeypatch.setenv("GLIBC_TUNABLES", own)
        worker = WorkerProcess(tmp_path / "log", prefix=tell)
        assert isinstance(worker.measure(request(tmp_path), 60, math.inf, interrupt[0]), dict)
        worker.close()
        told.append(seen.read_text().strip().split(":"))
    assert "glibc.malloc.trim_threshold=268435456" in told[0]
    assert told[1] == [*told[0], "glibc.malloc.trim_threshold=4096"]
