"""Starts the servers that the task `kv` measures: this one in its designs, Redis and memcached."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from overside.processes import ProcessError
from overside.tasks.agents import Agents, is_loopback, native, place
from overside.tasks.common import LOCAL, Json, declarations
from overside.tasks.programs import Program, Programs, free_port

#: Longest time in seconds until a server listens.
READY_S = 20.0
#: Memory of a record without key and value, generously.
_RECORD_BYTES = 128
#: Parameters of an offloaded server.
OFFLOADED = ("dpu", "dpu_cores", "link", "link_batch", "link_message", "overlap")
#: Addresses of server and load at the port that DPDK drives; no other host sees them.
_PORT_IPS = ("10.77.0.2", "10.77.0.1")
#: Protocols without a password, by which a server answers this machine only.
WITHOUT_PASSWORD = ("memcached", "datagram")
#: Designs without a communication engine on the DPU.
CLIENTS_HERE = ("cpu-only", "proc")
#: Designs in which clients connect to both sides.
BOTH_SIDES = ("dual", "shrd")


def load_nodes(parameters: Json) -> list[str]:
    """Returns the nodes that generate the load."""
    return str(parameters["load_from"]).split("+")


def agents_of(parameters: Json) -> list[str]:
    """Returns the agents that take part: the DPU's, and those that generate the load."""
    nodes = [name for name in load_nodes(parameters) if name != LOCAL]
    return nodes if parameters["dpu"] is None else [parameters["dpu"], *nodes]


@dataclass(frozen=True)
class Server:
    """A server that listens, with its process."""

    program: Program
    #: Endpoints for the load, as `overside kv bench` takes them; if clients connect to both sides,
    #: the host's and the DPU's.
    places: list[str]
    #: The file with its password, if the load needs one.
    password: Path | None
    #: Host and port where it answers `INFO`: of the side that asks over the link, if there is one.
    info: str = ""
    #: Further options of `overside kv bench` for reaching the server.
    load_options: tuple[str, ...] = ()


def memif(programs: Programs) -> tuple[str, str]:
    """Names of a port in memory that server and load share: of the server's end, and the load's."""
    socket = programs.private_directory() / "memif"
    server, load = (f"net_memif0,role={role},socket={socket}" for role in ("server", "client"))
    return server, load


def serve(
    programs: Programs, parameters: Json, agents: Agents, ip: str, ends: tuple[str, str]
) -> Server:
    """Starts the server where the load reaches it; with `driver=dpdk` by the `ends` of a port."""
    protocol, password = parameters["protocol"], None
    if not is_loopback(ip) and protocol.startswith(WITHOUT_PASSWORD):
        raise ProcessError(f"protocol={protocol} has no password: load it from here only")
    # Who comes by UCX is trusted with the process.
    if not is_loopback(ip) or (protocol == "herd" and parameters["link"] == "ucx"):
        password = programs.private_file("password", secrets.token_hex(16) + "\n")
    if parameters["server"] == "overside":
        transport = _transport(programs, parameters, ip, ends)
        return _serve_overside(programs, parameters, agents, (ip, password), transport)
    port, core = free_port(), parameters["server_core"]
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    if parameters["server"] == "redis":
        command = redis_command(programs, (ip, port), password)
    else:
        command = _memcached_command(parameters, (ip, port))
    server = programs.start("server", [*pinned, *command], is_read=False)
    server.listen(port, READY_S)
    return Server(server, [f"{protocol}://{place(ip, port)}"], password)


def _serve_overside(
    programs: Programs,
    parameters: Json,
    agents: Agents,
    at: tuple[str, Path | None],
    transport: tuple[list[str], tuple[str, ...]],
) -> Server:
    (ip, password), (listen, to_load) = at, transport
    protocol = parameters["protocol"]
    kind = protocol.partition("-")[0]
    command = [*server_command(parameters, ip, password), *listen]
    if parameters["design"] in BOTH_SIDES:
        there = place(_dpu_ip(parameters, agents) or ip, 0)
        is_of_kernel = kind != "redis" and parameters["driver"] != "dpdk"
        for prefix in ("", *([f"{kind}="] if is_of_kernel else [])):
            command += ["--dpu-listen", prefix + there]
    server = programs.start("server", command, agents.variables)
    said = server.announced()
    sides = [said, *([said["dpu_endpoints"]] if "dpu_endpoints" in said else [])]
    redis = [side["listen"][0] for side in sides]
    match protocol:
        case "herd" if parameters["link"] == "shm":
            places = [f"herd:{said['herd']}"]
        case "herd":
            places = [f"herd://{said['herd']}"]
        case "datagram":
            # They go to one endpoint.
            places = [f"datagram://{sides[-1]['datagram'][0]}"]
        case _:
            listed = "listen" if kind == "redis" else kind
            places = [f"{protocol}://{side[listed][0]}" for side in sides]
    return Server(server, places, password, redis[-1], to_load)


def _transport(
    programs: Programs, parameters: Json, ip: str, ends: tuple[str, str]
) -> tuple[list[str], tuple[str, ...]]:
    """Returns the options of the server for its protocol, and those of the load.

    Redis's protocol needs none.
    """
    protocol = parameters["protocol"]
    if protocol == "herd" and parameters["link"] == "shm":
        return ["--herd", str(programs.private_directory() / "herd")], ()
    if parameters["driver"] == "dpdk":
        dpu = "dpu-" if parameters["design"] in BOTH_SIDES else ""
        here = [
            f"--{dpu}dpdk-port",
            ends[0],
            f"--{dpu}dpdk-address",
            _PORT_IPS[0],
            "--dpdk-trusted",
        ]
        # Datagrams of a partition go by the queue of its core.
        side = "cores" if parameters["design"] in CLIENTS_HERE else "dpu_cores"
        queues = ("--dpdk-queues", str(parameters[side]))
        return here, ("--dpdk-port", ends[1], "--dpdk-address", _PORT_IPS[1], *queues)
    if protocol == "redis":
        return [], ()
    return [f"--{protocol.partition('-')[0]}", place(ip, 0)], ()


def reached_at(parameters: Json, agents: Agents) -> str:
    """The address that the load reaches: the DPU's where that communicates, or this machine's."""
    if parameters["design"] not in BOTH_SIDES and (dpu := _dpu_ip(parameters, agents)):
        return dpu
    for name in load_nodes(parameters):
        if name != LOCAL and name not in agents.started:
            return agents.own_ip(name)
    return "127.0.0.1"


def _dpu_ip(parameters: Json, agents: Agents) -> str | None:
    """Returns the IP address of a DPU on another machine; `None` if there is none."""
    dpu = parameters["dpu"]
    return agents.ip(dpu) if dpu is not None and dpu not in agents.started else None


def record_bytes(parameters: Json) -> int:
    """Memory that a server is given for a record."""
    return 2 * (int(parameters["key_size"]) + int(parameters["value_size"]) + _RECORD_BYTES)


def _memory_bytes(parameters: Json) -> int:
    return record_bytes(parameters) * int(parameters["records"]) + (64 << 20)


def server_command(parameters: Json, ip: str, password: Path | None) -> list[str]:
    """`overside kv serve` as the parameters have it."""
    defaults = {form["name"]: form["default"] for form in declarations()["kv"]["parameters"]}
    command = [native(), "kv", "serve", "--json", "--listen", place(ip, 0), "--drain", "0"]
    if password is not None:
        command += ["--password-file", str(password)]
    command += ["--memory", str(_memory_bytes(parameters)), "--design", parameters["design"]]
    offloaded = OFFLOADED if parameters["design"] != "cpu-only" else ()
    for name in (*offloaded, "send", "cores", "rx_queue"):
        is_given = parameters[name] not in (None, defaults[name])
        if is_given or (name == "dpu" and parameters[name] is not None):
            command += [f"--{name.replace('_', '-')}", str(parameters[name])]
    if parameters["server_core"] is not None:
        command += ["--core", str(parameters["server_core"])]
    return command + (["--busy-poll"] if parameters["busy_poll"] else [])


def redis_command(programs: Programs, at: tuple[str, int], password: Path | None) -> list[str]:
    """redis-server with nothing on disk. Its password is in a file: all users see a command."""
    ip, port = at
    words = [f"port {port}", f"bind {ip}", 'save ""']
    if password is not None:
        words.append(f"requirepass {password.read_text().strip()}")
    settings = programs.private_file("redis.conf", "\n".join(words) + "\n")
    return ["redis-server", str(settings)]


def _memcached_command(parameters: Json, at: tuple[str, int]) -> list[str]:
    """memcached with one thread."""
    ip, port = at
    mib = str(max(64, _memory_bytes(parameters) >> 20))
    command = ["memcached", "-l", ip, "-p", str(port), "-U", "0", "-t", "1", "-m", mib]
    return [*command, "-u", "nobody"] if os.geteuid() == 0 else command
