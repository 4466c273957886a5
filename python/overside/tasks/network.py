"""Measures TCP and UDP between two ends: round trips with a real queue depth, and streams, also at
a given rate and beside jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from overside import _core
from overside.bench import network_path
from overside.tasks import dma, offload
from overside.tasks.common import ALL, LOCAL, Json, Machine, MeasuredTask

#: Message sizes where a box gives none, in bytes; a datagram goes in one Ethernet frame.
_SIZES = {"round-trip": 64, "stream": 131_072}
_DATAGRAM = 1400
#: Parameters of the background jobs, and their defaults.
_BESIDE = {
    "job_node": LOCAL,
    "device": "cpu",
    "variant": "auto",
    "buffer_size": 65536,
    "job_depth": 4,
    "job_completion": "event",
    "job_threads": 1,
    "data": "corpus",
    "sample_bytes": 8 << 20,
}
#: Parameters of the jobs that are about data on a device.
_OF_DATA = ("variant", "data", "sample_bytes")
#: Prefix of jobs of the task `dma`: `dma-read`.
_DMA = "dma-"
_MATCH = "match-"
#: The published queries.
_PATTERNS = ["q1", "q2", "q3", "q4"]
#: This machine, where it is one end.
HOST = "host"
#: Slices of the series of a test with jobs, in milliseconds.
_SLICE_MS = 10


class NetworkTask(MeasuredTask):
    """Round trips and streams between this machine and agents."""

    #: Both sides connect first.
    extra_s = 0.03

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults. Streams have no depth, a datagram is a write of its own, and without
        jobs their parameters are removed."""
        full = super().normal(parameters)
        if full["message_size"] is None:
            is_udp = full["protocol"] == "udp"
            full["message_size"] = _DATAGRAM if is_udp else _SIZES[full["pattern"]]
        if full["pattern"] == "stream":
            full["depth"] = 1
        if full["protocol"] == "udp":
            full["batch"] = 1
        cores = network_path.forwarding_cores(full["mode"], full["forwarding_cores"])
        full["forwarding_cores"] = cores
        if full["threads"] != ALL:
            full["threads"] = min(full["threads"], full["connections"])
        jobs = full["jobs"]
        if not (jobs or "").startswith(_DMA):
            full["job_initiator"] = None
        if not (jobs or "").startswith(_MATCH):
            full["job_patterns"] = None
        if jobs is None:
            return full | dict.fromkeys(_BESIDE)
        full["slice_ms"] = full["slice_ms"] or _SLICE_MS
        given = {name: full[name] for name in _BESIDE if full[name] is not None}
        full |= _BESIDE | given
        if jobs.startswith(_DMA):
            if "device" not in given:
                full["device"] = "shm"
            full["job_initiator"] = full["job_initiator"] or HOST
            return full | dict.fromkeys(_OF_DATA)
        if jobs.startswith(_MATCH):
            patterns = full["job_patterns"] or _PATTERNS
            full["job_patterns"] = [patterns] if isinstance(patterns, str) else patterns
        return full | {"data": offload.real_data(full["data"])}

    def timed_s(self, parameters: Json, sample_s: float) -> float:
        """See `MeasuredTask`: with jobs there are two more phases, a third each."""
        return sample_s if parameters["jobs"] is None else sample_s * 5 / 3

    def test(self, parameters: Json) -> Json:
        """See `MeasuredTask`."""
        same = (
            *("pattern", "mode", "protocol", "message_size", "connections", "threads", "depth"),
            *("batch", "rate", "completion", "cores", "server_cores", "socket_buffer", "events"),
        )
        request: Json = {name: parameters[name] for name in same if parameters[name] is not None}
        request["kind"] = "network"
        if parameters["bit_rate"] is not None:
            request["rate"] = parameters["bit_rate"] * 1e9 / 8 / parameters["message_size"]
        source, destination = parameters["source"], parameters["destination"]
        if source != HOST:
            request["source_node"] = source
        if destination != HOST:
            request["destination_node"] = destination
        if parameters["mode"] is not None:
            # The worker builds it, and puts in its place what it has built.
            cores = parameters["forwarding_cores"]
            request["hop"] = {"mode": parameters["mode"], "cores": cores}
        if parameters["slice_ms"] is not None:
            request["slice_s"] = parameters["slice_ms"] / 1e3
        if parameters["jobs"] is not None:
            request["beside"] = _jobs(parameters)
        return request

    def out_of_bounds(self, parameters: Json, times: Mapping[str, float]) -> str | None:
        """Bounds for this test alone or together with others. Hops and background jobs have bounds
        of their own."""
        traffic = parameters | {"mode": None, "jobs": None, "slice_ms": None}
        if parameters["rate"] is not None and parameters["bit_rate"] is not None:
            return "rate and bit_rate say the same in two ways: leave one away"
        asked = self.test(traffic) | {**times, "timeout_s": 60.0, "seed": 0}
        problem = _core.test_problem(json.dumps(asked))
        if problem is not None and "rate * sample_s" in problem:
            return f"{problem}: a lower rate, longer messages of a bit_rate, or shorter samples"
        return problem

    def no_node(self, parameters: Json, node: str, machine: Machine) -> str | None:
        """See `Task`."""
        if parameters["mode"] is not None:
            return f"a mode is built on this machine, not on {node}: leave node or mode away"
        if parameters["job_node"] not in (None, LOCAL):
            return f"{node} knows no other nodes: leave node or job_node away"
        return super().no_node(parameters, node, machine)

    def worker_prefix(self, parameters: Json) -> Sequence[str]:
        """A hop is built in namespaces of the worker's own."""
        return () if parameters["mode"] is None else network_path.prefix()

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """Returns the reason why a test cannot run here; `None` if it can.

        It checks the hop's programs, the agents, and the device of the jobs.
        """
        source, destination = parameters["source"], parameters["destination"]
        if parameters["mode"] is not None:
            if (source, destination) != (HOST, HOST):
                return (
                    "a mode is built between two ends on this machine: leave source and "
                    "destination away"
                )
            cores = parameters["forwarding_cores"]
            reason = network_path.unavailable(parameters["mode"], cores)
            if reason is not None:
                return reason
        reason = None
        for node in (source, destination):
            if node != HOST:
                reason = reason or machine.no_node(node)
        if reason is not None or parameters["jobs"] is None:
            return reason
        if parameters["job_node"] != LOCAL:
            # What devices it has it says itself.
            missing = machine.no_node(parameters["job_node"])
            is_dma = parameters["data"] is None
            return missing or (None if is_dma else offload.no_data(parameters["data"]))
        if parameters["jobs"].startswith(_DMA):
            return dma.TASK.unavailable({"device": parameters["device"]}, machine)
        target = parameters | {
            "depth": parameters["job_depth"],
            "completion": parameters["job_completion"],
        }
        reason = offload.cannot(parameters["jobs"], target, machine)
        if reason is not None:
            return reason.replace("use completion=", "use job_completion=")
        return offload.no_data(parameters["data"])


def _jobs(parameters: Json) -> Json:
    """The test of the background jobs."""
    jobs = parameters["jobs"]
    same: Json = {
        "device": parameters["device"],
        "buffer_size": parameters["buffer_size"],
        "depth": parameters["job_depth"],
        "completion": parameters["job_completion"],
        "threads": parameters["job_threads"],
    }
    if parameters["job_node"] != LOCAL:
        same["node"] = parameters["job_node"]
    if jobs.startswith(_DMA):
        how = {
            "initiator": parameters["job_initiator"],
            "measure": "throughput",
            "events": parameters["events"],
        }
        return same | how | {"kind": "dma", "operation": jobs.removeprefix(_DMA)}
    return same | {
        "operation": jobs,
        "variant": parameters["variant"],
        "patterns": [offload.query(one) for one in parameters["job_patterns"] or ()],
        "data": {"name": parameters["data"], "sample_bytes": parameters["sample_bytes"]},
    }


TASK = NetworkTask("network")
