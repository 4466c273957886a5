"""Measure this machine's memory: reads that wait for each other, streams, reads and writes of the
size of a pointer."""

from __future__ import annotations

from collections.abc import Mapping

from overside.tasks.common import Json, Machine, MeasuredTask, Metric, Parameter

#: A cache line; reads at random never share one.
_LINE_BYTES = 64

#: The parameters that only some patterns have, with what stands there unasked.
_OWN: Mapping[str, Mapping[str, str]] = {
    "chase": {},
    "stream": {"kernel": "copy"},
    "access": {"access": "read", "order": "sequential"},
}

_PARAMETERS: Mapping[str, Parameter] = {
    "pattern": Parameter(
        "string",
        "reads that each tell where the next is (chase), kernels over arrays (stream), reads and "
        "writes of 8 bytes (access)",
        "chase",
        choices=("chase", "stream", "access"),
    ),
    "kernel": Parameter(
        "string",
        "of stream: c = a, b = s c, c = a + b, a = b + s c",
        None,
        choices=("copy", "scale", "add", "triad"),
    ),
    "access": Parameter("string", "of access: what is done", None, choices=("read", "write")),
    "order": Parameter(
        "string",
        "of access: one after the other, or each once at random",
        None,
        choices=("sequential", "random"),
    ),
    "buffer_size": Parameter(
        "integer",
        "memory of one thread: its block (chase), each of its arrays (stream), its object (access)",
        1 << 24,
        "bytes",
        (),
        8,
        1 << 30,
    ),
    "pages": Parameter(
        "string",
        "pages that the memory is on: as the system gives them, small ones, huge ones",
        "system",
        choices=("system", "small", "huge"),
    ),
    "threads": Parameter("integer", "threads, each with memory of its own", 1, "", (), 1, 1024),
    "cores": Parameter("integers", "the cores that they are pinned to, in turn", None),
    "events": Parameter(
        "boolean", "count cache misses and the like where the processor lets us", True
    ),
}

_METRICS: Mapping[str, Metric] = {
    "read_latency": Metric("ns", "lower", "one read that waits for the one before (chase)"),
    "bandwidth": Metric(
        "MB/s",
        "higher",
        "bytes read and written by all threads in the elapsed time (stream and access)",
    ),
    "best_bandwidth": Metric(
        "MB/s", "higher", "the same of the fastest pass, as STREAM reports it (stream and access)"
    ),
    "access_time": Metric("ns", "lower", "one read or write of 8 bytes on one thread (access)"),
    "access_rate": Metric(
        "M/s", "higher", "reads or writes of 8 bytes by all threads in the elapsed time (access)"
    ),
    "cpu_seconds": Metric("s", "lower", "host CPU seconds of the sample"),
    **{
        name: Metric("-", better, f"{what} an access, counted by the processor")
        for name, (better, what) in {
            "l1d_misses": ("lower", "reads that miss the first cache, for"),
            "llc_misses": ("lower", "reads that miss the last cache, for"),
            "dtlb_misses": ("lower", "reads whose address is not in the translation cache, for"),
            "cycles": ("lower", "cycles for"),
            "instructions": ("lower", "instructions for"),
        }.items()
    },
}


class MemoryTask(MeasuredTask):
    """Loops over memory, without a device's queue."""

    name = "memory"
    description = "read and write memory; what was read and written is checked"
    parameters = _PARAMETERS
    metrics = _METRICS

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults, and leaves out what a pattern does not have."""
        full = super().normal(parameters)
        own = _OWN.get(full["pattern"], {})
        for name in ("kernel", "access", "order"):
            full[name] = (full[name] or own[name]) if name in own else None
        return full

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """See `Task`."""
        del machine
        size, pattern = parameters["buffer_size"], parameters["pattern"]
        unit = _LINE_BYTES if pattern == "chase" else 8
        least = 2 * _LINE_BYTES if pattern == "chase" else 8
        if size % unit or size < least:
            return (
                f"{pattern} takes a buffer_size of {least} bytes or more, in multiples of {unit}, "
                f"not {size}"
            )
        if parameters["order"] == "random" and size & (size - 1):
            return f"an order at random takes a buffer_size that is a power of two, not {size}"
        return None

    def test(self, parameters: Json) -> Json:
        """See `MeasuredTask`."""
        return {"kind": "memory", **parameters}


TASK = MemoryTask()
