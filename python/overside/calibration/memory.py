"""Calibration of a machine's memory: random reads by block size, and streams by cores.

Each round runs in a fresh process, so that the placement of pages varies.

`python -m overside.calibration.memory SPEC` measures one round; its answer is JSON on stdout.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from overside import _core, processes
from overside.calibration import fit
from overside.calibration.writing import Writer
from overside.errors import Exit, as_user_error
from overside.tasks.common import Json

KERNELS = ("copy", "scale", "add", "triad")
_KIB, _MIB = 1 << 10, 1 << 20
#: Seconds that a round may take beyond its measuring time, to make blocks on a busy machine.
_GRACE_S = 600.0


def spec(environment: Json, *, quick: bool, round_s: float) -> Json:
    """Returns the specification of one round: its blocks, arrays and threads.

    Arrays of streams are four times the last cache, as STREAM's rules ask, but at most an eighth
    of the memory.
    """
    memory = environment.get("memory") or {}
    available = memory.get("available_bytes") or memory.get("total_bytes") or 1 << 30
    largest = max(_MIB, min(1 << 30, int(available) // 8))
    cpu = environment.get("cpu") or {}
    caches = [cache["size_bytes"] for cache in cpu.get("caches") or ()]
    array = min(largest // 3, max([16 * _MIB] + [4 * size for size in caches]))
    blocks = [16 * _KIB << at for at in range(0, 9 if quick else 13, 4 if quick else 1)]
    if quick:
        array = min(array, 16 * _MIB)
    usable = len(os.sched_getaffinity(0))
    threads = sorted({1, usable} | {1 << at for at in range(10) if 1 << at < usable})
    if quick:
        threads = sorted({1, usable})
    blocks = [block for block in blocks if block <= largest]
    steps = len(blocks) + len(KERNELS) * len(threads)
    return {
        "blocks": blocks,
        "threads": threads,
        "array_bytes": array,
        "huge_pages": memory.get("transparent_huge_pages") == "always",
        "seconds": round_s / steps,
    }


def measure(asked: Mapping[str, Any]) -> Json:
    """One round: nanoseconds by block, bytes a second by kernel and threads."""
    seconds: float = asked["seconds"]
    return {
        "latency_ns": {
            str(block): _core.memory_latency(block, seconds) for block in asked["blocks"]
        },
        "stream": {
            kernel: {
                str(threads): _core.memory_stream(kernel, threads, asked["array_bytes"], seconds)
                for threads in asked["threads"]
            }
            for kernel in KERNELS
        },
    }


def in_a_fresh_process(asked: Json) -> Json:
    """Runs `measure` in a fresh process. Raises `UserError` if the process fails."""
    steps = len(asked["blocks"]) + len(KERNELS) * len(asked["threads"])
    limit_s = steps * asked["seconds"] + _GRACE_S
    remedy = "calibrate without it: --no-memory"
    failures = (processes.ProcessError, ValueError)
    with as_user_error("memory cannot be measured", *failures, remedy=remedy, code=Exit.ABSENT):
        command = [sys.executable, "-m", "overside.calibration.memory", json.dumps(asked)]
        answer: Json = json.loads(processes.output(command, limit_s))
    return answer


def write(writer: Writer, asked: Json, rounds: Sequence[Json]) -> None:
    """Adds the figures of the rounds to a profile."""
    if not rounds:
        return
    array = asked["array_bytes"]
    fact = writer.fact(
        "memory",
        f"dependent reads at random, on one core, from blocks of the system's own pages, and the "
        f"STREAM kernels over arrays of {array} bytes shared by the cores; {len(rounds)} rounds, "
        "a fresh process each",
    )
    latency = [
        (float(block), value)
        for block in asked["blocks"]
        if (value := fit.over_rounds([one["latency_ns"][str(block)] for one in rounds]))
    ]
    writer.table("memory.latency.random", "bytes", latency, "ns", fact)
    # The smallest block is one of the first-level cache.
    first, *others = [str(block) for block in asked["blocks"]]
    beyond = [
        (float(block), value)
        for block in others
        if (
            value := fit.over_rounds(
                [one["latency_ns"][block] - one["latency_ns"][first] for one in rounds]
            )
        )
    ]
    pages = "huge" if asked["huge_pages"] else "small"
    writer.table(f"memory.latency.{pages}-pages", "bytes", beyond, "ns", fact)
    for kernel in KERNELS:
        points = [
            (float(threads), value.scaled(1e-9))
            for threads in asked["threads"]
            if (value := fit.over_rounds([one["stream"][kernel][str(threads)] for one in rounds]))
        ]
        writer.table(f"stream.{kernel}", "cores", points, "GB/s", fact)


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
