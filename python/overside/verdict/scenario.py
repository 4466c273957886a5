"""Verdict on a simulated scenario, in the first lines of its answer.

The model compares the options of a scenario with its baseline and with each other, as it compares
devices with the CPU (by the figures in `scenarios.toml`). Here the comparisons become sentences:
the best option that is better for certain, else that the baseline stays, else that it is undecided
yet; then the options that may be as good, and those that are worse than the baseline for certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from overside.report import break_even, formatting
from overside.tasks.common import Json
from overside.verdict.decision import WIDE, Ratio, saved_words

#: The most conditions that have a line of their own; more share the lines of equal outcomes.
LINES_MAX = 6
#: The most options that are named; more are counted.
NAMED_MAX = 3
UNDECIDED = "cannot tell yet"

Conditions = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Outcome:
    """Result for one condition."""

    conditions: Conditions
    #: Text for conditions that share a line: `Keep cpu-only`.
    lead: str
    #: Speed-up, and other text: empty if that is unknown.
    text: str
    ratio: Ratio | None = None
    #: Figures of all options that are worse than the baseline for certain; `None` if none is.
    worse: Ratio | None = None
    #: The measurement that would decide; empty if it is decided.
    settled_by: str = ""


def lines(report: Json) -> list[str]:
    """The verdict of a report of the model: a line for each of its conditions, or for each of their
    outcomes."""
    compared = report.get("compared")
    if not compared:
        return list(_extremes(report))
    by_conditions: dict[Conditions, list[Json]] = {}
    for row in compared["rows"]:
        by_conditions.setdefault(_conditions(row), []).append(row)
    choices = {_conditions(choice): choice for choice in compared["choices"]}
    words = _Words(compared, _is_lower(report["rows"], compared["figure"]))
    outcomes = [
        words.outcome(rows, conditions, choices.get(conditions))
        for conditions, rows in by_conditions.items()
    ]
    if len(outcomes) <= LINES_MAX and len({one.text for one in outcomes}) == len(outcomes):
        told = [_sentence(_where(one.conditions), one.lead, one.text) for one in outcomes]
    else:
        told = list(_together(words, outcomes))
    settled = Counter(one.settled_by for one in outcomes if one.settled_by)
    return told + [f"Next: {_step(text)}." for text, _ in settled.most_common(1)]


def _step(text: str) -> str:
    """A measurement, with what it takes where not every reader has that."""
    return f"no published figure settles it; {text}" if " such a " in text else text


def _conditions(of: Json) -> Conditions:
    return tuple((name, value) for name, value in of["conditions"])


def _together(words: _Words, outcomes: Sequence[_Outcome]) -> Iterator[str]:
    """A line for each outcome of conditions, the most frequent first."""
    by_lead: dict[tuple[str, str], list[_Outcome]] = {}
    for one in outcomes:
        # Words without a ratio hold for those that share them.
        by_lead.setdefault((one.lead, "" if one.ratio else one.text), []).append(one)
    for (lead, text), some in sorted(by_lead.items(), key=lambda pair: -len(pair[1])):
        if len(some) == 1:
            yield _sentence(_where(some[0].conditions), lead, some[0].text)
        else:
            shared = text or f"{words.of_all(lead, some)}{_best_and_worst(some)}"
            yield _sentence(_which(some, outcomes), lead, shared)


def _best_and_worst(some: Sequence[_Outcome]) -> str:
    """`; best with bytes 2 MiB, worst with bytes 64 B`: of conditions that share a line."""
    known = [(one, one.ratio or one.worse) for one in some]
    ranked = [(ratio.low * ratio.high, one) for one, ratio in known if ratio is not None]
    if len(ranked) < 2:
        return ""

    def named(outcome: _Outcome) -> str:
        own = [
            f"{name.replace('_', ' ')} {value}"
            for place, (name, value) in enumerate(outcome.conditions)
            if len({one.conditions[place][1] for one in some}) > 1
        ]
        return ", ".join(own)

    best, worst = max(ranked, key=lambda pair: pair[0]), min(ranked, key=lambda pair: pair[0])
    return (
        f"; best with {named(best[1])}, worst with {named(worst[1])}" if best[0] > worst[0] else ""
    )


def _which(some: Sequence[_Outcome], every: Sequence[_Outcome]) -> str:
    """`2 of 4 conditions (direction compress)`: the values that not all conditions have."""
    if len(some) == len(every):
        return f"All {len(some)} conditions"
    parts = []
    for place, (name, _) in enumerate(some[0].conditions):
        own, known = (dict.fromkeys(one.conditions[place][1] for one in of) for of in (some, every))
        if len(own) < len(known) and len(own) <= NAMED_MAX:
            parts.append(f"{name.replace('_', ' ')} {formatting.listing(own)}")
    which = f" ({', '.join(parts)})" if parts else ""
    return f"{len(some)} of {len(every)} conditions{which}"


def _sentence(where: str, lead: str, text: str) -> str:
    line = ": ".join(part for part in (lead, text) if part)
    line = f"{where}: {line[:1].lower()}{line[1:]}" if where else line
    return line if line.endswith(".") else f"{line}."


@dataclass(frozen=True)
class _Words:
    """The words for the comparisons of one report."""

    compared: Json
    is_lower: bool

    def outcome(
        self, rows: Sequence[Json], conditions: Conditions, choice: Json | None
    ) -> _Outcome:
        known = [row for row in rows if row.get("ratio")]
        if not known:
            why = next((row["why"] for row in rows if row.get("why")), "nothing was published")
            text = _reason(formatting.clean(why, 200))
            return _Outcome(conditions, "Cannot tell", text, None, None, _settled(rows))
        if choice is None:
            return self._of_itself(known[0], conditions)
        worse = [row for row in known if row["verdict"] == "no" and not _is_equal(row)]
        worse.sort(key=lambda row: -row["ratio"]["typ"])
        below = Ratio.union(Ratio.of(row) for row in worse)
        lead, text, leading = self._decided(known, worse, choice)
        ratio = None if choice.get("then") else Ratio.of(leading)
        if lead.startswith("keep") and ratio is not None:
            ratio, below = below, None
        elif below is not None:
            options = self._named([row["option"] for row in worse])
            text += f"; worse: {options}, {below} {self._over}"
        unknown = [row["option"] for row in rows if not row.get("ratio")]
        if unknown:
            text += f"; unknown: {self._named(unknown)}"
        if not choice.get("then"):
            text += self._saving(known)
        settled = _settled([leading]) if lead == UNDECIDED else ""
        return _Outcome(conditions, _upper(lead), text, ratio, below, settled)

    def _decided(
        self, known: Sequence[Json], worse: Sequence[Json], choice: Json
    ) -> tuple[str, str, Json]:
        """The decision, its reason, and the option that it is about."""
        base, best, rivals = self.compared["baseline"], choice["best"], choice["rivals"]
        first = [row for row in known if row["option"] in (*best, *rivals)] or known
        leading = max(first, key=lambda row: row["ratio"]["typ"])
        ratio = Ratio.of(leading)
        figure = f"{self.figure(ratio)}{_wide(ratio)}"
        if base in (*best, *rivals) and (base not in best or rivals) and not choice.get("then"):
            return UNDECIDED, f"{self._key} {leading['option']} has {figure}", leading
        text = self._next(worse) if base in best else figure
        if choice.get("then"):
            text = self._then(choice)
        if rivals:
            text += f"; {self._named(rivals)} may be as good"
        return self._lead(best), text, leading

    def _of_itself(self, row: Json, conditions: Conditions) -> _Outcome:
        """The outcome of a row that is compared with a figure of its own."""
        lead = {"yes": "Better than", "no": "Worse than"}.get(
            row["verdict"], "Cannot tell whether it is better than"
        )
        if _is_equal(row):
            lead = "Equal to"
        ratio = Ratio.of(row)
        text = f"{ratio}{_wide(ratio)}"
        settled = _settled([row])
        return _Outcome(
            conditions, f"{lead} {self.compared['baseline']}", text, ratio, None, settled
        )

    def _lead(self, best: Sequence[str]) -> str:
        base = self.compared["baseline"]
        if best == [base]:
            return f"keep {base}"
        if base in best:
            equal = formatting.listing([name for name in best if name != base])
            return f"keep {base} ({self._key} {equal}: equal)"
        return f"{self._key} {formatting.listing(best)} {'is' if len(best) == 1 else 'are'} best"

    def _next(self, worse: Sequence[Json]) -> str:
        """The next best and the worst of the options that are worse than the baseline."""
        if not worse:
            return ""
        text = f"the next, {self._key} {worse[0]['option']}, has {self.figure(Ratio.of(worse[0]))}"
        if len(worse) > 1:
            text += f", the worst, {worse[-1]['option']}, {Ratio.of(worse[-1])}"
        return text

    def _then(self, choice: Json) -> str:
        """The figures that decided between options that are equal in the first."""
        amounts = ", ".join(
            f"{name} {_ends(one)}"
            for name, one in sorted(choice["then"], key=lambda pair: pair[1]["typ"])
        )
        figure, then = self.compared["figure"], self.compared["then"]
        return f"equal {figure} with the fewest {then} ({amounts})"

    def _named(self, options: Sequence[str]) -> str:
        if len(options) > NAMED_MAX:
            return f"{len(options)} other values of {self._key}"
        return f"{self._key} {formatting.listing(options)}"

    def of_all(self, lead: str, some: Sequence[_Outcome]) -> str:
        """The text for several conditions with that lead."""
        ratio = Ratio.union(one.ratio for one in some)
        worse = Ratio.union(one.worse for one in some)
        if not self.compared.get("key"):
            return str(ratio)
        text = self.figure(ratio)
        if lead.startswith("Keep"):
            text = f"the others have {text}"
        return text if worse is None else f"{text}; others {worse} {self._over}"

    @property
    def _key(self) -> str:
        return str(self.compared["key"]).replace("_", " ")

    @property
    def _over(self) -> str:
        """`the throughput of cpu-only`."""
        figure, base = self.compared["figure"], self.compared["baseline"]
        if base[:1].isdigit():
            base = f"{self._key} {base}"
        return f"the {'speed' if self.is_lower else figure} of {base}"

    def figure(self, ratio: Ratio | None) -> str:
        """`1.0 to 1.8 times the throughput of cpu-only`."""
        return f"{ratio} {self._over}"

    def _saving(self, rows: Sequence[Json]) -> str:
        """The option that saves most host CPU for certain; of several the fastest."""
        saving = [row for row in rows if (row.get("host_cpu_saved") or {"low": 0.0})["low"] > 0]
        if not saving:
            return ""
        best = max(saving, key=lambda row: (row["host_cpu_saved"]["typ"], row["ratio"]["typ"]))
        saved = saved_words(best["host_cpu_saved"])
        option = _upper(f"{self._key} {best['option']}")
        return f". {option} {saved}, with {Ratio.of(best)} the throughput"


def _reason(why: str) -> str:
    """The reason for having no figure, without what to do about it, which comes last."""
    return break_even.with_sizes(why.removeprefix("no prediction: ").partition("; ")[0])


def _wide(ratio: Ratio | None) -> str:
    return f" ({WIDE})" if ratio is not None and ratio.is_wide else ""


def _ends(interval: Mapping[str, float]) -> str:
    low, high = interval["low"], interval["high"]
    return f"{low:g}" if low == high else formatting.span(low, high, " to ")


def _is_equal(row: Json) -> bool:
    """Returns `True` if an option is exactly as good as its baseline."""
    return bool(row["ratio"]["low"] == row["ratio"]["high"] == 1.0)


def _settled(rows: Sequence[Json]) -> str:
    """The measurement that would decide; empty if it is decided."""
    return next((formatting.clean(one, 300) for row in rows if (one := row.get("settled_by"))), "")


def _is_lower(rows: Sequence[Json], name: str) -> bool:
    """Returns `True` if lower values of a figure are better."""
    same = (one for row in rows for one in figures(row) if one["name"] == name)
    return next((bool(one["better"] == "lower") for one in same), False)


def _where(conditions: Conditions) -> str:
    return _upper(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in conditions))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def figures(row: Json) -> list[Json]:
    """The figures of a row of the model's report, those of every scenario first."""
    standing = [row["throughput"], row["latency"], row["host_cores"]]
    return [figure for figure in [*standing, *row["more"]] if figure is not None]


def _extremes(report: Json) -> Iterator[str]:
    """Yields the best and the worst row, for reports in which nothing is compared.

    They are ranked by the figure that leads, else by the first that has a better direction.
    """
    lead = report.get("lead")
    found = ((row, _first(row, lead)) for row in report["rows"])
    told = [(row, figure) for row, figure in found if figure is not None]
    if not told:
        for one in report["missing"][:1]:
            yield f"Cannot tell: {formatting.clean(one['why'], 200)}."
            yield f"Next: {_step(formatting.clean(one['remedy'], 300))}."
        return
    name = told[0][1]["name"]
    same = [(row, figure) for row, figure in told if figure["name"] == name]
    best = max(same, key=lambda pair: _goodness(pair[1]))
    worst = min(same, key=lambda pair: _goodness(pair[1]))
    text = f"{_upper(name)}: {_amount(best[1])}{_label(best[0])}"
    if _goodness(best[1]) > _goodness(worst[1]):
        text = f"{_upper(name)}: at best {_amount(best[1])}{_label(best[0])}"
        text += f"; at worst {_amount(worst[1])}{_label(worst[0])}"
    yield text + "."


def _first(row: Json, lead: str | None) -> Json | None:
    known = (one for one in figures(row) if "typ" in one and one["better"] != "neither")
    return next((one for one in known if lead in (None, one["name"])), None)


def _goodness(figure: Mapping[str, float]) -> float:
    typ = float(figure["typ"])
    return -typ if str(figure["better"]) == "lower" else typ


def _amount(figure: Json) -> str:
    typ = formatting.number(figure["typ"])
    is_exact = figure["low"] == figure["high"]
    spread = "" if is_exact else f" ({formatting.span(figure['low'], figure['high'])})"
    return f"{typ} {figure['unit']}{spread}"


def _label(row: Json) -> str:
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in row["labels"])
    return f" with {words}" if words else ""
