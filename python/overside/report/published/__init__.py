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
from overside.report.published.curves import Curve, curves
from overside.report.published.figures import FIGURES_MAX, Comparison, Figure, Json

__all__ = ["FIGURES_MAX", "Comparison", "Curve", "Figure", "comparisons", "core", "curves"]


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
