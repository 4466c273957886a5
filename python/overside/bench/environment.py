"""The machine as a run records it: everything that may explain a figure.

A value that cannot be read is null, and a key with the suffix `_reason` beside it has the reason.
Nothing here changes anything, and nothing identifies the machine or its user: no host name, no
addresses, no serial numbers.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from overside import _core
from overside.tasks.common import LOCAL, Json

Reader = Callable[[], Any]


def _read(readers: Mapping[str, Reader]) -> Json:
    """Returns the facts of all readers; a failure becomes null and its reason."""
    facts: Json = {}
    for key, read in readers.items():
        reason = "this machine does not say"
        try:
            facts[key] = read()
        except FileNotFoundError as error:
            facts[key], reason = None, f"{error.filename} does not exist"
        except OSError as error:
            facts[key], reason = None, f"{error.filename or key}: {error.strerror}"
        except (ValueError, KeyError, IndexError, AttributeError) as error:
            facts[key], reason = None, f"cannot be understood: {error}"
        if facts[key] is None:
            facts[f"{key}_reason"] = reason
    return facts


def _text(path: Path | str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace").strip()


def capture() -> Json:
    """Description of the machine without the load, which `load` returns before and after."""
    machine: Json = json.loads(_core.node_environment(LOCAL))
    machine.pop("load_before")
    machine["software"] |= _read(_SOFTWARE)
    return machine


#: Counters of `load`, which began at some time in the past: only differences have a meaning.
_COUNTERS = ("uptime_s", "busy_s", "own_s", "stolen_s")


def load() -> Json:
    """Returns the current load of the machine, and counters of its past load."""
    return _read(_LOAD)


def resume(machine: Json) -> None:
    """Prepares a recorded machine for going on with its run: the counters before the run become
    such that their differences to those after it will not have the pause in them."""
    now, spent = load(), _spent(machine)
    machine["load_before"] = (machine.get("load_before") or now) | {
        key: now[key] - (spent[key] or 0.0) for key in _COUNTERS if now[key] is not None
    }
    machine.pop("load_after", None)


def _spent(machine: Json) -> dict[str, float | None]:
    """By how much the counters went up during a run; `None` is not known."""
    spent: dict[str, float | None] = {}
    for key in _COUNTERS:
        first: Any = (machine.get("load_before") or {}).get(key)
        last: Any = (machine.get("load_after") or {}).get(key)
        known = isinstance(first, int | float) and isinstance(last, int | float)
        spent[key] = max(0.0, last - first) if known else None
    return spent


@dataclass(frozen=True)
class Load:
    """Load on the machine during a run by other work; `None` is unknown."""

    elapsed_s: float | None
    #: Processors that the run could use.
    processors: int
    #: Share of those processors' time that other processes used, from 0 to 1.
    others: float | None
    #: Share of all processors' time that other guests of the hypervisor used, from 0 to 1.
    stolen: float | None
    #: The load average before the run.
    average_before: float | None


def load_during(machine: Json, manifest: Json) -> Load:
    """Returns the load by other work on a recorded machine during its run."""
    cpu, spent = machine.get("cpu") or {}, _spent(machine)
    elapsed_s = spent["uptime_s"] or _elapsed_s(manifest)
    busy_s, own_s, stolen_s = spent["busy_s"], spent["own_s"], spent["stolen_s"]
    processors = len(cpu.get("usable") or ()) or 1
    others_s = None if busy_s is None or own_s is None else max(0.0, busy_s - own_s)
    average = (machine.get("load_before") or {}).get("load_1min")
    return Load(
        elapsed_s,
        processors,
        others_s / elapsed_s / processors if elapsed_s and others_s is not None else None,
        stolen_s / elapsed_s / (cpu.get("online") or processors)
        if elapsed_s and stolen_s is not None
        else None,
        float(average) if isinstance(average, int | float) else None,
    )


def _elapsed_s(manifest: Json) -> float | None:
    try:
        times = [datetime.fromisoformat(str(manifest.get(key))) for key in ("started", "ended")]
        return (times[1] - times[0]).total_seconds() or None
    except (ValueError, TypeError):
        return None


def _busy_s() -> float:
    """Seconds that the processors which this process may use have worked for anybody."""
    usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = 0
    for line in _text("/proc/stat").splitlines():
        name, *fields = line.split()
        if name in usable:
            # user, nice, system, (idle, iowait,) irq, softirq: proc(5). User includes guests.
            ticks += sum(int(fields[index]) for index in (0, 1, 2, 5, 6))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stolen_s() -> float:
    """Seconds since the start in which other guests had this machine's cores."""
    fields = _text("/proc/stat").splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def _pressure() -> float:
    match = re.search(r"some avg10=([0-9.]+)", _text("/proc/pressure/cpu"))
    return float(match[1]) if match else 0.0


def _temperature() -> float | None:
    values = [int(_text(zone)) for zone in Path("/sys/class/thermal").glob("thermal_zone*/temp")]
    return max(values) / 1000 if values else None


#: Readers of the machine's current load and of its counters.
_LOAD: Mapping[str, Reader] = {
    "uptime_s": lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    "busy_s": _busy_s,
    # Of this process and of those that it has started and that have ended.
    "own_s": lambda: sum(os.times()[:4]),
    "load_1min": lambda: os.getloadavg()[0],
    "running": lambda: int(_text("/proc/loadavg").split()[3].partition("/")[0]) - 1,
    "stolen_s": _stolen_s,
    "pressure_cpu_10s_percent": _pressure,
    "temperature_c": _temperature,
}
#: Readers of facts about Python and its C library.
_SOFTWARE: Mapping[str, Reader] = {
    "python": platform.python_version,
    "python_build": lambda: " ".join(sys.version.split()),
    "libc": lambda: " ".join(platform.libc_ver()),
}
