"""Measures TCP between two ends: round trips with a real queue depth, and streams."""

from __future__ import annotations

import json
from collections.abc import Sequence

from overside import _core
from overside.bench import network_path
from overside.tasks import offload
from overside.tasks.common import ALL, Json, Machine, MeasuredTask

#: Message sizes where a box gives none, in bytes.
_SIZES = {"round-trip": 64, "stream": 131_072}
#: Parameters of the jobs beside, and what they are where a box gives none.
_BESIDE = {
    "device": "cpu",
    "variant": "auto",
    "buffer_size": 65536,
    "job_depth": 4,
    "job_completion": "event",
    "job_threads": 1,
    "data": "corpus",
    "sample_bytes": 8 << 20,
}
#: This machine, where it is one end.
HOST = "host"
#: Slices of the series of a test with jobs, in milliseconds.
_SLICE_MS = 10


class NetworkTask(MeasuredTask):
    """Round trips and streams between this machine and agents."""

    #: Both sides connect first.
    extra_s = 0.03

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults. Streams have no depth and no rate, and without jobs there is nothing
        to say of them."""
        full = super().normal(parameters)
        if full["message_size"] is None:
            full["message_size"] = _SIZES[full["pattern"]]
        if full["pattern"] == "stream":
            full["depth"], full["rate"] = 1, None
        cores = network_path.forwarding_cores(full["mode"], full["forwarding_cores"])
        full["forwarding_cores"] = cores
        if full["threads"] != ALL:
            full["threads"] = min(full["threads"], full["connections"])
        if full["jobs"] is None:
            return full | dict.fromkeys(_BESIDE)
        full["slice_ms"] = full["slice_ms"] or _SLICE_MS
        given = {name: full[name] for name in _BESIDE if full[name] is not None}
        full |= _BESIDE | given
        return full | {"data": offload.real_data(full["data"])}

    def test(self, parameters: Json) -> Json:
        """See `MeasuredTask`."""
        same = (
            *("pattern", "mode", "message_size", "connections", "threads", "depth", "batch"),
            *("rate", "completion", "cores", "server_cores", "socket_buffer"),
        )
        request: Json = {name: parameters[name] for name in same if parameters[name] is not None}
        request["kind"] = "network"
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
            request["beside"] = {
                "device": parameters["device"],
                "operation": parameters["jobs"],
                "variant": parameters["variant"],
                "buffer_size": parameters["buffer_size"],
                "depth": parameters["job_depth"],
                "completion": parameters["job_completion"],
                "threads": parameters["job_threads"],
                "data": {"name": parameters["data"], "sample_bytes": parameters["sample_bytes"]},
            }
        return request

    def _too_much(self, parameters: Json) -> str | None:
        """What is out of its bounds, alone or together with others. Hops and jobs beside have
        bounds of their own, and do not count for these."""
        traffic = parameters | {"mode": None, "jobs": None, "slice_ms": None}
        times = {"warmup_s": 0.0, "sample_s": 1.0, "timeout_s": 60.0, "seed": 0}
        return _core.test_problem(json.dumps(self.test(traffic) | times))

    def no_node(self, parameters: Json, node: str, machine: Machine) -> str | None:
        """See `MeasuredTask`."""
        if parameters["mode"] is not None:
            return f"a mode is built on this machine, not on {node}: leave node or mode away"
        return super().no_node(parameters, node, machine)

    def worker_prefix(self, parameters: Json) -> Sequence[str]:
        """A hop is built in namespaces of the worker's own."""
        return () if parameters["mode"] is None else network_path.prefix()

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """It asks for more than there can be, what a hop needs is not there, or the device of the
        jobs is not."""
        problem = self._too_much(parameters)
        if problem is not None:
            return problem
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
        if source != HOST:
            return "jobs run beside traffic that this machine sends: leave source away"
        target = parameters | {
            "depth": parameters["job_depth"],
            "completion": parameters["job_completion"],
        }
        reason = offload.cannot(parameters["jobs"], target, machine)
        if reason is not None:
            return reason.replace("use completion=", "use job_completion=")
        return offload.no_data(parameters["data"])


TASK = NetworkTask("network")
