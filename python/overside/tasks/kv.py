"""Measures key-value servers: starts one, loads it by `overside kv bench`, reads its counters."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from overside import _core
from overside.bench import network_path
from overside.processes import ProcessError
from overside.tasks import kv_cases, kv_hop, kv_servers
from overside.tasks.agents import HERE, Agents, native
from overside.tasks.common import LOCAL, Json, Machine
from overside.tasks.kv_hop import Hop
from overside.tasks.kv_servers import (
    BOTH_SIDES,
    CLIENTS_HERE,
    OFFLOADED,
    READY_S,
    WITHOUT_PASSWORD,
    Server,
    agents_of,
    load_nodes,
)
from overside.tasks.programs import Programs, ProgramTask

if TYPE_CHECKING:
    from overside.tasks.common import Test

#: Load before the clock starts, as part of the sample.
_WARM_UP = 0.2
#: Typical seconds for starting programs and writing records.
_START_S = 0.4
#: Parts of a sample, whose median is the result.
_WINDOWS = 5
#: Exit code of `overside kv bench` if a value was wrong.
_WRONG_VALUE = 101
#: Protocol of each server if a box gives none.
_PROTOCOLS = {"overside": "redis", "redis": "redis", "memcached": "memcached-meta"}
_SPOKEN = {"redis": ("redis",), "memcached": ("memcached", "memcached-meta")}
#: Metrics of this machine's cores, by their names in `overside kv bench`.
_CALIBRATION = {"core_round_trip": "core_round_trip_ns", "hash_time": "hash_ns_per_key"}
#: Bytes of clients' connections, by their names in `INFO`.
_CLIENT_BYTES = {"total_net_input_bytes": "client_bytes", "total_net_output_bytes": "reply_bytes"}
#: Most clients that write requests into the server's memory.
_HERD_CLIENTS_MAX = 256
#: Most endpoints that `overside kv bench` takes.
_ENDPOINTS_MAX = 64
#: Records of the study, where the machine has the memory.
_RECORDS_MAX = 192_000_000


class KvTask(ProgramTask):
    """A server of its own for each sample. Every value that comes back is verified."""

    def __init__(self) -> None:
        super().__init__("kv")

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults; removes parameters without effect."""
        full = kv_cases.normal(super().normal(parameters))
        full["protocol"] = full["protocol"] or _PROTOCOLS[full["server"]]
        if full["reads"] is not None:
            full["workload"] = None
        if full["server"] != "overside":
            full |= {"design": "cpu-only", "cores": 1, "send": None, "driver": None}
            full |= {"stages": False}
        if full["protocol"] != "datagram":
            full["rx_queue"] = None
        if full["design"] == "cpu-only":
            link = full["link"] if full["protocol"] == "herd" else None
            full |= dict.fromkeys(OFFLOADED) | {"link": link}
        full |= _cores(full)
        if full["load"] is not None:
            full["rate"] = None
        if full["design"] not in BOTH_SIDES:
            full["direct_connections"] = None
        if not agents_of(full):
            full["stand_ins"] = None
        cores = network_path.forwarding_cores(full["mode"], full["forwarding_cores"])
        return full | {"forwarding_cores": cores}

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """A program is missing, or the agent; or both sides do not fit each other."""
        if reason := kv_cases.unavailable(parameters):
            return reason
        server, protocol = parameters["server"], parameters["protocol"]
        if server != "overside":
            if shutil.which(_PROGRAMS[server][0]) is None:
                program, package = _PROGRAMS[server]
                return f"no {program}: apt-get install {package}"
            if protocol not in _SPOKEN[server]:
                return f"{server} does not speak {protocol}"
            if parameters["busy_poll"]:
                return f"{server} cannot poll: leave busy_poll away"
        elif reason := _no_transport(parameters, machine):
            return reason
        if parameters["stages"] and (reason := _no_stages(parameters)):
            return reason
        direct = parameters["direct_connections"]
        if direct is not None and protocol == "datagram":
            return "direct_connections: datagrams go to one endpoint"
        if direct is not None and direct + parameters["connections"] > _ENDPOINTS_MAX:
            return f"direct_connections: both sides have {_ENDPOINTS_MAX} connections at most"
        nodes = load_nodes(parameters)
        if len(set(nodes)) < len(nodes) or "" in nodes:
            return f"load_from={parameters['load_from']} names a node twice, or none"
        if parameters["mode"] is not None:
            return _no_hop(parameters)
        if parameters["stand_ins"]:
            return None
        missing = (machine.no_node(name) for name in agents_of(parameters) if name != HERE)
        return next(filter(None, missing), None)

    def no_node(self, parameters: Json, node: str, machine: Machine) -> str | None:
        """See `Task`. Agents start this server; `design` and `dpu` define where its engines are."""
        if parameters["server"] != "overside":
            return f"an agent starts no {parameters['server']}: leave server or node away"
        if parameters["case"] is not None:
            return "case says where the server is: leave case or node away"
        if parameters["design"] != "cpu-only":
            return (
                f"design={parameters['design']} has a side on this machine, and dpu names the "
                "other's: leave design or node away"
            )
        reason = self.unavailable(_at(parameters, node), machine)
        # Nobody has given a design.
        return reason and reason.replace("leave design", "leave node")

    def sample_s(self, parameters: Json) -> float:
        """Returns the seconds of a sample: load, start of programs and writing of records."""
        loads = 2 if parameters["stages"] or parameters["load"] else 1
        return loads * float(parameters["seconds"]) * (1 + _WARM_UP) + _START_S

    def measured(self, programs: Programs, test: Test) -> Json:
        """Starts agent and server, loads the records, and measures."""
        parameters = _at(test.parameters, test.node)
        if parameters["mode"] is None:
            return measure(programs, parameters)
        return kv_hop.measure(programs, parameters)


def _cores(full: Json) -> Json:
    """Cores of both sides, as the design has them."""
    cores, dpu_cores = full["cores"], full["dpu_cores"]
    match full["design"]:
        case "cpu-only":
            return {}
        case "lat":
            # Each core has a partner on the other side.
            dpu_cores = cores
        case "shrd":
            dpu_cores = dpu_cores or cores
        case "dual":
            # One only answers the DPU's cores.
            cores = max(2, cores)
        case "sav" | "dpu-only":
            cores = 1
    return {"cores": cores, "dpu_cores": dpu_cores or 1}


def _at(parameters: Json, node: str) -> Json:
    """The parameters with everything that serves on that node: an agent is then all of the DPU."""
    if node == LOCAL:
        return parameters
    there = {"design": "dpu-only", "dpu": node, "dpu_cores": parameters["cores"], "cores": 1}
    return parameters | there


#: Programs of other servers, each with the Debian package that has it.
_PROGRAMS = {"redis": ("redis-server", "redis-server"), "memcached": ("memcached", "memcached")}


def _no_transport(parameters: Json, machine: Machine) -> str | None:
    """Returns the reason why requests cannot use this protocol and driver; `None` if they can."""
    protocol, design, driver = (parameters[name] for name in ("protocol", "design", "driver"))
    is_elsewhere = parameters["load_from"] != LOCAL or parameters["mode"] is not None
    if protocol != "redis" and parameters["workload"] == "e":
        return "workload e has scans, which need protocol=redis"
    if protocol == "herd":
        if design in BOTH_SIDES:
            return f"protocol=herd goes to one endpoint, and design={design} has two"
        if design not in CLIENTS_HERE and parameters["link"] == "shm":
            return "a DPU shares no memory with the load: link=ucx, or leave design away"
        if parameters["mode"] is not None:
            return "one-sided writes pass no hop between namespaces: leave mode away"
        if is_elsewhere and parameters["link"] == "shm":
            return "memory is shared with this machine only: link=ucx, or leave load_from away"
        if parameters["connections"] > _HERD_CLIENTS_MAX:
            return f"protocol=herd has {_HERD_CLIENTS_MAX} connections at most"
    if driver == "dpdk":
        if protocol != "datagram":
            return "driver=dpdk serves protocol=datagram only"
        if design not in CLIENTS_HERE and parameters["dpu"] != HERE:
            return "driver=dpdk shares memory with the load: dpu=here, or leave design away"
        if is_elsewhere:
            return "driver=dpdk shares memory with the load: leave load_from and mode away"
        found = machine.device("dpdk:net_memif")
        return found["unavailable"] if found is not None else None
    return None


def _no_stages(parameters: Json) -> str | None:
    """Returns the reason why `overside kv profile` cannot measure stages; `None` if it can."""
    if parameters["design"] != "cpu-only" or parameters["protocol"] != "redis":
        return "stages=true is for design=cpu-only and protocol=redis: leave stages away"
    if parameters["load_from"] != LOCAL or parameters["rate"] is not None:
        return "stages=true is for a closed loop on this machine: leave load_from and rate away"
    return None


def _no_hop(parameters: Json) -> str | None:
    """Returns the reason why requests cannot pass a hop; `None` if they can."""
    if parameters["design"] != "cpu-only" or parameters["load_from"] != LOCAL:
        return "a mode is between two ends on this machine: leave design and load_from away"
    protocol = parameters["protocol"]
    if protocol.startswith(WITHOUT_PASSWORD):
        return f"protocol={protocol} has no password, which a server beyond loopback needs"
    return network_path.unavailable(parameters["mode"], parameters["forwarding_cores"])


def measure(programs: Programs, parameters: Json, hop: Hop | None = None) -> Json:
    """Measures once, through a hop if there is one, and returns the measured part of a sample.

    Raises `ProcessError`.
    """
    parameters = parameters | {"records": parameters["records"] or records_that_fit(parameters)}
    ends = kv_servers.memif(programs)
    given = ["--kv-dpdk-port", ends[0]] if parameters["driver"] == "dpdk" else []
    agents = Agents(
        programs, agents_of(parameters), stand_ins=bool(parameters["stand_ins"]), options=given
    )
    dpu = agents.started.get(parameters["dpu"])
    ip = kv_servers.reached_at(parameters, agents) if hop is None else hop.server_ip
    server = kv_servers.serve(programs, parameters, agents, ip, ends)
    places = server.places
    direct = parameters["direct_connections"]
    if direct is not None:
        # Each connection is to the next one of them.
        host, far = places
        places = [host] * direct + [far] * parameters["connections"]
    bench = [native(), "kv", "bench", *places, *server.load_options, "--json", *_load(parameters)]
    if server.password is not None:
        bench += ["--password-file", str(server.password)]
    loading = ["--seconds", "0.01", "--warm-up", "0", "--no-calibration"]
    _loaded(programs, agents, [*bench, *loading])
    # Both sides may poll: what they burn while nothing is asked is no part of a request.
    counts = [_counts(parameters, server)]
    cpu = [(server.program.cpu_s(), dpu.cpu_s() if dpu else 0.0)]
    hop_s = hop.cpu_s() if hop else 0.0
    seconds = parameters["seconds"]
    timed = ["--seconds", str(seconds), "--warm-up", str(_WARM_UP * seconds), "--no-load"]
    if parameters["load"] is not None:
        most = _loaded(programs, agents, [*bench, *timed])["points"][0]["requests_per_s"]["median"]
        timed += ["--rate", str(max(1.0, most * parameters["load"] / 100))]
    begin = time.monotonic()
    report = _loaded(programs, agents, [*bench, *timed])
    elapsed_s = time.monotonic() - begin
    cpu.append((server.program.cpu_s(), dpu.cpu_s() if dpu else 0.0))
    counts.append(_counts(parameters, server))
    metrics: dict[str, float] = {}
    if parameters["stages"]:
        profile = [native(), "kv", "profile", places[0], "--json", *_closed_loop(parameters)]
        if server.password is not None:
            profile += ["--password-file", str(server.password)]
        metrics |= stages(_loaded(programs, agents, [*profile, *timed]))
    if hop is not None and hop.has_program and report["points"][0]["answered"] > 0:
        metrics["hop_cpu"] = (hop.cpu_s() - hop_s) * 1e6 / report["points"][0]["answered"]
    before, after = ((*times, counted) for times, counted in zip(cpu, counts, strict=True))
    metrics["host_cores_used"] = (after[0] - before[0]) / elapsed_s
    if dpu is not None:
        metrics["dpu_cores_used"] = (after[1] - before[1]) / elapsed_s
    return {
        "applied": _applied(parameters, agents, hop),
        "metrics": metrics
        | figures(report, before, after, has_agent=dpu is not None, direct=direct or 1),
        "histogram": report["points"][0]["latency_histogram"],
        "cpu": {"host_s": after[0] - before[0], "dpu_s": after[1] - before[1], "emulator_s": 0.0},
    }


def records_that_fit(parameters: Json) -> int:
    """Number of records that fit in half of the free memory, at most the study's."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(_RECORDS_MAX, free // 2 // kv_servers.record_bytes(parameters)))


def _loaded(programs: Programs, agents: Agents, command: Sequence[str]) -> Json:
    """Runs `overside kv bench` and returns its report."""
    load = programs.start("load", command, agents.variables)
    try:
        report: Json = json.loads(load.finish())
    except ProcessError as failure:
        if load.code == _WRONG_VALUE:
            failure.kind = "verification"
        raise
    return report


def _closed_loop(parameters: Json) -> list[str]:
    """The options of `overside kv bench` and `overside kv profile`."""
    records = ("workload", "reads", "distribution", "records", "key_size", "value_size")
    words = ["--windows", str(_WINDOWS)]
    connections = parameters["connections"] + (parameters["direct_connections"] or 0)
    words += ["--connections", str(connections)]
    for name in (*records, "pipeline", "threads"):
        if parameters[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(parameters[name])]
    if parameters["client_core"] is not None:
        words += ["--core", str(parameters["client_core"])]
    return words + (["--busy-poll"] if parameters["busy_poll"] else [])


def _load(parameters: Json) -> list[str]:
    """The options of `overside kv bench`."""
    words = _closed_loop(parameters)
    if parameters["rate"] is not None:
        words += ["--rate", str(parameters["rate"])]
    nodes = load_nodes(parameters)
    if nodes != [LOCAL]:
        return [*words, "--from", ",".join(nodes)]
    # Between cores of one machine only.
    if parameters["client_core"] is not None and parameters["server_core"] is not None:
        words += ["--server-core", str(parameters["server_core"])]
    return words


def stages(profile: Json) -> dict[str, float]:
    """The metrics of a report of `overside kv profile`; empty if nothing was executed."""
    link = profile["link"] or {}
    found = {name: stage["ns_per_command"] for name, stage in profile["stages"].items()}
    found["client"] = profile["client_ns_per_command"]
    found["link_communication"] = link.get("communication_ns_per_command")
    found["link_processing"] = link.get("processing_ns_per_command")
    return {f"{name}_time": float(ns) for name, ns in found.items() if ns is not None}


def figures(
    report: Json,
    before: tuple[float, float, Mapping[str, int]],
    after: tuple[float, float, Mapping[str, int]],
    *,
    has_agent: bool,
    direct: int = 1,
) -> dict[str, float]:
    """The metrics, from the report of the load generator and the counters at both ends of it.

    The first `direct` of several endpoints are the host's. Raises `ProcessError` where there were
    too few answers for any.
    """
    (point,) = report["points"]
    if point["requests_per_s"]["median"] <= 0:
        raise ProcessError(
            "nothing was answered in most parts of the sample: the machine is too busy, or "
            "parameter seconds too short"
        )
    latency = point["latency_ns"]
    names = {"p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999"}
    metrics = {
        "rate": point["requests_per_s"]["median"],
        "latency_max": point["latency_max_ns"] / 1e3,
        "client_busy": 100.0 * point["client_busy"],
    }
    metrics |= {f"latency_{name}": latency[key]["median"] / 1e3 for key, name in names.items()}
    for name, figure in _CALIBRATION.items():
        if report.get(figure) is not None:
            metrics[name] = report[figure]
    by_endpoint = point["requests_by_endpoint"]
    if len(by_endpoint) > 1 and sum(by_endpoint) > 0:
        host = sum(by_endpoint[:direct]) / sum(by_endpoint)
        metrics["host_rate"] = host * metrics["rate"]
        metrics["dpu_rate"] = (1 - host) * metrics["rate"]
    answered = point["answered"]
    if answered > 0:
        metrics["host_cpu"] = (after[0] - before[0]) * 1e6 / answered
        if has_agent:
            metrics["dpu_cpu"] = (after[1] - before[1]) * 1e6 / answered
    counts = {name: after[2][name] - before[2][name] for name in after[2]}
    if counts.get("requests", 0) > 0:
        requests, writes = counts["requests"], counts["link_writes"]
        written = counts["link_written_bytes"]
        metrics["link_writes"] = writes / requests
        metrics["link_message_bytes"] = written / max(1, writes)
        # Clients that write into the server's memory get their answers without a link.
        sent = counts.get("link_sent_bytes", written)
        metrics["link_sent_bytes"] = sent / requests
        metrics["link_bytes"] = (sent + counts.get("link_received_bytes", 0)) / requests
        if "link_received_bytes" in counts:
            metrics["link_received_bytes"] = counts["link_received_bytes"] / requests
        if "client_bytes" in counts:
            metrics["packet_bytes"] = counts["client_bytes"] / requests
            metrics["reply_bytes"] = counts["reply_bytes"] / requests
    if came := counts.get("datagrams_received", 0) + counts.get("datagrams_dropped", 0):
        metrics["dropped"] = 100.0 * counts["datagrams_dropped"] / came
        # It is the most since the server began.
        metrics["backlog"] = after[2]["datagrams_backlog_max_bytes"]
    if counts.get("link_answers", 0) > 0:
        metrics["link_latency"] = counts["link_answer_ns"] / counts["link_answers"] / 1e3
    return metrics


def _counts(parameters: Json, server: Server) -> dict[str, int]:
    """Returns the server's counters of its links and of datagrams.

    They count the link between its engines, on the DPU if clients connect to it. With `herd`, they
    count the links over which clients write requests.
    """
    is_herd = parameters["protocol"] == "herd"
    by_datagrams = parameters["protocol"] == "datagram"
    if parameters["design"] == "cpu-only" and not (is_herd or by_datagrams):
        return {}
    counted = "region_" if is_herd else "offload_"
    password = None if server.password is None else server.password.read_bytes().strip()
    try:
        info = _core.kv_info(server.info, password, READY_S)
    except (OSError, ValueError) as error:
        raise ProcessError(f"the server did not answer INFO: {error}") from error
    counts: dict[str, int] = {}
    for name, _, value in (line.partition(":") for line in info.splitlines()):
        if name.startswith(counted) and value.isdecimal():
            counts[name.removeprefix(counted)] = int(value)
        elif by_datagrams and name.startswith("datagrams_") and value.isdecimal():
            counts[name] = int(value)
        elif name in _CLIENT_BYTES and not is_herd:
            counts[_CLIENT_BYTES[name]] = int(value)
    return counts


def _applied(parameters: Json, agents: Agents, hop: Hop | None) -> dict[str, Any]:
    server, design = parameters["server"], parameters["design"]
    device = "this machine's cores"
    for name in agents_of(parameters):
        stands_for = "a DPU" if name == parameters["dpu"] == HERE else "another machine"
        stands_for = stands_for if name == HERE else name
        is_here = name in agents.started
        device += f", an agent in place of {stands_for}" if is_here else f", {name}"
    if hop is not None:
        device += f", {hop.description}"
    return {
        "device": device,
        "driver": _driver(parameters),
        "variant": server if server != "overside" else f"overside, {design}",
        "library": server,
        "provenance": "measured",
    }


def _driver(parameters: Json) -> str:
    """Returns the transport of requests to the engine that executes them."""
    if parameters["link"] is not None:
        return f"link {parameters['link']}"
    return "DPDK, net_memif" if parameters["driver"] == "dpdk" else "sockets"


TASK = KvTask()
