"""Hash buffers, and compare the digests with another implementation's."""

from __future__ import annotations

from collections.abc import Mapping

from overside.tasks.common import Json, Machine, Metric, Parameter
from overside.tasks.offload import OffloadTask

ALGORITHMS = (
    "xxh3",
    "crc32",
    "sha256",
    "xxh3-128",
    "xxh32",
    "xxh64",
    "city-32",
    "city-64",
    "city-128",
    "murmur2-32",
    "murmur2-64",
    "murmur3-32",
    "murmur3-128",
    "spooky-32",
    "spooky-64",
    "spooky-128",
    "fnv-32",
    "fnv-64",
    "fnv-128",
    "md5",
)

#: The parameters that calls have; the others are about queues and data.
_OF_CALLS = ("algorithm", "variant", "buffer_size", "calls")

_CALLS: Mapping[str, Metric] = {
    "call_latency": Metric(
        "ns", "lower", "one call that waits for the digest of the one before (calls=chain)"
    ),
    "call_bandwidth": Metric(
        "MB/s", "higher", "bytes hashed by calls in a row on one core; MB is 10^6 bytes (calls=row)"
    ),
}


class HashTask(OffloadTask):
    """Jobs of hashing on a device; or, with `calls`, the bare functions in a loop."""

    @property
    def metrics(self) -> Mapping[str, Metric]:  # type: ignore[override]
        """Those of jobs, and those of calls."""
        return {**super().metrics, **_CALLS}

    def normal(self, parameters: Json) -> Json:
        """Of calls, only what they have."""
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


TASK = HashTask(
    name="hash",
    description="hash buffers; each digest is compared with another implementation's",
    operation=lambda parameters: f"hash-{parameters['algorithm']}",
    own={
        "algorithm": Parameter("string", "the hash or checksum", "xxh3", choices=ALGORITHMS),
        "calls": Parameter(
            "string",
            "not jobs on a device but bare calls in a loop on one core: each waiting for the "
            "digest before it (chain), or one after the other (row)",
            None,
            choices=("chain", "row"),
        ),
    },
)
