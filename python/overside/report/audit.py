"""Audit in a run's report: planted mistakes, and the noise of the run itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from overside.bench import audit, comparison
from overside.bench.statistics import RunView
from overside.report import formatting

#: The most planted mistakes that are shown; there are eleven.
_SHOWN = 50
#: Rounds from which the halves of a run can be compared.
_ROUNDS = 6


@dataclass(frozen=True)
class PlantedMistake:
    """A mistake that was planted."""

    about: str
    test: str
    #: `caught`, or another outcome.
    outcome: str
    said: str


def planted_mistakes(view: RunView) -> list[PlantedMistake]:
    """Returns the planted mistakes and their outcomes; none if the run was not audited."""
    entries = view.manifest.get("audit")
    if not isinstance(entries, list):
        return []
    return [
        PlantedMistake(
            about=formatting.clean(one.get("about") or one.get("mistake") or "", 200),
            test=formatting.clean(one.get("test") or "", 200),
            outcome=audit.outcome(one),
            said=formatting.clean(one.get("said") or "", 400),
        )
        for one in entries[:_SHOWN]
        if isinstance(one, Mapping)
    ]


def is_trusted(view: RunView) -> bool:
    """Returns `True` if every planted mistake was caught, also if none was planted."""
    return all(one.outcome == "caught" for one in planted_mistakes(view))


def noise_words(view: RunView) -> str:
    """Returns a sentence about the expected difference between this run and another one."""
    found = [
        comparison.noise_of(values, values)
        for test in view.tests
        if test.status == "ok" and len(test.values.get("throughput", {})) >= _ROUNDS
        for values in [list(test.values["throughput"].values())]
    ]
    if not found:
        return (
            f"This run has fewer than {_ROUNDS} rounds, too few to tell its own noise; `overside "
            "audit` measures this machine’s."
        )
    return (
        f"Noise: another run of the same would differ by up to {100 * median(found):.1f} % in half "
        f"of the tests, and by up to {100 * max(found):.1f} % in all of them."
    )
