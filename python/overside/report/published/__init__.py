"""A run's figures beside those that others have published on the same kind of work.

Never in one panel, never with a ratio between them: what was different comes first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from overside.bench.statistics import RunView
from overside.report.published import jobs, loops
from overside.report.published.figures import FIGURES_MAX, Beside, Figure, Json

__all__ = ["FIGURES_MAX", "Beside", "Figure", "beside", "core"]


def core() -> list[Json]:
    """All published facts of this installation."""
    from overside import _core  # noqa: PLC0415 (reports of runs without them do not need it)

    facts: list[Json] = json.loads(_core.facts([]))["facts"]
    return facts


def beside(view: RunView, facts: Sequence[Json]) -> list[Beside]:
    """Whatever of a run others have published figures of."""
    return jobs.beside(view, facts) + loops.beside(view, facts)
