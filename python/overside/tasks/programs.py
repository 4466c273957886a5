"""Programs that a sample starts: they all end with it; their output goes to logs of the run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overside.tasks.common import Json

#: Characters from the end of a log that an error cites.
_CITED = 300


class ProgramError(Exception):
    """Failure of a program, for which a sample has no figures."""

    def __init__(self, message: str, kind: str = "job") -> None:
        super().__init__(message)
        self.kind = kind

    def sample(self) -> Json:
        """A failed sample."""
        error = {"kind": self.kind, "message": str(self)}
        return {"status": "failed", "error": error, "warnings": []}


class Programs:
    """The programs of a sample. All end with it, with their children, in any case."""

    def __init__(
        self,
        logs: Path,
        name: str,
        timeout_s: float,
        namespaces: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`namespaces` are the network namespaces of roles, "" of those that are not named."""
        self.logs, self.name = logs, name
        self._namespaces = namespaces
        self._deadline = time.monotonic() + timeout_s
        self._running: list[subprocess.Popen[bytes]] = []
        self._private: list[Path] = []

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for path in self._private:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def private_file(self, name: str, text: str) -> Path:
        """A file that only this user can read, until the sample ends."""
        path = self.logs / f"{self.name}-{name}"
        path.touch(mode=0o600)
        self._private.append(path)
        path.write_text(text)
        return path

    def private_directory(self) -> Path:
        """A directory that only this user can enter, until the sample ends; its name is short
        enough for a socket's."""
        path = Path(tempfile.mkdtemp(prefix="overside-"))
        self._private.append(path)
        return path

    def start(
        self,
        role: str,
        command: Sequence[str],
        variables: Mapping[str, str] = MappingProxyType({}),
        *,
        is_read: bool = True,
    ) -> Program:
        """Starts a program. What it prints is read here, or goes to its log as well."""
        log = self.logs / f"{self.name}-{role}.log"
        namespace = self._namespaces.get(role, self._namespaces.get(""))
        if namespace is not None:
            command = ["ip", "netns", "exec", namespace, *command]
        with log.open("wb") as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if is_read else err,
                stderr=err,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        self._running.append(process)
        return Program(role, process, log, self._deadline)


class Program:
    """A running program."""

    def __init__(
        self, role: str, process: subprocess.Popen[bytes], log: Path, deadline: float
    ) -> None:
        self._role, self._process, self._log = role, process, log
        self._deadline = deadline

    def announced(self) -> Json:
        """The line of JSON that it prints once it listens."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            said: Json = json.loads(line)
        except ValueError:
            raise self.failure("has ended before it listened") from None
        return said

    def listen(self, port: int, ready_s: float) -> None:
        """Waits until a program listens at its port, without connecting."""
        end = min(self._deadline, time.monotonic() + ready_s)
        while not _listens(self._process.pid, port):
            if self._process.poll() is not None or time.monotonic() > end:
                raise self.failure("did not listen")
            time.sleep(0.01)

    def finish(self) -> bytes:
        """Waits until the program ends, and returns its output."""
        left_s = self._deadline - time.monotonic()
        try:
            out, _ = self._process.communicate(timeout=max(0.1, left_s))
        except subprocess.TimeoutExpired:
            raise self.failure("was not done in time", "timeout") from None
        if self._process.returncode != 0:
            with self._log.open("ab") as log:
                log.write(out)
            raise self.failure(f"ended with code {self._process.returncode}")
        return out

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code; `None` while it runs."""
        return self._process.returncode

    def failure(self, what: str, kind: str = "job") -> ProgramError:
        """Returns an error that describes the failure, with the end of its log."""
        with contextlib.suppress(OSError):
            said = " ".join(self._log.read_text("utf-8", "replace").split())[-_CITED:]
            what = f"{what}: {said}" if said else what
        return ProgramError(f"the {self._role} {what}", kind)

    def cpu_s(self) -> float:
        """CPU seconds of it and of the children that it has waited for."""
        try:
            return cpu_s(self._process.pid)
        except OSError:
            raise self.failure("has ended") from None


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """Returns a port of this machine at which no program listens now."""
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])


def _listens(pid: int, port: int) -> bool:
    """Returns `True` if the port has a listener in the network namespace of the process."""
    ending = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(ending) and fields[3] == "0A":
                    return True
    return False
