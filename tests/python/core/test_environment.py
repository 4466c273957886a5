"""Load of the machine by other programs during a run."""

from __future__ import annotations

import subprocess
import sys

import pytest
from overside.bench import environment

SPENT = {"uptime_s": 10.0, "busy_s": 9.0, "own_s": 5.0, "stolen_s": 2.0}
MANIFEST = {"started": "2026-11-21T10:00:00Z", "ended": "2026-11-21T10:00:20Z"}


def machine() -> dict[str, object]:
    """Two processors, of which a run of ten seconds used five seconds, and others four."""
    before = dict.fromkeys(SPENT, 1000.0) | {"load_1min": 0.5}
    after = {key: 1000.0 + spent for key, spent in SPENT.items()}
    cpu = {"usable": [0, 1], "online": 4}
    return {"cpu": cpu, "load_before": before, "load_after": after}


def test_what_others_took_is_a_share_of_the_processors_time() -> None:
    load = environment.load_during(machine(), MANIFEST)
    assert load == environment.Load(10.0, 2, (9 - 5) / 20, 2 / 40, 0.5)


def test_what_is_not_recorded_is_not_known() -> None:
    assert environment.load_during({}, {}) == environment.Load(None, 1, None, None, None)
    old = machine()
    for when in ("load_before", "load_after"):
        old[when] = {"stolen_s": old[when]["stolen_s"]}  # type: ignore[index]
    # Runs of earlier versions have only the stolen time; their manifest says how long they took.
    assert environment.load_during(old, MANIFEST) == environment.Load(20.0, 2, None, 2 / 80, None)


@pytest.mark.parametrize("was_killed", [False, True])
def test_a_pause_before_a_run_goes_on_is_not_counted(was_killed: bool) -> None:
    recorded = machine()
    if was_killed:
        del recorded["load_after"]
    environment.resume(recorded)
    assert "load_after" not in recorded
    recorded["load_after"] = environment.load()
    load = environment.load_during(recorded, MANIFEST)
    assert load.elapsed_s is not None
    assert load.stolen is not None
    # Of a run that was killed nothing is known up to here.
    assert load.elapsed_s == pytest.approx(0 if was_killed else 10, abs=5)
    assert load.average_before == 0.5


def test_the_runs_own_processes_are_none_of_the_others() -> None:
    before = environment.load()
    code = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    after = environment.load()
    assert after["own_s"] - before["own_s"] >= 0.3
    assert after["busy_s"] - before["busy_s"] >= 0.2, "ticks are counted"
    assert after["uptime_s"] - before["uptime_s"] >= 0.3
