"""What stands beside a run's figures: one published figure, and all on one kind of work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from overside.report import formatting

Json = dict[str, Any]
Ours = TypeVar("Ours")

#: The most published figures beside one operation.
FIGURES_MAX = 8

#: How a published figure's key or device begins that is a machine.
_MACHINE = re.compile(r"(BF-|OCTEON|host|DPU)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|KB|MB|GB|B)?$")
_BYTES = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True)
class Figure:
    """One published figure, and what was different where it was measured."""

    #: The fact's name.
    fact: str
    #: `BF-2 ASIC`.
    device: str
    #: `deflate compress: throughput`.
    what: str
    #: As its study prints it: `1.03 to 2.75 GiB/s`.
    printed: str
    #: The same in MB/s, of the side that it counts; empty where it is no rate of bytes.
    rate: str
    #: What was different there, a phrase each.
    differs: tuple[str, ...]
    #: What else its study says of the conditions.
    conditions: str
    #: What to beware of.
    beware: str
    #: Where in its study: `section 5.6`.
    where: str


@dataclass(frozen=True)
class Comparison:
    """An operation that was measured here, and what others published on it."""

    title: str
    detail: str
    #: `ISA-L with 2 threads in 64 KiB buffers: 480 MB/s (470–490)`, one for each size that is
    #: nearest to one of the published.
    measured: tuple[str, ...]
    figures: tuple[Figure, ...]
    #: The studies by the first part of their facts' names.
    studies: tuple[tuple[str, str], ...]
    #: Published figures that are not shown.
    left_out: int
    #: Which of what was measured here stands in `measured`.
    chosen: str = "the fastest"
    #: How `measured` came about.
    provenance: str = "measured"


def figure(fact: Json, published: Json, device: str, what: str, differs: Sequence[str]) -> Figure:
    """One of a fact's figures, of `device` and about `what`."""
    rates = published.get("bytes_per_s")
    low, high = (rate / 1e6 for rate in rates) if rates else (0.0, 0.0)
    rate = formatting.number(low) if low == high else formatting.span(low, high)
    return Figure(
        fact=formatting.clean(fact["id"], 120),
        device=formatting.clean(device, 120),
        what=formatting.clean(what, 300),
        printed=formatting.clean(f"{published['value']} {published['unit']}", 120),
        rate=rate if rates else "",
        differs=tuple(differs),
        conditions=formatting.clean(fact["conditions"], 400),
        beware=formatting.clean(fact.get("flag") or "", 120),
        where=formatting.clean(str(fact["citation"]).partition(" of ")[0], 120),
    )


def machine_of(fact: Json, one: Json) -> tuple[str, list[str]]:
    """The machine of one of a fact's figures, and the other keys of the figure."""
    keys = [str(key) for key in one["path"]]
    if keys and _MACHINE.match(keys[0]):
        return keys[0], keys[1:]
    return str(fact["device"]), keys


def size_bytes(text: str) -> float:
    """A size as questions write it: `64 KiB`, or bytes."""
    found = _SIZE.match(text.strip())
    if found is None:
        return float(text)
    return float(found[1]) * _BYTES[found[2] or "B"]


def studies(facts: Sequence[Json], figures: Sequence[Figure]) -> tuple[tuple[str, str], ...]:
    """The studies of those figures, and their citations."""
    names = {figure.fact.split(".", 1)[0] for figure in figures}
    cited = {
        name: formatting.clean(str(fact["citation"]).partition(" of ")[2], 400)
        for fact in facts
        if (name := str(fact["id"]).split(".", 1)[0]) in names
    }
    return tuple(cited.items())


def in_turn(found: list[tuple[Figure, Ours]]) -> list[tuple[Figure, Ours]]:
    """Of each device the nearest in its conditions, then the second nearest of each, and so on."""
    nearest = sorted(found, key=lambda pair: len(pair[0].differs))
    seen: Counter[str] = Counter()
    turns = []
    for pair in nearest:
        turns.append((seen[pair[0].device], pair))
        seen[pair[0].device] += 1
    return [pair for _, pair in sorted(turns, key=lambda turn: turn[0])]
