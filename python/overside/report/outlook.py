"""What a DPU would change: modelled from published profiles, against the rates measured here.

This is the one place where figures of different provenance meet. Every sentence says so, names
what is not known, and comes with the facts that it rests on.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from overside import _core
from overside.report import break_even, formatting
from overside.report.best import Advice, Best
from overside.tasks.common import Json

#: Operations that a DPU's engines may do; for the others none of the profiles has an engine.
TASKS = ("compress", "decompress", "match")


@dataclass(frozen=True)
class Rates:
    """What the best way to do an operation gave here, in MB/s: the ends of its intervals."""

    #: At the largest buffer size.
    low: float
    median: float
    high: float
    #: Over all buffer sizes.
    lowest: float
    highest: float
    #: Whether there was more than one size.
    sizes: bool

    @staticmethod
    def of(advice: Advice) -> Rates:
        """The rates of the winners."""
        rates = [best.winner.throughput for best in advice.best]
        return Rates(
            low=rates[-1].low,
            median=rates[-1].median,
            high=rates[-1].high,
            lowest=min(rate.low for rate in rates),
            highest=max(rate.high for rate in rates),
            sizes=len(rates) > 1,
        )


@dataclass(frozen=True)
class OutlookEntry:
    """What one card would change for one operation."""

    title: str
    detail: str
    #: False: it has no engine for that.
    supported: bool
    #: `up to 6.4 times`, the shortest answer.
    headline: str
    #: From which buffer size it is faster, one buffer at a time: `no prediction`.
    faster_from: str
    #: The same where contexts are set up anew for each buffer.
    faster_anew_from: str
    #: Whole sentences.
    sentences: tuple[str, ...]
    #: The answers in full, by setting, with bounds that hold for all rates measured here.
    answers: Mapping[str, Json]


@dataclass(frozen=True)
class CardOutlook:
    """What one card would change."""

    profile: str
    #: `BlueField-2`.
    name: str
    #: The exact card, its link and the mode: one card is not a generation.
    card: str
    entries: tuple[OutlookEntry, ...]
    #: What no published fact tells.
    unknown: tuple[str, ...]
    #: Fact id -> what it says and where it stands.
    facts: Mapping[str, str]
    notes: tuple[str, ...]

    def named(self) -> list[tuple[str, OutlookEntry]]:
        """The entries with their titles; where two have the same, with what differs."""
        titles = Counter(entry.title for entry in self.entries)
        return [
            (f"{e.title} ({e.detail})" if titles[e.title] > 1 and e.detail else e.title, e)
            for e in self.entries
        ]


def outlooks(advice: Sequence[Advice]) -> list[CardOutlook]:
    """What each profile's card would change against the best that was measured here.

    Raises `ValueError` if the profiles cannot be read.
    """
    asked = [one for one in advice if one.group.parameters.get("setting") != "reconfiguration"]
    asked = asked or list(advice)
    # Jobs that a card's own cores start are no answer to what it would change for this machine, and
    # neither are hosts, nor cards of whose engines nothing is known.
    return [
        _card(one, asked)
        for one in json.loads(_core.profiles())
        if one.get("operations") and one.get("initiator", "host") == "host"
    ]


def _ask(work: tuple[Any, ...], rate: float) -> Json:
    """What the model says of a CPU with that rate, in MB/s."""
    answer: Json = json.loads(_outlook(work, rate, os.environ.get("OVERSIDE_PROFILES", "")))
    return answer


@lru_cache(maxsize=4096)
def _outlook(work: tuple[Any, ...], rate: float, profiles: str) -> str:
    """The model's answer with the profiles of a directory; page and summary ask the same."""
    del profiles
    profile, operation, setting, ratio, patterns = work
    return _core.outlook(profile, operation, setting, rate * 1e6, ratio, list(patterns))


def _card(profile: Json, advice: Sequence[Advice]) -> CardOutlook:
    name = str(profile["name"])
    notes = tuple(formatting.clean(note, 600) for note in profile.get("notes", ()))
    entries = [_entry(name, one) for one in advice if one.group.task in TASKS]
    answers = [answer for entry in entries for answer in entry.answers.values()]
    unknown = dict.fromkeys(
        formatting.clean(term, 300) for answer in answers for term in answer.get("missing", ())
    )
    facts = {
        formatting.clean(fact, 120): formatting.clean(text, 600)
        for answer in answers
        for fact, text in answer.get("citations", {}).items()
    }
    link = [str(profile[key]) for key in ("card", "host_link", "mode") if profile.get(key)]
    return CardOutlook(
        profile=name,
        name=formatting.card(name),
        card=formatting.clean("; ".join(link), 300),
        entries=tuple(entries),
        unknown=tuple(unknown),
        facts=dict(sorted(facts.items())),
        notes=notes,
    )


def _entry(profile: str, advice: Advice) -> OutlookEntry:
    best = advice.best[-1]
    title, detail = advice.group.title, advice.group.detail
    ratio = best.winner.ratio.median if best.winner.ratio is not None else None
    if advice.group.task == "match":
        ratio = 1.0
    if ratio is None or ratio <= 0:
        text = "No prediction: the compression ratio was not measured."
        return OutlookEntry(title, detail, True, "no prediction", "–", "–", (text,), {})
    rates = Rates.of(advice)
    answers: dict[str, Json] = {}
    for setting in ("static", "reconfiguration"):
        work = (profile, advice.group.operation, setting, ratio, tuple(advice.group.patterns))
        try:
            answers[setting] = _answer(work, rates)
        except ValueError as error:
            text = f"The profile has no answer: {formatting.clean(error, 300)}."
            return OutlookEntry(title, detail, False, "cannot do this", "", "", (text,), {})
    return OutlookEntry(
        title=title,
        detail=detail,
        supported=True,
        headline=_headline(answers["static"]),
        faster_from=break_even.text(answers["static"]["break_even"]),
        faster_anew_from=break_even.text(answers["reconfiguration"]["break_even"]),
        sentences=tuple(_sentences(best, rates, answers)),
        answers=answers,
    )


def _answer(work: tuple[Any, ...], rates: Rates) -> Json:
    """The answer with bounds that hold wherever in its interval the CPU's rate is.

    The slower the CPU, the more often the device is faster, and from the smaller a buffer on. So
    the most that it can gain is against the low end at the largest size, where its published rates
    are those of long buffers; the size below which it cannot be faster is against the lowest rate
    at any size; and that from which it certainly is faster, against the highest.
    """
    answer = _ask(work, rates.low)
    lowest, highest = (_ask(work, rate)["break_even"] for rate in (rates.lowest, rates.highest))
    device = answer["device_rate_bytes_per_s"]
    against = {"low": rates.high, "typ": rates.median, "high": rates.low}
    speedup = {end: device[end] / (rate * 1e6) for end, rate in against.items()}
    return answer | {"speedup": speedup, "break_even": break_even.over_rates(lowest, highest)}


def _headline(answer: Json) -> str:
    """The speed in a few words. Most missing terms can only make the device slower, so without all
    terms the upper end says more than the lower; it is a bound if none could make it faster."""
    low, high = answer["speedup"]["low"], answer["speedup"]["high"]
    if not answer.get("missing"):
        return f"{formatting.span(low, high)} times"
    return f"{'at most' if answer.get('bounded') else 'up to'} {formatting.times(high)} times"


def _unknown(answer: Json) -> str:
    """What the missing terms may change."""
    missing = answer.get("missing", ())
    if not missing:
        return ""
    if answer.get("bounded"):
        return "; what is not known can only lower that"
    raising = []
    if any("engines" in term for term in missing):
        raising.append("more engines than one")
    if any("these patterns" in term for term in missing):
        raising.append("patterns that are easier than the published ones")
    what = formatting.listing(raising) or "some of what is not known"
    return f"; {what} would raise that, all else that is not known can only lower it"


def _sentences(best: Best, rates: Rates, answers: Mapping[str, Json]) -> list[str]:
    static, anew = answers["static"], answers["reconfiguration"]
    low, high = (formatting.times(static["speedup"][end]) for end in ("low", "high"))
    rate = _span(rates.low, rates.high)
    where = f" in {formatting.size(best.size_bytes)} buffers" if best.size_bytes is not None else ""
    out = [
        f"By its published rates, {low} to {high} times the {rate} MB/s measured here{where} "
        f"({best.winner.prose}), in buffers of up to "
        f"{formatting.size(static['max_buffer_bytes'])} and with many in flight{_unknown(static)}."
    ]
    if static["speedup"]["high"] < 1:
        by = "So" if static.get("bounded") else "By these rates"
        out.append(
            f"{by} it is slower than this machine and could only free its CPU for other work."
        )
    questions = {
        "Faster from which size, one buffer at a time": static,
        "Where contexts are set up anew for each buffer": anew,
    }
    for question, answer in questions.items():
        found = answer["break_even"]
        text = f"{break_even.text(found)}{_against(answer, rates)}{break_even.reason(found)}"
        out.append(f"{question}: {text}.")
    return out


def _against(answer: Json, rates: Rates) -> str:
    """The CPU's rates that a break-even holds against."""
    over = "over all buffer sizes" if rates.sizes else "in buffers of one size"
    match answer["break_even"]["kind"]:
        case "range":
            span = _span(rates.lowest, rates.highest)
            return f" (against {span} MB/s, what was measured here {over})"
        case "not-below" | "never":
            lowest = formatting.number(rates.lowest)
            return f" (against {lowest} MB/s, the low end of what was measured here {over})"
    return ""


def _span(low: float, high: float) -> str:
    return formatting.number(low) if low == high else formatting.span(low, high)
