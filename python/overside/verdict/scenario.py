"""Verdict on a simulated scenario, in the first lines of its answer.

The model compares the options of a scenario with its baseline, as it compares devices with the CPU
(by the figures in `scenarios.toml`). Here the comparisons become sentences: the best option that is
better for certain, else that the baseline stays, else that it is undecided yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from overside.report import formatting
from overside.tasks.common import Json
from overside.verdict.decision import WIDE, Ratio, saved_words

#: The most conditions that have a line of their own; more share the lines of equal outcomes.
LINES_MAX = 6

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
    #: The measurement that would decide; empty if it is decided.
    settled_by: str = ""


def lines(report: Json) -> list[str]:
    """The verdict of a report of the model: a line for each of its conditions, or for each of their
    outcomes."""
    compared = report.get("compared")
    if not compared:
        return list(_extremes(report["rows"]))
    by_conditions: dict[Conditions, list[Json]] = {}
    for row in compared["rows"]:
        conditions = tuple((name, value) for name, value in row["conditions"])
        by_conditions.setdefault(conditions, []).append(row)
    words = _Words(compared, _is_lower(report["rows"], compared["figure"]))
    outcomes = [words.outcome(rows, conditions) for conditions, rows in by_conditions.items()]
    if len(outcomes) <= LINES_MAX and len({one.text for one in outcomes}) == len(outcomes):
        told = [_sentence(_where(one.conditions), one.lead, one.text) for one in outcomes]
    else:
        told = list(_together(words, outcomes))
    settled = Counter(one.settled_by for one in outcomes if one.settled_by)
    return told + [f"Next: {text}." for text, _ in settled.most_common(1)]


def _together(words: _Words, outcomes: Sequence[_Outcome]) -> Iterator[str]:
    """A line for each outcome of conditions, the most frequent first."""
    by_lead: dict[str, list[_Outcome]] = {}
    for one in outcomes:
        by_lead.setdefault(one.lead, []).append(one)
    for lead, some in sorted(by_lead.items(), key=lambda pair: -len(pair[1])):
        known = [one.ratio for one in some if one.ratio is not None]
        if len(some) == 1:
            yield _sentence(_where(some[0].conditions), lead, some[0].text)
            continue
        text = next((one.text for one in some if one.ratio is None), "")
        if known:
            whole = Ratio(min(r.low for r in known), max(r.high for r in known))
            text = words.figure(whole) if words.compared.get("key") else str(whole)
        many = f"{len(some)} of {len(outcomes)} conditions" if len(some) < len(outcomes) else ""
        yield _sentence(many or f"All {len(some)} conditions", lead, text)


def _sentence(where: str, lead: str, text: str) -> str:
    line = ": ".join(part for part in (lead, text) if part)
    line = f"{where}: {line[:1].lower()}{line[1:]}" if where else line
    return line if line.endswith(".") else f"{line}."


@dataclass(frozen=True)
class _Words:
    """The words for the comparisons of one report."""

    compared: Json
    is_lower: bool

    def outcome(self, rows: Sequence[Json], conditions: Conditions) -> _Outcome:
        known = [row for row in rows if row.get("ratio")]
        if not known:
            why = next((row["why"] for row in rows if row.get("why")), "nothing was published")
            text = formatting.clean(why, 200)
            return _Outcome(conditions, "Cannot tell", text, None, _settled(rows))
        best = max(known, key=lambda row: row["ratio"]["typ"])
        ratio = Ratio.of(best)
        wide = f" ({WIDE})" if ratio is not None and ratio.is_wide else ""
        base = self.compared["baseline"]
        if self.compared.get("key") is None:
            lead = {"yes": "Better than", "no": "Worse than"}.get(
                best["verdict"], "Cannot tell whether it is better than"
            )
            settled = _settled([best])
            return _Outcome(conditions, f"{lead} {base}", f"{ratio}{wide}", ratio, settled)
        option, figure = f"{self._key} {best['option']}", self.figure(ratio)
        match best["verdict"]:
            case "yes":
                lead, text = f"{option} is best", f"{figure}{wide}"
            case "no":
                lead, text = f"Keep {base}", f"the next, {option}, has {figure}"
            case _:
                lead, text = "Cannot tell yet", f"{option} has {figure}"
        text += self._saving(known)
        return _Outcome(conditions, _upper(lead), text, ratio, _settled([best]))

    @property
    def _key(self) -> str:
        return str(self.compared["key"]).replace("_", " ")

    def figure(self, ratio: Ratio | None) -> str:
        """`1.0 to 1.8 times the throughput of cpu-only`."""
        figure, base = self.compared["figure"], self.compared["baseline"]
        if base[:1].isdigit():
            base = f"{self._key} {base}"
        if self.is_lower:
            return f"{ratio} the speed of {base}"
        return f"{ratio} the {figure} of {base}"

    def _saving(self, rows: Sequence[Json]) -> str:
        """The option that saves most host CPU for certain; of several the fastest."""
        saving = [row for row in rows if (row.get("host_cpu_saved") or {"low": 0.0})["low"] > 0]
        if not saving:
            return ""
        best = max(saving, key=lambda row: (row["host_cpu_saved"]["typ"], row["ratio"]["typ"]))
        saved = saved_words(best["host_cpu_saved"])
        option = _upper(f"{self._key} {best['option']}")
        return f". {option} {saved}, with {Ratio.of(best)} the throughput"


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


def _extremes(rows: Sequence[Json]) -> Iterator[str]:
    """Yields the best and the worst row, for reports in which nothing is compared.

    They are ranked by the first figure that has a better direction.
    """
    told = [(row, figure) for row in rows if (figure := _first(row)) is not None]
    if not told:
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


def _first(row: Json) -> Json | None:
    known = (one for one in figures(row) if "typ" in one and one["better"] != "neither")
    return next(known, None)


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
