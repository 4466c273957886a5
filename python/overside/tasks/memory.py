"""Measure this machine's memory: dependent reads, streams, reads and writes of the
size of a pointer."""

from __future__ import annotations

from collections.abc import Mapping

from overside.tasks.common import Json, Machine, MeasuredTask

#: A cache line; reads at random never share one.
_LINE_BYTES = 64

#: The parameters that only some patterns have, with their defaults.
_OWN: Mapping[str, Mapping[str, str]] = {
    "chase": {},
    "stream": {"kernel": "copy"},
    "access": {"access": "read", "order": "sequential"},
}


class MemoryTask(MeasuredTask):
    """Loops over memory, without a device's queue."""

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults, and removes the parameters that a pattern does not have."""
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


TASK = MemoryTask("memory")
