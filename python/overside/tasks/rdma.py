"""Measures RDMA by perftest's programs, between the ports of this machine or with another's."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overside.bench import perftest
from overside.tasks.common import ExternalTask, Json, Machine
from overside.tasks.programs import ProgramError, Programs, free_port

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
        name = f"rdma-{test.id.rpartition('/')[2]}-round{round_number}"
        command = command_line(test.parameters, test.parameters["port"] or free_port())
        begin = time.monotonic_ns()
        try:
            with Programs(self._logs, name, timeout_s) as programs:
                said = _said(programs, command, test.parameters["destination"])
            metrics = figures(test.parameters, said.decode(errors="replace"))
        except ProgramError as failure:
            return failure.sample()
        except perftest.PerftestError as error:
            return ProgramError(f"{command[0]} printed {error}").sample()
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


def _said(programs: Programs, command: Sequence[str], destination: str) -> bytes:
    """What the client prints. The server is started before it, where it is here."""
    if destination == "host":
        server = programs.start("server", command, is_read=False)
        server.listen(int(command[command.index("-p") + 1]), _READY_S)
        destination = "127.0.0.1"
    return programs.start("client", [*command, destination]).finish()


TASK = RdmaTask()
