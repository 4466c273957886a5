"""Whether a test is faster or slower in one run than in another.

The verdict comes from the 95 % interval of the ratio of medians and a threshold that is declared
beforehand. The threshold is never below the noise: the ratio that two runs of the same thing may
show, judged by how much the rounds of both runs differ among themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from overside.bench.statistics import (
    MAD_TO_SIGMA,
    ROUNDS_FOR_BOOTSTRAP,
    ROUNDS_FOR_INTERVAL,
    RunView,
    TestSummary,
    median,
    resampled_medians,
    weighted_quantile,
)
from overside.tasks.common import Json

DEFAULT_THRESHOLD = 0.05

#: Noise beyond which nothing is called the same unless a larger threshold was declared.
SAME_NOISE_MAX = 0.25

Verdict = Literal["same", "faster", "slower", "ambiguous"]


@dataclass(frozen=True)
class Ratio:
    """B's median over A's, with its 95 % interval. There is no interval with fewer than 6 rounds
    on either side: `low` and `high` are then the extremes of all pairs."""

    value: float
    low: float
    high: float
    #: `interval` or `range`.
    kind: str


@dataclass(frozen=True)
class Compared:
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
    #: What the verdict was made with: the declared threshold, or the noise if that is larger.
    threshold: float
    noise: float
    verdict: Verdict


@dataclass
class Comparison:
    """Two runs, test by test."""

    compared: list[Compared] = field(default_factory=list)
    #: `{"test", "task", "parameters", "reason"}` of what was not compared.
    not_compared: list[Json] = field(default_factory=list)
    #: What differs between the runs and may explain differences.
    notes: list[str] = field(default_factory=list)

    def count(self, verdict: str) -> int:
        """How often a verdict was given."""
        return sum(entry.verdict == verdict for entry in self.compared)


def compare(
    before: RunView,
    after: RunView,
    threshold: float,
    *,
    metrics: Sequence[str] = (),
    across: bool = False,
) -> Comparison:
    """Compares every test that both runs have.

    `metrics` are those to compare; without any, those that the box asked for. `across` also
    compares figures of different provenance, which is otherwise refused.
    """
    result = Comparison(notes=notes(before, after))
    others = {test.id: test for test in after.tests}
    for test in before.tests:
        other = others.pop(test.id, None)
        reason = _incomparable(test, other, across)
        if reason is not None or other is None:
            result.not_compared.append(_named(test, reason or "only in the first run"))
            continue
        for name in metrics or test.asked:
            if name in test.values and name in other.values:
                info = after.metric(test.task, name)
                result.compared.append(_one(test, other, name, info, threshold))
    for test in others.values():
        result.not_compared.append(_named(test, "only in the second run"))
    return result


def _named(test: TestSummary, reason: str) -> Json:
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
    return None


def _one(
    test: TestSummary, other: TestSummary, name: str, info: Json, threshold: float
) -> Compared:
    before, after = list(test.values[name].values()), list(other.values[name].values())
    ratio = ratio_of(before, after)
    noise = noise_of(before, after)
    return Compared(
        test=test.id,
        task=test.task,
        parameters=test.parameters,
        metric=name,
        unit=info["unit"],
        better=info["better"],
        before=median(before),
        after=median(after),
        ratio=ratio,
        threshold=max(threshold, noise),
        noise=noise,
        verdict=verdict_of(ratio, threshold, info["better"], noise),
    )


def ratio_of(before: Sequence[float], after: Sequence[float]) -> Ratio:
    """The ratio of the medians with its interval.

    With 6 to 19 rounds the interval is made of order statistics of all ratios between a round of
    one and a round of the other run, cut where the distribution of Mann and Whitney's U has 2.5 %
    left on each side: it holds for any distribution whose scale alone changes. With 20 or more it
    is the percentile bootstrap over the rounds of both.
    """
    if min(*before, *after) <= 0:
        return _ratio_with_zero(before, after)
    value = median(after) / median(before)
    few, many = sorted((len(before), len(after)))
    pairs = sorted(b / a for a in before for b in after)
    if few < ROUNDS_FOR_INTERVAL:
        return Ratio(value, pairs[0], pairs[-1], "range")
    if few < ROUNDS_FOR_BOOTSTRAP:
        rank = _pairs_rank(few, many)
        low, high = pairs[rank - 1], pairs[-rank]
    else:
        low, high = _bootstrap_ratio(before, after)
    return Ratio(value, min(low, value), max(high, value), "interval")


def _ratio_with_zero(before: Sequence[float], after: Sequence[float]) -> Ratio:
    """Ratios to zero say nothing; two runs that are zero throughout are the same."""
    if not any(before) and not any(after):
        return Ratio(1.0, 1.0, 1.0, "interval")
    return Ratio(1.0, 0.0, math.inf, "range")


@cache
def _pairs_rank(few: int, many: int) -> int:
    """The rank among the ordered pairs at which a 95 % interval begins, and ends from the other
    side: one more than the largest u with P(U <= u) <= 2.5 % where nothing differs, U counting
    the pairs in which one value is larger."""
    # How many orders have U = u: the coefficients of the Gaussian binomial (few + many, few).
    counts = [1] + [0] * (few * many)
    for i in range(1, few + 1):
        for u in range(len(counts) - 1, many + i - 1, -1):
            counts[u] -= counts[u - many - i]
        for u in range(i, len(counts)):
            counts[u] += counts[u - i]
    below, rank = 0, 0
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


def noise_of(before: Sequence[float], after: Sequence[float]) -> float:
    """The relative difference that two runs of the same thing may show: the larger of what the
    spread of the rounds lets expect for the difference of two medians (95 %), and of how far the
    halves of either run lie apart, which also sees drift."""
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


def verdict_of(ratio: Ratio, threshold: float, better: str, noise: float = 0.0) -> Verdict:
    """`same` if the whole interval lies within the threshold, or the noise if that is larger,
    `faster` or `slower` if all of it lies beyond; `ambiguous` otherwise, wherever there is no
    interval, and where the noise is so large that lying within it says nothing."""
    if ratio.kind != "interval":
        return "ambiguous"
    limit = max(threshold, noise)
    low, high = 1 / (1 + limit), 1 + limit
    if low <= ratio.low and ratio.high <= high:
        return "same" if noise <= max(threshold, SAME_NOISE_MAX) else "ambiguous"
    if ratio.low > high:
        return "faster" if better == "higher" else "slower"
    if ratio.high < low:
        return "slower" if better == "higher" else "faster"
    return "ambiguous"


def notes(before: RunView, after: RunView) -> list[str]:
    """Differences between the runs that may explain differences of their figures."""
    found = []
    if before.manifest.get("box_digest") != after.manifest.get("box_digest"):
        found.append("the runs are of different boxes, or of versions of one")
    for what, path in (
        ("the processor", ("cpu", "model")),
        ("the number of usable processors", ("cpu", "usable")),
        ("the clock's governor", ("cpu", "governor")),
        ("the kernel", ("kernel", "release")),
        ("Overside's version", ("software", "overside")),
        ("the set of libraries", ("software", "libraries")),
    ):
        first, second = (_at(view.environment, path) for view in (before, after))
        if before.environment and after.environment and first != second:
            found.append(f"{what} differs: {_shown(first, second)}")
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


def _at(environment: Json, path: tuple[str, str]) -> object:
    return (environment.get(path[0]) or {}).get(path[1])


def _shown(first: object, second: object) -> str:
    if isinstance(first, dict) and isinstance(second, dict):
        changed = [
            f"{key} {first.get(key, 'absent')} / {second.get(key, 'absent')}"
            for key in sorted(first.keys() | second.keys())
            if first.get(key) != second.get(key)
        ]
        return ", ".join(changed)
    return " / ".join("unknown" if value is None else str(value) for value in (first, second))
