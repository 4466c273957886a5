"""Causes of noise on a machine, and what is missing on it, with the exact command that fixes it.

Nothing here changes anything: the commands are for the user to run, or not.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
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
        """Returns the finding in the form of a warning in a run's manifest."""
        return {"kind": self.kind, "message": self.message, "remedy": self.remedy}


def _noise(kind: str, message: str, remedy: str) -> Finding:
    return Finding(kind, "noise", message, remedy)


def of_environment(environment: Json, load: Json) -> Iterator[Finding]:
    """Yields findings about the recorded machine that affect the figures measured on it."""
    cpu = environment["cpu"]
    average, cores = load.get("load_1min"), len(cpu.get("usable") or [0])
    if average is not None and average > 0.3 * cores:
        yield _noise(
            "load",
            f"machine busy: load {average:.1f} on {cores} cores; results unreliable",
            "ps -eo pcpu,pid,comm --sort=-pcpu | head   # end what is not needed, or wait",
        )
    elif average is not None:
        yield Finding("load", "ok", f"little else runs: load {average:.1f} on {cores} cores")
    if cpu.get("virtualised"):
        stolen = load.get("stolen_s")
        lost = f"; other guests took {stolen:.0f} s of it since it started" if stolen else ""
        yield Finding(
            "virtualised",
            "note",
            f"this is a virtual machine: its neighbours share cores, caches and memory{lost}",
            "use a machine of your own where differences of a few percent matter",
        )
    yield from _frequency(cpu)
    quota = environment["limits"].get("cpu_quota_cores")
    if isinstance(quota, int | float):
        yield _noise(
            "quota",
            f"a control group limits this process to {quota:g} cores: it is stopped when that is "
            "used up, which shows as long latencies",
            "start the container without a CPU limit, and pin it instead (docker: --cpuset-cpus)",
        )
    yield from _cores(cpu)
    yield from _memory(environment["memory"])
    clock = environment["kernel"].get("clock")
    if clock in ("hpet", "acpi_pm"):
        yield _noise(
            "clock",
            f"the kernel's clock is {clock}: reading it takes about a microsecond",
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )


def _frequency(cpu: Json) -> Iterator[Finding]:
    governor = cpu.get("governor")
    if governor is None:
        yield Finding("governor", "note", "the clock's governor cannot be read on this machine")
    elif governor == "performance":
        yield Finding("governor", "ok", "the clock's governor is performance")
    else:
        yield _noise(
            "governor",
            f"the clock's governor is {governor}: short samples run at changing frequencies",
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        )
    if cpu.get("turbo"):
        intel = cpu.get("driver") in ("intel_pstate", "intel_cpufreq")
        switch = "1 {}/intel_pstate/no_turbo" if intel else "0 {}/cpufreq/boost"
        value, _, file = switch.format("/sys/devices/system/cpu").partition(" ")
        yield _noise(
            "turbo",
            "turbo is on: the frequency depends on temperature and on how many cores work",
            f"echo {value} | sudo tee {file}   # slower, and steadier",
        )


def _cores(cpu: Json) -> Iterator[Finding]:
    usable, online = len(cpu.get("usable") or ()), cpu.get("online")
    if usable and online and usable < online:
        yield Finding(
            "affinity",
            "note",
            f"this process may use {usable} of {online} processors",
            f"taskset -c 0-{online - 1} overside run BOX",
        )
    if usable == 1:
        yield _noise(
            "cores",
            "with one processor, whoever submits jobs and whoever does them take turns",
            "use a machine with two processors or more",
        )
    if cpu.get("smt"):
        yield _noise(
            "smt",
            "hyper-threading is on: two threads may share one core",
            "echo off | sudo tee /sys/devices/system/cpu/smt/control   # or pin with cores=[..]",
        )


def _memory(memory: Json) -> Iterator[Finding]:
    if (memory.get("swap_used_bytes") or 0) > 64 << 20:
        yield _noise(
            "swap",
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
    if memory.get("transparent_huge_pages") == "always":
        yield _noise(
            "huge-pages",
            "transparent huge pages are always on: when they come is not predictable",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )


def of_equipment(here: Machine) -> list[Finding]:
    """Returns findings about the devices and libraries, including those that are missing."""
    found = [Finding("device", one["level"], one["message"]) for one in json.loads(_core.doctor())]
    for operation in here.operations:
        if not operation["variants"]:
            message = f"no library does {operation['operation']}"
            found.append(Finding("library", "lack", message))
    return found


def of_disk(directory: Path) -> Iterator[Finding]:
    """Yields findings about the file system, such as that results cannot be written."""
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
