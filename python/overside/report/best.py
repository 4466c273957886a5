"""The fastest option per operation and buffer size on this machine.

Only tests that were measured, passed and were verified take part: nothing emulated, modelled or
unverified ever enters, however fast it looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from overside.bench.statistics import Estimate, RunView, TestSummary
from overside.report import formatting, groups
from overside.report.groups import Group
from overside.tasks.common import presentation

#: Fewer rounds say nothing about the spread, so nothing about which is faster.
ROUNDS_TO_COMPARE = 3


@dataclass(frozen=True)
class Candidate:
    """One way to do the work, with its figures."""

    test: TestSummary
    #: `ISA-L, 2 threads`.
    label: str
    #: Label inside a sentence: `ISA-L with 2 threads`.
    prose: str
    #: MB/s of the uncompressed side.
    throughput: Estimate

    @property
    def cpu_cost(self) -> Estimate | None:
        """CPU seconds per GB."""
        return self.test.metrics.get("cpu_cost")

    @property
    def ratio(self) -> Estimate | None:
        """Compressed bytes / uncompressed bytes; smaller is better."""
        return self.test.metrics.get("ratio")


@dataclass(frozen=True)
class SpeedUp:
    """Ratio of two rates, with the widest interval that the two intervals allow."""

    typical: float
    low: float
    high: float


@dataclass(frozen=True)
class Best:
    """The fastest way to do an operation on buffers of one size."""

    size_bytes: int | None
    winner: Candidate
    #: Others whose intervals overlap the winner's: statistically tied with it.
    ties: tuple[Candidate, ...]
    #: Number of ways that were measured.
    among: int
    reference: Candidate | None
    speed_up: SpeedUp | None

    @property
    def level(self) -> tuple[Candidate, ...]:
        """The winner and those as fast as it."""
        return (self.winner, *self.ties)

    @property
    def comparable(self) -> bool:
        """`True` if there were enough rounds to tell which is faster."""
        return self.winner.throughput.n >= ROUNDS_TO_COMPARE

    def cheaper(self, than: Candidate) -> Candidate | None:
        """Returns the cheapest of the fastest ways that surely uses less CPU time `than` this one.

        `None` if there is none.
        """
        limit = than.cpu_cost
        if limit is None:
            return None
        found = [
            (cost.median, candidate)
            for candidate in self.level
            if (cost := candidate.cpu_cost) is not None and cost.high < limit.low
        ]
        return min(found, key=lambda pair: pair[0])[1] if found else None


@dataclass(frozen=True)
class Advice:
    """An operation with its best at each size, sizes ascending."""

    group: Group
    best: tuple[Best, ...]


def advise(view: RunView) -> list[Advice]:
    """The advice of a run on this machine, in the order of its tests."""
    out = []
    for group in groups.groups(view.here()):
        if not presentation(group.task)["advised"]:
            continue
        tests = [
            t
            for t in group.of("measured")
            if t.timing == "real"
            and "throughput" in t.metrics
            # What two sides do together is another question than what one does best.
            and t.parameters.get("placement") in (None, "cpu")
        ]
        sizes: dict[int | None, list[TestSummary]] = {}
        for test in tests:
            sizes.setdefault(groups.size_bytes(test), []).append(test)
        ordered = sorted(sizes.items(), key=lambda item: item[0] or 0)
        best = tuple(_best(size, some, tests) for size, some in ordered)
        if best:
            out.append(Advice(group, best))
    return out


def _best(size: int | None, tests: Sequence[TestSummary], beside: Sequence[TestSummary]) -> Best:
    candidates = [
        Candidate(
            test,
            groups.label(test, beside),
            groups.prose(test, beside),
            test.metrics["throughput"],
        )
        for test in tests
    ]
    candidates.sort(key=lambda candidate: candidate.throughput.median, reverse=True)
    winner, *others = candidates
    ties = tuple(other for other in others if other.throughput.high >= winner.throughput.low)
    reference = _reference(winner, others)
    return Best(
        size_bytes=size,
        winner=winner,
        ties=ties,
        among=len(candidates),
        reference=reference,
        speed_up=speed_up(winner.throughput, reference.throughput) if reference else None,
    )


def _reference(winner: Candidate, others: Sequence[Candidate]) -> Candidate | None:
    """Returns the candidate that the winner is compared with; `None` if no other library ran.

    It is the usual library, or otherwise the best other one. A candidate with as many threads as
    the winner comes first.
    """
    mine = groups.library(winner.test)
    different = [other for other in others if groups.library(other.test) != mine]
    usual = {formatting.library(name) for name in presentation(winner.test.task)["references"]}
    named = [other for other in different if groups.library(other.test) in usual]
    for pool in (named, different):
        alike = [o for o in pool if _how(o.test) == _how(winner.test)]
        if alike or pool:
            return (alike or pool)[0]
    return None


def _how(test: TestSummary) -> tuple[object, ...]:
    return tuple(
        str(test.parameters.get(name))
        for name in presentation(test.task)["ways"]
        if name != "variant"
    )


def speed_up(mine: Estimate, other: Estimate) -> SpeedUp | None:
    """Returns the ratio of `mine` to `other`; `None` if the other's figures allow no ratio."""
    if min(other.low, other.median) <= 0:
        return None
    return SpeedUp(mine.median / other.median, mine.low / other.high, mine.high / other.low)


def interval(estimate: Estimate) -> str:
    """`401–420`, or its substitute if there was one round."""
    if estimate.n == 1 and estimate.kind != "bounds":
        return "one round"
    if estimate.low == estimate.high:
        return "no spread"
    return formatting.span(estimate.low, estimate.high)


def interval_words(view: RunView) -> str:
    """Returns a sentence for captions that explains the figures in brackets."""
    kinds = {e.kind for test in view.tests for e in test.metrics.values()}
    rounds = sorted({e.n for test in view.tests for e in test.metrics.values()})
    if not rounds:
        return "There are no figures."
    many = formatting.plural(rounds[-1], "round")
    if rounds[0] != rounds[-1]:
        many = f"{rounds[0]} to {many}"
    if kinds == {"interval"}:
        return f"In brackets: 95 % interval of the median over {many}."
    if rounds[-1] == 1:
        return "One round: the spread is unknown, so nothing here is a comparison."
    if kinds == {"range"}:
        return f"In brackets: range over {many}; an interval needs six."
    return f"In brackets: 95 % interval of the median over {many}; below six rounds, the range."


def bars_words(view: RunView) -> str:
    """Returns a phrase that explains the error bars."""
    kinds = {e.kind for test in view.tests for e in test.metrics.values()}
    if kinds == {"interval"}:
        return "the 95 % interval of the median"
    if kinds == {"range"}:
        return "the range over the rounds"
    return "the 95 % interval of the median, or the range where there are fewer than six rounds"


@dataclass(frozen=True)
class Segment:
    """Neighbouring sizes at which one way is the fastest, or as fast as the fastest."""

    best: tuple[Best, ...]
    #: The label of that way.
    lead: str
    #: The labels of others that are as fast at every one of the sizes.
    ties: tuple[str, ...]

    @property
    def top(self) -> tuple[Best, Candidate]:
        """The size at which the lead is fastest, and its figures there."""
        found = [(best, c) for best in self.best for c in best.level if c.label == self.lead]
        return max(found, key=lambda pair: pair[1].throughput.median)


def segments(advice: Advice) -> list[Segment]:
    """The sizes of an operation in as few segments as the figures allow.

    Where two ways are equally fast their medians change places from size to size; that is noise,
    so a segment goes on as long as some way stays among the fastest.
    """
    parts: list[tuple[list[Best], set[str]]] = []
    for best in advice.best:
        level = {candidate.label for candidate in best.level}
        if parts and parts[-1][1] & level:
            parts[-1][0].append(best)
            parts[-1][1].intersection_update(level)
        else:
            parts.append(([best], level))
    out = []
    for part, labels in parts:
        wins = Counter(best.winner.label for best in part if best.winner.label in labels)
        lead = wins.most_common(1)[0][0] if wins else min(labels)
        out.append(Segment(tuple(part), lead, tuple(sorted(labels - {lead}))))
    return out


def headline(advice: Advice) -> Candidate:
    """The fastest of those in the sentences, so that a figure beside them is one of theirs."""
    return max((part.top[1] for part in segments(advice)), key=lambda c: c.throughput.median)


def sentences(advice: Advice) -> list[str]:
    """The advice in plain words, one sentence a segment."""
    return [" ".join(pair) for pair in sentence_parts(advice)]


def sentence_parts(advice: Advice) -> list[tuple[str, str]]:
    """The sentences in two parts: the way to do it, and the figures.

    `ISA-L with 2 threads` and `in 64 KiB buffers: 412 MB/s (401–420), 4.80 CPU seconds per GB;
    3.1 times zlib.`
    """
    parts = segments(advice)
    return [_sentence(part, alone=len(parts) == 1) for part in parts]


def _sentence(part: Segment, *, alone: bool) -> tuple[str, str]:
    best, lead = part.top
    text = f"{_sizes(part, alone=alone)}: {formatting.number(lead.throughput.median)} MB/s"
    text += f" ({interval(lead.throughput)})"
    if len(part.best) > 1 and best.size_bytes is not None:
        text += f" at {formatting.size(best.size_bytes)}"
    if lead.cpu_cost is not None:
        text += f", {formatting.number(lead.cpu_cost.median)} CPU seconds per GB"
    for clause in (_compared(best, lead), _shrinks(best, lead), _tied(part, best)):
        text += f"; {clause}" if clause else ""
    return lead.prose, text + "."


def _sizes(part: Segment, *, alone: bool) -> str:
    sizes = [best.size_bytes for best in part.best if best.size_bytes is not None]
    if not sizes:
        return "whatever the buffer size"
    if len(sizes) == 1:
        return f"in {formatting.size(sizes[0])} buffers"
    start = "at every buffer size," if alone else "in buffers of"
    return f"{start} {formatting.size(sizes[0])} to {formatting.size(sizes[-1])}"


def _compared(best: Best, lead: Candidate) -> str:
    """`3.1 times zlib`; empty if the difference is not significant."""
    other = best.reference
    if other is None or not best.comparable or other in best.level:
        return ""
    ratio = speed_up(lead.throughput, other.throughput)
    if ratio is None:
        return ""
    same = _how(other.test) == _how(lead.test)
    name = groups.library(other.test) if same else other.prose
    typical = formatting.times(ratio.typical)
    if typical == formatting.times(1.0):
        return ""
    low, high = formatting.times(ratio.low), formatting.times(ratio.high)
    spread = f" ({low}–{high})" if low != high else ""
    return f"{typical} times {name}{spread}"


def _shrinks(best: Best, lead: Candidate) -> str:
    """Returns the size after compression, beside that of the reference; empty for other tasks.

    Speed does not decide without it.
    """
    if lead.test.task != "compress" or lead.ratio is None:
        return ""
    text = f"compresses to {formatting.number(lead.ratio.median * 100)} %"
    other = best.reference
    if other is None or groups.library(other.test) == groups.library(lead.test):
        return text
    if other.ratio is not None:
        text += f" ({groups.library(other.test)}: {formatting.number(other.ratio.median * 100)} %)"
    return text


def _tied(part: Segment, top: Best) -> str:
    """Returns a phrase about the ways that are as fast, and whether one of them costs less."""
    if not top.comparable:
        return "too few rounds to call it the fastest" if top.among > 1 else ""
    if part.ties:
        prose = {c.label: c.prose for c in top.level}
        text = f"statistically tied with {names([prose[tie] for tie in part.ties])}"
    else:
        sizes = [best for best in part.best if best.ties and best.size_bytes is not None]
        found = dict.fromkeys(c.prose for best in sizes for c in best.level if c.label != part.lead)
        if not found:
            return ""
        text = f"statistically tied with {names(list(found))}"
        if len(sizes) < len(part.best):
            places = [formatting.size(best.size_bytes or 0) for best in sizes]
            text += f" at {formatting.listing(places)}"
    cheap = dict.fromkeys(
        cheaper.prose
        for best in part.best
        for lead in best.level
        if lead.label == part.lead and (cheaper := best.cheaper(lead)) is not None
    )
    if cheap:
        text += f", of which {formatting.listing(cheap)} costs less CPU"
    return text


def short_lines(advice: Sequence[Advice]) -> list[str]:
    """The fastest of all sizes, a line each: `Copy: memcpy, 1 thread, 20.4 GB/s (...) at 64 KiB`.

    What else tells them apart stands there where a title is not of one alone.
    """
    titles = Counter(one.group.title for one in advice)
    return [_short_line(one, detailed=titles[one.group.title] > 1) for one in advice]


def _short_line(advice: Advice, *, detailed: bool) -> str:
    at, lead = max(
        (part.top for part in segments(advice)), key=lambda pair: pair[1].throughput.median
    )
    size = f" at {formatting.size(at.size_bytes)}" if at.size_bytes is not None else ""
    figure = f"{formatting.number(lead.throughput.median)} MB/s ({interval(lead.throughput)})"
    group = advice.group
    work = f"{group.title} ({group.detail})" if detailed and group.detail else group.title
    return f"{work}: {lead.label}, {figure}{size}"


def ties_words(item: Best) -> str:
    """Returns the ways that are as fast as the winner, for a table's cell."""
    return "; ".join(_short([tie.label for tie in item.ties])) if item.comparable else ""


def names(labels: Sequence[str]) -> str:
    """At most three names, and how many more there are."""
    return formatting.listing(_short(labels))


def _short(labels: Sequence[str]) -> list[str]:
    rest = [f"{len(labels) - 3} others"] if len(labels) > 3 else []
    return [*labels[:3], *rest]
