"""Straight lines through few points that span decades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from overside.bench import statistics

#: Round -> value.
Rounds = Mapping[int, float]


@dataclass(frozen=True)
class Value:
    """A figure over the rounds of a run."""

    value: float
    low: float
    high: float
    #: Rounds.
    n: int
    #: `interval`, `range` (too few rounds for an interval), or `misfit` where the points leave
    #: the line by more than the rounds differ.
    kind: str

    def scaled(self, factor: float) -> Value:
        """Each end times a positive factor."""
        return Value(self.value * factor, self.low * factor, self.high * factor, self.n, self.kind)

    def inverse(self, amount: float) -> Value:
        """`amount` over it."""
        return Value(amount / self.value, amount / self.high, amount / self.low, self.n, self.kind)


def over_rounds(values: Sequence[float]) -> Value | None:
    """The median and its interval, if all of it is positive."""
    if not values:
        return None
    estimate = statistics.estimate(values)
    if not min(estimate.low, estimate.median) > 0:
        return None
    low, high = min(estimate.low, estimate.median), max(estimate.high, estimate.median)
    return Value(estimate.median, low, high, estimate.n, estimate.kind)


@dataclass(frozen=True)
class Line:
    """`y = constant + slope * x`; either is `None` where it is not above zero in all rounds."""

    constant: Value | None
    slope: Value | None
    #: The largest share by which a point leaves the line of the medians.
    misfit: float


def line(points: Sequence[tuple[float, Rounds]]) -> Line | None:
    """Fits a line through points, a round each, least squares of the relative errors, because
    sizes span decades and the small ones count as much as the large ones. `None` with fewer than
    two points in the same round."""
    common = sorted(set.intersection(*(set(rounds) for _, rounds in points))) if points else []
    if len(points) < 2 or not common:
        return None
    fits = [_relative([(x, rounds[at]) for x, rounds in points]) for at in common]
    medians = [(x, median([rounds[at] for at in common])) for x, rounds in points]
    constant, slope = _relative(medians)
    misfit = max(abs(constant + slope * x - y) / y for x, y in medians)
    return Line(
        _with_misfit(over_rounds([fit[0] for fit in fits]), 0.0),
        _with_misfit(over_rounds([fit[1] for fit in fits]), misfit),
        misfit,
    )


def _with_misfit(value: Value | None, misfit: float) -> Value | None:
    """Widened where the points leave the line by more than the rounds differ."""
    if value is None or misfit <= 0:
        return value
    low = min(value.low, value.value / (1 + misfit))
    high = max(value.high, value.value * (1 + misfit))
    kind = value.kind if (low, high) == (value.low, value.high) else "misfit"
    return Value(value.value, low, high, value.n, kind)


def _relative(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Constant and slope that make the squares of the relative errors least. A constant below
    zero makes no sense for a time: then the line goes through the origin."""
    weights = [1.0 / (y * y) for _, y in points]
    w = sum(weights)
    wx = sum(weight * x for weight, (x, _) in zip(weights, points, strict=True))
    wy = sum(weight * y for weight, (_, y) in zip(weights, points, strict=True))
    wxx = sum(weight * x * x for weight, (x, _) in zip(weights, points, strict=True))
    wxy = sum(weight * x * y for weight, (x, y) in zip(weights, points, strict=True))
    spread = w * wxx - wx * wx
    if spread <= 0:
        return 0.0, wy / wx
    slope = (w * wxy - wx * wy) / spread
    constant = (wy - slope * wx) / w
    if constant < 0:
        return 0.0, wxy / wxx
    return constant, slope
