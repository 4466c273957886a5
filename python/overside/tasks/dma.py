"""Move bytes between a host and a DPU, or between what stands for them."""

from __future__ import annotations

from collections.abc import Mapping

from overside.tasks.common import Json, Machine, MeasuredTask, Metric, Parameter, latencies

#: Links: between two ends in one process, or after the name of an agent with its end there.
LINKS = ("shm", "ucx")
#: Who copies over shared memory.
_COPIERS = ("engine", "caller")
#: Transports that UCX can be told to take, as its UCX_TLS names them.
_TRANSPORTS = ("tcp", "sm", "rc", "ud", "dc")

_PARAMETERS: Mapping[str, Parameter] = {
    "device": Parameter(
        "string",
        "what the bytes go over: shm (shared memory), ucx (RDMA where there is a card, else what "
        "UCX has), one of these with an agent as the DPU (dpu0/ucx), emulated: and a profile, "
        "dpdk: and a device that copies",
        "shm",
    ),
    "variant": Parameter(
        "string",
        "of shm: a thread that copies in place of a DMA engine (engine), or whoever posts copies "
        "itself (caller); of ucx: the transport that it is to take, as in tcp; without one UCX "
        "chooses",
        None,
        choices=(*_COPIERS, *_TRANSPORTS),
    ),
    "initiator": Parameter("string", "who starts operations", "host", choices=("host", "dpu")),
    "operation": Parameter(
        "string",
        "bring the peer's bytes here (read), put ours there (write), send a message that the "
        "peer's program confirms (send)",
        "write",
        choices=("read", "write", "send"),
    ),
    "completion": Parameter(
        "string", "wait for completions, or ask for them", "poll", choices=("event", "poll")
    ),
    "measure": Parameter(
        "string",
        "time each operation, or only all of them together",
        "latency",
        choices=("latency", "throughput"),
    ),
    "buffer_size": Parameter("integer", "one operation", 64, "bytes", (), 1, 1 << 30),
    "depth": Parameter("integer", "operations in flight on each thread", 1, "", (), 1, 1024),
    "batch": Parameter("integer", "operations handed over at one doorbell", 1, "", (), 1, 1024),
    "threads": Parameter("integer", "the initiator's threads", 1, "", (), 1, 64),
    "cores": Parameter(
        "integers", "the initiator's cores that those threads are pinned to, in turn", None
    ),
    "engine_core": Parameter(
        "integer", "the core of the thread that stands for a DMA engine", None, "", (), 0, 1023
    ),
    "buffers": Parameter(
        "string",
        "operations in flight carry the same payload, or each one of its own",
        "same",
        choices=("same", "distinct"),
    ),
    "inline": Parameter(
        "boolean", "writes and sends: copy the payload into the queue when it is posted", False
    ),
}

_METRICS: Mapping[str, Metric] = {
    "throughput": Metric("MB/s", "higher", "bytes moved in the elapsed time; MB is 10^6 bytes"),
    "rate": Metric("operations/s", "higher", "operations in the elapsed time"),
    **latencies("time of an operation, from its doorbell until it was reaped"),
    **{
        f"{who}_utilisation": Metric(
            "%", "lower", f"CPU seconds of {what} in the elapsed time, one core being 100"
        )
        for who, what in {
            "host": "the host's side",
            "dpu": "the DPU's side",
            "initiator": "the side that starts operations",
            "engine": "the thread that stands for a DMA engine",
        }.items()
    },
    "cpu_seconds": Metric("s", "lower", "host CPU seconds of the sample"),
    "cpu_cost": Metric("s/GB", "lower", "host CPU seconds per 10^9 bytes moved"),
}


class DmaTask(MeasuredTask):
    """Reads, writes and messages between two sides."""

    name = "dma"
    description = "move bytes between host and DPU; they are looked at where they arrive"
    parameters = _PARAMETERS
    metrics = _METRICS
    links = LINKS

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults; a link has variants of its own or none, a batch is never larger than
        the depth, and a read has no payload to hand over."""
        full = super().normal(parameters)
        link = full["device"].rpartition("/")[2]
        known = {"shm": _COPIERS, "ucx": _TRANSPORTS}.get(link, ())
        if full["variant"] not in known:
            full["variant"] = "engine" if link == "shm" else None
        if full["variant"] != "engine" and not full["device"].startswith("emulated:"):
            full["engine_core"] = None
        full["batch"] = min(full["batch"], full["depth"])
        if full["operation"] == "read":
            full["inline"] = False
        if full["depth"] == 1 and full["threads"] == 1:
            full["buffers"] = "same"
        return full

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """A device that is not there, or is there and does not copy; an agent that is away."""
        name = parameters["device"]
        if name in LINKS or name.startswith("emulated:"):
            return None
        node, slash, link = name.partition("/")
        if slash and link in LINKS:
            return machine.no_node(node)
        if slash:
            links = ", ".join(f"{node}/{link}" for link in LINKS)
            return f"{name} moves no bytes between host and agent; the links are {links}"
        device = machine.device(name)
        if device is None:
            return f"{name}: there is no such device here; the links are {', '.join(LINKS)}"
        if device.get("unavailable"):
            reason = " ".join(str(device["unavailable"]).split())
            return f"{name} is not available: {reason}"
        if all(one["operation"] != "copy" for one in device["capabilities"]):
            return f"{name} cannot copy"
        return None

    def test(self, parameters: Json) -> Json:
        """See `MeasuredTask`."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return {"kind": "dma", **given}


TASK = DmaTask()
