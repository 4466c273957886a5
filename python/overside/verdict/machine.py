"""Check whether a machine was quiet enough for a verdict."""

from __future__ import annotations

from overside.bench import environment
from overside.bench.statistics import RunView

#: The share of the cores from which other programs leave no headline.
BUSY_SHARE = 0.5


def noise(view: RunView) -> str:
    """Returns the reason why a run's figures are no headline; empty if they can be one.

    It is empty if the machine was quiet, or if all figures are of virtual time, which no load
    changes.

    What others did *during* the run counts. The load average before it stands in only where the
    run did not record that, as when it was killed.
    """
    if {test.timing for test in view.tests if test.timing} == {"virtual"}:
        return ""
    try:
        load = environment.load_during(view.environment, view.manifest)
    except (AttributeError, TypeError, ValueError):
        return ""  # a description that is none
    cores = load.processors
    if load.others is not None:
        if load.others >= BUSY_SHARE:
            return f"the machine was busy: others used {load.others * cores:.1f} of {cores} cores"
    elif load.average_before is not None and load.average_before / cores >= BUSY_SHARE:
        return f"the machine was busy: load {load.average_before:.1f} on {cores} cores"
    if load.stolen is not None and load.stolen >= BUSY_SHARE:
        return f"the machine was busy: other guests took {load.stolen * 100:.0f} % of its cores"
    return ""
