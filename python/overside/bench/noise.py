"""Noise of this machine: the difference between two runs of the same tests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from overside.bench import box, comparison, launch, plan, statistics
from overside.bench.comparison import MetricComparison
from overside.bench.runner import Runner
from overside.tasks.common import Json

#: Tests that are run twice to measure the noise: one short, one long, and one in between, in
#: memory that the caches hold.
_TASKS: tuple[Json, ...] = (
    {"task": "hash", "parameters": {"algorithm": "xxh3", "buffer_size": 4096}},
    {"task": "compress", "parameters": {"format": "deflate", "level": 1, "buffer_size": 65536}},
    {"task": "copy", "parameters": {"buffer_size": 65536}},
)
#: Eight rounds and no more, however wide the intervals are: more would hide the noise.
_MEASURE: Json = {
    "rounds": 8,
    "warmup_s": 0.02,
    "sample_s": 0.05,
    "max_s": 120,
    "target_interval": 1,
}


@dataclass(frozen=True)
class Noise:
    """Difference between two runs of the same tests, test by test."""

    tests: Sequence[MetricComparison]

    @property
    def floor(self) -> float:
        """The smallest relative difference that means anything: the largest observed or expected
        one of any test."""
        return max(max(abs(one.ratio.value - 1), one.noise) for one in self.tests)

    def json(self) -> Json:
        """Returns the noise in the form of `overside audit --json`."""
        return {
            "floor": self.floor,
            "tests": [
                {
                    "test": one.test,
                    "metric": one.metric,
                    "ratio": one.ratio.value,
                    "low": one.ratio.low,
                    "high": one.ratio.high,
                    "noise": one.noise,
                    "verdict": one.verdict,
                }
                for one in self.tests
            ],
        }


def measure() -> Noise:
    """Runs a few short tests twice. About ten seconds.

    Raises `UserError` if nothing can be written.
    """
    with tempfile.TemporaryDirectory(prefix="overside-audit-") as scratch:
        here = Path(scratch)
        data = here / "audit.data"
        data.write_bytes(bytes((i * i >> 7) & 0x5F for i in range(1 << 18)))
        form = {
            "schema": "box/1",
            "name": "audit",
            "tasks": [
                {
                    **task,
                    "parameters": {"device": "cpu", "data": str(data), **task["parameters"]},
                    "metrics": ["throughput"],
                }
                for task in _TASKS
            ],
            "measure": _MEASURE,
        }
        path = here / "audit.json"
        path.write_text(json.dumps(form), encoding="utf-8")
        before, after = (_run(path, here / side) for side in ("a", "b"))
        result = comparison.compare(before, after, comparison.DEFAULT_THRESHOLD)
    return Noise(result.compared)


def _run(path: Path, out: Path) -> statistics.RunView:
    here = box.machine()
    chosen = box.load(str(path), [], here)
    begun = launch.start(chosen, plan.plan(chosen, here, []), out, ["overside", "audit"])
    with begun.run:
        Runner(begun, quiet=True).run()
    return statistics.load_run(begun.run.path)
