"""The runner's end of a worker process: hands over a test, waits for its sample, and notices when
none comes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from overside.log import FILE_ENV
from overside.processes import PIPE, Process, ending
from overside.tasks.common import Json

_log = logging.getLogger(__name__)

#: A sample is a few kilobytes, most of it its histogram.
MAX_REPLY_BYTES = 16 << 20
#: Extra time for the worker, which bounds its samples itself; for one that does not even do that.
GRACE_S = 2.0
_TAIL_BYTES = 2000
#: The allocator keeps freed memory, up to 256 MiB. Otherwise page faults of buffers that are set
#: up again depend on their place in the heap.
_ALLOCATOR = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=268435456"


@dataclass(frozen=True)
class WorkerFailure:
    """No sample came."""

    #: `timeout`, `crash`, `time` (the run's time is up) or `interrupt`.
    why: str
    message: str = ""


class WorkerProcess:
    """One process of `overside.bench.worker`."""

    def __init__(self, log: Path, prefix: Sequence[str] = ()) -> None:
        """`prefix` is the command that it is started by, if not as it is."""
        self._log = log
        self.prefix = tuple(prefix)
        self._stderr: IO[bytes] = log.open("ab")
        environment = dict(os.environ)
        # Its log is this one's, whatever the runner's own is.
        environment.pop(FILE_ENV, None)
        # Of two values for the same, the last counts: what the user has set.
        tunables = ":".join(filter(None, [_ALLOCATOR, os.environ.get("GLIBC_TUNABLES")]))
        # In a session of its own: Ctrl-C on the terminal is the runner's to answer.
        self._process = Process(
            [*prefix, sys.executable, "-P", "-m", "overside.bench.worker"],
            stdin=PIPE,
            stdout=PIPE,
            stderr=self._stderr,
            env={**environment, "GLIBC_TUNABLES": tunables},
        )
        self._buffer = bytearray()
        _log.debug("worker %d started; its log is %s", self._process.pid, log)

    @property
    def alive(self) -> bool:
        """`True` if it can take another test."""
        return self._process.poll() is None

    def measure(
        self, test: Json, timeout_s: float, deadline: float, interrupt_fd: int
    ) -> Json | WorkerFailure:
        """Takes one sample; returns the failure if there is none.

        `deadline` (monotonic) is the end of the run's time; `interrupt_fd` becomes readable when
        the run is interrupted. After anything but a sample the process is gone.
        """
        line = json.dumps(test, ensure_ascii=False).encode() + b"\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except BrokenPipeError:
            return self._crashed()
        limit = time.monotonic() + timeout_s + GRACE_S
        reply = self._reply(min(limit, deadline), interrupt_fd)
        if isinstance(reply, bytes):
            try:
                sample = json.loads(reply)
                if not isinstance(sample, dict) or "status" not in sample:
                    raise ValueError("not a sample")
            except ValueError as error:
                self.kill()
                return WorkerFailure("crash", f"the worker's answer is not a sample: {error}")
            return sample
        if reply == "closed":
            return self._crashed()
        self.kill()
        if reply == "deadline" and limit <= deadline:
            return WorkerFailure(
                "timeout", f"no answer within {timeout_s + GRACE_S:g} s{self._tail()}"
            )
        return WorkerFailure("interrupt" if reply == "interrupt" else "time")

    def _reply(self, deadline: float, interrupt_fd: int) -> bytes | str:
        """A line of the worker's, or why there is none: `closed`, `deadline`, `interrupt`."""
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(output, select.POLLIN)
        poll.register(interrupt_fd, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            ready = {fd for fd, _ in poll.poll(max(0, left * 1000))}
            if output in ready:
                chunk = os.read(output, 1 << 16)
                self._buffer += chunk
                line, newline, rest = self._buffer.partition(b"\n")
                if newline:
                    self._buffer = rest
                    return bytes(line)
                if not chunk or len(self._buffer) > MAX_REPLY_BYTES:
                    return "closed"
            elif interrupt_fd in ready:
                return "interrupt"
            elif left <= 0:
                return "deadline"

    def _crashed(self) -> WorkerFailure:
        is_done = self._process.is_done(GRACE_S)
        self.kill()
        how = ending(self._process.returncode) if is_done else "closed its output"
        return WorkerFailure("crash", f"the worker process {how}{self._tail()}")

    def _tail(self) -> str:
        """The last lines of its output, for a message."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").strip().splitlines()[-5:]
        except OSError:
            return ""
        return f"; it said: {' | '.join(lines)}" if lines else ""

    def kill(self) -> None:
        """Ends it now."""
        self._process.end()

    def close(self) -> None:
        """Ends it. An empty log is removed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.is_done(GRACE_S)
        self.kill()
        self._stderr.close()
        with contextlib.suppress(OSError):
            if self._log.stat().st_size == 0:
                self._log.unlink()
