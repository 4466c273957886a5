"""Measures RDMA by perftest's programs: on this machine, with agents, or with a server that was
started elsewhere."""

from __future__ import annotations

import functools
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overside import _core
from overside.bench import perftest
from overside.processes import ProcessError
from overside.tasks.agents import HERE, Agents, is_loopback
from overside.tasks.common import LOCAL, Json, Machine
from overside.tasks.programs import CannotError, Programs, ProgramTask, free_port

if TYPE_CHECKING:
    from overside.tasks.common import Test

#: This machine, as an end.
HOST = "host"
#: Longest time in seconds until a server listens.
_READY_S = 10.0
#: Parameters that perftest has by the same names; the others are Overside's.
_SAME = ("operation", "metric", "transport", "message_size", "iterations", "inline")
#: Seconds to wait for an agent beyond the program's limit: the agent knows the reason for a
#: missing answer.
_GRACE_S = 0.5


class RdmaTask(ProgramTask):
    """One of perftest's programs at both ends. The bytes that arrive are not checked."""

    def __init__(self) -> None:
        super().__init__("rdma")

    def normal(self, parameters: Json) -> Json:
        """Latencies are of one message at a time, a read has no payload to hand over, and both ends
        on this machine use the same device by default."""
        full = super().normal(parameters)
        if full["metric"] == "latency":
            full["depth"] = full["queue_pairs"] = None
        if full["operation"] == "read":
            full["inline"] = False
        return full

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """No such test, no agent; or no device or program, where an end is on this machine."""
        try:
            program = _program(parameters)
        except ValueError as error:
            return str(error)
        for node in _agents(parameters):
            reason = None if node == HERE else machine.no_node(node)
            if reason is not None:
                return reason
        here = [device for end, device in _ends(parameters) if end in (HOST, HERE)]
        if not here:
            return None
        devices = [device["name"] for device in _devices()]
        if not devices:
            return "no RDMA device: a network card with RDMA and its driver are needed"
        for device in here:
            if parameters[device] not in (None, *devices):
                return f"no RDMA device {parameters[device]}; there are {', '.join(devices)}"
        if shutil.which(program) is None:
            return f"no {program}: apt-get install perftest"
        return None

    def no_node(self, parameters: Json, node: str, machine: Machine) -> str | None:
        """See `Task`."""
        return self.unavailable(_at(parameters, node), machine)

    def measured(self, programs: Programs, test: Test) -> Json:
        """Starts the server, then the client, and reads the client's output."""
        parameters = _at(test.parameters, test.node)
        printed = _measure(programs, parameters)
        try:
            metrics = figures(parameters, printed.text)
        except perftest.PerftestError as error:
            raise ProcessError(f"{_program(parameters)} printed {error}") from None
        source = parameters["source"]
        return {
            "applied": {
                "device": f"{'' if source == HOST else f'{source}/'}{printed.devices[0]['name']}",
                "driver": "perftest",
                "variant": _program(parameters),
                "library": f"libibverbs, {parameters['transport'].upper()}",
                "provenance": "measured",
            },
            "metrics": metrics,
            "warnings": list(printed.warnings()),
        }


@dataclass(frozen=True)
class _Printed:
    """Output of a client, and the devices that both ends used."""

    text: str
    devices: Sequence[Json]
    one_machine: bool

    def warnings(self) -> Sequence[Json]:
        """Returns warnings for readers of the figures."""
        found = []
        over = {
            f"{one['name']} over {one['software_over']}"
            for one in self.devices
            if one["software_over"] is not None
        }
        if over:
            found.append(
                {
                    "kind": "software-rdma",
                    "message": f"RDMA in software ({', '.join(sorted(over))}): "
                    "processors carry the bytes, so nothing of a card is measured",
                    "remedy": "measure on a network card with RDMA",
                }
            )
        if self.one_machine:
            found.append(
                {
                    "kind": "one-machine",
                    "message": "both ends share one machine's cores, with no network between them",
                    "remedy": "give source or destination the name of an agent elsewhere",
                }
            )
        return found


def _at(parameters: Json, node: str) -> Json:
    """The parameters with that node as their host."""
    if node == LOCAL:
        return parameters
    ends = {end: parameters[end] for end in ("source", "destination")}
    return parameters | {end: node if name == HOST else name for end, name in ends.items()}


def _ends(parameters: Json) -> Sequence[tuple[str, str]]:
    """Both ends, and the parameter that names the device of each."""
    source, destination = parameters["source"], parameters["destination"]
    return (source, "device"), (destination, "destination_device")


def _agents(parameters: Json) -> list[str]:
    """The agents that have an end."""
    return [end for end, _ in _ends(parameters) if end != HOST and not _is_address(end)]


def _is_address(end: str) -> bool:
    """Returns `True` if `end` is an address: names of agents have no dots and colons."""
    return "." in end or ":" in end


def _test(parameters: Json, device: str) -> Json:
    """The test as Rust and agents take it, for the end with that device."""
    given = {name: parameters[name] for name in (*_SAME, "depth", "queue_pairs")}
    return given | {
        "device": parameters[device],
        "event": parameters["completion"] == "event",
    }


def _program(parameters: Json) -> str:
    """Returns the name of the program. Raises `ValueError` if there is no such test."""
    return command_line(parameters, "device", 1024)[0]


def command_line(parameters: Json, device: str, port: int) -> list[str]:
    """Returns the command that starts an end; the client's gets the server's address appended.

    Raises `ValueError` if there is no such test.
    """
    return _core.perftest_command(json.dumps(_test(parameters, device)), port)


def figures(parameters: Json, said: str) -> dict[str, float]:
    """The metrics in a client's output.

    Raises `perftest.PerftestError`, also if it measured something else than requested, and
    `CannotError`.
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
    message_size = parameters["message_size"]
    if table["message_size"] != message_size:
        raise perftest.PerftestError(f"{table['message_size']:.0f} bytes, not {message_size}")
    if parameters["inline"]:
        # It goes on without what a device has not.
        most = perftest.inline_bytes(said)
        if most < message_size:
            raise CannotError(f"the device takes payloads of at most {most} bytes inline")
    return metrics


def _measure(programs: Programs, parameters: Json) -> _Printed:
    """Runs the test and returns the client's output.

    The server is started first, unless it runs already.
    """
    (source, own), (destination, other) = _ends(parameters)
    agents = Agents(programs, _agents(parameters), stand_ins=False)
    probes: list[_core.AgentProbe] = []

    def ask(node: str, question: Callable[[int], Json]) -> Json:
        address, keys = agents.entry(node)
        try:
            probe = _core.AgentProbe(node, address, keys, "perftest")
            probes.append(probe)
            left_s = max(0.1, programs.deadline - time.monotonic())
            asked = json.dumps(question(round(left_s * 1e3)))
            reply: Json = json.loads(probe.ask(asked, left_s + _GRACE_S))
        except ConnectionError as error:
            raise ProcessError(f"{node}: {error}", "lost") from None
        failed = reply.get("failed")
        if failed is not None:
            message = f"{node}: {failed['message']}"
            if failed["kind"] == "unsupported":
                raise CannotError(message)
            raise ProcessError(message, failed["kind"])
        return reply

    def serve() -> tuple[str, int, Json | None]:
        if destination == HOST:
            port = parameters["port"] or free_port()
            command = command_line(parameters, other, port)
            programs.start("server", command, is_read=False).listen(port, _READY_S)
            address = "127.0.0.1" if source == HOST else agents.own_ip(source)
            return address, port, _device(parameters[other])
        if _is_address(destination):
            if parameters["port"] is None:
                raise CannotError(f"the port of perftest's server at {destination} is not given")
            return destination, parameters["port"], None
        reply = ask(
            destination,
            lambda left_ms: {
                "serve": {"test": _test(parameters, other), "timeout_ms": left_ms},
            },
        )["listening"]
        return agents.ip(destination), reply["port"], reply["device"]

    try:
        address, port, far = serve()
        if source == HOST:
            command = [*command_line(parameters, own, port), address]
            text = programs.start("client", command).finish().decode(errors="replace")
            near = _device(parameters[own])
        else:
            test = _test(parameters, own)
            run = {"test": test, "server": address, "port": port}
            reply = ask(source, lambda left_ms: {"run": run | {"timeout_ms": left_ms}})["printed"]
            text, near = reply["text"], reply["device"]
    finally:
        for probe in reversed(probes):
            probe.close()
    nodes = [end for end in (source, destination) if end != HOST]
    one_machine = far is not None and (
        source == destination or all(is_loopback(agents.ip(node)) for node in nodes)
    )
    return _Printed(text, [one for one in (near, far) if one is not None], one_machine)


@functools.cache
def _devices() -> Sequence[Json]:
    found: Sequence[Json] = json.loads(_core.rdma_devices())
    return found


def _device(name: str | None) -> Json:
    """This machine's device of that name, or its first."""
    return next(device for device in _devices() if name in (None, device["name"]))


TASK = RdmaTask()
