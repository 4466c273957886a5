"""Estimates against values known from elsewhere, and against what must hold for any data."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from command import Json
from overside.bench.statistics import TestSummary, estimate, outliers, summarise


@pytest.mark.parametrize(
    ("n", "rank"),
    # The ranks that tables of the sign test give for 95 %.
    [(6, 1), (8, 1), (9, 2), (10, 2), (11, 2), (12, 3), (15, 4), (19, 5)],
)
def test_the_interval_is_made_of_the_ranks_in_the_tables(n: int, rank: int) -> None:
    figures = estimate(range(1, n + 1))
    assert (figures.low, figures.high) == (rank, n + 1 - rank)
    assert figures.kind == "interval"


def test_fewer_than_six_rounds_give_a_range_and_say_so() -> None:
    figures = estimate([5.0, 1.0, 2.0])
    assert (figures.kind, figures.low, figures.high, figures.n) == ("range", 1.0, 5.0, 3)
    alone = estimate([4.0])
    assert (alone.low, alone.median, alone.high, alone.mad) == (4.0, 4.0, 4.0, 0.0)


def test_width_is_relative_to_the_median() -> None:
    assert estimate([90, 95, 100, 100, 105, 110]).width == pytest.approx(0.2)
    assert estimate([7.0] * 6).width == 0
    assert estimate([-1, -1, 0, 0, 1, 1]).width == math.inf


def test_nothing_is_discarded() -> None:
    figures = estimate([1.0] * 11 + [1000.0])
    assert (figures.minimum, figures.maximum, figures.n) == (1.0, 1000.0, 12)


@pytest.mark.parametrize("n", [6, 7, 12, 19, 20, 30, 61])
def test_the_interval_holds_the_true_median_about_95_times_in_100(n: int) -> None:
    draw = random.Random(n)
    repeats = 400
    held = 0
    for _ in range(repeats):
        # Skewed, as timings are; its median is exp(0).
        figures = estimate([math.exp(draw.gauss(0, 0.5)) for _ in range(n)])
        assert figures.minimum <= figures.low <= figures.median <= figures.high <= figures.maximum
        held += figures.low <= 1.0 <= figures.high
    # Four standard errors below 95 %, and the bootstrap's known undercoverage of about 2 %.
    assert held / repeats > 0.95 - 0.044 - (0.02 if n >= 20 else 0)


def test_estimates_are_the_same_each_time() -> None:
    values = [random.Random(1).random() for _ in range(40)]
    assert estimate(values) == estimate(list(reversed(values)))


def test_outliers_are_named_by_round() -> None:
    values = dict(enumerate([100.0, 101, 99, 100, 102, 98, 150]))
    (found,) = outliers(values, "throughput")
    assert (found.metric, found.round, found.value) == ("throughput", 6, 150)
    assert outliers({0: 1.0, 1: 2.0, 2: 900.0}, "throughput") == []
    exact = dict(enumerate([5.0] * 9 + [5.01]))
    assert outliers(exact, "throughput") == [], "a percent is no outlier, however even the rest"


TEST: Json = {
    "id": "copy/0123456789ab",
    "task": "copy",
    "parameters": {"buffer_size": 4096},
    "metrics": ["throughput"],
    "status": "planned",
    "verified": True,
}


def sample(number: int, **more: Any) -> Json:
    return {
        "test": TEST["id"],
        "round": number,
        "status": "ok",
        "provenance": "measured",
        "timing": "real",
        "metrics": {"throughput": 100.0 + number},
        "work": {"jobs": 10, "bytes": 40960},
        "warnings": [],
        **more,
    }


def summary(*samples: Json, **changes: Any) -> TestSummary:
    return summarise(TEST | changes, samples)


def test_a_test_is_what_its_samples_are() -> None:
    assert summary().status == "missing"
    good = summary(sample(0), sample(1))
    assert good.status == "ok"
    assert good.metrics["throughput"].median == 100.5
    assert good.work["bytes"] == 81920
    error = {"kind": "verification", "message": "the bytes differ"}
    bad = summary(sample(0), sample(1, status="failed", error=error))
    assert (bad.status, bad.error_kind, bad.verified) == ("failed", "verification", False)
    assert bad.reason == "the bytes differ (1 of 2 rounds)"
    absent = summary(sample(0, status="skipped", reason="no such unit"))
    assert (absent.status, absent.reason) == ("skipped", "no such unit")
    assert summary(status="skipped", reason="why").reason == "why"
    assert not summary(sample(0), verified=False).verified


def test_a_test_has_the_weakest_provenance_of_its_samples() -> None:
    assert summary(sample(0), sample(1, provenance="emulated")).provenance == "emulated"


def test_a_slow_round_full_of_late_jobs_is_not_lost_among_fast_ones() -> None:
    assert summary(sample(0)).late_share is None
    slow = sample(0, timing="paced", late=4, work={"jobs": 10})
    fast = [sample(n, timing="paced", late=0, work={"jobs": 10_000}) for n in (1, 2)]
    assert summary(slow, *fast).late_share == pytest.approx(0.4 / 3)
    assert summary(*fast).late_share == 0
    assert summary(sample(0, timing="paced", late=0, work={"jobs": 0})).late_share is None


def test_of_a_placement_the_time_counts_in_which_something_was_overdue() -> None:
    def placed(number: int, overdue_ns: int) -> Json:
        target = {"jobs": 10, "late": 5, "overdue_ns": overdue_ns}
        more = {
            "timing": "replay",
            "late": 5,
            "elapsed_ns": 1000,
            "placement": {"devices": [target]},
        }
        return sample(number, **more)

    assert summary(placed(0, 4), placed(1, 8)).late_share == pytest.approx(0.006)


def test_a_test_has_the_timing_that_says_least_of_any_round() -> None:
    functional = sample(0, timing="functional")
    assert summary(functional, sample(1)).timing == "functional"
    assert summary(sample(0), sample(1, timing="paced")).timing == "paced"
    assert summary().timing is None


def test_rounds_that_did_not_run_the_same_are_named() -> None:
    before, after = (
        {"device": "cpu", "variant": "isal", "library": f"ISA-L 2.{minor}"} for minor in (30, 31)
    )
    same = summary(sample(0, applied=before), sample(1, applied=dict(before)), sample(2))
    assert same.warnings == []
    changed = summary(*(sample(n, applied=a) for n, a in enumerate((before, before, after))))
    (warning,) = changed.warnings
    assert warning["kind"] == "changed"
    assert warning["message"].endswith("in all rounds: library ISA-L 2.30, then ISA-L 2.31")
    assert warning["remedy"]
    assert changed.applied == after


def test_warnings_that_differ_in_figures_alone_are_one() -> None:
    one = {"kind": "late", "message": "3 of 10 were late", "remedy": "replay"}
    two = {"kind": "late", "message": "4 of 10 were late", "remedy": "replay"}
    other = {"kind": "load", "message": "busy", "remedy": ""}
    found = summary(sample(0, warnings=[one]), sample(1, warnings=[two, other])).warnings
    assert [w["message"] for w in found] == ["3 of 10 were late (2 rounds)", "busy"]
