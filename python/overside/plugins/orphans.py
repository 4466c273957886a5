"""Runs one foreign program so that whatever it does, it ends, and all that it has started.

This process adopts orphans (`PR_SET_CHILD_SUBREAPER`, prctl(2)). Whatever the program started and
left behind, in whatever session and with whatever environment, is a child of ours once the program
has ended; children that were not there before are killed and reaped, with theirs, until there are
none.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from overside.processes import GRACE_S, Limits, Outcome, ProcessError, start_reading

#: Longest wait in seconds for remaining children after SIGKILL: one of another user cannot be
#: killed.
KILL_S = 5.0
#: prctl(2).
_PR_SET_CHILD_SUBREAPER = 36
_prctl = ctypes.CDLL(None, use_errno=True).prctl
#: Children that were kept and not yet ended: as long as there are any, orphans are adopted.
_kept: set[int] = set()


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
        environment = os.environ if env is None else env
        try:
            process = start_reading(argv, stdin, cwd=cwd, env=environment, dies_with_parent=True)
        except ProcessError as error:
            return Outcome(None, fault="start", message=error.what)
        try:
            outcome = process.outcome(limits, log.write, log_stdout=log_stdout)
        except BaseException:
            process.end(GRACE_S)
            _end_all_but(others)
            raise
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
