"""Choice of rounds: all planned ones, then those that intervals need, then no more."""

from __future__ import annotations

from typing import Any

from overside.bench.box import Measure
from overside.bench.schedule import ROUNDS_FACTOR, Schedule
from overside.tasks.common import Test

MEASURE = Measure(rounds=6, warmup_s=0, sample_s=0.1, max_s=100, target_interval=0.1)


def planned(device: str, size: int, block: int = 0) -> Test:
    parameters = {"device": device, "size": size}
    return Test(f"{device}-{size}", "copy", parameters, ["throughput"], block=block)


TESTS = [planned("a", 1), planned("b", 1), planned("a", 2), planned("b", 2)]


def sample(test: Test, number: int, value: float, status: str = "ok") -> dict[str, Any]:
    taken: dict[str, Any] = {"test": test.id, "round": number, "status": status}
    if status == "failed":
        return taken | {"error": {"kind": "job", "message": "it broke"}}
    return taken | {"metrics": {"throughput": value}}


def measured(*, wide: str = "") -> Schedule:
    """All planned rounds; the test `wide` has an interval of 50 %."""
    schedule = Schedule(TESTS, MEASURE)
    for number in range(6):
        for test in schedule.due(number):
            value = 100.0 + (10 * number if test.id == wide else 0)
            schedule.note(sample(test, number, value), seconds=1.0)
    return schedule


def test_each_round_is_due_once_and_backwards_when_odd() -> None:
    schedule = Schedule(TESTS, MEASURE)
    assert schedule.due(0) == TESTS
    assert schedule.due(1) == TESTS[::-1]
    for test in TESTS[:3]:
        schedule.note(sample(test, 0, 1.0))
    assert schedule.due(0) == TESTS[3:], "what a stopped run lacks"
    assert schedule.missing() == 21
    assert schedule.full_rounds == 0
    schedule.note(sample(TESTS[3], 0, 1.0))
    assert schedule.full_rounds == 1


def test_what_failed_is_not_repeated() -> None:
    schedule = Schedule(TESTS, MEASURE)
    schedule.note(sample(TESTS[0], 0, 0, "failed"))
    schedule.note(sample(TESTS[1], 0, 0, "skipped"))
    assert schedule.due(1) == [TESTS[3], TESTS[2]]
    assert schedule.failures == {"job"}


def test_narrow_intervals_end_a_run() -> None:
    assert measured().further(1000) == ([], "target interval reached")


def test_a_wide_interval_gets_more_rounds_with_what_it_is_compared_with() -> None:
    schedule = measured(wide="a-2")
    assert schedule.next_round == 6
    tests, _ = schedule.further(1000)
    assert tests == TESTS[2:], "the other device at the same size, and no other size"


def test_no_round_is_begun_that_does_not_fit() -> None:
    schedule = measured(wide="a-2")
    # Two tests of a second each, of which a tenth more is expected at most.
    assert schedule.further(2.0) == ([], "max_s reached")
    assert len(schedule.further(2.3)[0]) == 2


def test_rounds_are_bounded() -> None:
    schedule = measured(wide="a-2")
    for number in range(6, 6 * ROUNDS_FACTOR):
        for test in schedule.further(1000)[0]:
            schedule.note(sample(test, number, 100.0 + 50 * (number % 2)), seconds=1.0)
    assert schedule.further(1000) == ([], "rounds reached")
    assert schedule.most_rounds == 6 * ROUNDS_FACTOR


def test_with_fewer_than_six_rounds_there_are_no_further_ones() -> None:
    few = Measure(rounds=3, warmup_s=0, sample_s=0.1, max_s=100, target_interval=0.1)
    schedule = Schedule(TESTS, few)
    for number in range(3):
        for test in schedule.due(number):
            schedule.note(sample(test, number, 100.0 * (number + 1)))
    assert schedule.further(1000) == ([], "rounds reached")
