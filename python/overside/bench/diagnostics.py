"""What makes a machine noisy or lacks on it, and the exact command that mends it.

Nothing here changes anything: the commands are for the user to run, or not.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from overside import _core
from overside.tasks.common import Json, Machine


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    #: A word to file it under.
    kind: str
    #: `ok`; `noise` (it makes figures vary or misleads); `lack` (something cannot be measured);
    #: `note` (good to know).
    level: str
    message: str
    #: A command or an advice; empty where there is nothing to do.
    remedy: str = ""

    def json(self) -> Json:
        """For programs."""
        return asdict(self)

    def warning(self) -> Json:
        """As in a run's manifest."""
        return {"kind": self.kind, "message": self.message, "remedy": self.remedy}


def of_environment(environment: Json, load: Json) -> list[Finding]:
    """What the recorded machine says about the figures that are taken on it."""
    steady: tuple[Callable[[Json], Iterator[Finding]], ...] = (
        _governor,
        _turbo,
        _quota,
        _cores,
        _memory,
        _huge_pages,
        _clock,
    )
    return [
        *_load(environment, load),
        *_virtualised(environment, load),
        *(finding for check in steady for finding in check(environment)),
    ]


def _load(environment: Json, load: Json) -> Iterator[Finding]:
    average, cores = load.get("load_1min"), len(environment["cpu"].get("usable") or [0])
    if average is None:
        return
    if average > 0.3 * cores:
        yield Finding(
            "load",
            "noise",
            f"other programs keep {average:.1f} of {cores} cores busy",
            "ps -eo pcpu,pid,comm --sort=-pcpu | head   # end what is not needed, or wait",
        )
    else:
        yield Finding("load", "ok", f"little else runs: load {average:.1f} on {cores} cores")


def _governor(environment: Json) -> Iterator[Finding]:
    governor = environment["cpu"].get("governor")
    if governor is None:
        yield Finding("governor", "note", "the clock's governor cannot be read on this machine")
    elif governor == "performance":
        yield Finding("governor", "ok", "the clock's governor is performance")
    else:
        yield Finding(
            "governor",
            "noise",
            f"the clock's governor is {governor}: short samples run at changing frequencies",
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        )


def _turbo(environment: Json) -> Iterator[Finding]:
    cpu = environment["cpu"]
    if cpu.get("turbo"):
        intel = cpu.get("driver") in ("intel_pstate", "intel_cpufreq")
        command = (
            "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
            if intel
            else "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
        )
        yield Finding(
            "turbo",
            "noise",
            "turbo is on: the frequency depends on temperature and on how many cores work",
            f"{command}   # slower, and steadier",
        )


def _virtualised(environment: Json, load: Json) -> Iterator[Finding]:
    if environment["cpu"].get("virtualised"):
        stolen = load.get("stolen_s")
        lost = f"; other guests took {stolen:.0f} s of it since it started" if stolen else ""
        yield Finding(
            "virtualised",
            "note",
            f"this is a virtual machine: its neighbours share cores, caches and memory{lost}",
            "use a machine of your own where differences of a few percent matter",
        )


def _quota(environment: Json) -> Iterator[Finding]:
    quota = environment["limits"].get("cpu_quota_cores")
    if isinstance(quota, int | float):
        yield Finding(
            "quota",
            "noise",
            f"a control group limits this process to {quota:g} cores: it is stopped when that is "
            "used up, which shows as long latencies",
            "start the container without a CPU limit, and pin it instead (docker: --cpuset-cpus)",
        )


def _cores(environment: Json) -> Iterator[Finding]:
    cpu = environment["cpu"]
    usable, online = len(cpu.get("usable") or ()), cpu.get("online")
    if usable and online and usable < online:
        yield Finding(
            "affinity",
            "note",
            f"this process may use {usable} of {online} processors",
            f"taskset -c 0-{online - 1} overside run BOX",
        )
    if usable == 1:
        yield Finding(
            "cores",
            "noise",
            "with one processor, whoever submits jobs and whoever does them take turns",
            "use a machine with two processors or more",
        )
    if cpu.get("smt"):
        yield Finding(
            "smt",
            "noise",
            "hyper-threading is on: two threads may share one core",
            "echo off | sudo tee /sys/devices/system/cpu/smt/control   # or pin with cores=[..]",
        )


def _memory(environment: Json) -> Iterator[Finding]:
    memory = environment["memory"]
    if (memory.get("swap_used_bytes") or 0) > 64 << 20:
        yield Finding(
            "swap",
            "noise",
            f"{memory['swap_used_bytes'] >> 20} MiB are swapped out",
            "sudo swapoff -a && sudo swapon -a   # if there is memory enough",
        )
    available = memory.get("available_bytes")
    if available is not None and available < 1 << 30:
        yield Finding(
            "memory",
            "lack",
            f"{available >> 20} MiB of memory are available; large buffers need more",
            "end what is not needed, or set sample_bytes and buffer_size lower",
        )


def _huge_pages(environment: Json) -> Iterator[Finding]:
    if environment["memory"].get("transparent_huge_pages") == "always":
        yield Finding(
            "huge-pages",
            "noise",
            "transparent huge pages are always on: when they come is not predictable",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )


def _clock(environment: Json) -> Iterator[Finding]:
    clock = environment["kernel"].get("clock")
    if clock in ("hpet", "acpi_pm"):
        yield Finding(
            "clock",
            "noise",
            f"the kernel's clock is {clock}: reading it takes about a microsecond",
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )


def of_equipment(here: Machine) -> list[Finding]:
    """What can be measured, and what is missing for it."""
    found = [Finding("device", one["level"], one["message"]) for one in json.loads(_core.doctor())]
    for operation in here.operations:
        if not operation["variants"]:
            message = f"no library does {operation['operation']}"
            found.append(Finding("library", "lack", message))
    return found


def of_disk(directory: Path) -> Iterator[Finding]:
    """Whether results can be written."""
    there: Any = directory.resolve()
    while not there.exists():
        there = there.parent
    if not os.access(there, os.W_OK):
        yield Finding(
            "disk",
            "lack",
            f"results cannot be written to {directory}",
            "overside run BOX --out DIR   # a directory of yours",
        )
        return
    free = shutil.disk_usage(there).free
    if free < 256 << 20:
        yield Finding(
            "disk",
            "lack",
            f"{free >> 20} MiB are free for results and data sets",
            "overside clean   # removes what earlier runs left",
        )
    else:
        yield Finding("disk", "ok", f"{free / 1e9:.1f} GB are free for results and data sets")
