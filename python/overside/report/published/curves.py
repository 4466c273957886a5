"""Published figures that are a series, as curves on the charts of the same work.

A fact is a series where its figures ask the same of a scenario but for one amount: a size, a batch,
or a number of threads. Curves are drawn beside measured ones and enter no comparison.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from overside.bench.statistics import RunView, TestSummary
from overside.report import formatting, groups
from overside.report.published.conditions import RequestedConditions, conditions_of
from overside.report.published.figures import Json, machine_of
from overside.report.published.origin import FROM_THIS, PREDICTED, in_words, origin
from overside.report.published.study import said

#: The fewest figures that make a curve.
POINTS_MIN = 3
#: Factor by which a curve may go beyond the amounts that were measured.
BEYOND = 2.0
#: Amounts that differ by less are the same: studies write KB for KiB.
_SAME = 1.1
#: Units that studies write in another way.
_UNITS = {"Mops/s": "M/s"}


@dataclass(frozen=True)
class Curve:
    """A published series, in the unit of the metric on its chart."""

    #: The fact's name.
    fact: str
    #: `published: coproc.rx.art.q4.buf`.
    label: str
    #: Differences between the published conditions and ours.
    about: str
    #: The study.
    citation: str
    #: Amount along the axis, figure, and the figure as it was printed.
    points: tuple[tuple[float, float, str], ...]


def curves(
    tests: Sequence[TestSummary], metric: str, unit: str, along: str, facts: Sequence[Json]
) -> list[Curve]:
    """Returns published curves of the work of these tests, against the parameter `along`."""
    amounts = [amount for test in tests if (amount := _amount(test, along)) is not None]
    if not amounts:
        return []
    first, last = min(amounts) / BEYOND, max(amounts) * BEYOND
    out = []
    for fact in facts:
        # What has to be read first has no room beside a curve.
        if fact["kind"] != "measured" or fact.get("flag"):
            continue
        found: dict[str, list[tuple[float, float, str]]] = {}
        ones: dict[str, list[Json]] = {}
        sources: set[str] = set()
        for one in fact["figures"]:
            wanted = conditions_of(fact, one)
            value = _value(one, unit)
            if wanted is None or value is None or wanted.against or wanted.metric != metric:
                continue
            at = wanted.near.get(along)
            if at is None or not first <= at <= last:
                continue
            if any(_is_like(test, wanted, along) for test in tests):
                printed = f"{one['value']} {one['unit']}"
                machine = machine_of(fact, one)[0]
                found.setdefault(machine, []).append((at, value, printed))
                ones.setdefault(machine, []).append(one)
                sources |= {origin(test, fact["id"]) for test in tests}
        for machine, points in found.items():
            if len({at for at, _, _ in points}) >= POINTS_MIN:
                source = FROM_THIS if FROM_THIS in sources else PREDICTED
                told = in_words(source, fact, ones[machine]) if any(sources) else ""
                out.append(_curve(fact, machine, sorted(points), told))
    return out


def beside(view: RunView, facts: Sequence[Json]) -> Iterator[tuple[TestSummary, str]]:
    """Yields the emulated tests that meet the conditions of published figures, each with a fact."""
    tests = [test for test in view.tests if test.provenance == "emulated"]
    if not tests:
        return
    for fact in facts:
        if fact["kind"] != "measured":
            continue
        for one in fact["figures"]:
            wanted = conditions_of(fact, one)
            if wanted is None or wanted.against:
                continue
            for test in tests:
                if wanted.metric in test.metrics and _is_like(test, wanted, ""):
                    yield test, fact["id"]


def _curve(fact: Json, machine: str, points: list[tuple[float, float, str]], source: str) -> Curve:
    name = formatting.clean(fact["id"], 120)
    where = formatting.clean(machine, 80)
    differs = [said(name).get("program", ""), formatting.clean(fact["conditions"], 200)]
    emulated = f"emulated figures here: {source}" if source else ""
    about = "; ".join(part for part in (f"on {where}", *differs, emulated) if part)
    cited = formatting.clean(str(fact["citation"]).partition(" of ")[2], 300)
    return Curve(name, f"published: {name}", f"{name} {about}", cited, tuple(points))


def _value(one: Json, unit: str) -> float | None:
    if unit == "MB/s":
        rates = one.get("bytes_per_s")
        return sum(rates) / 2e6 if rates else None
    if _UNITS.get(one["unit"], one["unit"]) == unit:
        with contextlib.suppress(ValueError):
            return float(one["value"])
    return None


def _amount(test: TestSummary, along: str) -> float | None:
    value = groups.size_bytes(test) if along.endswith("_size") else test.parameters.get(along)
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _is_like(test: TestSummary, wanted: RequestedConditions, along: str) -> bool:
    """Returns `True` if a test meets a figure's conditions, except the amount along the axis."""
    if test.task != wanted.task:
        return False
    if any(test.parameters.get(name) not in values for name, values in wanted.must.items()):
        return False
    return all(_near(test, wanted, along))


def _near(test: TestSummary, wanted: RequestedConditions, along: str) -> Iterator[bool]:
    for name, there in wanted.near.items():
        here = _amount(test, name)
        yield name == along or here is None or 1 / _SAME < here / there < _SAME
