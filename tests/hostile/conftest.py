"""Making, counting and reporting of hostile trials."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pytest

#: Failed trials of a test that are told in full.
TOLD_MAX = 3


@dataclass
class Trials:
    """The trials of one test.

    `for trial in trials(quick=20): with trial() as random: ...` makes 20 of them, and with
    `--minutes` as many more as fit. Each has random numbers of its own. One that fails is counted
    and told with its seed; the others go on, and the test fails at its end.
    """

    name: str
    first_seed: int
    minutes: float
    tried: int = 0
    failed: int = 0
    told: list[str] = field(default_factory=list)

    def __call__(self, quick: int) -> Iterator[Callable[[], AbstractContextManager[random.Random]]]:
        end = time.monotonic() + 60 * self.minutes
        while self.tried < quick or time.monotonic() < end:
            yield self._trial
        if self.failed:
            pytest.fail(
                f"{self.failed} of {self.tried} trials failed:\n" + "\n".join(self.told),
                pytrace=False,
            )

    @contextmanager
    def _trial(self) -> Iterator[random.Random]:
        seed = self.first_seed + self.tried
        self.tried += 1
        try:
            yield random.Random(seed)
        except Exception:
            self.failed += 1
            if len(self.told) < TOLD_MAX:
                self.told.append(f"--seed {seed}:\n{traceback.format_exc()}")


#: Under which a test's report has how many trials it made, and how many of them failed.
COUNTS = "hostile trials"


@pytest.fixture
def trials(request: pytest.FixtureRequest) -> Iterator[Trials]:
    """Makes and counts the trials of a test."""
    config = request.config
    seed = config.getoption("--seed")
    minutes = config.getoption("--minutes")
    # With time to spare each run tries something else; the quick part is the same each time.
    first = seed if seed is not None else (time.time_ns() // 1000 if minutes else 1)
    of_test = Trials(request.node.name, first, minutes)
    yield of_test
    # Workers hand reports over, and nothing else.
    request.node.user_properties.append((COUNTS, (of_test.tried, of_test.failed)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = [
        (report.nodeid.rpartition("::")[2], counted)
        for report in terminalreporter.getreports("")
        if report.when == "teardown"
        for name, counted in report.user_properties
        if name == COUNTS
    ]
    if not counts:
        return
    terminalreporter.section(COUNTS)
    for test, (tried, failed) in counts:
        terminalreporter.line(f"{test}: tried {tried}, failed {failed}")
