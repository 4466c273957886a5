"""The box that measures the parameters of a device that the model needs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from overside.errors import Exit, UserError
from overside.tasks.common import Json, Machine, operation_parameter

#: Operations to measure first if a device has more than there is time for, in this order.
PREFERRED = (
    "copy",
    "compress-deflate",
    "decompress-deflate",
    "decompress-lz4-block",
    "compress-lz4-block",
    "match-count",
    "hash-xxh3",
)
_KIB, _MIB = 1 << 10, 1 << 20
_LIMITS = ("max_source_bytes", "max_destination_bytes")
#: Copies long enough to be bound by memory, not by their number.
_TRAFFIC_COPY = 256 * _KIB
#: A queue that is full for any device that we know.
_DEPTH = 16
_DEEP = 64
#: A worker's start and the check of its buffers, a round and an operation, in seconds.
_OVERHEAD_S = 1.0
_ROUNDS = 6
#: Buffers of the shortest sizes that a sample goes round.
_FEW = 256
_QUICK_ROUNDS = 2
#: The shortest sample of traffic beside copies, which begin after a third of it and take another:
#: on a busy machine a thread may begin a tenth of a second late.
_TRAFFIC_SAMPLE_S = 0.3
#: The least time after which measuring jobs is ended.
_LEAST_S = 300.0


def operations(device: str, asked: Sequence[str], here: Machine, *, quick: bool) -> list[Json]:
    """The capabilities of the operations to be measured.

    Raises `UserError` if the device is not there or cannot do one that was asked for.
    """
    found = here.device(device)
    if found is None:
        known = ", ".join(str(one["name"]) for one in here.devices)
        raise UserError(
            f"there is no device {device} here",
            f"`overside devices` lists them all; without DPDK there are {known}",
            Exit.ABSENT,
        )
    if found.get("unavailable"):
        reason = " ".join(str(found["unavailable"]).split())
        raise UserError(f"{device} is not available: {reason}", "overside doctor", Exit.ABSENT)
    there = {str(one["operation"]): one for one in found["capabilities"]}
    for name in asked:
        if name not in there:
            raise UserError(
                f"{device} cannot do {name}", f"it does {', '.join(there)}", Exit.ABSENT
            )
    chosen = list(asked) or [name for name in PREFERRED if name in there] or list(there)[:4]
    if quick and not asked:
        chosen = chosen[:2]
    return [there[name] for name in chosen]


def box(
    device: str,
    capabilities: Sequence[Json],
    time_s: float,
    *,
    quick: bool,
    network: str | None = None,
) -> Json:
    """A box in the form of a file, for about `time_s` seconds of measuring. `network` is the end
    that takes the traffic which runs beside copies.

    Raises `UserError` if the device makes no copies of its own.
    """
    tasks: list[Json] = []
    for capability in capabilities:
        tasks += _tasks(device, capability, quick=quick)
    if network is not None:
        tasks.append(_beside_traffic(device, capabilities, network))
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    count = sum(_count(task["parameters"]) for task in tasks)
    overhead = len(capabilities) * _OVERHEAD_S * rounds
    share = max(0.0, time_s * 0.8 - overhead) / (count * rounds)
    sample_s = min(0.5, max(0.01, share * 0.8))
    if network is not None:
        sample_s = max(sample_s, _TRAFFIC_SAMPLE_S)
    return {
        "schema": "box/1",
        "name": "calibrate",
        "description": f"What the model needs to know of {device}.",
        "seed": 7,
        "tasks": tasks,
        "measure": {
            "rounds": rounds,
            "warmup_s": round(sample_s / 4, 4),
            "sample_s": round(sample_s, 4),
            # A busy machine may take longer than its share: what is short to begin with is not
            # ended for that.
            "max_s": round(max(_LEAST_S, time_s), 1),
            "target_interval": 1,
        },
    }


def _beside_traffic(device: str, capabilities: Sequence[Json], network: str) -> Json:
    copies = [one for one in capabilities if one["operation"] == "copy"]
    if device == "cpu" or not copies:
        raise UserError(
            f"what copies by {device} cost a network is not for --network to measure",
            "name a device with an engine that copies, as in --device dpdk:mlx5_0; "
            "`overside devices` says what each can do",
        )
    limits = (int(copies[0][key]) or _TRAFFIC_COPY for key in _LIMITS)
    return {
        "task": "network",
        "description": "traffic beside copies",
        "parameters": {
            "pattern": "stream",
            "destination": network,
            "jobs": "copy",
            "device": device,
            "buffer_size": min(_TRAFFIC_COPY, *limits),
            "job_depth": min(_DEEP, int(copies[0]["max_depth"])),
            "job_completion": "event" if copies[0].get("event") else "poll",
        },
    }


def _count(parameters: Json) -> int:
    count = 1
    for values in parameters.values():
        count *= len(values) if isinstance(values, list) else 1
    return count


def _tasks(device: str, capability: Json, *, quick: bool) -> list[Json]:
    operation = str(capability["operation"])
    verb, _, kind = operation.partition("-")
    copies = operation == "copy"
    limit = min(int(capability[key]) or 1 << 40 for key in _LIMITS)
    sizes = [2, 64, _KIB, 16 * _KIB, 256 * _KIB, 2 * _MIB] if copies else []
    sizes = sizes or [_KIB, 16 * _KIB, 128 * _KIB, _MIB, 2 * _MIB]
    # Compressed data that do not shrink are longer than they were.
    fitting = [size for size in sizes if size + size // 64 + _KIB <= limit or copies]
    sizes = [size for size in fitting if size <= limit] or [min(limit, _KIB)]
    if quick:
        sizes = sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]})
    depth = min(_DEPTH, int(capability["max_depth"]))
    deep = min(_DEEP, int(capability["max_depth"]))
    middle = max(size for size in sizes if size <= 64 * _KIB or size == sizes[0])
    ways = [way for way in ("poll", "event") if way == "poll" or capability.get("event")]
    common: Json = {"device": device, "sample_bytes": _MIB // 4 if quick else _MIB}
    if completed := operation_parameter(verb):
        common[completed[0]] = kind
    if verb == "compress" and kind in ("deflate", "zlib", "gzip"):
        common["level"] = 1
    if verb == "match":
        common["patterns"] = [["q1"], ["q2"], ["q3"], ["q4"]]
        ways = ways[:1]
    if device.startswith("emulated:"):
        common["timing"] = "replay"

    def task(doc: str, **own: object) -> Json:
        return {"task": verb, "description": doc, "parameters": common | own}

    # Every buffer is verified before the clock starts, however short: few of the shortest do.
    short = [size for size in sizes if size < _KIB]
    tasks = []
    for part in (short, sizes[len(short) :]):
        if part:
            few: Json = {"sample_bytes": part[-1] * _FEW} if part is short else {}
            own = few | {"buffer_size": part, "completion": ways}
            tasks.append(task("a full queue", depth=depth, batch=depth, **own))
            tasks.append(task("a job alone", depth=1, batch=1, **own))
    if verb == "match":
        return tasks
    batches = sorted({1, 4, deep} if not quick else {1, deep})
    bells: Json = {"sample_bytes": sizes[0] * _FEW} if short else {}
    own = bells | {"buffer_size": sizes[0], "completion": ways}
    tasks.append(task("doorbells", depth=deep, batch=batches, **own))
    if not quick:
        depths = [at for at in (2, 4, 8) if at < depth]
        if depths:
            tasks.append(
                task("queues", buffer_size=middle, depth=depths, batch=1, completion=ways[0])
            )
    threads = _threads(device)
    if threads:
        tasks.append(
            task(
                "threads",
                buffer_size=middle,
                depth=_DEEP,
                batch=_DEEP,
                threads=[1, *threads],
                completion=ways[-1],
            )
        )
    tasks.append(
        task("contexts", buffer_size=middle, setting="reconfiguration", completion=ways[0])
    )
    return tasks


def _threads(device: str) -> list[int]:
    """Returns the thread counts above one to measure; none but for `cpu`."""
    if device != "cpu":
        return []
    usable = len(os.sched_getaffinity(0))
    return sorted({usable} | {1 << at for at in range(1, 10) if 1 << at < usable})[:8]
