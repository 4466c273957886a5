"""Decision about one operation with one device: offload, split, keep on the CPU, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from overside import advise
from overside.advise import Query
from overside.bench.box import box_name
from overside.bench.statistics import RunView
from overside.errors import UserError
from overside.report import best, break_even, formatting
from overside.report.advice import NONE_PUBLISHED, settled_on_a_card
from overside.tasks.common import Json
from overside.verdict.answers import WIDEST

WIDE = f"interval wider than {WIDEST:g} times"

#: Words for a decision.
DECISIONS = {
    "offload": "offload",
    "split": "split between CPU and device",
    "cpu": "keep on the CPU",
    "cannot-tell": "cannot tell yet",
}
#: Said behind a decision whose direction is certain though its interval is wide.
UNCERTAIN = "amount uncertain"


@dataclass(frozen=True)
class Ratio:
    """Speed-up as a factor, from the lowest to the highest."""

    low: float
    high: float

    @property
    def is_wide(self) -> bool:
        """Too wide for a headline."""
        return self.low <= 0 or self.high / self.low > WIDEST

    def __str__(self) -> str:
        ends = self.low, self.high
        # Which side of 1 it is on shows.
        is_near = any(one != 1 and formatting.times(one) == formatting.times(1.0) for one in ends)
        low, high = (formatting.number(x, 3) if is_near else formatting.times(x) for x in ends)
        return f"{low} times" if low == high else f"{low} to {high} times"

    @staticmethod
    def union(ratios: Iterable[Ratio | None]) -> Ratio | None:
        """From the lowest to the highest of those that are known; `None` if there are none."""
        known = [one for one in ratios if one is not None]
        if not known:
            return None
        return Ratio(min(one.low for one in known), max(one.high for one in known))

    @staticmethod
    def of(comparison: Json | None) -> Ratio | None:
        """Returns the ratio of one of the model's comparisons; `None` if it has none."""
        ratio = (comparison or {}).get("ratio")
        return Ratio(ratio["low"], ratio["high"]) if ratio else None


@dataclass(frozen=True)
class Verdict:
    """Verdict on one operation with one device, and its confidence."""

    #: Operation, such as `compress-deflate`.
    operation: str
    #: `Compress to DEFLATE (level 1)`.
    title: str
    #: The device's name, or the profile's.
    device: str
    #: Device's name for people: `BlueField-2`.
    name: str
    #: The device itself was measured.
    is_measured: bool
    #: `measured` or `modelled`: the weakest provenance of its figures.
    provenance: str
    #: `cpu`, `offload`, `split` or `cannot-tell`.
    decision: str
    #: Decision that the figures suggest while it is undecided; empty if they suggest none.
    leaning: str
    #: The whole interval is above 1, but too wide for a headline: only the direction is certain.
    is_amount_uncertain: bool
    #: The device alone over one core of this host.
    against_core: Ratio | None
    #: The device alone over all cores of this host.
    against_host: Ratio | None
    #: Device and cores together over all cores; only of a split.
    together: Ratio | None
    #: Number of cores of this host that were compared; 0 if unknown.
    cores: int
    #: Library on those cores: `ISA-L level 1`; empty if unknown.
    library: str
    #: The buffers that this holds for, in bytes of the uncompressed side.
    from_bytes: int
    below_bytes: int | None
    #: Buffers of `from_bytes` alone were asked about.
    is_one_size: bool
    #: Verdict for other sizes, in words; empty if there is no other.
    elsewhere: str
    #: From which size the device is faster than one core with one buffer at a time, in words; empty
    #: if that is not known.
    one_at_a_time: str
    #: Host CPU saved, in words; empty if not known.
    saved: str
    #: Host CPU saved, in fewer words.
    saved_briefly: str
    #: `high`, `medium` or `low`, and why.
    confidence: str
    reasons: tuple[str, ...]
    #: Next step for the user.
    next_step: str

    @property
    def subject(self) -> str:
        """`Compress to DEFLATE with BlueField-2`."""
        return f"{self.title} with {self.name}"

    @property
    def decided(self) -> str:
        """The decision: `cannot tell yet, leaning to offload`, or `offload, amount uncertain`."""
        text = DECISIONS[self.decision]
        if self.is_amount_uncertain:
            return f"{self.decision}, {UNCERTAIN}"
        return f"{text}, leaning to {LEANINGS[self.leaning]}" if self.leaning else text

    @property
    def figures(self) -> str:
        """Sentence with the speed-up and the size from which it applies.

        It has no size if nothing is known.
        """
        if self.against_host is None:
            parts = ["How much faster is unknown"]
        else:
            text = f"Device alone {self.against_host} {self._every_with_library}"
            if self.against_core is not None and self.cores != 1:
                text += f" ({self.against_core} one core)"
            parts = [text]
        if self.together is not None:
            parts.append(f"with the cores {self.together}")
        if self.against_host is not None or self.elsewhere:
            parts.append(self.sizes)
        if self.bound:
            parts.append(self.bound)
        if self.saved:
            parts.append(self.saved)
        return "; ".join(parts) + "."

    @property
    def speed_up(self) -> Ratio | None:
        """Speed-up over all cores by which it is decided: of a split that of both together."""
        return self.against_host if self.together is None else self.together

    @property
    def brief(self) -> str:
        """Speed-up over all cores, and the size from which it applies.

        For example `2.4 to 7.0 times ISA-L level 1 on all 2 cores from 2 MiB`.
        """
        if self.against_host is None:
            return "how much faster is unknown"
        return f"{self.speed_up} {self._every_with_library} from {formatting.size(self.from_bytes)}"

    @property
    def bound(self) -> str:
        """`one at a time faster than a core from 212 KiB at the latest`; empty if not known."""
        known = self.one_at_a_time
        return f"one at a time faster than a core {known}" if known else ""

    @property
    def _every(self) -> str:
        return f"all {self.cores} cores" if self.cores > 1 else "this host's cores"

    @property
    def _every_with_library(self) -> str:
        if not self.library:
            return self._every
        comma = "," if "," in self.library else ""
        return f"{self.library}{comma} on {self._every}"

    @property
    def sizes(self) -> str:
        """`buffers from 2 MiB (smaller: unknown)`."""
        low = formatting.size(self.from_bytes)
        text = f"{low} buffers" if self.is_one_size else f"buffers from {low}"
        if self.below_bytes is not None:
            text += f" to {formatting.size(self.below_bytes)}"
        return f"{text} ({self.elsewhere})" if self.elsewhere else text

    @property
    def confidence_words(self) -> str:
        """`Low confidence: the interval is wider than 2 times.`"""
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{self.confidence.capitalize()} confidence{why}."

    @property
    def next_words(self) -> str:
        """`Next: ...`; empty if nothing is left to do."""
        return f"Next: {self.next_step}." if self.next_step else ""

    @property
    def line(self) -> str:
        """Whole text; every format quotes these words."""
        head = f"{self.subject} [{self.provenance.upper()}]: {self.decided}."
        return " ".join(filter(None, (head, self.figures, self.confidence_words, self.next_words)))

    def json(self) -> Json:
        """For programs."""
        ratios = {
            name: {"low": ratio.low, "high": ratio.high} if ratio else None
            for name, ratio in (
                ("against_core", self.against_core),
                ("against_host", self.against_host),
                ("together", self.together),
            )
        }
        return {
            "operation": self.operation,
            "title": self.title,
            "device": self.device,
            "provenance": self.provenance,
            "decision": self.decision,
            "leaning": self.leaning or None,
            "amount_uncertain": self.is_amount_uncertain,
            **ratios,
            "cores": self.cores or None,
            "library": self.library or None,
            "from_bytes": self.from_bytes,
            "below_bytes": self.below_bytes,
            "one_at_a_time": self.one_at_a_time or None,
            "confidence": self.confidence,
            "reasons": list(self.reasons),
            "next": self.next_step or None,
            "text": self.line,
        }


#: Reasons for lower confidence, by the origin of the CPU's rate.
_OF_CPU = {
    "measured": "",
    "scaled": "all-core rate scaled from fewer cores",
    "published": "CPU rates of a published host, not of this one",
}

LEANINGS = {"cpu": "the CPU", "offload": "offload", "split": "a split"}


def of_run(
    view: RunView | None, noise: str, query: Query | None, advice: Json | None
) -> tuple[list[Verdict], list[str], str]:
    """The verdicts of a run, the operations that no device can do, and why there are none."""
    try:
        query = query or (advise.query_of(view) if view else Query(advise.default_profiles()))
        asked = advise.narrowed(advise.question(view), query)
        if not asked["measured"]:
            return [], [], ""
        advice = advice or advise.answer(view, query)
        core = advise.answer(view, query, cores="one")
    except (UserError, ValueError) as error:
        return [], [], f"No verdict: {formatting.clean(error, 300)}."
    context = _Context(view, noise, asked, core, _titles(advice))
    found: list[Verdict] = []
    unable: dict[str, dict[str, None]] = {}
    unpublished: dict[str, dict[str, None]] = {}
    for place, one in enumerate(advice["operations"]):
        able = {_product(target) for target in one["targets"] if not target.get("unsupported")}
        for target in one["targets"]:
            if target.get("unsupported"):
                # What a card does with another release, or from its own cores, it can do.
                if _product(target) not in able:
                    reason = unpublished if target.get("is_unpublished") else unable
                    reason.setdefault(_product(target), {})[context.titles[place]] = None
            elif target["ranges"]:
                found.append(context.verdict(place, one, target))
    found.sort(key=lambda one: not one.is_measured)
    words = [f"{name} cannot do: {', '.join(titles)}." for name, titles in unable.items()]
    for same in dict.fromkeys(tuple(titles) for titles in unpublished.values()):
        cards = formatting.listing([name for name, of in unpublished.items() if tuple(of) == same])
        what = formatting.listing(same)
        words.append(f"No prediction for {cards}: nobody has published a figure of {what}.")
    return found, words, ""


def _titles(advice: Json) -> list[str]:
    """The operations' titles, with distinguishing parameters only where they need them."""
    titles = [formatting.clean(one["title"], 120) for one in advice["operations"]]
    plain = [title.partition(" (")[0] for title in titles]
    return [
        short if plain.count(short) == 1 else title
        for short, title in zip(plain, titles, strict=True)
    ]


@dataclass(frozen=True)
class _Context:
    """Inputs that all verdicts of a run share."""

    #: `None`: the CPU's rates are published ones.
    view: RunView | None
    noise: str
    asked: Json
    #: The answer with one core in the place of all.
    core: Json
    #: Title of each operation, by its place in the answer.
    titles: Sequence[str]

    def verdict(self, place: int, operation: Json, target: Json) -> Verdict:
        """The verdict on one target of the operation at that place of the answer."""
        ranges = target["ranges"]
        chosen = _chosen(ranges)
        part = ranges[chosen]
        meant = decision_of(part)
        first, last = _alike(ranges, chosen)
        is_measured = target["provenance"] == "measured"
        compared = part["gain"] if meant == "split" else part["c1"]
        deciding = Ratio.of(compared)
        reasons, withheld = self._doubts(meant, deciding, is_measured, part, target)
        helps = meant in ("offload", "split")
        wide = helps and deciding is not None and deciding.is_wide
        # A wide interval that is above 1 as a whole still tells the direction.
        withheld = withheld or (wide and compared["verdict"] != "yes")
        decision = "cannot-tell" if withheld or meant == "cannot-tell" else meant
        is_uncertain = wide and decision == meant
        return Verdict(
            operation=str(operation["operation"]),
            title=self.titles[place],
            device=str(target["name"]),
            name=_name(target),
            is_measured=is_measured,
            provenance=str(part["c1"]["provenance"]) if is_measured else "modelled",
            decision=decision,
            leaning=meant if decision == "cannot-tell" and meant != decision else "",
            is_amount_uncertain=is_uncertain,
            against_core=self._against_core(place, target, part["from_bytes"]),
            against_host=Ratio.of(part["c1"]),
            together=Ratio.of(part["gain"]) if meant == "split" else None,
            cores=self.asked["host"].get("threads", 0),
            library=formatting.clean(part["cpu_library"], 60),
            from_bytes=ranges[first]["from_bytes"],
            below_bytes=ranges[last].get("below_bytes"),
            is_one_size=self.asked["buffer_bytes"] is not None,
            elsewhere=_elsewhere(ranges, first, last),
            one_at_a_time=_one_at_a_time(self._of_core(place, target)),
            saved=saved_words(part.get("host_cpu_saved")),
            saved_briefly=_saved_briefly(part.get("host_cpu_saved")),
            confidence=_confidence(is_measured, reasons, self.noise),
            reasons=tuple(reasons),
            next_step=self._next(
                decision, is_measured, is_uncertain, target, part, title=self.titles[place]
            ),
        )

    def _of_core(self, place: int, target: Json) -> Json | None:
        """This target in the answer for one core instead of all."""
        if place >= len(self.core["operations"]):
            return None
        same = (target["name"], target["provenance"])
        targets: list[Json] = self.core["operations"][place]["targets"]
        return next((one for one in targets if (one["name"], one["provenance"]) == same), None)

    def _against_core(self, place: int, target: Json, from_bytes: int) -> Ratio | None:
        one = self._of_core(place, target)
        at = [part for part in one["ranges"] if part["from_bytes"] <= from_bytes] if one else []
        return Ratio.of(at[-1]["c1"]) if at else None

    def _doubts(
        self,
        meant: str,
        deciding: Ratio | None,
        is_measured: bool,
        part: Json,
        target: Json,
    ) -> tuple[list[str], bool]:
        """Returns the reasons for lower confidence, and `True` if they rule out a decision.

        To keep work on the CPU, an upper bound is enough, however wide the interval below it.
        """
        reasons, withheld = [], False
        if self.noise:
            reasons.append("busy machine")
            withheld = True
        if is_measured and self.view is not None and _rounds(self.view) < best.ROUNDS_TO_COMPARE:
            reasons.append("too few rounds to tell")
            withheld = True
        if deciding is not None and deciding.is_wide and meant != "cpu":
            reasons.append(WIDE)
        if deciding is None and not is_measured:
            why = target["ranges"][-1]["device_bytes_per_s"].get("why") or "nothing was published"
            reasons.append(break_even.with_sizes(formatting.clean(why, 200)))
        reasons.append(_OF_CPU[part["cpu_evidence"]])
        if not is_measured and deciding is not None:
            reasons.append(_unpublished(target))
        return [reason for reason in dict.fromkeys(reasons) if reason], withheld

    def _next(
        self,
        decision: str,
        is_measured: bool,
        is_uncertain: bool,
        target: Json,
        part: Json,
        *,
        title: str,
    ) -> str:
        is_unknown = not is_measured and "interval" not in part["device_bytes_per_s"]
        if is_unknown and decision == "cannot-tell":
            return f"{NONE_PUBLISHED} ({title} with {_name(target)})"
        if self.view is None:
            return "`overside run quick` measures this host's cores"
        box = formatting.clean(box_name(self.view.manifest.get("box_path") or "BOX"), 200)
        if self.noise:
            return f"`overside run {box}` on a quiet machine"
        if decision == "cpu":
            return ""
        if not is_measured:
            return settled_on_a_card(f"overside run {box}", _name(target))
        if decision == "cannot-tell" or is_uncertain:
            return f"more rounds: `overside run {box} --set measure.rounds=20`"
        run = formatting.clean(self.view.path, 200)
        return f"`overside advise --run {run} --placement-out placement.toml`"


def decision_of(part: Json) -> str:
    """Returns the decision that the model advises for one range of sizes."""
    kind = str(part["placement"]).partition(":")[0]
    if kind == "adaptive":
        return "split" if part["c2"]["verdict"] == "yes" else "cannot-tell"
    return {"cpu": "cpu", "device": "offload", "split": "split"}.get(kind, "cannot-tell")


def _chosen(ranges: Sequence[Json]) -> int:
    """The range that a verdict is about: the longest buffers that a device is advised for, else
    the longest with figures, else the longest."""
    helps = [i for i, part in enumerate(ranges) if decision_of(part) in ("offload", "split")]
    known = [i for i, part in enumerate(ranges) if part["c1"].get("ratio")]
    return (helps or known or [len(ranges) - 1])[-1]


def _alike(ranges: Sequence[Json], chosen: int) -> tuple[int, int]:
    """The first and the last of the neighbouring ranges with the same decision and figures."""

    def kind(place: int) -> tuple[str, bool]:
        return decision_of(ranges[place]), bool(ranges[place]["c1"].get("ratio"))

    first = last = chosen
    while first > 0 and kind(first - 1) == kind(chosen):
        first -= 1
    while last + 1 < len(ranges) and kind(last + 1) == kind(chosen):
        last += 1
    return first, last


def _one_at_a_time(target: Json | None) -> str:
    even = target.get("pays_from") if target is not None else None
    return break_even.text(even) if even and even["kind"] == "range" else ""


def _elsewhere(ranges: Sequence[Json], first: int, last: int) -> str:
    parts = []
    if first > 0:
        below = decision_of(ranges[first - 1])
        text = "unknown" if below == "cannot-tell" else DECISIONS[below]
        parts.append(f"smaller: {text}")
    if last + 1 < len(ranges):
        above = decision_of(ranges[last + 1])
        text = "unknown" if above == "cannot-tell" else DECISIONS[above]
        parts.append(f"larger: {text}")
    return "; ".join(parts)


def saved_words(saved: Mapping[str, float] | None) -> str:
    """`saves 49 to 76 % of host CPU`, and the cost if it may cost more."""
    if saved is None:
        return ""
    low, high = saved["low"], saved["high"]
    if high <= 0:
        least, most = formatting.times(1 - high), formatting.times(1 - low)
        return f"costs {least if least == most else f'{least} to {most}'} times the host CPU"
    least, most = f"{low * 100:.0f}", f"{high * 100:.0f}"
    if low < 0:
        more = formatting.times(1 - low)
        polling = "nothing" if more == formatting.times(1.0) else f"costs {more} times as much"
        return f"saves up to {most} % of host CPU, or {polling} when polling"
    return f"saves {most if least == most else f'{least} to {most}'} % of host CPU"


def _saved_briefly(saved: Mapping[str, float] | None) -> str:
    """Host CPU saved in few words; `up to 76 % less host CPU, or more` where it may cost more."""
    if saved is not None and saved["low"] < 0 < saved["high"]:
        return f"up to {saved['high'] * 100:.0f} % less host CPU, or more"
    return saved_words(saved)


def _unpublished(target: Json) -> str:
    """The unpublished term that counts most, and how many more there are."""
    missing = [formatting.clean(term, 120).partition(":")[0] for term in target["missing"]]
    if not missing:
        return "figures of other people's cards"
    job = any("one job" in term for term in missing)
    first = "cost of one job" if job else missing[0]
    return f"{first} unpublished" + (f" (and {len(missing) - 1} more)" if missing[1:] else "")


def _confidence(is_measured: bool, reasons: Sequence[str], noise: str) -> str:
    if noise or (not is_measured and len(reasons) > 0):
        return "low"
    if is_measured and not reasons:
        return "high"
    return "medium"


def _rounds(view: RunView) -> int:
    """The fewest rounds of any measured test."""
    return min(_round_counts(view), default=0)


def _round_counts(view: RunView) -> Iterator[int]:
    for test in view.tests:
        throughput = test.metrics.get("throughput")
        if throughput is not None and test.provenance == "measured":
            yield throughput.n


def _product(target: Json) -> str:
    """The card, whatever drives it: `BlueField-3` of `BlueField-3 (DOCA 2.2)`."""
    return _name(target).partition(" (")[0]


def _name(target: Json) -> str:
    is_measured = target["provenance"] == "measured"
    name = target["name"]
    return formatting.over(name) if is_measured else formatting.card(name)
