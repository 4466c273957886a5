"""The audit: planted mistakes are caught, told, and stand in every report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import overside, short_box
from overside.__main__ import main
from overside.bench import audit
from overside.errors import Exit

pytestmark = [pytest.mark.xdist_group("timed"), pytest.mark.begun_first]


def test_every_mistake_is_caught_here() -> None:
    whole = json.loads(overside("audit", "--no-noise", "--json", code=0).stdout)
    assert whole["trusted"]
    assert len(whole["mistakes"]) == 11
    assert len({one["mistake"] for one in whole["mistakes"]}) == 9
    assert whole["noise"] is None
    assert all(one["caught"] and one["works_without"] and one["said"] for one in whole["mistakes"])


def test_a_mistake_that_is_not_caught_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audit.plant_mistakes()
    found[2]["caught"] = False
    monkeypatch.setattr(audit, "plant_mistakes", lambda: found)
    done = overside("audit", "--no-noise", code=Exit.VERIFICATION_FAILED)
    assert "not caught" in done.stdout


def test_two_runs_of_the_same_show_the_noise() -> None:
    noise = json.loads(overside("audit", "--json", code=0).stdout)["noise"]
    assert len(noise["tests"]) == 3
    assert noise["floor"] > 0
    assert all(one["low"] <= one["ratio"] <= one["high"] for one in noise["tests"])


def test_a_run_is_audited_and_its_report_says_so(tmp_path: Path) -> None:
    parameters = {"buffer_size": 1024, "data": __file__}
    path = short_box(tmp_path, {"task": "copy", "parameters": parameters}, sample_s=0.01)
    assert main(["run", str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    [run] = (tmp_path / "out").iterdir()
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert audit.trusted(manifest["audit"])
    page = (run / "report.html").read_text(encoding="utf-8")
    assert 'id="audit"' in page
    assert "All 11 were caught" in page

    # One that was not caught stands above everything; one that is missing is told.
    manifest["audit"][0]["caught"] = False
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Not all were caught" in page
    assert "All 11 were caught" not in page
    del manifest["audit"]
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert main(["report", str(run)]) == 0
    assert "was not audited" in (run / "report.html").read_text(encoding="utf-8")
