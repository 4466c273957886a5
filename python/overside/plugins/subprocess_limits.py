"""Runs one foreign program so that whatever it does, it ends.

Bounded are its time, its output, and its remains:

1. The program leads a process group of its own, which gets SIGTERM and SIGKILL where a limit is
   broken.
2. This process adopts orphans (`PR_SET_CHILD_SUBREAPER`, prctl(2)). Whatever the program started
   and left behind, in whatever session and with whatever environment, is a child of ours once the
   program has ended; children that were not there before are killed and reaped, with theirs, until
   there are none.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

#: Seconds that a program gets to end after SIGTERM, before SIGKILL.
GRACE_S = 1.0
#: Seconds that the output may stay open after the program has ended: a child may keep it open.
DRAIN_S = 1.0
_CHUNK = 1 << 16
_TAIL_BYTES = 4096
#: Longest wait in seconds for remaining children after SIGKILL: one of another user cannot be
#: killed.
KILL_S = 5.0
#: prctl(2).
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_prctl = ctypes.CDLL(None, use_errno=True).prctl
#: Children that were kept and not yet ended: as long as there are any, orphans are adopted.
_kept: set[int] = set()


@dataclass(frozen=True)
class Limits:
    """Limits on a program's time and output."""

    timeout_s: float
    #: Output kept. More ends the program, unless `cut_output`: then the rest is dropped.
    stdout_bytes: int = 16 << 20
    cut_output: bool = False
    #: Seconds that it may run after it closed its output; `None`: as long as the timeout allows.
    linger_s: float | None = 2.0


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
    #: Processes that it left running and that were kept, for `end_children`.
    kept: set[int] = field(default_factory=set)

    @property
    def died(self) -> str | None:
        """A bad exit status in words, beginning with a verb."""
        if self.status is None or self.status == 0:
            return None
        if self.status < 0:
            try:
                name = signal.Signals(-self.status).name
            except ValueError:
                name = f"signal {-self.status}"
            return f"crashed ({name})"
        return f"ended with exit status {self.status}"


class Log:
    """A file for the output of programs, which cannot grow beyond `limit_bytes`."""

    def __init__(self, path: Path, limit_bytes: int = 16 << 20) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._left = limit_bytes - (path.stat().st_size if path.exists() else 0)
        self._file: BinaryIO = path.open("ab", buffering=0)

    def write(self, data: bytes) -> None:
        """Appends the bytes that still fit; notes once that some were cut."""
        if self._left <= 0:
            return
        # A full disk must not fail the test whose log this is.
        with contextlib.suppress(OSError):
            self._file.write(data[: self._left])
            self._left -= len(data)
            if self._left <= 0:
                self._file.write(b"\n[cut here: the log's limit is reached]\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def run(
    argv: Sequence[str],
    limits: Limits,
    *,
    cwd: Path,
    log: Log,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    log_stdout: bool = False,
    keep_children: bool = False,
) -> Outcome:
    """Runs `argv` and returns when it has ended and, unless `keep_children`, all it started.

    Never raises for a failure of the program. `KeyboardInterrupt` ends the program and passes.
    """
    with _adopting_orphans():
        others = _children(_processes())
        started_ns = time.monotonic_ns()
        try:
            process = _start(argv, cwd, os.environ if env is None else env, stdin)
        except OSError as error:
            return Outcome(None, fault="start", message=_cannot_start(argv[0], error))
        watch = None
        try:
            watch = _Watch(process, limits, log, log_stdout, started_ns)
            outcome = watch.until_end()
        except BaseException:
            _end(process)
            _end_all_but(others)
            raise
        finally:
            if watch is not None:
                watch.close()
        if keep_children and not outcome.fault:
            outcome.kept = _children(_processes()) - others
            _kept.update(outcome.kept)
        else:
            outcome.left_behind = _end_all_but(others)
        return outcome


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Makes this process the parent of all orphans below it, as long as it is entered."""
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    try:
        yield
    finally:
        if not _kept:
            _prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _start(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], stdin: bytes
) -> subprocess.Popen[bytes]:
    # In memory and not a pipe: a program that does not read its input cannot block us.
    with open(os.memfd_create("request"), "w+b") as request:
        request.write(stdin)
        request.seek(0)
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=environment,
            stdin=request,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # Dies with us, even if we are killed. Only a system call is made in the child.
            preexec_fn=die_with_parent,  # noqa: PLW1509
        )


@dataclass(frozen=True)
class _Process:
    parent: int
    name: str
    has_ended: bool


def _processes() -> dict[int, _Process]:
    """All processes that can be seen."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            # Processes end while we look.
            with contextlib.suppress(OSError):
                text = Path("/proc", entry, "stat").read_text(errors="replace")
                name, _, rest = text.partition("(")[2].rpartition(")")
                state, parent, *_ = rest.split()
                found[int(entry)] = _Process(int(parent), name, state in {"Z", "X"})
    return found


def _children(processes: Mapping[int, _Process]) -> set[int]:
    me = os.getpid()
    return {pid for pid, process in processes.items() if process.parent == me}


def end_children(pids: Set[int]) -> list[str]:
    """Kills these children and their descendants; returns the names of those that ran."""
    if not pids:
        return []
    with _adopting_orphans():
        _kept.difference_update(pids)
        return _end_all_but(_children(_processes()) - pids)


def _end_all_but(others: Set[int]) -> list[str]:
    """Kills all children but `others`, and their descendants, until there are none: the orphans of
    those that are killed become children too. Returns the names of those that ran."""
    names: dict[int, str] = {}
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        processes = _processes()
        strays = _children(processes) - others
        if not strays:
            break
        for pid in _with_descendants(strays, processes):
            if not processes[pid].has_ended:
                names.setdefault(pid, processes[pid].name)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        for pid in strays:
            _reap(pid, deadline)
    return list(names.values())[:100]


def _with_descendants(roots: Set[int], processes: Mapping[int, _Process]) -> list[int]:
    found, waiting = [], list(roots)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += [child for child, process in processes.items() if process.parent == pid]
    return found


def _reap(pid: int, deadline: float) -> None:
    """Waits for a child until it has ended, or for as long as there is time."""
    with contextlib.suppress(ChildProcessError, ProcessLookupError):
        fd = os.pidfd_open(pid)
        try:
            select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        finally:
            os.close(fd)
        os.waitpid(pid, os.WNOHANG)


def die_with_parent() -> None:
    """In a child that is about to become a program: has the kernel end it with its parent."""
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the group, then SIGKILL; the program is gone when this returns."""
    for what, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, what)
        try:
            process.wait(wait_s)
            break
        except subprocess.TimeoutExpired:
            continue
    # The leader has gone, its group may not have.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class _Watch:
    """Reads a program's output until it ends or breaks a limit."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        limits: Limits,
        log: Log,
        log_stdout: bool,
        started_ns: int,
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.limits = limits
        self.log = log
        self.log_stdout = log_stdout
        self.stdout = bytearray()
        self.tail = b""
        self.selector = selectors.DefaultSelector()
        self.started_ns = started_ns
        self.ended_ns: int | None = None
        self.output_closed_ns: int | None = None
        self.overflow = False
        self._add(process.stdout.fileno(), self._read_stdout)
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
        if self.log_stdout:
            self.log.write(data)
        room = self.limits.stdout_bytes - len(self.stdout)
        self.stdout += data[:room]
        self.overflow = self.overflow or len(data) > room

    def _read_stderr(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        if not data:
            self.selector.unregister(fd)
            return
        self.log.write(data)
        self.tail = (self.tail + data)[-_TAIL_BYTES:]

    def until_end(self) -> Outcome:
        """Reads and waits; ends the program where a limit is broken."""
        fault = None
        while self.selector.get_map():
            fault = self._broken_limit()
            if fault:
                break
            for key, _ in self.selector.select(self._patience_s()):
                key.data(key.fd)
        ended_ns = self.ended_ns or time.monotonic_ns()
        if self.ended_ns is None or fault:
            _end(self.process)
        status = self.process.wait()
        return Outcome(
            status=status,
            stdout=bytes(self.stdout),
            stderr_tail=self.tail.decode("utf-8", "replace"),
            elapsed_ns=ended_ns - self.started_ns,
            fault=fault[0] if fault else None,
            message=fault[1] if fault else "",
        )

    def _broken_limit(self) -> tuple[str, str] | None:
        now_ns = time.monotonic_ns()
        if self.overflow and not self.limits.cut_output:
            return "output", f"wrote more than {self.limits.stdout_bytes >> 20} MiB of output"
        if self.ended_ns is not None:
            if now_ns - self.ended_ns > DRAIN_S * 1e9:
                return "held", "ended, but a child that it left behind still holds its output open"
            return None
        if now_ns - self.started_ns > self.limits.timeout_s * 1e9:
            return "timeout", f"did not end within {self.limits.timeout_s:g} s"
        linger_s = self.limits.linger_s
        if (
            linger_s is not None
            and self.output_closed_ns is not None
            and now_ns - self.output_closed_ns > linger_s * 1e9
        ):
            return "lingering", f"closed its output, but did not end within {linger_s:g} s"
        return None

    def _patience_s(self) -> float:
        """Time until the next limit can be broken."""
        now_ns = time.monotonic_ns()
        deadlines = [self.started_ns + self.limits.timeout_s * 1e9]
        if self.ended_ns is not None:
            deadlines = [self.ended_ns + DRAIN_S * 1e9]
        elif self.output_closed_ns is not None and self.limits.linger_s is not None:
            deadlines.append(self.output_closed_ns + self.limits.linger_s * 1e9)
        return max(0.001, (min(deadlines) - now_ns) / 1e9 + 0.001)

    def close(self) -> None:
        """Lets go of the pipes."""
        self.selector.close()
        os.close(self.pidfd)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
