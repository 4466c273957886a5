"""Measures TCP between two ends: round trips with a real queue depth, and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from overside.bench import network_path
from overside.tasks import offload
from overside.tasks.common import Json, Machine, MeasuredTask, Metric, Parameter, latencies

#: The operations that can run beside the traffic.
_JOBS = ("copy", "compress-deflate", "compress-lz4", "compress-zstd", "hash-sha256", "hash-crc32")
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

_PARAMETERS: Mapping[str, Parameter] = {
    "pattern": Parameter(
        "string",
        "each message comes back, or messages go one way",
        "round-trip",
        choices=("round-trip", "stream"),
    ),
    "source": Parameter(
        "string",
        "who sends and looks at the clock: `host`, this machine; or an agent by its name",
        HOST,
    ),
    "destination": Parameter(
        "string",
        "who answers: `host`, this machine; or an agent by its name",
        HOST,
    ),
    "mode": Parameter(
        "string",
        "build namespaces with this between the ends; without one, the network as it is",
        None,
        choices=tuple(network_path.MODES),
    ),
    "message_size": Parameter(
        "integer", "one message; 64, streams 131072", None, "bytes", (), 1, 16 << 20
    ),
    "connections": Parameter("integer", "data connections", 1, "", (), 1, 1024),
    "threads": Parameter("integer", "threads of either end", 1, "", (), 1, 64),
    "depth": Parameter(
        "integer", "round trips: messages outstanding on a connection", 1, "", (), 1, 4096
    ),
    "batch": Parameter("integer", "messages in one write", 1, "", (), 1, 4096),
    "rate": Parameter(
        "number",
        "round trips: send so many a second, at even distances; latencies count from the intended "
        "times",
        None,
        "messages/s",
        (),
        0.001,
        1e7,
    ),
    "completion": Parameter(
        "string", "wait for sockets, or ask them", "event", choices=("event", "poll")
    ),
    "cores": Parameter("integers", "the cores that the client's threads are pinned to", None),
    "server_cores": Parameter("integers", "the same of the server's", None),
    "socket_buffer": Parameter(
        "integer",
        "asked of the sockets; without it the system decides",
        None,
        "bytes",
        (),
        1,
        1 << 30,
    ),
    "slice_ms": Parameter(
        "number", "tell the sample in slices of this length", None, "ms", (), 0.1, 60_000
    ),
    "jobs": Parameter(
        "string", "run this operation in the middle third of the sample", None, choices=_JOBS
    ),
    "device": Parameter("string", "jobs: what runs them", None),
    "variant": Parameter("string", "jobs: the library by name", None),
    "buffer_size": Parameter("integer", "jobs: one buffer", None, "bytes", (), 1, 1 << 30),
    "job_depth": Parameter("integer", "jobs in flight", None, "", (), 1, 4096),
    "job_completion": Parameter(
        "string", "jobs: wait for completions, or ask", None, choices=("event", "poll")
    ),
    "job_threads": Parameter("integer", "jobs: threads of the device", None, "", (), 1, 1024),
    "data": Parameter("string", "jobs: the data set", None),
    "sample_bytes": Parameter(
        "integer", "jobs: how much of it is used", None, "bytes", (), 1, 4 << 30
    ),
}

_ENDS: Mapping[str, Metric] = {
    "client_cpu": Metric("%", "lower", "CPU time of the client's threads; one core is 100"),
    "server_cpu": Metric("%", "lower", "CPU time of the server's threads; one core is 100"),
    "hop_cpu": Metric("%", "lower", "CPU time of the hop's processes; one core is 100"),
    "machine_cpu": Metric(
        "%",
        "lower",
        "time that cores of this machine were busy, with the kernel's part of a hop and whatever "
        "else ran; one core is 100",
    ),
    "cpu_seconds": Metric("s", "lower", "host CPU seconds of both ends and of the hop's processes"),
    "cpu_cost": Metric("s/GB", "lower", "the same per 10^9 bytes of messages in one direction"),
}

_METRICS: Mapping[str, Metric] = {
    "throughput": Metric(
        "MB/s", "higher", "bytes of messages in one direction in the elapsed time; MB is 10^6 bytes"
    ),
    "bit_rate": Metric("Gb/s", "higher", "the same in 10^9 bits"),
    "rate": Metric("messages/s", "higher", "messages that came back, or that came, a second"),
    **latencies("time of a round trip"),
    "connection_throughput_min": Metric("MB/s", "higher", "that of the slowest connection"),
    "connection_throughput_max": Metric("MB/s", "higher", "that of the fastest connection"),
    **_ENDS,
    **{
        f"throughput_{when}": Metric("MB/s", "higher", f"mean throughput {when} the jobs")
        for when in ("before", "during", "after")
    },
    **{
        f"jitter_{when}": Metric(
            "%",
            "lower",
            f"standard deviation of the slices' throughput {when} the jobs, of its mean",
        )
        for when in ("before", "during", "after")
    },
    **{
        f"latency_{when}": Metric("µs", "lower", f"mean time of a round trip {when} the jobs")
        for when in ("before", "during", "after")
    },
    "job_throughput": Metric("MB/s", "higher", "that of the jobs beside"),
}


class NetworkTask(MeasuredTask):
    """Round trips and streams between this machine and agents."""

    name = "network"
    description = "round trips and streams over TCP, also through a forwarding hop"
    parameters = _PARAMETERS
    metrics = _METRICS
    nodes = ("source", "destination")

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults. Streams have no depth and no rate, and without jobs there is nothing
        to say of them."""
        full = super().normal(parameters)
        if full["message_size"] is None:
            full["message_size"] = _SIZES[full["pattern"]]
        if full["pattern"] == "stream":
            full["depth"], full["rate"] = 1, None
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
            request["hop"] = parameters["mode"]
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

    def worker_prefix(self, parameters: Json) -> Sequence[str]:
        """A hop is built in namespaces of the worker's own."""
        return () if parameters["mode"] is None else network_path.prefix()

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """What a hop needs is not there, or the device of the jobs is not."""
        source, destination = parameters["source"], parameters["destination"]
        if parameters["mode"] is not None:
            if (source, destination) != (HOST, HOST):
                return (
                    "a mode is built between two ends on this machine: leave source and "
                    "destination away"
                )
            reason = network_path.unavailable(parameters["mode"])
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
        leg = parameters | {
            "depth": parameters["job_depth"],
            "completion": parameters["job_completion"],
        }
        reason = offload.cannot(parameters["jobs"], leg, machine)
        if reason is not None:
            return reason.replace("use completion=", "use job_completion=")
        return offload.no_data(parameters["data"])


TASK = NetworkTask()
