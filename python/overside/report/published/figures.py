"""Published figures beside those of a run: a single one, and all on one kind of work."""

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

#: Beginning of a published figure's key or device if that is a machine.
_MACHINE = re.compile(r"(BF-|OCTEON|host|DPUs?\b)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|KB|MB|GB|B)?$")
_BYTES = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True)
class Figure:
    """One published figure, and the differences of its conditions."""

    #: The fact's name.
    fact: str
    #: `BF-2 ASIC`.
    device: str
    #: `deflate compress: throughput`.
    what: str
    #: Figure as its study prints it: `1.03 to 2.75 GiB/s`.
    printed: str
    #: Figure in MB/s, of the side that it counts; empty where it is no rate of bytes.
    rate: str
    #: Differences between the published conditions and ours, a phrase each.
    differs: tuple[str, ...]
    #: Other conditions that its study states.
    conditions: str
    #: Warning for readers of the figure.
    beware: str
    #: Place in its study: `section 5.6`.
    where: str
    #: Origin of the emulated figure beside it: `predicted`, or `from this figure`; else empty.
    origin: str = ""


@dataclass(frozen=True)
class Comparison:
    """An operation that was measured here, and the published figures on it."""

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
    #: Rule by which the figures in `measured` were chosen.
    chosen: str = "the fastest"
    #: Provenance of the figures in `measured`: `measured` or `emulated`.
    provenance: str = "measured"


def figure(fact: Json, published: Json, device: str, what: str, differs: Sequence[str]) -> Figure:
    """Returns a published figure of `device` about `what`."""
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
    """Sorts figures by turns: of each device the one with the fewest differences first.

    Then comes the second one of each device, and so on.
    """
    nearest = sorted(found, key=lambda pair: len(pair[0].differs))
    seen: Counter[str] = Counter()
    turns = []
    for pair in nearest:
        turns.append((seen[pair[0].device], pair))
        seen[pair[0].device] += 1
    return [pair for _, pair in sorted(turns, key=lambda turn: turn[0])]
