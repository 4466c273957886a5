"""The time that `overside plan` says, against that of the runs in the gallery."""

from __future__ import annotations

import json
import statistics
import tarfile
from datetime import datetime
from pathlib import Path

import pytest
from overside.bench import plan, store
from overside.bench.box import Measure
from overside.tasks.common import Test

GALLERY = Path(__file__).resolve().parents[3] / "docs" / "measure" / "gallery"


@pytest.mark.parametrize("name", ["quick", "network", "dma-latency"])
def test_the_planned_time_is_that_of_real_runs(name: str, tmp_path: Path) -> None:
    with tarfile.open(GALLERY / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    samples = list(store.read_samples(tmp_path))
    began: dict[int, list[datetime]] = {}
    for sample in samples:
        began.setdefault(sample["round"], []).append(datetime.fromisoformat(sample["started"]))
    ran = {sample["test"] for sample in samples if sample["round"] == 0}
    tests = [test for entry in manifest["tests"] if (test := Test.from_json(entry)).id in ran]
    # A round lasts until the next begins.
    starts = [min(times) for _, times in sorted(began.items())]
    whole = [
        (after - before).total_seconds()
        for (number, before), after in zip(enumerate(starts), starts[1:], strict=False)
        if len(began[number]) == len(ran)
    ]
    measure = Measure(**manifest["box"]["measure"] | {"rounds": 1})
    rounds_s = plan.estimated_s(tests, measure) - plan.estimated_s(tests[:0], measure)
    assert abs(rounds_s / statistics.median(whole) - 1) < 0.2
