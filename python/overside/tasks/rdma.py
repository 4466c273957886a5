"""Measures RDMA by perftest's programs, between the ports of this machine or with another's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from overside.bench import perftest
from overside.tasks.common import ExternalTask, Json, Machine

if TYPE_CHECKING:
    from overside.bench.plan import Test

_DEVICES = Path("/sys/class/infiniband")
#: How long a server may take until it listens.
_READY_S = 10.0


class RdmaTask(ExternalTask):
    """One of perftest's programs at both ends. Nobody looks at the bytes that arrive."""

    def __init__(self) -> None:
        self.declare("rdma")
        self._logs = Path()

    def normal(self, parameters: Json) -> Json:
        """Latencies are of one message at a time."""
        full = super().normal(parameters)
        if full["metric"] == "latency":
            full["depth"] = full["queue_pairs"] = None
        return full

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """No device, or no program."""
        del machine
        try:
            devices = sorted(path.name for path in _DEVICES.iterdir())
        except OSError:
            devices = []
        if not devices:
            return "no RDMA device: a network card with RDMA and its driver are needed"
        if parameters["device"] not in (None, *devices):
            return f"no RDMA device {parameters['device']}; there are {', '.join(devices)}"
        if shutil.which(_program(parameters)) is None:
            return f"no {_program(parameters)}: apt-get install perftest"
        return None

    def prepare(self, run_dir: Path, tests: Sequence[Test]) -> str | None:
        """See `ExternalTask`."""
        del tests
        self._logs = run_dir / "logs"
        return None

    def sample(self, test: Test, round_number: int, timeout_s: float) -> Json:
        """Starts the server, where it is here, then the client, and reads what that says."""
        log = self._logs / f"rdma-{test.id.rpartition('/')[2]}-round{round_number}.log"
        deadline = time.monotonic() + timeout_s
        command = command_line(test.parameters, test.parameters["port"] or _free_port())
        begin = time.monotonic_ns()
        with contextlib.ExitStack() as stack, log.open("wb") as out:
            destination = test.parameters["destination"]
            if destination == "host":
                server = stack.enter_context(_running(command, out))
                if not _listens(server, int(command[command.index("-p") + 1]), deadline):
                    return _failed("the server did not listen", log)
                destination = "127.0.0.1"
            client = stack.enter_context(_running([*command, destination], out, capture=True))
            try:
                said, _ = client.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                return _failed(f"not done within {timeout_s:g} s", log, "timeout")
            out.write(said)
            if client.returncode != 0:
                return _failed(f"{command[0]} ended with code {client.returncode}", log)
        try:
            metrics = figures(test.parameters, said.decode(errors="replace"))
        except perftest.PerftestError as error:
            return _failed(f"{command[0]} printed {error}", log)
        return {
            "status": "ok",
            "provenance": "measured",
            "timing": "real",
            "applied": {
                "device": test.parameters["device"] or "first RDMA device",
                "driver": "perftest",
                "variant": command[0],
                "library": "libibverbs",
                "provenance": "measured",
            },
            "elapsed_ns": time.monotonic_ns() - begin,
            "metrics": metrics,
            "warnings": [],
        }

    def clean(self) -> None:
        """Programs end with their samples."""


def _program(parameters: Json) -> str:
    suffix = "lat" if parameters["metric"] == "latency" else "bw"
    return f"ib_{parameters['operation']}_{suffix}"


def command_line(parameters: Json, port: int) -> list[str]:
    """What both ends are started by; the client's has the server's address behind it."""
    command = [_program(parameters), "-F", "-p", str(port)]
    if parameters["device"] is not None:
        command += ["-d", parameters["device"]]
    command += ["-s", str(parameters["message_size"]), "-n", str(parameters["iterations"])]
    if parameters["completion"] == "event":
        command.append("-e")
    if parameters["metric"] == "bandwidth":
        command += ["--report_gbits", "-q", str(parameters["queue_pairs"])]
        command += ["-t", str(parameters["depth"])]
    return command


def figures(parameters: Json, said: str) -> dict[str, float]:
    """The metrics in what a client printed.

    Raises `perftest.PerftestError`, also if it measured something else than was asked for.
    """
    if parameters["metric"] == "bandwidth":
        table = perftest.bandwidth(said)
        metrics = {
            "throughput": table["mean_gbit_per_s"] * 125,
            "bit_rate": table["mean_gbit_per_s"],
            "peak_bit_rate": table["peak_gbit_per_s"],
            "rate": table["mega_messages_per_s"] * 1e6,
        }
    else:
        table = perftest.latency(said)
        # It divides the round trips of messages that go both ways by two.
        factor = 1 if parameters["operation"] == "read" else 2
        names = ("p50", "mean", "min", "max", "p99", "p999")
        metrics = {f"latency_{name}": table[name] * factor for name in names}
    if table["message_size"] != parameters["message_size"]:
        size = f"{table['message_size']:.0f}"
        raise perftest.PerftestError(f"{size} bytes, not {parameters['message_size']}")
    return metrics


@contextlib.contextmanager
def _running(
    command: Sequence[str], out: IO[bytes], capture: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is ended with everything it started, whatever happens."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if capture else out,
        stderr=out,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])


def _listens(server: subprocess.Popen[bytes], port: int, deadline: float) -> bool:
    """Waits until a process listens at a port, without connecting: the server takes one client."""
    deadline = min(deadline, time.monotonic() + _READY_S)
    ending = f":{port:04X}"
    while server.poll() is None and time.monotonic() < deadline:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with contextlib.suppress(OSError):
                for line in Path(table).read_text().splitlines()[1:]:
                    fields = line.split()
                    if fields[1].endswith(ending) and fields[3] == "0A":
                        return True
        time.sleep(0.02)
    return False


def _failed(message: str, log: Path, kind: str = "job") -> Json:
    try:
        said = " ".join(log.read_text("utf-8", "replace").split())[-300:]
    except OSError:
        said = ""
    error = {"kind": kind, "message": f"{message}: {said}" if said else message}
    return {"status": "failed", "error": error, "warnings": []}


TASK = RdmaTask()
