"""Published values of a study's figure beside those of a run of its box, point by point.

1. The registry (`bench/studies.py`) says for each fact which tests stand beside it.
2. A published value is read from its text and brought to the unit of our metric. A ratio is brought
   to times, whatever the study prints: `34 % less` is 0.66 times.
3. Our figure is that of the best such test, or the mean over all of them. Of a ratio both sides are
   measured here, in tests that differ in what the registry names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import fmean

from overside.bench import studies
from overside.bench.statistics import CLOCKLESS_METRICS, RunView, TestSummary
from overside.bench.studies import Figure, Series
from overside.report import formatting, groups
from overside.report.published.figures import Json, machine_of
from overside.report.published.origin import origin

#: Amounts that differ by less are the same: studies write KB for KiB.
_SAME = 1.1
_NUMBER = r"-?\d+(?:\.\d+)?"
#: A published value as text: a number, a range, or a bound.
_VALUE = re.compile(rf"[<>]?({_NUMBER})(?: to ({_NUMBER}))?$")
#: Units by what they count, with their size.
_UNITS = {
    **dict.fromkeys(("ops/s", "requests/s", "operations/s", "rows/s"), ("events", 1.0)),
    **dict.fromkeys(("M/s", "Mops/s", "Mops", "MOPS", "MTPS"), ("events", 1e6)),
    **dict.fromkeys(("Gb/s", "Gbps"), ("bits", 1e9)),
    **dict.fromkeys(("us", "µs"), ("seconds", 1e-6)),
}
#: Ratios as studies print them, in times.
_FORMS: Mapping[str, Callable[[float], float]] = {
    "times": lambda value: value,
    "percent": lambda value: value / 100,
    "percent more": lambda value: 1 + value / 100,
    "percent less": lambda value: 1 - value / 100,
}
_FIELDS = ("value", "low", "high")
#: Unit of ratios.
TIMES = "times"


@dataclass(frozen=True)
class Amount:
    """A figure with its bounds, which may be equal."""

    value: float
    low: float
    high: float

    def over(self, other: Amount) -> Amount:
        """Ratio to another, with the bounds that both allow."""
        return Amount(self.value / other.value, self.low / other.high, self.high / other.low)


@dataclass(frozen=True)
class Pair:
    """A published value, and ours."""

    fact: str
    #: Machine of the study: `BF-3`.
    machine: str
    #: `rnd read 16 KB: throughput by threads`.
    work: str
    #: Place in a series, as text and as a number: `threads 4` and 4; empty and 0 outside of one.
    place: str
    at: float
    #: Value as the study prints it, and a warning for its readers: `1077.17 Mops/s`.
    printed: str
    published: Amount
    ours: Amount
    #: Unit of both; `times` for ratios, empty for shares.
    unit: str
    #: Provenance of ours: `measured` or `emulated`.
    provenance: str
    #: `predicted` or `from this figure`, of an emulated figure; else empty.
    origin: str

    @property
    def what(self) -> str:
        """Work and place."""
        return ", ".join(filter(None, (self.work, self.place)))

    @property
    def ratio(self) -> Amount:
        """Ours over the published value."""
        return self.ours.over(self.published)


@dataclass(frozen=True)
class Reproduction:
    """A figure of a study, and as much of it as a run has values beside."""

    figure: Figure
    #: The study, in full.
    citation: str
    pairs: tuple[Pair, ...]
    #: Number of published values of the figure without a test beside them.
    alone: int


def reproductions(view: RunView, facts: Sequence[Json]) -> list[Reproduction]:
    """Returns the figures of studies that the run's box measures."""
    box = view.manifest.get("box")
    name = box.get("name") if isinstance(box, dict) else None
    out = []
    for figure in (one for one in studies.figures().values() if one.box and one.box == name):
        own = [fact for fact in facts if any(fnmatchcase(fact["id"], one) for one in figure.facts)]
        pairs = tuple(
            pair
            for series in figure.series
            for fact in own
            if fact["id"] in series.facts and not fact["doubtful"]
            for one in fact["figures"]
            if (pair := _pair(view.here(), series, fact, one))
        )
        drawn = len({(pair.fact, pair.what, pair.machine) for pair in pairs})
        alone = sum(len(fact["figures"]) for fact in own) - drawn
        cited = str(own[0]["citation"]).partition(" of ")[2] if own else ""
        out.append(Reproduction(figure, formatting.clean(cited, 300), pairs, alone))
    return out


def _pair(view: RunView, series: Series, fact: Json, one: Json) -> Pair | None:
    machine, keys = machine_of(fact, one)
    wanted = series.test | series.facts[fact["id"]]
    path = ", ".join(one["path"])
    if (series.keys and not path.startswith(tuple(series.keys))) or (series.along and not keys):
        return None
    place, at = "", 0.0
    if series.along:
        key = keys.pop()
        place = formatting.clean(f"{series.along.replace('_', ' ')} {key}", 60)
        amount = _key(key)
        wanted = wanted | {series.along: amount}
        at = amount if isinstance(amount, float) else 0.0
    about = view.metric(wanted["task"], series.metric)
    published = _published(one, str(about["unit"]), series.form)
    tests = [test for test in view.tests if _is_like(test, wanted)]
    found = [mine for test in tests if (mine := _of_test(view, series, wanted, test))]
    if published is None or published.low <= 0 or not found:
        return None
    ours = (min if about["better"] == "lower" else max)(found, key=lambda mine: mine.value)
    if series.mean:
        ours = Amount(*(fmean(getattr(mine, end) for mine in found) for end in _FIELDS))
    unit = TIMES if series.is_ratio else str(about["unit"]).removeprefix("-")
    printed = f"{one['value']} {one['unit']}"
    if series.form.startswith("percent"):
        ends = formatting.number(published.low), formatting.number(published.high)
        printed += f" = {'–'.join(dict.fromkeys(ends))} {unit}".rstrip()
    printed += f" ({fact['flag']})" if fact.get("flag") else ""
    words = [f"{fact['workload']}: {fact['metric']}", *keys, series.label]
    return Pair(
        fact=formatting.clean(fact["id"], 120),
        machine=formatting.clean("the study" if machine == "-" else machine, 60),
        work=formatting.clean(", ".join(filter(None, words)), 200),
        place=place,
        at=at,
        printed=formatting.clean(printed, 200),
        published=published,
        ours=ours,
        unit=unit,
        provenance=tests[0].provenance or "measured",
        origin=origin(tests[0], fact["id"]),
    )


def _key(text: str) -> float | str:
    """A key of a published value as a parameter has it: a number, or text in lower case."""
    number = re.match(_NUMBER, text)
    return float(number[0]) if number else text.lower()


def _is_like(test: TestSummary, wanted: Json) -> bool:
    """Returns `True` if the test has a figure and the wanted parameters."""
    return (
        test.task == wanted["task"]
        and groups.verified(test)
        and all(
            _fits(test.parameters.get(name), value)
            for name, value in wanted.items()
            if name not in ("task", "metric")
        )
    )


def _fits(value: object, wanted: object) -> bool:
    if wanted == "":
        return value is None
    if wanted == "all":
        # A run has the number of cores.
        return value == wanted or (isinstance(value, int) and value > 1)
    if isinstance(wanted, float) and isinstance(value, int | float):
        return 1 / _SAME < value / wanted < _SAME
    if isinstance(wanted, list) and not isinstance(value, list):
        return value in wanted
    return value == wanted


def _published(one: Json, unit: str, form: str) -> Amount | None:
    """A published value in our unit; `None` if it is no number, or counts something else."""
    found = _VALUE.match(one["value"])
    if found is None:
        return None
    ends = [float(found[1]), float(found[2] or found[1])]
    here, there = _UNITS.get(unit), _UNITS.get(one["unit"])
    if form:
        ends = [_FORMS[form](end) for end in ends]
    elif unit == "MB/s" and one.get("bytes_per_s"):
        ends = [end / 1e6 for end in one["bytes_per_s"]]
    elif here and there and here[0] == there[0]:
        ends = [end * there[1] / here[1] for end in ends]
    elif unit != one["unit"]:
        return None
    return Amount(fmean(ends), min(ends), max(ends))


def _of_test(view: RunView, series: Series, wanted: Json, test: TestSummary) -> Amount | None:
    """The figure of one test, or its ratio to that of the other side; `None` if it has none."""
    mine = _amount(test, series.metric)
    if mine is None or not series.is_ratio:
        return mine
    if series.over:
        parts = [part for name in series.over if (part := _amount(test, name))]
        other: Amount | None = Amount(
            *(sum(getattr(part, end) for part in parts) for end in _FIELDS)
        )
    else:
        sides = [one for one in view.tests if _is_like(one, wanted | series.against)]

        # Of several the one that is most like it: of the same mix, size or table.
        def alike(one: TestSummary) -> int:
            return sum(one.parameters.get(key) == own for key, own in test.parameters.items())

        side = max(sides, key=alike, default=None)
        metric = series.against.get("metric", series.metric)
        other = None if side is None else _amount(side, metric)
    if other is None or min(other.low, mine.value) <= 0:
        return None
    return mine.over(other)


def _amount(test: TestSummary, metric: str) -> Amount | None:
    found = test.bounded(metric)
    if found is None or not (groups.has_times(test) or metric in CLOCKLESS_METRICS):
        return None
    return Amount(found.median, found.low, found.high)
