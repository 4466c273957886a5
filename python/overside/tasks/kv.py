"""Measures key-value servers: starts one, loads it by `overside kv bench`, reads its counters."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overside.tasks.common import ExternalTask, Json, Machine
from overside.tasks.programs import Program, ProgramError, Programs, free_port

if TYPE_CHECKING:
    from overside.bench.plan import Test

#: How long a server or an agent may take until it listens.
_READY_S = 20.0
#: Load before the clock starts, as part of the sample.
_WARM_UP = 0.2
#: Parts of a sample whose median is told.
_WINDOWS = 5
#: Memory of a record beside key and value, generously.
_RECORD_BYTES = 128
#: What `overside kv bench` ends with when a value was wrong.
_WRONG_VALUE = 101
#: An agent is started on this machine for it.
HERE = "here"
#: What is spoken where a box does not say.
_PROTOCOLS = {"overside": "redis", "redis": "redis", "memcached": "memcached-meta"}
_SPOKEN = {"redis": ("redis",), "memcached": ("memcached", "memcached-meta")}
#: Parameters of an offloaded server.
_OFFLOADED = ("dpu", "link", "link_batch", "overlap")


class KvTask(ExternalTask):
    """A server of its own for each sample. Every value that comes back is verified."""

    def __init__(self) -> None:
        self.declare("kv")
        self._logs = Path()

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults; what has no effect is left out."""
        full = super().normal(parameters)
        full["protocol"] = full["protocol"] or _PROTOCOLS[full["server"]]
        if full["reads"] is not None:
            full["workload"] = None
        if full["server"] != "overside":
            full |= {"design": "cpu-only", "cores": 1}
        if full["design"] == "cpu-only":
            full |= dict.fromkeys(_OFFLOADED)
        return full

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """A program is missing, or the agent; or both sides do not fit each other."""
        server, protocol = parameters["server"], parameters["protocol"]
        if server != "overside":
            if shutil.which(_PROGRAMS[server][0]) is None:
                program, package = _PROGRAMS[server]
                return f"no {program}: apt-get install {package}"
            if protocol not in _SPOKEN[server]:
                return f"{server} does not speak {protocol}"
            if parameters["busy_poll"]:
                return f"{server} cannot poll: leave busy_poll away"
        elif parameters["design"] != "cpu-only":
            if protocol != "redis":
                return f"design {parameters['design']} serves protocol=redis only"
            if parameters["dpu"] != HERE:
                return machine.no_node(parameters["dpu"])
        return None

    def prepare(self, run_dir: Path, tests: Sequence[Test]) -> str | None:
        """See `ExternalTask`."""
        del tests
        self._logs = run_dir / "logs"
        return None

    def sample(self, test: Test, round_number: int, timeout_s: float) -> Json:
        """Starts agent and server, loads the records, and measures."""
        name = f"kv-{test.id.rpartition('/')[2]}-round{round_number}"
        begin = time.monotonic_ns()
        try:
            with Programs(self._logs, name, timeout_s) as programs:
                measured = _measure(programs, test.parameters)
        except ProgramError as failure:
            return failure.sample()
        return {
            "status": "ok",
            "provenance": "measured",
            "timing": "real",
            "applied": _applied(test.parameters),
            "elapsed_ns": time.monotonic_ns() - begin,
            **measured,
            "warnings": [],
        }

    def clean(self) -> None:
        """Programs end with their samples."""


#: Of other servers, the program and the Debian package that has it.
_PROGRAMS = {"redis": ("redis-server", "redis-server"), "memcached": ("memcached", "memcached")}


def _native() -> str:
    """The native command beside this Python."""
    return str(Path(sys.executable).parent / "overside")


def _measure(programs: Programs, parameters: Json) -> Json:
    """What a sample has of a measurement."""
    agent, variables = None, {}
    if parameters["dpu"] == HERE:
        command = [_native(), "agent", "--listen", "127.0.0.1:0", "--json", "--insecure"]
        agent = programs.start("agent", [*command, "--device", "cpu", "-p", "1"])
        variables["OVERSIDE_AGENTS"] = _inventory(programs, agent.announced()["address"])
    server, port = _serve(programs, parameters, variables)
    place = f"{parameters['protocol']}://127.0.0.1:{port}"
    bench = [_native(), "kv", "bench", place, "--json", *_load(parameters)]
    _loaded(programs, [*bench, "--seconds", "0.01", "--warm-up", "0"])
    # Both sides may poll: what they burn while nothing is asked is no part of a request.
    links = [_link_counts(parameters, port)]
    cpu = [(server.cpu_s(), agent.cpu_s() if agent else 0.0)]
    seconds = parameters["seconds"]
    timed = ["--seconds", str(seconds), "--warm-up", str(_WARM_UP * seconds), "--no-load"]
    report = _loaded(programs, [*bench, *timed])
    cpu.append((server.cpu_s(), agent.cpu_s() if agent else 0.0))
    links.append(_link_counts(parameters, port))
    before, after = ((*times, counts) for times, counts in zip(cpu, links, strict=True))
    return {
        "metrics": figures(report, before, after, has_agent=agent is not None),
        "histogram": report["points"][0]["latency_histogram"],
        "cpu": {"host_s": after[0] - before[0], "dpu_s": after[1] - before[1], "emulator_s": 0.0},
    }


def _inventory(programs: Programs, address: str) -> str:
    """A file in which the agent at `address` is called as one that is here."""
    path = programs.logs / f"{programs.name}-agents.toml"
    path.write_text(f'[agents.{HERE}]\naddress = "{address}"\n')
    return str(path)


def _loaded(programs: Programs, command: Sequence[str]) -> Json:
    """What `overside kv bench` reports."""
    load = programs.start("load", command)
    try:
        report: Json = json.loads(load.finish())
    except ProgramError as failure:
        if load.code == _WRONG_VALUE:
            failure.kind = "verification"
        raise
    return report


def _serve(
    programs: Programs, parameters: Json, variables: Mapping[str, str]
) -> tuple[Program, int]:
    """Starts the server; the port where the load goes."""
    core = parameters["server_core"]
    if parameters["server"] == "overside":
        server = programs.start("server", server_command(parameters), variables=variables)
        said = server.announced()
        address = said["listen" if parameters["protocol"] == "redis" else "memcached"]
        return server, int(str(address[0]).rpartition(":")[2])
    port = free_port()
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    server = programs.start("server", [*pinned, *_other(parameters, port)], is_read=False)
    server.listen(port, _READY_S)
    return server, port


def _memory_bytes(parameters: Json) -> int:
    one = int(parameters["key_size"]) + int(parameters["value_size"]) + _RECORD_BYTES
    return 2 * one * int(parameters["records"]) + (64 << 20)


def server_command(parameters: Json) -> list[str]:
    """`overside kv serve` as the parameters have it."""
    command = [_native(), "kv", "serve", "--json", "--listen", "127.0.0.1:0", "--drain", "0"]
    command += ["--memory", str(_memory_bytes(parameters)), "--design", parameters["design"]]
    protocol = parameters["protocol"]
    if protocol != "redis":
        command += [f"--{protocol.partition('-')[0]}", "127.0.0.1:0"]
    for name in (*_OFFLOADED, "cores"):
        is_given = parameters[name] not in (None, TASK.parameters[name].default)
        if is_given or (name == "dpu" and parameters[name] is not None):
            command += [f"--{name.replace('_', '-')}", str(parameters[name])]
    if parameters["server_core"] is not None:
        command += ["--core", str(parameters["server_core"])]
    return command + (["--busy-poll"] if parameters["busy_poll"] else [])


def _other(parameters: Json, port: int) -> list[str]:
    """Redis or memcached with nothing on disk and one thread."""
    if parameters["server"] == "redis":
        return ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    mib = str(max(64, _memory_bytes(parameters) >> 20))
    command = ["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1", "-m", mib]
    return [*command, "-u", "nobody"] if os.geteuid() == 0 else command


def _load(parameters: Json) -> list[str]:
    """The options of `overside kv bench`."""
    records = ("workload", "reads", "distribution", "records", "key_size", "value_size")
    words = ["--windows", str(_WINDOWS)]
    for name in (*records, "connections", "pipeline", "threads", "rate"):
        if parameters[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(parameters[name])]
    if parameters["client_core"] is not None:
        words += ["--core", str(parameters["client_core"])]
        if parameters["server_core"] is not None:
            words += ["--server-core", str(parameters["server_core"])]
    return words + (["--busy-poll"] if parameters["busy_poll"] else [])


def figures(
    report: Json,
    before: tuple[float, float, Mapping[str, int]],
    after: tuple[float, float, Mapping[str, int]],
    *,
    has_agent: bool,
) -> dict[str, float]:
    """The metrics, from what the load generator reported and the counters at both ends of it."""
    (point,) = report["points"]
    latency = point["latency_ns"]
    names = {"p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999"}
    metrics = {
        "rate": point["requests_per_s"]["median"],
        "latency_max": point["latency_max_ns"] / 1e3,
        "client_busy": 100.0 * point["client_busy"],
    }
    metrics |= {f"latency_{name}": latency[key]["median"] / 1e3 for key, name in names.items()}
    if report.get("core_round_trip_ns"):
        metrics["core_round_trip"] = report["core_round_trip_ns"]
    answered = point["answered"]
    if answered > 0:
        metrics["host_cpu"] = (after[0] - before[0]) * 1e6 / answered
        if has_agent:
            metrics["dpu_cpu"] = (after[1] - before[1]) * 1e6 / answered
    counts = {name: after[2][name] - before[2][name] for name in after[2]}
    if counts.get("offload_requests", 0) > 0:
        requests = counts["offload_requests"]
        moved = counts["offload_link_written_bytes"] + counts["offload_link_read_bytes"]
        metrics["link_writes"] = counts["offload_link_writes"] / requests
        metrics["link_bytes"] = moved / requests
    return metrics


def _link_counts(parameters: Json, port: int) -> dict[str, int]:
    """What the server counts of the link, where there is one."""
    if parameters["design"] == "cpu-only":
        return {}
    end = time.monotonic() + _READY_S
    counts: dict[str, int] = {}
    with socket.create_connection(("127.0.0.1", port), _READY_S) as connection:
        connection.settimeout(_READY_S)
        connection.sendall(b"INFO\r\n")
        for line in _bulk(connection, end):
            name, _, value = line.partition(":")
            if name.startswith("offload_") and value.isdecimal():
                counts[name] = int(value)
    return counts


def _bulk(connection: socket.socket, end: float) -> Iterator[str]:
    """The lines of a bulk string."""
    received = b""
    size = None
    while size is None or len(received) < size:
        if time.monotonic() > end or not (part := connection.recv(65536)):
            raise ProgramError("the server did not answer INFO")
        received += part
        if size is None and b"\r\n" in received:
            head, _, received = received.partition(b"\r\n")
            size = int(head[1:])
    yield from received.decode("utf-8", "replace").splitlines()


def _applied(parameters: Json) -> dict[str, Any]:
    server, design = parameters["server"], parameters["design"]
    device = "this machine's cores"
    if parameters["dpu"] == HERE:
        device += ", an agent in place of a DPU"
    elif parameters["dpu"] is not None:
        device += f" and {parameters['dpu']}"
    return {
        "device": device,
        "driver": "sockets" if design == "cpu-only" else f"link {parameters['link']}",
        "variant": server if server != "overside" else f"overside, {design}",
        "library": server,
        "provenance": "measured",
    }


TASK = KvTask()
