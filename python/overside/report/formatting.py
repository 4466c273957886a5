"""Numbers, units and names as a reader meets them; the same words in every format."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

# The longest text from outside (a plug-in's message, a path) that is shown in one place.
TEXT_MAX = 2_000

FORMATS = {
    "deflate": "DEFLATE",
    "zlib": "DEFLATE in zlib framing",
    "gzip": "DEFLATE in gzip framing",
    "lz4-block": "LZ4 blocks",
    "lz4": "LZ4 frames",
    "zstd": "Zstandard",
}

HASHES = {
    "xxh3": "XXH3",
    "crc32": "CRC-32",
    "sha256": "SHA-256",
    "xxh3-128": "XXH3, 128 bits",
    "xxh32": "XXH32",
    "xxh64": "XXH64",
    "city-32": "CityHash, 32 bits",
    "city-64": "CityHash, 64 bits",
    "city-128": "CityHash, 128 bits",
    "murmur2-32": "MurmurHash2, 32 bits",
    "murmur2-64": "MurmurHash2, 64 bits",
    "murmur3-32": "MurmurHash3, 32 bits",
    "murmur3-128": "MurmurHash3, 128 bits",
    "spooky-32": "SpookyHash, 32 bits",
    "spooky-64": "SpookyHash, 64 bits",
    "spooky-128": "SpookyHash, 128 bits",
    "fnv-32": "FNV-1a, 32 bits",
    "fnv-64": "FNV-1a, 64 bits",
    "fnv-128": "FNV-1a, 128 bits",
    "md5": "MD5",
}

CALLS = {
    "chain": "Hash calls that wait for each other",
    "row": "Hash calls in a row",
}

PATTERNS = {
    "chase": "Memory reads that wait for each other",
    "stream": "STREAM",
    "access": "Memory reads and writes of 8 bytes",
}

#: What operations of the task `dma` do, seen from their initiator.
MOVES = {
    "read": "Read the peer's memory",
    "write": "Write the peer's memory",
    "send": "Send messages",
}

MATCHES = {
    "search": "Find the first matching record",
    "count": "Count matching records",
    "bitmap": "Mark matching records",
}

# What people call the libraries; a name that is not here is shown as it is.
LIBRARIES = {
    "isal": "ISA-L",
    "libdeflate": "libdeflate",
    "zlib": "zlib",
    "lz4": "LZ4",
    "lz4_flex": "lz4_flex",
    "lz4-flex": "lz4_flex",
    "zstd": "Zstandard",
    "literal": "Literal search",
    "regex": "Rust regex",
    "re2": "RE2",
    "hyperscan": "Hyperscan",
    "vectorscan": "Vectorscan",
    "xxhash": "xxHash",
    "chase": "Dependent reads",
    "copy": "Copy",
    "scale": "Scale",
    "add": "Add",
    "triad": "Triad",
    "read-sequential": "Sequential reads",
    "read-random": "Random reads",
    "write-sequential": "Sequential writes",
    "write-random": "Random writes",
}

PROVENANCE = {
    "measured": "Measured",
    "emulated": "Emulated",
    "modelled": "Modelled",
    "published": "Published",
}

STATUS = {
    "ok": "passed",
    "invalid": "invalid timing",
    "failed": "failed",
    "skipped": "skipped",
    "missing": "not measured",
}


def clean(text: object, limit: int = TEXT_MAX) -> str:
    """Text from outside without what could steer a terminal or reorder a line.

    Control and format characters (terminal escapes, bidirectional overrides) become spaces, and
    what is longer than `limit` characters is cut with an ellipsis.
    """
    out = str(text)[: limit + 1]
    if not out.isprintable():
        out = "".join(
            " " if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else c for c in out
        )
    out = " ".join(out.split())
    return out if len(out) <= limit else out[:limit].rstrip() + "…"


def number(value: float | None, digits: int = 3) -> str:
    """A number with `digits` significant digits: `0.0412`, `4.80`, `1,240`."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    # Rounding can carry into another digit: 9.996 is 10.0, not 10.00.
    places = digits - 1 - math.floor(math.log10(abs(rounded)))
    if abs(rounded) < 1e-4 or abs(rounded) >= 1e12:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:,.{max(places, 0)}f}"


def span(low: float, high: float, dash: str = "–") -> str:
    """Two bounds with the fewest digits, from three to five, that tell them apart."""
    for digits in (3, 4, 5):
        text = number(low, digits), number(high, digits)
        if text[0] != text[1]:
            break
    return f"{text[0]}{dash}{text[1]}"


def times(value: float) -> str:
    """How many times: two significant digits below ten, three above."""
    return number(value, 2 if abs(value) < 9.95 else 3)


def size(size_bytes: float) -> str:
    """A size in bytes with a binary unit: `64 KiB`; whole numbers where they are whole."""
    if not math.isfinite(size_bytes):
        return "–"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor:
            amount = size_bytes / factor
            whole = amount == int(amount) and amount < 10_000
            return f"{int(amount) if whole else number(amount)} {unit}"
    return f"{int(size_bytes)} B"


def duration(seconds: float) -> str:
    """A time for people: `850 ms`, `12.3 s`, `2 min 5 s`."""
    if not math.isfinite(seconds) or seconds < 0:
        return "–"
    if seconds < 1e-6:
        return f"{number(seconds * 1e9)} ns"
    if seconds < 1e-3:
        return f"{number(seconds * 1e6)} µs"
    if seconds < 1:
        return f"{number(seconds * 1e3)} ms"
    if seconds < 90:
        return f"{number(seconds)} s" if seconds < 10 else f"{number(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def plural(count: int, one: str, many: str = "") -> str:
    """`1 test`, `2 tests`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listing(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    items = list(words)
    return (
        items[0]
        if len(items) == 1
        else ", ".join(items[:-1]) + " and " + items[-1]
        if items
        else ""
    )


def library(variant: object) -> str:
    """What people call a variant's library."""
    name = clean(variant, 60)
    return LIBRARIES.get(name, name)


def hash_name(algorithm: object) -> str:
    """A hash as people know it."""
    name = clean(algorithm or "xxh3", 60)
    return HASHES.get(name, name)


def operation(task: str, parameters: Mapping[str, Any]) -> str:
    """What a test does, in words: `Compress to DEFLATE`."""
    form = clean(parameters.get("format") or "deflate", 60)
    match task:
        case "compress":
            return f"Compress to {FORMATS.get(form, form)}"
        case "decompress":
            return f"Decompress {FORMATS.get(form, form)}"
        case "match":
            kind = clean(parameters.get("kind") or "count", 60)
            return MATCHES.get(kind, f"Match ({kind})")
        case "hash" if parameters.get("calls"):
            return CALLS.get(str(parameters["calls"]), "Hash calls")
        case "hash":
            return f"Hash with {hash_name(parameters.get('algorithm'))}"
        case "memory":
            pattern = clean(parameters.get("pattern") or "chase", 60)
            return PATTERNS.get(pattern, f"Memory ({pattern})")
        case "copy":
            return "Copy"
        case "network":
            stream = parameters.get("pattern") == "stream"
            jobs = parameters.get("jobs")
            beside = f" beside jobs ({clean(jobs, 60)})" if jobs else ""
            return f"TCP {'stream' if stream else 'round trips'}{beside}"
        case "dma":
            doing = clean(parameters.get("operation") or "write", 60)
            return MOVES.get(doing, doing)
    return clean(task, 120)


def ends(parameters: Mapping[str, Any]) -> str:
    """Between whom a network test sends: `host to dpu0`."""
    source, destination = (parameters.get(end) or "host" for end in ("source", "destination"))
    if (source, destination) == ("host", "host"):
        return "loopback"
    return f"{clean(source, 40)} to {clean(destination, 40)}"


def value(anything: object) -> str:
    """A parameter's value as the tables show it."""
    if anything is None:
        return "default"
    if isinstance(anything, bool):
        return "yes" if anything else "no"
    if isinstance(anything, list | tuple):
        return clean(", ".join(str(item) for item in anything), 200)
    return clean(anything, 200)


def device(name: object) -> str:
    """A device as a reader knows it: `emulated:bf2` is an emulated BlueField-2."""
    text = clean(name, 80)
    if text.startswith("emulated:"):
        return f"emulated {card(text.removeprefix('emulated:'))}"
    known = {"cpu": "CPU", "shm": "shared memory", "ucx": "UCX"}
    node, slash, link = text.partition("/")
    if slash and link in ("shm", "ucx"):
        return f"{known[link]} with {node}"
    return known.get(text, text)


def short(value: float) -> str:
    """A figure for a narrow place: `2.16M`, `86.9k`."""
    for least, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{number(value / least)}{prefix}"
    return number(value)


def side(name: object) -> str:
    """An end of a link."""
    text = clean(name, 20)
    return {"dpu": "DPU"}.get(text, text)


def card(profile: str) -> str:
    """A profile's card by its product name where the name gives it away."""
    known = {"bf1": "BlueField-1", "bf2": "BlueField-2", "bf3": "BlueField-3"}
    head, _, rest = clean(profile, 80).partition("-")
    rest = {"soc": "its own cores"}.get(rest, rest)
    return known[head] + (f" ({rest})" if rest else "") if head in known else clean(profile, 80)
