"""The one way to start other programs: `output` and `run` wait for one, a `Process` runs on.

Time and output of a program are bounded. It leads a process group, which ends with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PIPE, STDOUT = subprocess.PIPE, subprocess.STDOUT
#: Seconds that a program gets to end after SIGTERM, before SIGKILL.
GRACE_S = 1.0
#: Seconds that the output may stay open after the program has ended: a child may keep it open.
DRAIN_S = 1.0
_CHUNK = 1 << 16
_TAIL_BYTES = 4096
#: Characters from the end of what a program said that an error cites, and of its command.
_CITED, _COMMAND = 300, 100
#: prctl(2), found before a child is forked.
_prctl = ctypes.CDLL(None, use_errno=True).prctl
_PR_SET_PDEATHSIG = 1


class ProcessError(Exception):
    """Failure of a program: which one, what happened, and the last that it said."""

    def __init__(self, what: str, kind: str = "job", command: Sequence[str] = ()) -> None:
        #: Event, in words, beginning with a verb.
        self.what = what
        #: Kind of the error in a failed sample: `timeout`, `job`, or what the program reported.
        self.kind = kind
        shown = shlex.join([Path(command[0]).name, *command[1:]]) if command else ""
        if len(shown) > _COMMAND:
            shown = f"{shown[:_COMMAND]}..."
        super().__init__(f"`{shown}` {what}" if shown else what)

    def json(self) -> dict[str, str]:
        """The error of a failed sample."""
        return {"kind": self.kind, "message": str(self)}


def cited(said: str | bytes) -> str:
    """The end of what a program said, on one line; empty, or beginning with a colon."""
    text = said if isinstance(said, str) else said.decode("utf-8", "replace")
    folded = " ".join(text.split())[-_CITED:]
    return f": {folded}" if folded else ""


@dataclass(frozen=True)
class Limits:
    """Limits on a program's time and output."""

    timeout_s: float
    #: Output kept. More ends the program, unless `cut_output`: then the rest is dropped.
    stdout_bytes: int = 16 << 20
    cut_output: bool = False
    #: Seconds that it may run after it closed its output; `None`: as long as the timeout allows.
    linger_s: float | None = None


@dataclass
class Outcome:
    """Outcome of running a program."""

    #: Exit status; negative: the signal that ended it; `None`: it could not be started.
    status: int | None
    stdout: bytes = b""
    #: Last part of its stderr.
    stderr_tail: str = ""
    elapsed_ns: int = 0
    #: `start`, `timeout`, `output`, `lingering`, `held`, or `None`: it ended by itself.
    fault: str | None = None
    #: The fault in words, beginning with a verb.
    message: str = ""
    #: Names of processes that were still there after it ended.
    left_behind: list[str] = field(default_factory=list)
    #: Processes that it left running and that were kept, for `orphans.end_children`.
    kept: set[int] = field(default_factory=set)

    @property
    def failure(self) -> str | None:
        """The fault, or a bad exit status, in words, beginning with a verb; `None` without any."""
        return self.message if self.fault else ending(self.status) if self.status else None


def ending(status: int) -> str:
    """An exit status in words, beginning with a verb."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = "; is there enough memory?" if status == -signal.SIGKILL else ""
    return f"crashed ({name}{hint})"


class Process(subprocess.Popen[bytes]):
    """A running program. Its input is empty and its output that of this process, unless `options`,
    those of `Popen`, say otherwise. As a context, it ends with its group when that is left."""

    def __init__(
        self, command: Sequence[str], *, dies_with_parent: bool = False, **options: Any
    ) -> None:
        """`dies_with_parent`: even if this process is killed. Raises `ProcessError`."""
        options = {"stdin": subprocess.DEVNULL, "bufsize": 0} | options
        if dies_with_parent:
            # Only a system call is made in the child.
            options["preexec_fn"] = _die_with_parent
        self.started_ns = time.monotonic_ns()
        try:
            super().__init__(command, start_new_session=True, **options)
        except OSError as error:
            raise ProcessError(_cannot_start(command[0], error), command=command) from error

    def __exit__(self, *_: object) -> None:
        self.end()

    def is_done(self, within_s: float) -> bool:
        """Waits until it ends, for this long; returns `False` if it has not."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(within_s)
        return self.returncode is not None

    def end(self, grace_s: float = 0.0) -> None:
        """Ends its group, after SIGTERM and `grace_s` if that is not 0, and closes its pipes."""
        if grace_s:
            self._signal_group(signal.SIGTERM)
            self.is_done(grace_s)
        # The leader may have gone, its group may not have.
        self._signal_group(signal.SIGKILL)
        self.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()

    def _signal_group(self, which: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, which)

    def first_line(self, timeout_s: float) -> bytes:
        """First line that it prints, as where it listens; without an end of line if that does not
        come in time."""
        assert self.stdout is not None
        line, deadline = b"", time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        while len(line) < _CHUNK and poll.poll(max(0.0, deadline - time.monotonic()) * 1e3):
            byte = self.stdout.read(1)
            line += byte
            if byte in (b"", b"\n"):
                break
        return line

    def outcome(
        self,
        limits: Limits,
        log: Callable[[bytes], None] | None = None,
        *,
        log_stdout: bool = False,
    ) -> Outcome:
        """Reads the pipes until it ends; ends its group where a limit is broken. `log` gets what it
        says on stderr, and with `log_stdout` the rest, too."""
        watch = _Watch(self, limits, log, log_stdout)
        try:
            return watch.until_end()
        finally:
            watch.close()
            self._close_pipes()


def run(command: Sequence[str], limits: Limits, *, stdin: bytes = b"") -> Outcome:
    """Runs a program and returns when its group has ended.

    Never raises for a failure of the program. `KeyboardInterrupt` ends it and passes.
    """
    try:
        process = start_reading(command, stdin)
    except ProcessError as error:
        return Outcome(None, fault="start", message=error.what)
    with process:
        return process.outcome(limits)


def output(command: Sequence[str], timeout_s: float, *, stdin: bytes = b"") -> bytes:
    """Runs a program and returns its output. Raises `ProcessError` unless it succeeds."""
    done = run(command, Limits(timeout_s), stdin=stdin)
    if done.failure is not None:
        kind = "timeout" if done.fault == "timeout" else "job"
        raise ProcessError(done.failure + cited(done.stderr_tail), kind, command)
    return done.stdout


def start_reading(command: Sequence[str], stdin: bytes, **options: Any) -> Process:
    """Starts a program to read what it prints. Raises `ProcessError`."""
    # In memory and not a pipe: a program that does not read its input cannot block us.
    with open(os.memfd_create("request"), "w+b") as request:
        request.write(stdin)
        request.seek(0)
        return Process(command, stdin=request, stdout=PIPE, stderr=PIPE, **options)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _cannot_start(path: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"cannot be started: {path} is not executable; chmod +x {path}"
    if isinstance(error, FileNotFoundError):
        if not Path(path).exists():
            return f"cannot be started: {path} does not exist"
        return f"cannot be started: the interpreter in the first line of {path} does not exist"
    if error.errno == 8:
        return (
            f"cannot be started: {path} is no program for this machine; a script needs a first "
            "line such as #!/usr/bin/env python3"
        )
    return f"cannot be started: {path}: {error.strerror or error}"


class _Watch:
    """Reads a program's pipes until it ends or breaks a limit."""

    def __init__(
        self,
        process: Process,
        limits: Limits,
        log: Callable[[bytes], None] | None,
        log_stdout: bool,
    ) -> None:
        self.process = process
        self.limits = limits
        self.log = log
        self.log_stdout = log_stdout
        self.stdout = bytearray()
        self.tail = b""
        self.selector = selectors.DefaultSelector()
        self.ended_ns: int | None = None
        self.output_closed_ns: int | None = None
        self.overflow = False
        if process.stdout is not None:
            self._add(process.stdout.fileno(), self._read_stdout)
        if process.stderr is not None:
            self._add(process.stderr.fileno(), self._read_stderr)
        self.pidfd = os.pidfd_open(process.pid)
        self._add(self.pidfd, self._read_exit)

    def _add(self, fd: int, action: Callable[[int], None]) -> None:
        os.set_blocking(fd, False)
        self.selector.register(fd, selectors.EVENT_READ, action)

    def _read_exit(self, fd: int) -> None:
        self.selector.unregister(fd)
        self.ended_ns = time.monotonic_ns()

    def _read_stdout(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        if not data:
            self.selector.unregister(fd)
            self.output_closed_ns = time.monotonic_ns()
            return
        if self.log is not None and self.log_stdout:
            self.log(data)
        room = self.limits.stdout_bytes - len(self.stdout)
        self.stdout += data[:room]
        self.overflow = self.overflow or len(data) > room

    def _read_stderr(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        if not data:
            self.selector.unregister(fd)
            return
        if self.log is not None:
            self.log(data)
        self.tail = (self.tail + data)[-_TAIL_BYTES:]

    def until_end(self) -> Outcome:
        """Reads and waits; ends the program where a limit is broken."""
        fault, message = None, ""
        while self.selector.get_map():
            if self.overflow and not self.limits.cut_output:
                fault = "output"
                message = f"wrote more than {self.limits.stdout_bytes >> 20} MiB of output"
                break
            end_ns, *broken = self._next_limit()
            left_s = (end_ns - time.monotonic_ns()) / 1e9
            if left_s < 0:
                fault, message = broken
                break
            for key, _ in self.selector.select(left_s + 0.001):
                key.data(key.fd)
        ended_ns = self.ended_ns or time.monotonic_ns()
        if fault:
            self.process.end(GRACE_S)
        return Outcome(
            status=self.process.wait(),
            stdout=bytes(self.stdout),
            stderr_tail=self.tail.decode("utf-8", "replace"),
            elapsed_ns=ended_ns - self.process.started_ns,
            fault=fault,
            message=message,
        )

    def _next_limit(self) -> tuple[float, str, str]:
        """Time of the next limit, and the fault when that passes."""
        if self.ended_ns is not None:
            said = "ended, but a child that it left behind still holds its output open"
            return self.ended_ns + DRAIN_S * 1e9, "held", said
        timeout_s, linger_s = self.limits.timeout_s, self.limits.linger_s
        end_ns = self.process.started_ns + timeout_s * 1e9
        timeout = (end_ns, "timeout", f"did not end within {timeout_s:g} s")
        if linger_s is None or self.output_closed_ns is None:
            return timeout
        said = f"closed its output, but did not end within {linger_s:g} s"
        return min(timeout, (self.output_closed_ns + linger_s * 1e9, "lingering", said))

    def close(self) -> None:
        """Lets go of what it waited on."""
        self.selector.close()
        os.close(self.pidfd)
