"""Programs that a sample starts: they all end with it; their output goes to logs of the run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from overside.bench import network_path
from overside.processes import PIPE, Limits, Process, ProcessError, cited, cpu_s
from overside.tasks.common import ExternalTask, Json

if TYPE_CHECKING:
    from overside.tasks.common import Test

#: Seconds that a process in namespaces may need in addition to the sample, to make them.
_BUILDING_S = 20.0


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
        self.deadline = time.monotonic() + timeout_s
        self._running: list[Process] = []
        self._private: list[Path] = []

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._running):
            process.end()
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
            process = Process(
                command,
                stdout=PIPE if is_read else err,
                stderr=err,
                env={**os.environ, **variables},
            )
        self._running.append(process)
        return Program(role, process, log, self.deadline)


class Program:
    """A running program."""

    def __init__(self, role: str, process: Process, log: Path, deadline: float) -> None:
        self._role, self._process, self._log = role, process, log
        self._deadline = deadline

    def announced(self) -> Json:
        """The line of JSON that it prints once it listens."""
        try:
            said: Json = json.loads(self._process.first_line(self._deadline - time.monotonic()))
        except ValueError:
            raise self.failure("did not say where it listens") from None
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
        limit_s = self._deadline - self._process.started_ns / 1e9
        done = self._process.outcome(Limits(max(0.1, limit_s)))
        if done.fault == "timeout":
            raise self.failure("was not done in time", "timeout")
        if done.failure is not None:
            with self._log.open("ab") as log:
                log.write(done.stdout)
            raise self.failure(done.failure)
        return done.stdout

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code; `None` while it runs."""
        return self._process.returncode

    def failure(self, what: str, kind: str = "job") -> ProcessError:
        """Returns an error that describes the failure, with the end of its log."""
        with contextlib.suppress(OSError):
            what += cited(self._log.read_bytes())
        return ProcessError(f"the {self._role} {what}", kind)

    def cpu_s(self) -> float:
        """CPU seconds of it and of the children that it has waited for."""
        try:
            return cpu_s(self._process.pid)
        except OSError:
            raise self.failure("has ended") from None


class CannotError(Exception):
    """An end cannot do this; nothing has gone wrong."""


class ProgramTask(ExternalTask):
    """A task that starts programs for each sample."""

    def __init__(self, name: str) -> None:
        self.declare(name)
        self._logs = Path()

    def prepare(self, run_dir: Path, tests: Sequence[Test]) -> str | None:
        """See `ExternalTask`."""
        del tests
        self._logs = run_dir / "logs"
        return None

    def sample(self, test: Test, round_number: int, timeout_s: float) -> Json:
        """Measures by programs, which end with the sample."""
        name = f"{self.name}-{test.id.rpartition('/')[2]}-round{round_number}"
        begin = time.monotonic_ns()
        try:
            with Programs(self._logs, name, timeout_s) as programs:
                measured = self.measured(programs, test)
        except CannotError as reason:
            return {"status": "skipped", "reason": str(reason), "warnings": []}
        except ProcessError as failure:
            return {"status": "failed", "error": failure.json(), "warnings": []}
        return {
            "status": "ok",
            "provenance": "measured",
            "timing": "real",
            "elapsed_ns": time.monotonic_ns() - begin,
            "warnings": [],
            **measured,
        }

    @abstractmethod
    def measured(self, programs: Programs, test: Test) -> Json:
        """The measured part of a sample. Raises `CannotError` or `ProcessError`."""

    def clean(self) -> None:
        """Programs end with their samples."""


def in_namespaces(programs: Programs, role: str, module: str, **more: object) -> Json:
    """Answer that `answer` prints in a process of that module, in network namespaces of its own.

    Raises `ProcessError`, also where it did.
    """
    timeout_s = programs.deadline - time.monotonic() - _BUILDING_S
    asked = {"logs": str(programs.logs), "name": programs.name, "timeout_s": timeout_s, **more}
    command = [*network_path.prefix(), sys.executable, "-m", module, json.dumps(asked)]
    said: Json = json.loads(programs.start(role, command).finish())
    if "error" in said:
        raise ProcessError(said["error"]["message"], said["error"]["kind"])
    return said


def answer(measure: Callable[[Json], Json]) -> None:
    """Prints what `measure` returns for what the command line asks, or why it failed."""
    try:
        said = measure(json.loads(sys.argv[1]))
    except ProcessError as failure:
        said = {"error": failure.json()}
    print(json.dumps(said))


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
