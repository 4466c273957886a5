"""Hash buffers, and compare the digests with another implementation's."""

from __future__ import annotations

from overside.tasks.common import Json, Machine
from overside.tasks.offload import OffloadTask

#: The parameters that calls have; the others are about queues and data.
_OF_CALLS = ("algorithm", "variant", "buffer_size", "calls")


class HashTask(OffloadTask):
    """Jobs of hashing on a device; or, with `calls`, the bare functions in a loop."""

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults; with `calls`, parameters that only jobs have become `None`."""
        full = super().normal(parameters)
        if full["calls"] is None:
            return full
        return {name: value if name in _OF_CALLS else None for name, value in full.items()}

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """See `Task`."""
        if parameters["calls"] is None:
            return super().unavailable(parameters, machine)
        operation, variant = self.operation(parameters), parameters["variant"]
        there = [
            known["name"]
            for one in machine.operations
            if one["operation"] == operation
            for known in one["variants"]
        ]
        if variant != "auto" and variant not in there:
            return f"there is no {variant} for {operation}; there is {', '.join(there)}"
        return None

    def doubt(self, parameters: Json, machine: Machine) -> str | None:
        """See `Task`."""
        return None if parameters["calls"] else super().doubt(parameters, machine)

    def test(self, parameters: Json) -> Json:
        """See `MeasuredTask`."""
        if parameters["calls"] is None:
            return super().test(parameters)
        return {
            "kind": "hash",
            "operation": self.operation(parameters),
            "variant": parameters["variant"],
            "calls": parameters["calls"],
            "buffer_size": parameters["buffer_size"],
        }


TASK = HashTask("hash")
