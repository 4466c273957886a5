"""A forked child: whatever its parent had open works there or raises, and does not hang."""

from __future__ import annotations

import asyncio
import gzip
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import overside
import pytest
from command import PATIENCE_S
from overside import _core

FORK = multiprocessing.get_context("fork")
PLACED: list[dict[str, Any]] = [{"format": one} for one in ("gzip", "zlib", "lz4", "zstd")]
PLACED.append({"device": "emulated:bf2", "placement": "split:50"})
DATA = b"what the parent wrote is in the file once\n" * 50_000
REFUSED = "RuntimeError: this was opened before the process was forked"


def in_child(*actions: Callable[[], Any]) -> list[str]:
    """Returns the result of each action in a forked child, or its error."""
    reader, writer = FORK.Pipe(duplex=False)

    def run() -> None:
        for action in actions:
            try:
                writer.send(str(action()))
            except Exception as error:
                writer.send(f"{type(error).__name__}: {error}")

    child = FORK.Process(target=run)
    child.start()
    child.join(PATIENCE_S)
    hangs = child.is_alive()
    child.kill()
    answers = [reader.recv() for _ in actions if reader.poll()]
    assert not hangs, answers
    return answers


@pytest.mark.parametrize("placed", PLACED, ids=str)
def test_files_belong_to_the_parent(tmp_path: Path, placed: dict[str, Any]) -> None:
    path = tmp_path / "data"
    # More than is read at once.
    noise = os.urandom(24 << 20)
    file = overside.open(path, "wb", **placed)
    file.write(noise)
    file.flush()
    file.write(b"in the buffer\n")
    answers = in_child(file.flush, lambda: file.write(DATA), file.close)
    assert all(answer.startswith(REFUSED) for answer in answers), answers
    file.write(DATA)
    file.close()
    with overside.open(path) as reading:
        first = reading.read(10)
        answers = in_child(lambda: len(reading.read()), reading.close)
        assert answers[0].startswith(REFUSED)
        assert answers[1] == "None"
        assert first + reading.read() == noise + b"in the buffer\n" + DATA


def test_streams_and_workers_belong_to_the_parent() -> None:
    compressor, decompressor = overside.Compressor(), overside.Decompressor()
    worker, packed = _core.Worker(), gzip.compress(DATA)
    made, read = compressor.compress(DATA), decompressor.decompress(packed[:1000])
    answers = in_child(
        lambda: compressor.compress(DATA),
        compressor.flush,
        compressor.finish,
        lambda: compressor.report,
        lambda: decompressor.decompress(b"more"),
        decompressor.finish,
        lambda: decompressor.applied,
        lambda: worker.measure("{}"),
    )
    assert all(answer.startswith(REFUSED) for answer in answers), answers
    assert gzip.decompress(made + compressor.finish()) == DATA
    assert read + decompressor.decompress(packed[1000:]) + decompressor.finish() == DATA


def calls() -> list[int]:
    """The lengths of what calls of all kinds give."""

    async def awaited() -> int:
        return len(await overside.decompress_async(await overside.compress_async(DATA)))

    packed = [overside.compress(DATA, **placed) for placed in PLACED]
    plain = [len(overside.decompress(one)) for one in packed]
    return [*plain, overside.match(DATA, "parent").count, asyncio.run(awaited())]


def test_calls_work_in_a_child_and_in_its_child() -> None:
    expected = str(calls())
    assert in_child(calls, calls, lambda: in_child(calls)[0]) == [expected] * 3


def test_a_child_is_forked_while_another_thread_calls() -> None:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            calls()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(8):
            assert in_child(lambda: len(overside.compress(DATA)) > 0) == ["True"]
    finally:
        done.set()
        thread.join()


ENDS = """
import logging, os, sys, overside
from overside import _core, log
log.begin()
worker, file = _core.Worker(), overside.open(sys.argv[1], "wb", device="emulated:bf2")
file.write(bytes(5000000))
child = os.fork()
logging.getLogger("overside.test").warning("from %s", "the child" if child == 0 else "the parent")
if child == 0:
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
file.close()
assert len(overside.open(sys.argv[1]).read()) == 5000000
"""


def test_a_child_ends_by_itself_and_logs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDS, str(tmp_path / "data.gz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "from the child" in done.stderr
    assert "from the parent" in done.stderr
