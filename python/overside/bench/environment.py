"""The machine as a run records it: everything that may explain a figure.

What cannot be read is null, and a key with the suffix `_reason` beside it says why. Nothing here
changes anything, and nothing identifies the machine or its user: no host name, no addresses, no
serial numbers.
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
from overside.tasks.common import Json

_CPU = Path("/sys/devices/system/cpu")
#: Options of the kernel's command line that change timing; the others are nobody's business.
_BOOT_OPTIONS = re.compile(
    r"^(isolcpus|nohz_full|rcu_nocbs|mitigations|intel_pstate|amd_pstate|processor\.max_cstate|"
    r"intel_idle\.max_cstate|idle|nosmt|hugepages|hugepagesz|default_hugepagesz|iommu|"
    r"intel_iommu|amd_iommu)(=|$)"
)
#: Instruction sets that the libraries choose their code by.
_FLAGS = """
    sse4_2 avx avx2 bmi2 pclmulqdq vpclmulqdq sha_ni aes vaes gfni avx512f avx512bw avx512dq
    avx512vl avx512vbmi avx512_vbmi2 crc32 pmull sha1 sha2 sha3 asimd sve sve2
"""


Reader = Callable[[], Any]


def _read(readers: Mapping[str, Reader]) -> Json:
    """What each of the readers gives; a failure becomes null and its reason."""
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


def _file(path: Path | str, parse: Callable[[str], Any] = str) -> Reader:
    """Reads a file of one value."""
    return lambda: parse(_text(path))


def capture() -> Json:
    """Everything but the load, which `load` gives before and after."""
    topics = {topic: _read(readers) for topic, readers in _MACHINE.items()}
    return {"schema": "node/1", "name": "local", **topics}


#: What `load` counts since some time in the past: only differences mean something.
_COUNTERS = ("uptime_s", "busy_s", "own_s", "stolen_s")


def load() -> Json:
    """How busy the machine is now, and has been."""
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
    """How busy the machine was beside a run; `None` is not known."""

    elapsed_s: float | None
    #: Processors that the run could use.
    processors: int
    #: What other processes took of those processors' time, as a share.
    others: float | None
    #: What other guests of the hypervisor took of the time of all processors, as a share.
    stolen: float | None
    #: The load average before the run.
    average_before: float | None


def load_during(machine: Json, manifest: Json) -> Load:
    """How busy a recorded machine was beside its run."""
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


def _cpuinfo() -> dict[str, str]:
    """The first processor's entries."""
    entries: dict[str, str] = {}
    try:
        text = _text("/proc/cpuinfo")
    except OSError:
        return entries
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            entries.setdefault(name.strip(), value.strip())
    return entries


def _cpu_model() -> str | None:
    info = _cpuinfo()
    keys = ("CPU implementer", "CPU part", "CPU variant", "CPU revision")
    arm = " ".join(f"{key[4:]} {info[key]}" for key in keys if key in info)
    return info.get("model name") or info.get("Model") or arm or None


def _flags() -> list[str] | None:
    info = _cpuinfo()
    there = (info.get("flags") or info.get("Features") or "").split()
    return [flag for flag in _FLAGS.split() if flag in there] if there else None


def _list(text: str) -> list[int]:
    """`0-3,8` as numbers."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first:
            numbers += range(int(first), int(last if dash else first) + 1)
    return numbers


def _distinct(name: str, older_name: str) -> int:
    """How many different sets of siblings there are."""
    for file in (name, older_name):
        sets = {_text(path) for path in _CPU.glob(f"cpu[0-9]*/topology/{file}")}
        if sets:
            return len(sets)
    raise FileNotFoundError(2, "no such file", str(_CPU / "cpu0/topology" / name))


def _caches() -> list[Json]:
    found = []
    for index in sorted((_CPU / "cpu0/cache").glob("index[0-9]*")):
        size = _text(index / "size")
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1], 1)
        found.append(
            {
                "level": int(_text(index / "level")),
                "type": _text(index / "type").lower(),
                "size_bytes": int(size.rstrip("KMG")) * unit,
                "shared_by": len(_list(_text(index / "shared_cpu_list"))),
            }
        )
    return found


def _turbo() -> bool:
    no_turbo = _CPU / "intel_pstate/no_turbo"
    if no_turbo.exists():
        return _text(no_turbo) == "0"
    return _text(_CPU / "cpufreq/boost") == "1"


def _mitigations() -> dict[str, str]:
    """What is mitigated or vulnerable; what does not affect this machine is left out."""
    states = {path.name: _text(path) for path in sorted((_CPU / "vulnerabilities").iterdir())}
    return {name: state for name, state in states.items() if state != "Not affected"}


def _virtualised() -> bool:
    if "hypervisor" in _cpuinfo().get("flags", "").split():
        return True
    return Path("/sys/hypervisor/type").exists() or Path("/proc/xen").exists()


def _meminfo(name: str, scale: int = 1024) -> int:
    entries = dict(line.split(":", 1) for line in _text("/proc/meminfo").splitlines())
    return int(entries[name].split()[0]) * scale


def _chosen(text: str) -> str:
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else text


def _cgroup(controller: str) -> Path:
    """The directory of this process in a controller's tree, or in the unified one."""
    for line in _text("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Path("/sys/fs/cgroup") / controller / path.lstrip("/")
    for line in _text("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            return Path("/sys/fs/cgroup") / line[3:].lstrip("/")
    raise FileNotFoundError(2, "no such control group", controller)


def _smallest(directory: Path, read: Callable[[Path], float | None]) -> float | None:
    """The smallest limit from a control group up to the root; a group that does not say has
    none."""
    limits: list[float] = []
    for group in (directory, *directory.parents):
        if group == Path("/sys/fs"):
            break
        try:
            limit = read(group)
        except (OSError, ValueError):
            continue
        if limit is not None:
            limits.append(limit)
    return min(limits, default=None)


def _cpu_quota() -> float | str:
    def quota(group: Path) -> float | None:
        if (group / "cpu.max").exists():
            limit, period = _text(group / "cpu.max").split()
            return None if limit == "max" else int(limit) / int(period)
        limit_us = int(_text(group / "cpu.cfs_quota_us"))
        return limit_us / int(_text(group / "cpu.cfs_period_us")) if limit_us > 0 else None

    limit = _smallest(_cgroup("cpu"), quota)
    return "none" if limit is None else limit


def _memory_limit() -> int | str:
    def limit_of(group: Path) -> float | None:
        unified = group / "memory.max"
        text = _text(unified if unified.exists() else group / "memory.limit_in_bytes")
        # Close to 2^63 is how the older interface says that there is none.
        return None if text == "max" or int(text) >= 1 << 60 else int(text)

    limit = _smallest(_cgroup("memory"), limit_of)
    return "none" if limit is None else int(limit)


def _container() -> str:
    for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if Path(path).exists():
            return name
    return os.environ.get("container", "none")  # noqa: SIM112 (systemd's name for it)


def _libraries() -> dict[str, str]:
    """Library -> version, of everything that can be measured."""
    return {
        variant["library"]: variant["version"]
        for operation in json.loads(_core.variants())
        for variant in operation["variants"]
    }


#: How busy the machine is.
_LOAD: Mapping[str, Reader] = {
    "uptime_s": lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    "busy_s": _busy_s,
    # Of this process and of those that it has started and that have ended.
    "own_s": lambda: sum(os.times()[:4]),
    "load_1min": lambda: os.getloadavg()[0],
    "running": _file("/proc/loadavg", lambda text: int(text.split()[3].partition("/")[0]) - 1),
    "stolen_s": _stolen_s,
    "pressure_cpu_10s_percent": _pressure,
    "temperature_c": _temperature,
}
_CPUFREQ = _CPU / "cpu0/cpufreq"
#: The machine, topic by topic.
_MACHINE: Mapping[str, Mapping[str, Reader]] = {
    "cpu": {
        "architecture": platform.machine,
        "model": _cpu_model,
        "microcode": lambda: _cpuinfo().get("microcode"),
        "flags": _flags,
        "online": _file(_CPU / "online", lambda text: len(_list(text))),
        "usable": lambda: sorted(os.sched_getaffinity(0)),
        "cores": lambda: _distinct("core_cpus_list", "thread_siblings_list"),
        "sockets": lambda: _distinct("package_cpus_list", "core_siblings_list"),
        "smt": _file(_CPU / "smt/active", lambda text: text == "1"),
        "caches": _caches,
        "governor": _file(_CPUFREQ / "scaling_governor"),
        "driver": _file(_CPUFREQ / "scaling_driver"),
        "frequency_min_khz": _file(_CPUFREQ / "scaling_min_freq", int),
        "frequency_max_khz": _file(_CPUFREQ / "scaling_max_freq", int),
        "turbo": _turbo,
        "isolated": _file(_CPU / "isolated", _list),
        "mitigations": _mitigations,
        "virtualised": _virtualised,
        "hypervisor": _file("/sys/hypervisor/type"),
        "numa_nodes": _file("/sys/devices/system/node/online", lambda text: len(_list(text))),
    },
    "memory": {
        "total_bytes": lambda: _meminfo("MemTotal"),
        "available_bytes": lambda: _meminfo("MemAvailable"),
        "swap_used_bytes": lambda: _meminfo("SwapTotal") - _meminfo("SwapFree"),
        "huge_page_bytes": lambda: _meminfo("Hugepagesize"),
        "huge_pages": lambda: _meminfo("HugePages_Total", 1),
        "transparent_huge_pages": _file("/sys/kernel/mm/transparent_hugepage/enabled", _chosen),
        "page_bytes": lambda: os.sysconf("SC_PAGESIZE"),
    },
    "kernel": {
        "release": platform.release,
        "version": platform.version,
        "clock": _file(_CPU.parent / "clocksource/clocksource0/current_clocksource"),
        "aslr": _file("/proc/sys/kernel/randomize_va_space", int),
        "boot_options": _file(
            "/proc/cmdline", lambda text: list(filter(_BOOT_OPTIONS.match, text.split()))
        ),
        "distribution": lambda: platform.freedesktop_os_release()["PRETTY_NAME"],
    },
    "limits": {
        "cpu_quota_cores": _cpu_quota,
        "memory_limit_bytes": _memory_limit,
        "container": _container,
    },
    "software": {
        "overside": _core.version,
        "python": platform.python_version,
        "python_build": lambda: " ".join(sys.version.split()),
        "libc": lambda: " ".join(platform.libc_ver()),
        "libraries": _libraries,
    },
}
