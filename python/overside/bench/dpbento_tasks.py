"""Conversion of dpBento's benchmark classes into our own tasks.

Facts about dpBento's plug-ins (items, parameters, defaults) are from its public repository. Where
an item or a value has no counterpart, its tests exist and are skipped with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overside.tasks.common import ALL, Json

#: Called with a JSON pointer and a message.
Warn = Callable[[str, str], None]

BUFFER_BYTES_MAX = 1 << 30
THREADS_MAX = 1024

#: Pattern that dpBento's regex plug-in searches for in TPC-H's order comments, line by line.
REGEX_PATTERN = r"[\w\s]+special[\w\s]+requests"

#: Our metrics for those of dpBento.
_METRICS = {
    "latency": "latency_mean",
    "50 percentile": "latency_p50",
    "90 percentile": "latency_p90",
    "99 percentile": "latency_p99",
    "99latency": "latency_p99",
    "throughput": "throughput",
    "bandwidth": "throughput",
    "ops/s": "rate",
    "IOPS": "rate",
}
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", 1):
    # As truncate(1) reads sizes, which dpBento hands them to.
    _UNITS |= {
        _letter: 1024**_power,
        f"{_letter}IB": 1024**_power,
        f"{_letter}B": 1000**_power,
    }


@dataclass(frozen=True)
class DpBentoEntry:
    """One entry of a dpBento box, its class's and items' aliases resolved."""

    name: str
    items: list[str]
    axes: dict[str, list[Any]]
    metrics: list[str]
    pointer: str


class _Parts:
    """The task entries made from one of dpBento's."""

    def __init__(self, entry: DpBentoEntry, warn: Warn) -> None:
        self.entry = entry
        self.axes = dict(entry.axes)
        self.made: list[Json] = []
        self._warn = warn

    def warn(self, parameter: str, message: str) -> None:
        """Warns about a parameter of the entry."""
        self._warn(f"{self.entry.pointer}/parameters/{parameter}", message)

    def skip(self, item: str | None, reason: str, **fixed: Any) -> None:
        """Adds the tests of an item, with some axes fixed, as skipped ones."""
        parameters = {**self.axes, **{name: [value] for name, value in fixed.items()}}
        if not all(parameters.values()):
            return  # no value of an axis has a meaning: those tests are skipped already
        if item is not None:
            parameters = {"benchmark_items": [item], **parameters}
        self.made.append({"parameters": parameters, "metrics": self.entry.metrics, "skip": reason})

    def run(self, task: str, parameters: Json, names: Mapping[str, str] | None = None) -> None:
        """Adds tests of a built-in task; `names` are its metrics by dpBento's names."""
        metrics = _metrics(self.entry, self._warn, names or _METRICS)
        self.made.append({"task": task, "parameters": parameters, "metrics": metrics})

    def take(self, name: str, default: Any, read: Callable[[Any], Any]) -> list[Any]:
        """Converts the values of an axis by `read` and returns the results, each once.

        If `read` raises `ValueError`, the value's tests are skipped with its message.
        """
        good: list[tuple[Any, Any]] = []
        for value in self.axes.get(name, [default]):
            try:
                good.append((value, read(value)))
            except ValueError as error:
                self.skip(None, f"{name} {value!r}: {error}", **{name: value})
        if name in self.axes:
            self.axes[name] = [value for value, _ in good]
        return list(dict.fromkeys(meaning for _, meaning in good))

    def ignore(self, name: str, why: str) -> None:
        """A parameter without a counterpart, and without effect on the figures."""
        if name in self.axes:
            self.warn(name, f"not used: {why}")
            del self.axes[name]

    def ignore_rest(self, known: Sequence[str]) -> None:
        """Warns about parameters that the class does not have, in dpBento neither."""
        for name in [name for name in self.axes if name not in known]:
            self.ignore(name, f"the class {self.entry.name} has no such parameter")


def built_in(entry: DpBentoEntry, warn: Warn) -> list[Json]:
    """Task entries for an entry of a dpBento box that has no plug-in directory."""
    parts = _Parts(entry, warn)
    make = CLASSES.get(entry.name)
    if make is None:
        _absent(parts, f"nothing implements the class {entry.name!r}")
    elif isinstance(make, str):
        _absent(parts, f"the class {entry.name} is not built in yet ({make})")
    else:
        make(parts)
    return parts.made


def _absent(parts: _Parts, what: str) -> None:
    name = parts.entry.name
    reason = (
        f"{what}; to run dpBento's own, put its directory at plugins/{name} beside the box, "
        "or name the folder that it is in with OVERSIDE_PLUGINS"
    )
    items: list[str | None] = [*parts.entry.items] or [None]
    for item in items:
        parts.skip(item, reason)


def _compression(parts: _Parts) -> None:
    parts.ignore(
        "block_size",
        "here a job is one buffer of data_size, and threads work on whole buffers, not on blocks",
    )
    parts.ignore_rest(("operation", "data_size", "threads"))
    operations = parts.take("operation", "compress", _operation)
    sizes = parts.take("data_size", "4K", size_bytes)
    threads = parts.take("threads", -1, _threads)
    items = parts.entry.items or ["single"]
    for item in items:
        if item == "doca":
            parts.skip(item, _no_accelerator("compression engine", "compress"))
        elif item not in ("default", "single", "threaded-single", "threading"):
            parts.skip(item, f"the class compression has no item {item!r}")
        elif item == "threaded-single" and "single" in items:
            parts.skip(
                item,
                "same as `single`: the cpu device always uses a worker thread",
            )
        elif operations and sizes and threads:
            counts = _ascending(threads) if item == "threading" else [1]
            for operation in operations:
                for count in counts:
                    parts.run(
                        operation,
                        {
                            "device": ["cpu"],
                            # dpBento calls zlib here, zlib-ng's gzip in the others.
                            "variant": ["zlib" if item == "default" else "auto"],
                            "format": ["zlib" if item == "default" else "gzip"],
                            "buffer_size": sizes,
                            "threads": [count],
                            **_one_at_a_time(count),
                        },
                    )


def _regex(parts: _Parts) -> None:
    parts.ignore_rest(("data_size", "threads"))
    sizes = parts.take("data_size", "4K", size_bytes)
    threads = parts.take("threads", 1, _threads)
    variants = {"simd": "hyperscan", "threading": "re2", "default": "re2"}
    for item in parts.entry.items or ["simd"]:
        if item == "doca":
            parts.skip(item, _no_accelerator("regular-expression engine", "match"))
        elif item not in variants:
            parts.skip(item, f"the class regex has no item {item!r}")
        elif sizes:
            for count in _ascending(threads):
                parts.run(
                    "match",
                    {
                        "device": ["cpu"],
                        "variant": [variants[item]],
                        "kind": ["count"],
                        "patterns": [[REGEX_PATTERN]],
                        "buffer_size": sizes,
                        "threads": [count],
                        **_one_at_a_time(count),
                        "data": ["orders"],
                    },
                )


def _hashing(parts: _Parts) -> None:
    parts.ignore("seconds", "`measure` says how long a sample takes: --set measure.sample_s=1")
    parts.ignore_rest(("algorithm", "bytes", "multi", "async_jobs", "misalign"))
    algorithms = parts.take("algorithm", "sha256", _algorithm)
    sizes = parts.take("bytes", 16, size_bytes)
    threads = parts.take("multi", 1, _threads)
    plain = parts.take("async_jobs", 0, _zero) and parts.take("misalign", 0, _zero)
    for item in parts.entry.items or ["openssl_speed"]:
        if item == "doca_sha256":
            parts.skip(item, _no_accelerator("SHA engine", None))
        elif item != "openssl_speed":
            parts.skip(item, f"the class hashing has no item {item!r}")
        elif algorithms and sizes and plain:
            for count in _ascending(threads):
                parts.run(
                    "hash",
                    {
                        "device": ["cpu"],
                        "algorithm": algorithms,
                        "buffer_size": sizes,
                        "threads": [count],
                        **_one_at_a_time(count),
                    },
                )


def _memory(parts: _Parts) -> None:
    parts.ignore("memory-total-size", "`measure` says how long a sample takes")
    parts.ignore("time", "`measure` says how long a sample takes: --set measure.sample_s=1")
    parts.ignore_rest(("memory-block-size", "memory-oper", "memory-access-mode", "threads"))
    sizes = parts.take("memory-block-size", "1K", _block)
    accesses = parts.take("memory-oper", "write", _access)
    orders = parts.take("memory-access-mode", "seq", _order)
    threads = parts.take("threads", 1, _threads)
    for item in parts.entry.items or ["sysbench"]:
        if item != "sysbench":
            parts.skip(item, f"the class memory has no item {item!r}")
        elif sizes and accesses and orders:
            for count in _ascending(threads):
                parts.run(
                    "memory",
                    {
                        "pattern": ["access"],
                        "access": accesses,
                        "order": orders,
                        "buffer_size": sizes,
                        "threads": [count],
                    },
                    {"latency": "access_time", "bandwidth": "bandwidth"},
                )


#: Class -> function that makes our entries of it, or the work that it measures.
CLASSES: Mapping[str, Callable[[_Parts], None] | str] = {
    "compression": _compression,
    "regex": _regex,
    "hashing": _hashing,
    "compute": "arithmetic loops",
    "memory": _memory,
    "storage": "files on a disk",
    "communication": "a host and a DPU with a link between them",
    "KVS": "a key-value store",
    "RDB": "a relational database",
    "GraphDB": "a graph database",
    "ml": "inference",
    "BTree": "an index",
    "e2e": "a service under load",
}


def size_bytes(value: Any) -> int:
    """A size as dpBento writes it: `4096`, `"4K"`, `"1M"`. Raises `ValueError`."""
    text = str(value).strip()
    match = re.fullmatch(r"([0-9]{1,12})\s*([A-Za-z]{0,3})", text)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or isinstance(value, bool):
        raise ValueError("is no size; write bytes, or a number with K, M or G")
    size = int(match[1]) * unit
    if not 1 <= size <= BUFFER_BYTES_MAX:
        raise ValueError(f"a buffer has 1 byte to {BUFFER_BYTES_MAX >> 30} GiB")
    return size


def _threads(value: Any) -> int | str:
    text = str(value).strip()
    if not re.fullmatch(r"-?[0-9]{1,6}", text) or isinstance(value, bool):
        raise ValueError("is no number of threads")
    count = int(text)
    if count in (-1, 0):
        # Of the machine that measures.
        return ALL
    if not 1 <= count <= THREADS_MAX:
        raise ValueError(f"there can be 1 to {THREADS_MAX} threads, or -1 for all cores")
    return count


def _algorithm(value: Any) -> str:
    name = str(value).lower().replace("-", "")
    known = ("sha256", "crc32", "xxh3", "md5")
    if name not in known:
        raise ValueError(f"is no hash that is built in ({', '.join(known)})")
    return name


def _block(value: Any) -> int:
    size = size_bytes(value)
    if size < 8 or size & (size - 1):
        raise ValueError("is no power of two of at least 8 bytes")
    return size


def _one_of(meanings: Mapping[str, str]) -> Callable[[Any], str]:
    """Reads a word of dpBento as ours."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in meanings:
            raise ValueError(f"is none of {' and '.join(meanings)}")
        return meanings[value]

    return read


_operation = _one_of({"compress": "compress", "decompress": "decompress"})
_access = _one_of({"read": "read", "write": "write"})
_order = _one_of({"seq": "sequential", "rnd": "random"})


def _zero(value: Any) -> int:
    if str(value).strip() != "0":
        raise ValueError("only 0 has a counterpart here")
    return 0


def _ascending(threads: Sequence[int | str]) -> list[int | str]:
    """Numbers of threads, all cores last."""
    return sorted(threads, key=lambda count: (count == ALL, count))


def _one_at_a_time(threads: int | str) -> Json:
    """Returns axes with as many jobs in flight as threads.

    dpBento hands over one buffer and waits for its result.
    """
    return {"depth": [threads], "batch": [1]}


def _no_accelerator(engine: str, task: str | None) -> str:
    reason = f"needs a DPU's {engine} through DOCA, which is not there"
    if task == "compress":
        reason += "; --set compress.format=deflate --set compress.device=emulated:bf2 emulates one"
    elif task == "match":
        reason += "; --set match.variant=auto --set match.device=emulated:bf2 emulates one"
    return reason


def _metrics(entry: DpBentoEntry, warn: Warn, known: Mapping[str, str]) -> list[str]:
    names = []
    for index, name in enumerate(entry.metrics):
        if name in known:
            names.append(known[name])
        else:
            warn(f"{entry.pointer}/metrics/{index}", f"{name!r} has no counterpart here")
    return list(dict.fromkeys(names)) or [known.get("throughput", known["bandwidth"])]
