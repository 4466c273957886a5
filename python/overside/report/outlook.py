"""What a DPU would change: modelled from published profiles, against the rates measured here.

This is the one place where figures of different provenance meet. Every sentence says so, names
what is not known, and comes with the facts that it rests on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overside.report import words
from overside.report.best import Advice, Best
from overside.tasks.offload import QUERIES

Json = dict[str, Any]

#: Operations that a DPU's engines may do; for the others none of the profiles has an engine.
TASKS = ("compress", "decompress", "match")


@dataclass(frozen=True)
class Question:
    """What is asked of the model."""

    profile: str
    #: `compress-deflate`.
    operation: str
    #: `static` or `reconfiguration`.
    setting: str
    #: Measured, bytes of the uncompressed side a second.
    cpu_rate_bytes_per_s: float
    #: Compressed bytes / uncompressed bytes; 1 for matching.
    ratio: float
    #: Regular expressions; for matching only.
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Sources:
    """Where answers come from; `overside._core` unless a test says otherwise."""

    #: The profiles: dicts with at least `name`, `card` and `operations`.
    profiles: Sequence[Json]
    #: The outlook as a dict; raises `ValueError` where the device cannot do the operation.
    ask: Callable[[Question], Json]


@dataclass(frozen=True)
class Entry:
    """What one card would change for one operation."""

    title: str
    detail: str
    #: False: it has no engine for that.
    supported: bool
    #: `at most 6.4 times`, the shortest answer.
    headline: str
    #: Whole sentences.
    sentences: tuple[str, ...]
    #: The answers in full, by setting.
    answers: Mapping[str, Json]


@dataclass(frozen=True)
class CardOutlook:
    """What one card would change."""

    profile: str
    #: `BlueField-2`.
    name: str
    #: The exact card, its link and the mode: one card is not a generation.
    card: str
    entries: tuple[Entry, ...]
    #: What no published fact tells.
    unknown: tuple[str, ...]
    #: Fact id -> what it says and where it stands.
    facts: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The break-even sizes of all operations in a sentence or two."""
        answers = [e.answers["static"] for e in self.entries if "static" in e.answers]
        if not answers:
            return ""
        kinds = {answer["break_even"]["kind"] for answer in answers}
        if kinds == {"none"}:
            return (
                "From which buffer size it is faster: no prediction for any operation; the cost "
                "of one job is not published."
            )
        return "From which buffer size it is faster: see each operation."


def core() -> Sources:
    """The profiles and the model of this installation."""
    from overside import _core  # noqa: PLC0415 (reports without outlooks do not need it)

    def ask(question: Question) -> Json:
        answer: Json = json.loads(
            _core.outlook(
                question.profile,
                question.operation,
                question.setting,
                question.cpu_rate_bytes_per_s,
                question.ratio,
                list(question.patterns),
            )
        )
        return answer

    return Sources(profiles=json.loads(_core.profiles()), ask=ask)


def outlooks(advice: Sequence[Advice], sources: Sources) -> list[CardOutlook]:
    """What each profile's card would change against the best that was measured here."""
    asked = [one for one in advice if one.group.parameters.get("setting") != "reconfiguration"]
    asked = asked or list(advice)
    return [_card(profile, asked, sources) for profile in sources.profiles]


def _card(profile: Json, advice: Sequence[Advice], sources: Sources) -> CardOutlook:
    name = str(profile["name"])
    entries = [_entry(name, one, sources) for one in advice if one.group.task in TASKS and one.best]
    answers = [answer for entry in entries for answer in entry.answers.values()]
    unknown = dict.fromkeys(
        words.clean(term, 300) for answer in answers for term in answer.get("missing", ())
    )
    facts = {
        words.clean(fact, 120): words.clean(text, 600)
        for answer in answers
        for fact, text in answer.get("citations", {}).items()
    }
    link = [str(profile[key]) for key in ("card", "host_link", "mode") if profile.get(key)]
    return CardOutlook(
        profile=name,
        name=words.card(name),
        card=words.clean("; ".join(link), 300),
        entries=tuple(entries),
        unknown=tuple(unknown),
        facts=dict(sorted(facts.items())),
        notes=tuple(words.clean(note, 600) for note in profile.get("notes", ())),
    )


def operation(advice: Advice) -> str:
    """The operation's name in profiles: `compress-deflate`."""
    task, parameters = advice.group.task, advice.group.parameters
    default = {"compress": "deflate", "decompress": "deflate", "match": "count"}[task]
    of = parameters.get("kind" if task == "match" else "format")
    return f"{task}-{of or default}"


def _entry(profile: str, advice: Advice, sources: Sources) -> Entry:
    best = advice.best[-1]
    card, name = words.card(profile), operation(advice)
    ratio = best.winner.ratio.median if best.winner.ratio is not None else None
    title, detail = advice.group.title, advice.group.detail
    if ratio is None:
        if advice.group.task != "match":
            text = "No prediction: the compression ratio was not measured."
            return Entry(title, detail, True, "no prediction", (text,), {})
        ratio = 1.0
    rate = best.winner.throughput.median * 1e6
    patterns = _patterns(advice)
    answers: dict[str, Json] = {}
    for setting in ("static", "reconfiguration"):
        try:
            question = Question(profile, name, setting, rate, ratio, patterns)
            answers[setting] = sources.ask(question)
        except ValueError as error:
            if not answers:
                text = f"{card} cannot do this: {words.clean(error, 300)}."
                return Entry(title, detail, False, "cannot do this", (text,), {})
    static = answers["static"]
    return Entry(
        title=title,
        detail=detail,
        supported=True,
        headline=_headline(static),
        sentences=tuple(_sentences(best, answers)),
        answers=answers,
    )


def _patterns(advice: Advice) -> tuple[str, ...]:
    """The regular expressions that were matched; published queries go by their names."""
    patterns = advice.group.parameters.get("patterns")
    chosen = [patterns] if isinstance(patterns, str) else patterns or ()
    return tuple(QUERIES.get(str(pattern), str(pattern)) for pattern in chosen)


def _headline(answer: Json) -> str:
    """The bound in a few words. A missing term can only make the device slower, so without all
    terms only the upper end is a bound."""
    low, high = answer["speedup"]["low"], answer["speedup"]["high"]
    if answer.get("missing"):
        return f"at most {words.times(high)} times"
    return f"{words.span(low, high)} times"


def _sentences(best: Best, answers: Mapping[str, Json]) -> list[str]:
    static = answers["static"]
    rate = words.number(best.winner.throughput.median)
    longest = words.size(static["max_buffer_bytes"])
    out = [
        f"{_headline(static).capitalize()} the {rate} MB/s measured here with "
        f"{best.winner.prose}, in buffers of up to {longest} and many in flight."
    ]
    if static["speedup"]["high"] < 1:
        out.append(
            "So it would be slower than this machine's CPU, and only free it for other work."
        )
    out.append(f"Faster from which size, one buffer at a time: {_break_even(static)}.")
    if "reconfiguration" in answers:
        text = _break_even(answers["reconfiguration"])
        out.append(f"With a context set up anew for each buffer: {text}.")
    return out


def _break_even(answer: Json) -> str:
    prediction = answer["break_even"]
    missing = [words.clean(term, 200) for term in prediction.get("missing", ())]
    because = f" ({words.listing(missing[:3])} not published)" if missing else ""
    match prediction["kind"]:
        case "range":
            low, high = (words.size(prediction[key]) for key in ("low_bytes", "high_bytes"))
            return f"between {low} and {high}"
        case "not-below":
            return f"not below {words.size(prediction['bytes'])}; how far above is not known"
        case "never":
            return f"never, {words.clean(prediction['reason'], 300)}"
    return f"no prediction{because}"
