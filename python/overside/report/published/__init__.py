"""A run's figures with published ones on the same kind of work.

Never with a ratio between them: the differences come first. A series is a dashed curve on the chart
of the same work, said to be published.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

from overside.bench.statistics import RunView
from overside.report.published import jobs, loops
from overside.report.published.curves import Curve, beside, curves
from overside.report.published.figures import FIGURES_MAX, Comparison, Figure, Json
from overside.report.published.origin import Origins, origin
from overside.report.published.reproduced import Reproduction, reproductions

__all__ = [
    "FIGURES_MAX",
    "Comparison",
    "Curve",
    "Figure",
    "Origins",
    "Reproduction",
    "comparisons",
    "core",
    "curves",
    "origin",
    "origins",
    "reproductions",
]


@cache
def core() -> list[Json]:
    """All published facts of this installation."""
    from overside import _core  # noqa: PLC0415 (reports of runs without them do not need it)

    facts: list[Json] = json.loads(_core.facts([]))["facts"]
    return facts


def comparisons(view: RunView, facts: Sequence[Json]) -> list[Comparison]:
    """Returns comparisons of this machine's figures in a run with published ones."""
    view = view.here()
    return jobs.comparisons(view, facts) + loops.comparisons(view, facts)


def origins(view: RunView) -> Origins:
    """Returns whether the emulated tests of a run were derived from the published figures beside
    them."""
    view = view.here()
    if not any(test.provenance == "emulated" for test in view.tests):
        return Origins({})
    return Origins.of([*jobs.beside(view, core()), *beside(view, core())])
