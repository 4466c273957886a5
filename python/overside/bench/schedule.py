"""Choice of the tests that are due: the planned rounds first, then more for wide intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from overside.bench import plan, statistics
from overside.bench.box import Measure
from overside.tasks.common import Json, Test

#: All rounds together are at most this many times the planned ones.
ROUNDS_FACTOR = 10
#: The share of the time left that added work may be expected to take: estimates are not exact.
_FILL = 0.9
#: Seconds that a sample takes in addition to its timed parts, until it has been seen.
_EXTRA_S = 0.05


@dataclass
class _State:
    """State of one test: the rounds it has had, and their results."""

    test: Test
    rounds: set[int] = field(default_factory=set)
    #: The values of the metric that decides, one a round.
    values: list[float] = field(default_factory=list)
    #: `True` if it failed or turned out to be impossible: it is not repeated.
    over: bool = False
    #: Duration of its last sample in seconds, including setup.
    seconds: float | None = None

    @property
    def width(self) -> float:
        """Returns the width of the deciding metric's interval; 0 if the test has no values."""
        return statistics.estimate(self.values).width if self.values else 0.0


class Schedule:
    """The planned tests of a run and their progress."""

    def __init__(self, tests: Sequence[Test], measure: Measure) -> None:
        self._measure = measure
        self._states = {test.id: _State(test) for test in tests if test.status == "planned"}
        #: Kinds of failures that were seen.
        self.failures: set[str] = set()

    def note(self, sample: Json, seconds: float | None = None) -> None:
        """Records a sample, which took `seconds` in all."""
        state = self._states.get(sample["test"])
        if state is None:
            return
        state.rounds.add(sample["round"])
        state.seconds = seconds if seconds is not None else state.seconds
        if sample["status"] != "ok":
            state.over = True
            if sample["status"] == "failed":
                self.failures.add(sample["error"]["kind"])
            return
        value = sample["metrics"].get(state.test.metrics[0]) if state.test.metrics else None
        if value is not None:
            state.values.append(value)

    def drop(self, tests: Sequence[Test]) -> None:
        """These cannot run."""
        for test in tests:
            self._states.pop(test.id, None)

    def is_over(self, test: Test) -> bool:
        """No more samples of it are wanted."""
        return self._states[test.id].over if test.id in self._states else True

    def due(self, round_number: int) -> list[Test]:
        """The tests that a planned round still lacks, in its order."""
        missing = [
            state.test
            for state in self._states.values()
            if not state.over and round_number not in state.rounds
        ]
        return plan.in_order(missing, round_number)

    def missing(self) -> int:
        """Samples that the planned rounds still lack."""
        return sum(len(self.due(number)) for number in range(self._measure.rounds))

    def taken(self) -> int:
        """Samples of the planned rounds that need not be taken any more."""
        return len(self._states) * self._measure.rounds - self.missing()

    @property
    def full_rounds(self) -> int:
        """Rounds that every test has which is not over."""
        going = [state.rounds for state in self._states.values() if not state.over]
        done = 0
        while going and all(done in rounds for rounds in going):
            done += 1
        return done if going else self._measure.rounds

    @property
    def most_rounds(self) -> int:
        """The rounds of the test that has most."""
        return max((len(state.rounds) for state in self._states.values()), default=0)

    @property
    def next_round(self) -> int:
        """The number of a round that no test has."""
        highest = max((max(s.rounds, default=-1) for s in self._states.values()), default=-1)
        return max(highest + 1, self._measure.rounds)

    def further(self, left_s: float) -> tuple[list[Test], str]:
        """The tests of one more round, or none and the reason why there is none.

        A test whose interval is too wide gets it together with those that it is compared with, so
        that all of them are measured in the same conditions. The widest come first where time does
        not suffice for all.
        """
        if self._measure.rounds < statistics.ROUNDS_FOR_INTERVAL:
            return [], "rounds reached"
        groups = self._wide_groups()
        if not groups:
            return [], "target interval reached"
        if self.next_round >= self._measure.rounds * ROUNDS_FACTOR:
            return [], "rounds reached"
        budget = left_s * _FILL
        chosen: set[str] = set()
        for group in groups:
            cost = sum(self._cost(state) for state in group)
            if cost <= budget:
                budget -= cost
                chosen.update(state.test.id for state in group)
        if not chosen:
            return [], "max_s reached"
        tests = [state.test for state in self._states.values() if state.test.id in chosen]
        return plan.in_order(tests, self.next_round), ""

    def _wide_groups(self) -> list[list[_State]]:
        groups: dict[tuple[int, str], list[_State]] = {}
        for state in self._states.values():
            if not state.over:
                groups.setdefault((state.test.block, state.test.group), []).append(state)
        widths: Mapping[tuple[int, str], float] = {
            key: max(state.width for state in group) for key, group in groups.items()
        }
        wide = [key for key in groups if widths[key] > self._measure.target_interval]
        return [groups[key] for key in sorted(wide, key=lambda key: -widths[key])]

    def _cost(self, state: _State) -> float:
        if state.seconds is not None:
            return state.seconds
        return self._measure.warmup_s + self._measure.sample_s + _EXTRA_S
