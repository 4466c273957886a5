"""Comparison of two runs: decides for each test whether it became faster or slower.

1. The ratio of medians gets a 95 % interval (`ratio_of`): order statistics of all ratios of two
   rounds (Hodges and Lehmann, 1963), from 20 rounds on the bootstrap.
2. The declared threshold is raised to the noise: how far two runs of the same thing may lie apart,
   by how much the rounds of both runs differ among themselves (`noise_of`).
3. That the ratio lies beyond the threshold is tested by Mann and Whitney's U (1947) on the shifted
   figures (`p_value`). Of all figures together those are confirmed that Benjamini and Hochberg's
   procedure (1995) selects: of the verdicts `faster` and `slower` at most 5 % are expected to be
   chance, however many tests are compared.
4. Where the machine was busier in one run, lost more time to other guests, or had another governor,
   no verdict is more than `ambiguous` (`changed_conditions`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import median
from typing import Literal

from overside.bench import environment
from overside.bench.statistics import (
    CLOCKLESS_METRICS,
    MAD_TO_SIGMA,
    ROUNDS_FOR_BOOTSTRAP,
    ROUNDS_FOR_INTERVAL,
    RunView,
    TestSummary,
    resampled_medians,
    weighted_quantile,
)
from overside.tasks.common import Json

DEFAULT_THRESHOLD = 0.05

#: Noise beyond which nothing is called the same unless a larger threshold was declared.
SAME_NOISE_MAX = 0.25

#: The expected share of false ones among the verdicts `faster` and `slower` of a comparison.
FALSE_DISCOVERY_RATE = 0.05

#: The share of the processors' time by which two runs may differ in the time of other processes,
#: or other guests.
LOAD_DIFFERENCE_MAX = 0.05
#: The kernel counts in ticks: seconds by which that time may be off, of each processor.
LOAD_ERROR_S = 0.05

Verdict = Literal["same", "faster", "slower", "ambiguous"]
#: Reason for the verdict `ambiguous`: too few rounds, the interval lies across the threshold, the
#: noise is too large to call anything the same, it may be chance among many tests, or the machine
#: was in another condition.
Doubt = Literal["rounds", "interval", "noise", "tests", "conditions"]


@dataclass(frozen=True)
class Ratio:
    """B's median over A's, with its 95 % interval. There is no interval with fewer than 6 rounds
    on either side: `low` and `high` are then the extremes of all pairs."""

    value: float
    low: float
    high: float
    #: `identical` (every figure of one run is in the other), `interval` or `range`.
    kind: str


@dataclass(frozen=True)
class MetricComparison:
    """One metric of one test in both runs."""

    test: str
    task: str
    parameters: Json
    metric: str
    unit: str
    better: str
    before: float
    after: float
    ratio: Ratio
    #: Threshold of the verdict: the declared one, or the noise if that is larger.
    threshold: float
    noise: float
    #: Probability of such figures if the ratio is within the threshold; `None` without interval.
    p_value: float | None
    verdict: Verdict = "ambiguous"
    doubt: Doubt | None = None


@dataclass
class RunComparison:
    """Two runs, test by test."""

    compared: list[MetricComparison] = field(default_factory=list)
    #: `{"test", "task", "parameters", "reason"}` of tests that were not compared.
    not_compared: list[Json] = field(default_factory=list)
    #: Reasons why verdicts are `ambiguous` at most; empty if the machine was in the same
    #: condition.
    conditions: list[str] = field(default_factory=list)
    #: Other differences between the runs that may explain differences of the figures.
    notes: list[str] = field(default_factory=list)

    def count(self, verdict: str) -> int:
        """Returns the number of figures with this verdict."""
        return sum(entry.verdict == verdict for entry in self.compared)


def compare(
    before: RunView,
    after: RunView,
    threshold: float,
    *,
    metrics: Sequence[str] = (),
    across: bool = False,
) -> RunComparison:
    """Compares every test that both runs have.

    `metrics` are those to compare; without any, those that the box asked for. `across` also
    compares figures of different provenance, timing or mode of the card, which is otherwise
    refused.
    """
    result = RunComparison(
        conditions=changed_conditions(before, after), notes=differences(before, after)
    )
    pairs: list[MetricComparison] = []
    others = {test.id: test for test in after.tests}
    for test in before.tests:
        other = others.pop(test.id, None)
        reason = _incomparable(test, other, across)
        if reason is not None or other is None:
            result.not_compared.append(_identified(test, reason or "only in the first run"))
            continue
        names = [n for n in metrics or test.asked if n in test.values and n in other.values]
        if "functional" in (test.timing, other.timing):
            names = [name for name in names if name in CLOCKLESS_METRICS]
            if not names:
                reason = "its timing is functional: its times mean nothing"
                result.not_compared.append(_identified(test, reason))
        pairs += [_pair(test, other, n, after.metric(test.task, n), threshold) for n in names]
    for test in others.values():
        result.not_compared.append(_identified(test, "only in the second run"))
    confirmed = significant([pair.p_value for pair in pairs])
    for pair, is_confirmed in zip(pairs, confirmed, strict=True):
        result.compared.append(_judge(pair, is_confirmed, threshold, bool(result.conditions)))
    return result


def _identified(test: TestSummary, reason: str) -> Json:
    return {
        "test": test.id,
        "task": test.task,
        "parameters": test.parameters,
        "reason": reason,
    }


def _incomparable(test: TestSummary, other: TestSummary | None, across: bool) -> str | None:
    if other is None:
        return "only in the first run"
    for which, each in (("first", test), ("second", other)):
        if each.status != "ok":
            return f"{each.status} in the {which} run: {each.reason}"
        if not each.verified:
            return f"its results are not verified in the {which} run"
    if across:
        return None
    if test.provenance != other.provenance:
        return f"{test.provenance} against {other.provenance}; --across compares it nevertheless"
    if test.timing != other.timing:
        return f"timing {test.timing} against {other.timing}; --across compares it nevertheless"
    if test.card_mode != other.card_mode:
        modes = f"{test.card_mode or 'no card'} against {other.card_mode or 'no card'}"
        return f"card mode {modes}; --across compares it nevertheless"
    return None


def _pair(
    test: TestSummary, other: TestSummary, metric: str, about: Json, threshold: float
) -> MetricComparison:
    """One metric of a test in both runs, without a verdict."""
    before, after = list(test.values[metric].values()), list(other.values[metric].values())
    ratio, noise = ratio_of(before, after), noise_of(before, after)
    limit = max(threshold, noise)
    return MetricComparison(
        test=test.id,
        task=test.task,
        parameters=test.parameters,
        metric=metric,
        unit=about["unit"],
        better=about["better"],
        before=median(before),
        after=median(after),
        ratio=ratio,
        threshold=limit,
        noise=noise,
        p_value=p_value(before, after, limit) if ratio.kind == "interval" else None,
    )


def _judge(
    pair: MetricComparison, confirmed: bool, declared: float, changed: bool
) -> MetricComparison:
    verdict, doubt = verdict_of(pair.ratio, declared, pair.better, pair.noise)
    if verdict in ("faster", "slower") and not confirmed:
        verdict, doubt = "ambiguous", "tests"
    needs_clock = pair.ratio.kind != "identical" and pair.metric not in CLOCKLESS_METRICS
    if changed and needs_clock and verdict != "ambiguous":
        verdict, doubt = "ambiguous", "conditions"
    return replace(pair, verdict=verdict, doubt=doubt)


def ratio_of(before: Sequence[float], after: Sequence[float]) -> Ratio:
    """The ratio of the medians with its interval.

    With 6 to 19 rounds the interval is made of order statistics of all ratios between a round of
    one and a round of the other run, cut where the distribution of Mann and Whitney's U has 2.5 %
    left on each side: it holds for any distribution of which only the scale changes. With 20 or
    more it is the percentile bootstrap over the rounds of both.
    """
    if sorted(before) == sorted(after) or len({*before, *after}) == 1:
        return Ratio(1.0, 1.0, 1.0, "identical")
    if min(*before, *after) <= 0:
        # Ratios to zero say nothing.
        return Ratio(1.0, 0.0, math.inf, "range")
    value = median(after) / median(before)
    few, many = sorted((len(before), len(after)))
    pairs = sorted(b / a for a in before for b in after)
    if few < ROUNDS_FOR_INTERVAL:
        return Ratio(value, pairs[0], pairs[-1], "range")
    if few < ROUNDS_FOR_BOOTSTRAP:
        rank = _interval_rank(few, many)
        low, high = pairs[rank - 1], pairs[-rank]
    else:
        low, high = _bootstrap_ratio(before, after)
    return Ratio(value, min(low, value), max(high, value), "interval")


@cache
def _orders(few: int, many: int) -> list[int]:
    """Counts the orders of `few` and `many` values for each U = 0, 1, 2...

    U is the number of pairs in which the one's value is larger. The counts are the coefficients of
    the Gaussian binomial (few + many, few).
    """
    counts = [1] + [0] * (few * many)
    for i in range(1, few + 1):
        for u in range(len(counts) - 1, many + i - 1, -1):
            counts[u] -= counts[u - many - i]
        for u in range(i, len(counts)):
            counts[u] += counts[u - i]
    return counts


@cache
def _interval_rank(few: int, many: int) -> int:
    """The rank among the ordered pairs at which a 95 % interval begins, and ends from the other
    side: one more than the largest u with P(U <= u) <= 2.5 % where nothing differs."""
    counts, below, rank = _orders(few, many), 0, 0
    while (below + counts[rank]) / math.comb(few + many, few) <= 0.025:
        below += counts[rank]
        rank += 1
    return rank


def _bootstrap_ratio(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Each resample of the one run with each of the other."""
    ratios = sorted(
        (b / a, count * times)
        for a, count in resampled_medians(before)
        for b, times in resampled_medians(after)
    )
    return weighted_quantile(ratios, 0.025), weighted_quantile(ratios, 0.975)


def p_value(before: Sequence[float], after: Sequence[float], limit: float) -> float:
    """Returns the probability of figures like these if B's over A's is within `limit`.

    It is twice the probability of Mann and Whitney's U for the side of the threshold that is
    nearer to being passed. Exact up to 19 rounds; from 20 on by the normal distribution. Two equal
    figures count against a change.
    """
    u = min(
        sum(b <= a * (1 + limit) for a in before for b in after),
        sum(b * (1 + limit) >= a for a in before for b in after),
    )
    few, many = sorted((len(before), len(after)))
    if few < ROUNDS_FOR_BOOTSTRAP:
        below = sum(_orders(few, many)[: u + 1]) / math.comb(few + many, few)
    else:
        sigma = math.sqrt(few * many * (few + many + 1) / 12)
        below = math.erfc((few * many / 2 - u - 0.5) / sigma / math.sqrt(2)) / 2
    return min(1.0, 2 * below)


def significant(p_values: Sequence[float | None]) -> list[bool]:
    """Applies Benjamini and Hochberg's procedure. It selects all up to the largest k-th smallest
    that is at most k times the rate over their number. Those without one are not counted."""
    known = sorted(p for p in p_values if p is not None)
    passing = [p for k, p in enumerate(known, 1) if p <= k * FALSE_DISCOVERY_RATE / len(known)]
    limit = max(passing, default=-1.0)
    return [p is not None and p <= limit for p in p_values]


def noise_of(before: Sequence[float], after: Sequence[float]) -> float:
    """The relative difference that two runs of the same thing may show: the larger of the expected
    difference of two medians by the spread of the rounds (95 %), and of how far the halves of
    either run lie apart, which also sees drift."""
    variance = 0.0
    drift = 0.0
    for values in (before, after):
        middle = median(values)
        if not middle:
            continue
        spread = MAD_TO_SIGMA * median([abs(value - middle) for value in values]) / abs(middle)
        # The median of n values varies like a mean of n * 2 / pi.
        variance += spread**2 * math.pi / 2 / len(values)
        half = len(values) // 2
        if half >= 3:
            first, second = median(values[:half]), median(values[-half:])
            drift = max(drift, abs(second - first) / abs(middle))
    return max(1.96 * math.sqrt(variance), drift)


def verdict_of(
    ratio: Ratio, threshold: float, better: str, noise: float = 0.0
) -> tuple[Verdict, Doubt | None]:
    """The verdict if nothing else were compared: `same` if the whole interval lies within the
    threshold, or the noise if that is larger, `faster` or `slower` if all of it lies beyond;
    `ambiguous` otherwise, if there is no interval, and where the noise is so large that lying
    within it means nothing."""
    if ratio.kind == "identical":
        return "same", None
    if ratio.kind != "interval":
        return "ambiguous", "rounds"
    limit = max(threshold, noise)
    low, high = 1 / (1 + limit), 1 + limit
    if low <= ratio.low and ratio.high <= high:
        return ("same", None) if noise <= max(threshold, SAME_NOISE_MAX) else ("ambiguous", "noise")
    if ratio.low > high:
        return ("faster" if better == "higher" else "slower"), None
    if ratio.high < low:
        return ("slower" if better == "higher" else "faster"), None
    return "ambiguous", "interval"


def changed_conditions(before: RunView, after: RunView) -> list[str]:
    """Differences of the machine's condition that explain differences of the figures: governor,
    turbo, other processes, other guests."""
    found = []
    for what, key in (("the clock's governor", "governor"), ("turbo", "turbo")):
        first, second = (_at(view.environment, ("cpu", key)) for view in (before, after))
        if before.environment and after.environment and first != second:
            found.append(f"{what} differs: {_both(first, second)}")
    loads = [environment.load_during(view.environment, view.manifest) for view in (before, after)]
    for what, taken in (
        ("other processes", [load.others for load in loads]),
        ("other guests of the hypervisor", [load.stolen for load in loads]),
    ):
        if None in taken:
            continue
        first_share, second_share = (share or 0.0 for share in taken)
        error = sum(LOAD_ERROR_S / load.elapsed_s for load in loads if load.elapsed_s)
        if abs(first_share - second_share) > LOAD_DIFFERENCE_MAX + error:
            which = "second" if second_share > first_share else "first"
            found.append(
                f"the machine was busier during the {which} run: {what} took {first_share:.0%} of "
                f"the processors' time in the first, {second_share:.0%} in the second"
            )
    averages = [load.average_before for load in loads]
    if None not in averages:
        first_load, second_load = (average or 0.0 for average in averages)
        # A run that ended just before raises it by about as much as there are processors.
        if abs(first_load - second_load) > 1 + 1.5 * min(load.processors for load in loads):
            found.append(
                f"the load before the runs differs: {first_load:.1f} before the first, "
                f"{second_load:.1f} before the second"
            )
    return found


def differences(before: RunView, after: RunView) -> list[str]:
    """Differences between the runs that may explain differences of their figures, and are perhaps
    the compared change."""
    found = []
    if before.manifest.get("box_digest") != after.manifest.get("box_digest"):
        found.append("the runs are of different boxes, or of versions of one")
    for what, path in (
        ("the processor", ("cpu", "model")),
        ("the number of usable processors", ("cpu", "usable")),
        ("the kernel", ("kernel", "release")),
        ("Overside's version", ("software", "overside")),
        ("the set of libraries", ("software", "libraries")),
    ):
        first, second = (_at(view.environment, path) for view in (before, after))
        if before.environment and after.environment and first != second:
            found.append(f"{what} differs: {_both(first, second)}")
    for name, view in (("first", before), ("second", after)):
        if not view.environment:
            found.append(f"nothing is recorded of the machine of the {name} run")
    digests = [
        {d["name"]: d["digest"] for d in v.manifest.get("data") or ()} for v in (before, after)
    ]
    for name in sorted(digests[0].keys() & digests[1].keys()):
        if digests[0][name] != digests[1][name]:
            found.append(f"the data set {name} differs")
    return found


def _at(recorded: Json, path: tuple[str, str]) -> object:
    topic = recorded.get(path[0])
    return topic.get(path[1]) if isinstance(topic, dict) else None


def _both(first: object, second: object) -> str:
    if isinstance(first, dict) and isinstance(second, dict):
        changed = [
            f"{key} {first.get(key, 'absent')} / {second.get(key, 'absent')}"
            for key in sorted(first.keys() | second.keys())
            if first.get(key) != second.get(key)
        ]
        return ", ".join(changed)
    return " / ".join("unknown" if value is None else str(value) for value in (first, second))
