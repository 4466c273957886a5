"""Picture of a verdict: a row for each operation and device, its interval as a bar on a log axis.

The line at 1 is all cores of this host. A bar's mark is its provenance; the decision is a word with
a shape of its own, so that the picture reads without colours.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from overside.report import formatting
from overside.verdict.decision import Ratio, Verdict

#: Ends of the axis, as powers of two: what is beyond lies at the end.
_LEAST, _MOST = -6, 10
#: The fewest columns in which a row has its name, its bar and its decision on one line.
ONE_LINE = 72
#: Marks of provenances in text.
_MARKS = {"measured": "█", "emulated": "▒", "modelled": "░"}
#: Shapes and words of decisions.
_WORDS = {
    "offload": ("▲", "offload"),
    "split": ("◆", "split"),
    "cpu": ("●", "keep on CPU"),
    "cannot-tell": ("?", "cannot tell"),
}


@dataclass(frozen=True)
class Row:
    """One verdict."""

    #: `Compress to DEFLATE with BlueField-2`.
    subject: str
    provenance: str
    decision: str
    #: Speed-up over all cores of the host; `None` if it is unknown.
    ratio: Ratio | None
    #: Places of its ends on the axis, 0 to 1.
    begin: float = 0.0
    end: float = 0.0

    @property
    def word(self) -> str:
        """`▲ offload`."""
        return " ".join(_WORDS[self.decision])

    @property
    def span(self) -> str:
        """`2.4 to 7.0 times`; `unknown`."""
        return "unknown" if self.ratio is None else str(self.ratio)


@dataclass(frozen=True)
class Picture:
    """Rows on one axis."""

    rows: tuple[Row, ...]
    #: Ends of the axis: the speed-up at its left and at its right.
    least: float
    most: float
    #: `all 2 cores`: what 1 is.
    unit: str

    @property
    def one(self) -> float:
        """Place of the line at 1, 0 to 1."""
        return _place(1.0, self.least, self.most)

    @property
    def marks(self) -> list[tuple[str, str]]:
        """Provenances that occur, and their marks in text."""
        found = dict.fromkeys(row.provenance for row in self.rows)
        return [(name, _MARKS[name]) for name in _MARKS if name in found]

    def lines(self, width: int) -> list[str]:
        """The picture as text, `width` columns wide: a line a row, or two where that is narrow."""
        words = max(len(row.word) for row in self.rows)
        names = max(len(row.subject) for row in self.rows)
        is_wide = width >= ONE_LINE
        names = min(names, width - 24 - words) if is_wide else 0
        columns = width - words - 2 - (names + 1 if is_wide else 1)
        lines = []
        for row in self.rows:
            name = _clipped(row.subject, names if is_wide else width)
            bar = f"{self._bar(row, columns)}  {row.word}".rstrip()
            lines += [f"{name:<{names}} {bar}"] if is_wide else [name, f" {bar}"]
        indent = " " * (names + 1)
        legend = ", ".join(f"{mark} {name}" for name, mark in self.marks)
        below = f"1 = {self.unit}; {legend}"
        return [*lines, (indent + self._axis(columns)).rstrip(), *_fitting(below, indent, width)]

    def _bar(self, row: Row, columns: int) -> str:
        cells = [" "] * columns
        if row.ratio is not None:
            begin = min(int(row.begin * columns), columns - 1)
            end = max(min(math.ceil(row.end * columns), columns), begin + 1)
            cells[begin:end] = _MARKS[row.provenance] * (end - begin)
        one = min(int(self.one * columns), columns - 1)
        cells[one] = "│" if cells[one] == " " else "┃"
        return "".join(cells)

    def _axis(self, columns: int) -> str:
        """Powers of two or of four below the bars, as many as there is room for."""
        ends = range(round(math.log2(self.least)), round(math.log2(self.most)) + 1)
        powers = [power for power in ends if power % (1 if columns >= 5 * len(ends) else 2) == 0]
        axis = ""
        for power in powers:
            text = str(2**power) if power >= 0 else f"1/{2**-power}"
            at = min(int(_place(2.0**power, self.least, self.most) * columns), columns - len(text))
            if at >= len(axis) + (1 if axis else 0):
                axis = f"{axis:<{at}}{text}"
        return f"{axis} times"


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _fitting(text: str, indent: str, width: int) -> list[str]:
    return [indent + text] if len(indent + text) <= width else textwrap.wrap(text, width)


def _place(ratio: float, least: float, most: float) -> float:
    ratio = min(max(ratio, least), most)
    return (math.log2(ratio) - math.log2(least)) / (math.log2(most) - math.log2(least))


def of(verdicts: Sequence[Verdict]) -> Picture | None:
    """The picture of these verdicts; `None` if no speed-up of them is known."""
    known = [one.speed_up for one in verdicts if one.speed_up is not None]
    if not known:
        return None
    low = min(0.5, *(max(ratio.low, 2.0**_LEAST) for ratio in known))
    high = max(2.0, *(ratio.high for ratio in known))
    least = 2.0 ** max(math.floor(math.log2(low)), _LEAST)
    most = 2.0 ** min(math.ceil(math.log2(high)), _MOST)
    rows = []
    for one in verdicts:
        row = Row(one.subject, one.provenance, one.decision, one.speed_up)
        if row.ratio is not None:
            begin, end = (_place(at, least, most) for at in (row.ratio.low, row.ratio.high))
            row = replace(row, begin=begin, end=end)
        rows.append(row)
    cores = verdicts[0].cores
    unit = f"all {cores} cores of this host" if cores > 1 else "this host's cores"
    return Picture(tuple(rows), least, most, unit)


#: Nouns for the verbs of operations, as subjects of sentences.
_NOUNS = {
    "compress": "compression",
    "decompress": "decompression",
    "match": "matching",
    "hash": "hashing",
    "copy": "copying",
    "encrypt": "encryption",
    "decrypt": "decryption",
}


def sentence(verdicts: Sequence[Verdict]) -> str:
    """The verdicts in a sentence of at most 20 words; its figures are whole intervals."""
    helps = [one for one in verdicts if one.decision in ("offload", "split")]
    certain = [one for one in helps if not one.is_amount_uncertain]
    if not helps:
        return _of_none(verdicts)
    name = _most_helped(certain or helps)
    chosen = [one for one in certain or helps if one.name == name]
    rest = [one for one in verdicts if one not in chosen]
    verb = "speeds" if chosen[0].is_measured else "would speed"
    text = f"{_article(name)} {verb} up {_work(chosen, rest)}"
    whole = Ratio.union(one.speed_up for one in chosen)
    return f"{text}{'' if certain else ' by an uncertain'} {whole}{_of_rest(rest)}."


def _of_none(verdicts: Sequence[Verdict]) -> str:
    keep = [one for one in verdicts if one.decision == "cpu"]
    if len(keep) == len(verdicts):
        return f"Keep {_work(keep)} on the CPU: no device is faster."
    if keep:
        return f"Keep {_work(keep)} on the CPU; whether a device helps the rest is uncertain."
    return f"Cannot tell yet whether a device speeds up {_work(verdicts)}."


def _of_rest(rest: Sequence[Verdict]) -> str:
    if not rest:
        return ""
    decisions = {one.decision for one in rest}
    if decisions == {"cpu"}:
        return "; the rest stays on the CPU"
    if decisions <= {"offload", "split"} and not any(one.is_amount_uncertain for one in rest):
        return "; other devices do too"
    return "; the rest is uncertain" if "cpu" not in decisions else "; the rest differs"


def _most_helped(verdicts: Sequence[Verdict]) -> str:
    def rank(name: str) -> tuple[int, float]:
        own = [one.speed_up for one in verdicts if one.name == name]
        return len(own), min((ratio.low for ratio in own if ratio is not None), default=0.0)

    return max(dict.fromkeys(one.name for one in verdicts), key=rank)


def _article(name: str) -> str:
    return f"A {name}" if name.startswith("BlueField") else name


def _work(verdicts: Sequence[Verdict], rest: Sequence[Verdict] = ()) -> str:
    """`compression and matching (Q1/Q4)`: which of an operation, where others of it are in `rest`
    with the same device."""
    divided = {(one.operation, one.name) for one in rest}
    nouns: dict[str, dict[str, None]] = {}
    for one in verdicts:
        noun = _NOUNS.get(one.operation.partition("-")[0], one.operation)
        details = nouns.setdefault(noun, {})
        if (one.operation, one.name) in divided and "(" in one.title:
            details[one.title.partition(" (")[2].removesuffix(")")] = None
    if len(nouns) > 3:
        return f"{len(nouns)} operations"
    return formatting.listing(
        f"{noun} ({'/'.join(details)})" if details else noun for noun, details in nouns.items()
    )
