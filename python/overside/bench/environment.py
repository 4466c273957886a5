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
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

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


class _Facts(dict[str, Any]):
    """Values that were read; a failure becomes null and its reason."""

    def read(self, key: str, read: Callable[[], Any]) -> None:
        try:
            value = read()
        except FileNotFoundError as error:
            self._absent(key, f"{error.filename} does not exist")
        except OSError as error:
            self._absent(key, f"{error.filename or key}: {error.strerror}")
        except (ValueError, KeyError, IndexError, AttributeError) as error:
            self._absent(key, f"cannot be understood: {error}")
        else:
            if value is None:
                self._absent(key, "this machine does not say")
            else:
                self[key] = value

    def _absent(self, key: str, reason: str) -> None:
        self[key] = None
        self[f"{key}_reason"] = reason


def _text(path: Path | str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace").strip()


def _number(path: Path | str) -> int:
    return int(_text(path))


def capture() -> Json:
    """Everything but the load, which `load` gives before and after."""
    whole: Json = {"schema": "node/1", "name": "local"}
    whole["cpu"] = _cpu()
    whole["memory"] = _memory()
    whole["kernel"] = _kernel()
    whole["limits"] = _limits()
    whole["software"] = _software()
    return whole


#: What `load` counts since some time in the past: only differences mean something.
_COUNTERS = ("uptime_s", "busy_s", "own_s", "stolen_s")


def load() -> Json:
    """How busy the machine is now, and has been."""
    facts = _Facts()
    facts.read("uptime_s", lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
    facts.read("busy_s", _busy_s)
    # Of this process and of those that it has started and that have ended.
    facts.read("own_s", lambda: sum(os.times()[:4]))
    facts.read("load_1min", lambda: os.getloadavg()[0])
    facts.read("running", lambda: int(_text("/proc/loadavg").split()[3].partition("/")[0]) - 1)
    facts.read("stolen_s", _stolen_s)
    facts.read("pressure_cpu_10s_percent", _pressure)
    facts.read("temperature_c", _temperature)
    return facts


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
    values = [_number(zone) for zone in Path("/sys/class/thermal").glob("thermal_zone*/temp")]
    return max(values) / 1000 if values else None


def _cpu() -> Json:
    info = _cpuinfo()
    facts = _Facts(architecture=platform.machine())
    facts.read("model", lambda: info.get("model name") or info.get("Model") or _arm_model(info))
    facts.read("microcode", lambda: info.get("microcode"))
    facts.read("flags", lambda: _flags(info))
    facts.read("online", lambda: len(_list(_text(_CPU / "online"))))
    facts.read("usable", lambda: sorted(os.sched_getaffinity(0)))
    facts.read("cores", lambda: _distinct("core_cpus_list", "thread_siblings_list"))
    facts.read("sockets", lambda: _distinct("package_cpus_list", "core_siblings_list"))
    facts.read("smt", lambda: _text(_CPU / "smt" / "active") == "1")
    facts.read("caches", _caches)
    facts.read("governor", lambda: _text(_CPU / "cpu0/cpufreq/scaling_governor"))
    facts.read("driver", lambda: _text(_CPU / "cpu0/cpufreq/scaling_driver"))
    facts.read("frequency_min_khz", lambda: _number(_CPU / "cpu0/cpufreq/scaling_min_freq"))
    facts.read("frequency_max_khz", lambda: _number(_CPU / "cpu0/cpufreq/scaling_max_freq"))
    facts.read("turbo", _turbo)
    facts.read("isolated", lambda: _list(_text(_CPU / "isolated")))
    facts.read("mitigations", _mitigations)
    facts.read("virtualised", lambda: _virtualised(info))
    facts.read("hypervisor", lambda: _text("/sys/hypervisor/type"))
    facts.read("numa_nodes", lambda: len(_list(_text("/sys/devices/system/node/online"))))
    return facts


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


def _arm_model(info: dict[str, str]) -> str | None:
    keys = ("CPU implementer", "CPU part", "CPU variant", "CPU revision")
    return " ".join(f"{key[4:]} {info[key]}" for key in keys if key in info) or None


def _flags(info: dict[str, str]) -> list[str] | None:
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
                "level": _number(index / "level"),
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


def _virtualised(info: dict[str, str]) -> bool:
    if "hypervisor" in info.get("flags", "").split():
        return True
    return Path("/sys/hypervisor/type").exists() or Path("/proc/xen").exists()


def _memory() -> Json:
    facts = _Facts()
    try:
        entries = dict(line.split(":", 1) for line in _text("/proc/meminfo").splitlines())
    except OSError:
        entries = {}

    def size(name: str) -> Callable[[], int]:
        return lambda: int(entries[name].split()[0]) * 1024

    facts.read("total_bytes", size("MemTotal"))
    facts.read("available_bytes", size("MemAvailable"))
    facts.read("swap_used_bytes", lambda: size("SwapTotal")() - size("SwapFree")())
    facts.read("huge_page_bytes", size("Hugepagesize"))
    facts.read("huge_pages", lambda: int(entries["HugePages_Total"]))
    facts.read(
        "transparent_huge_pages",
        lambda: _chosen(_text("/sys/kernel/mm/transparent_hugepage/enabled")),
    )
    facts.read("page_bytes", lambda: os.sysconf("SC_PAGESIZE"))
    return facts


def _chosen(text: str) -> str:
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else text


def _kernel() -> Json:
    facts = _Facts(release=platform.release(), version=platform.version())
    facts.read("clock", lambda: _text(_CPU.parent / "clocksource/clocksource0/current_clocksource"))
    facts.read("aslr", lambda: _number("/proc/sys/kernel/randomize_va_space"))
    facts.read(
        "boot_options",
        lambda: [word for word in _text("/proc/cmdline").split() if _BOOT_OPTIONS.match(word)],
    )
    facts.read("distribution", lambda: platform.freedesktop_os_release()["PRETTY_NAME"])
    return facts


def _limits() -> Json:
    facts = _Facts()
    facts.read("cpu_quota_cores", _cpu_quota)
    facts.read("memory_limit_bytes", _memory_limit)
    facts.read("container", _container)
    return facts


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
        limit_us = _number(group / "cpu.cfs_quota_us")
        return limit_us / _number(group / "cpu.cfs_period_us") if limit_us > 0 else None

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


def _software() -> Json:
    from overside import _core  # noqa: PLC0415

    facts = _Facts(overside=_core.version(), python=platform.python_version())
    facts["python_build"] = " ".join(sys.version.split())
    facts.read("libc", lambda: " ".join(platform.libc_ver()))
    facts.read("libraries", lambda: _libraries(json.loads(_core.variants())))
    return facts


def _libraries(operations: list[Json]) -> dict[str, str]:
    """Library -> version, of everything that can be measured."""
    return {
        variant["library"]: variant["version"]
        for operation in operations
        for variant in operation["variants"]
    }
