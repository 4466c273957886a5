"""Origin of emulated figures: a card's values may be derived from the very figure beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from overside import _core
from overside.bench.statistics import TestSummary
from overside.report import formatting
from overside.report.published.figures import Json
from overside.report.published.study import said

FROM_THIS = "from this figure"
PREDICTED = "predicted"


def origin(test: TestSummary, fact: str) -> str:
    """Returns whether an emulated figure was derived from a published one or predicts it; empty for
    figures that no profile gives."""
    facts = (test.model or {}).get("facts")
    if test.provenance != "emulated" or facts is None:
        return ""
    return FROM_THIS if {fact, said(fact).get("derived")} & set(facts) else PREDICTED


_without = cache(_core.facts_without)


def in_words(source: str, fact: Json, figures: Iterable[Json]) -> str:
    """Returns the origin in words; of a figure that rests on those published also what the model
    says without them."""
    if source != FROM_THIS:
        return source
    names = ("".join([fact["id"], *(f"[{key}]" for key in one["path"])]) for one in figures)
    factors = [factor for name in names if (factor := _without(name)) is not None]
    if not factors:
        return f"{source}; without it there is no prediction"
    low, high = min(factors), max(factors)
    times = formatting.times(low) if low == high else formatting.span(low, high)
    return f"{source}; the prediction without it is {times} times the published one"


@dataclass(frozen=True)
class Origins:
    """Origins of a run's emulated tests that stand beside published figures."""

    #: `FROM_THIS` or `PREDICTED`, by the test's name.
    by_test: dict[str, str]

    @classmethod
    def of(cls, beside: Iterable[tuple[TestSummary, str]]) -> Origins:
        """Origins of tests and the facts beside them.

        A test that was derived from one of several predicts none of them.
        """
        found: dict[str, str] = {}
        for test, fact in beside:
            text = origin(test, fact)
            if text and found.get(test.id) != FROM_THIS:
                found[test.id] = text
        return cls(found)

    @property
    def words(self) -> str:
        """`3 emulated tests beside published figures: 2 predicted, 1 from this figure`; empty if
        there are none."""
        if not self.by_test:
            return ""
        told = list(self.by_test.values())
        counts = (f"{told.count(text)} {text}" for text in (PREDICTED, FROM_THIS) if text in told)
        count = formatting.plural(len(told), "emulated test")
        return f"{count} beside published figures: {', '.join(counts)}"
