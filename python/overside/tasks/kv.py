"""Measures key-value servers: starts one, loads it by `overside kv bench`, reads its counters."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overside.bench import network_path
from overside.tasks import kv_hop
from overside.tasks.agents import HERE, Agents, is_loopback, native, place
from overside.tasks.common import ExternalTask, Json, Machine
from overside.tasks.kv_hop import Hop
from overside.tasks.programs import Program, ProgramError, Programs, free_port

if TYPE_CHECKING:
    from overside.bench.plan import Test

#: How long a server or an agent may take until it listens.
_READY_S = 20.0
#: Load before the clock starts, as part of the sample.
_WARM_UP = 0.2
#: What starting programs and writing records takes, about.
_START_S = 0.4
#: Parts of a sample whose median is told.
_WINDOWS = 5
#: Memory of a record beside key and value, generously.
_RECORD_BYTES = 128
#: What `overside kv bench` ends with when a value was wrong.
_WRONG_VALUE = 101
#: Where the load is made by the command itself.
_LOCAL = "local"
#: What is spoken where a box does not say.
_PROTOCOLS = {"overside": "redis", "redis": "redis", "memcached": "memcached-meta"}
_SPOKEN = {"redis": ("redis",), "memcached": ("memcached", "memcached-meta")}
#: Parameters of an offloaded server.
_OFFLOADED = ("dpu", "dpu_cores", "link", "link_batch", "overlap")
#: Designs without a communication engine on the DPU, whose clients can speak any protocol.
_CLIENTS_HERE = ("cpu-only", "proc")
#: Designs in which one core of the DPU serves, and nothing else.
_ONE_DPU_CORE = ("lat", "proc")


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
            full |= {"design": "cpu-only", "cores": 1, "send": None}
        if full["design"] == "cpu-only":
            full |= dict.fromkeys(_OFFLOADED)
        if full["design"] in _ONE_DPU_CORE:
            full["dpu_cores"] = 1
        if not _agents(full):
            full["stand_ins"] = None
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
        elif parameters["design"] not in _CLIENTS_HERE and protocol != "redis":
            return f"design {parameters['design']} serves protocol=redis only"
        nodes = _load_nodes(parameters)
        if len(set(nodes)) < len(nodes) or "" in nodes:
            return f"load_from={parameters['load_from']} names a node twice, or none"
        if parameters["mode"] is not None:
            return _no_hop(parameters)
        if parameters["stand_ins"]:
            return None
        missing = (machine.no_node(name) for name in _agents(parameters) if name != HERE)
        return next(filter(None, missing), None)

    def sample_s(self, parameters: Json) -> float:
        """Its programs start, and write the records."""
        return float(parameters["seconds"]) * (1 + _WARM_UP) + _START_S

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
                if test.parameters["mode"] is None:
                    measured = measure(programs, test.parameters)
                else:
                    measured = kv_hop.measure(programs, test.parameters, timeout_s)
        except ProgramError as failure:
            return failure.sample()
        return {
            "status": "ok",
            "provenance": "measured",
            "timing": "real",
            "elapsed_ns": time.monotonic_ns() - begin,
            **measured,
            "warnings": [],
        }

    def clean(self) -> None:
        """Programs end with their samples."""


#: Of other servers, the program and the Debian package that has it.
_PROGRAMS = {"redis": ("redis-server", "redis-server"), "memcached": ("memcached", "memcached")}


def _no_hop(parameters: Json) -> str | None:
    """Why requests cannot pass a hop."""
    if parameters["design"] != "cpu-only" or parameters["load_from"] != _LOCAL:
        return "a mode is between two ends on this machine: leave design and load_from away"
    if parameters["protocol"] != "redis":
        return "memcached's protocols have no password, which a server beyond loopback needs"
    return network_path.unavailable(parameters["mode"])


def _load_nodes(parameters: Json) -> list[str]:
    return str(parameters["load_from"]).split("+")


def _agents(parameters: Json) -> list[str]:
    """Those that take part."""
    nodes = [name for name in _load_nodes(parameters) if name != _LOCAL]
    return nodes if parameters["dpu"] is None else [parameters["dpu"], *nodes]


def measure(programs: Programs, parameters: Json, hop: Hop | None = None) -> Json:
    """What a sample has of a measurement, through a hop if there is one.

    Raises `ProgramError`.
    """
    agents = Agents(programs, _agents(parameters), stand_ins=bool(parameters["stand_ins"]))
    dpu = agents.started.get(parameters["dpu"])
    ip = _server_ip(parameters, agents) if hop is None else hop.server_ip
    server = _serve(programs, parameters, agents, ip)
    place = f"{parameters['protocol']}://{server.address}"
    bench = [native(), "kv", "bench", place, "--json", *_load(parameters)]
    if server.password is not None:
        bench += ["--password-file", str(server.password)]
    _loaded(programs, agents, [*bench, "--seconds", "0.01", "--warm-up", "0"])
    # Both sides may poll: what they burn while nothing is asked is no part of a request.
    links = [_link_counts(parameters, server)]
    cpu = [(server.program.cpu_s(), dpu.cpu_s() if dpu else 0.0)]
    hop_s = hop.cpu_s() if hop else 0.0
    seconds = parameters["seconds"]
    timed = ["--seconds", str(seconds), "--warm-up", str(_WARM_UP * seconds), "--no-load"]
    report = _loaded(programs, agents, [*bench, *timed])
    cpu.append((server.program.cpu_s(), dpu.cpu_s() if dpu else 0.0))
    links.append(_link_counts(parameters, server))
    metrics = {}
    if hop is not None and hop.has_program and report["points"][0]["answered"] > 0:
        metrics["hop_cpu"] = (hop.cpu_s() - hop_s) * 1e6 / report["points"][0]["answered"]
    before, after = ((*times, counts) for times, counts in zip(cpu, links, strict=True))
    return {
        "applied": _applied(parameters, agents, hop),
        "metrics": metrics | figures(report, before, after, has_agent=dpu is not None),
        "histogram": report["points"][0]["latency_histogram"],
        "cpu": {"host_s": after[0] - before[0], "dpu_s": after[1] - before[1], "emulator_s": 0.0},
    }


def _loaded(programs: Programs, agents: Agents, command: Sequence[str]) -> Json:
    """What `overside kv bench` reports."""
    load = programs.start("load", command, agents.variables)
    try:
        report: Json = json.loads(load.finish())
    except ProgramError as failure:
        if load.code == _WRONG_VALUE:
            failure.kind = "verification"
        raise
    return report


@dataclass(frozen=True)
class Server:
    """One that listens."""

    program: Program
    #: Host and port.
    address: str
    #: The file with its password, if other machines reach it.
    password: Path | None


def _serve(programs: Programs, parameters: Json, agents: Agents, ip: str) -> Server:
    """Starts the server where the load reaches it."""
    password = None
    if not is_loopback(ip):
        if parameters["protocol"] != "redis":
            raise ProgramError("memcached's protocols have no password: load them from here only")
        password = programs.logs / f"{programs.name}-password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_hex(16) + "\n")
    if parameters["server"] == "overside":
        command = server_command(parameters, ip, password)
        server = programs.start("server", command, agents.variables)
        said = server.announced()
        address = said["listen" if parameters["protocol"] == "redis" else "memcached"]
        return Server(server, str(address[0]), password)
    port, core = free_port(), parameters["server_core"]
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    if parameters["server"] == "redis":
        command = redis_command(programs, (ip, port), password)
    else:
        command = _memcached_command(parameters, (ip, port))
    server = programs.start("server", [*pinned, *command], is_read=False)
    server.listen(port, _READY_S)
    return Server(server, place(ip, port), password)


def _server_ip(parameters: Json, agents: Agents) -> str:
    """The address that the load reaches: the DPU's where that communicates, or this machine's."""
    dpu = parameters["dpu"]
    if dpu is not None and dpu not in agents.started:
        return agents.ip(dpu)
    for name in _load_nodes(parameters):
        if name != _LOCAL and name not in agents.started:
            return agents.own_ip(name)
    return "127.0.0.1"


def _memory_bytes(parameters: Json) -> int:
    one = int(parameters["key_size"]) + int(parameters["value_size"]) + _RECORD_BYTES
    return 2 * one * int(parameters["records"]) + (64 << 20)


def server_command(parameters: Json, ip: str, password: Path | None) -> list[str]:
    """`overside kv serve` as the parameters have it."""
    command = [native(), "kv", "serve", "--json", "--listen", place(ip, 0), "--drain", "0"]
    if password is not None:
        command += ["--password-file", str(password)]
    command += ["--memory", str(_memory_bytes(parameters)), "--design", parameters["design"]]
    protocol = parameters["protocol"]
    if protocol != "redis":
        command += [f"--{protocol.partition('-')[0]}", place(ip, 0)]
    for name in (*_OFFLOADED, "send", "cores"):
        is_given = parameters[name] not in (None, TASK.parameters[name].default)
        if is_given or (name == "dpu" and parameters[name] is not None):
            command += [f"--{name.replace('_', '-')}", str(parameters[name])]
    if parameters["server_core"] is not None:
        command += ["--core", str(parameters["server_core"])]
    return command + (["--busy-poll"] if parameters["busy_poll"] else [])


def redis_command(programs: Programs, at: tuple[str, int], password: Path | None) -> list[str]:
    """redis-server with nothing on disk. Its password is in a file: everybody sees a command."""
    ip, port = at
    settings = programs.logs / f"{programs.name}-redis.conf"
    settings.touch(mode=0o600)
    words = [f"port {port}", f"bind {ip}", 'save ""']
    if password is not None:
        words.append(f"requirepass {password.read_text().strip()}")
    settings.write_text("\n".join(words) + "\n")
    return ["redis-server", str(settings)]


def _memcached_command(parameters: Json, at: tuple[str, int]) -> list[str]:
    """memcached with one thread."""
    ip, port = at
    mib = str(max(64, _memory_bytes(parameters) >> 20))
    command = ["memcached", "-l", ip, "-p", str(port), "-U", "0", "-t", "1", "-m", mib]
    return [*command, "-u", "nobody"] if os.geteuid() == 0 else command


def _load(parameters: Json) -> list[str]:
    """The options of `overside kv bench`."""
    records = ("workload", "reads", "distribution", "records", "key_size", "value_size")
    words = ["--windows", str(_WINDOWS)]
    for name in (*records, "connections", "pipeline", "threads", "rate"):
        if parameters[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(parameters[name])]
    nodes = _load_nodes(parameters)
    if nodes != [_LOCAL]:
        words += ["--from", ",".join(nodes)]
    if parameters["client_core"] is not None:
        words += ["--core", str(parameters["client_core"])]
        # Between cores of one machine only.
        if parameters["server_core"] is not None and nodes == [_LOCAL]:
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


def _link_counts(parameters: Json, server: Server) -> dict[str, int]:
    """What the server counts of the link, where there is one."""
    if parameters["design"] == "cpu-only":
        return {}
    end = time.monotonic() + _READY_S
    counts: dict[str, int] = {}
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), _READY_S) as connection:
        connection.settimeout(_READY_S)
        if server.password is not None:
            connection.sendall(b"AUTH %s\r\n" % server.password.read_bytes().strip())
            if connection.recv(64) != b"+OK\r\n":
                raise ProgramError("the server does not take its password")
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


def _applied(parameters: Json, agents: Agents, hop: Hop | None) -> dict[str, Any]:
    server, design = parameters["server"], parameters["design"]
    device = "this machine's cores"
    for name in _agents(parameters):
        stands_for = "a DPU" if name == parameters["dpu"] == HERE else "another machine"
        stands_for = stands_for if name == HERE else name
        is_here = name in agents.started
        device += f", an agent in place of {stands_for}" if is_here else f", {name}"
    if hop is not None:
        device += f", {hop.description}"
    return {
        "device": device,
        "driver": "sockets" if design == "cpu-only" else f"link {parameters['link']}",
        "variant": server if server != "overside" else f"overside, {design}",
        "library": server,
        "provenance": "measured",
    }


TASK = KvTask()
