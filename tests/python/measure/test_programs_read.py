"""Output for programs: every answer has a schema, errors too, and a run reports its progress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import overside, tiny_box


def test_a_run_says_what_happens_as_it_happens(tmp_path: Path) -> None:
    box = tiny_box(tmp_path, rounds=2)
    done = overside("run", box, "--json-lines", cwd=tmp_path, code=0)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["schema"] for event in events} == {"progress/1"}
    names = [event["event"] for event in events]
    assert names[0] == "started"
    assert names[-1] == "ended"
    assert names.count("round") == 2
    samples = [event for event in events if event["event"] == "sample"]
    assert {event["total"] for event in samples} == {events[0]["total"]}, "the total stays"
    assert [event["done"] for event in samples] == list(range(1, len(samples) + 1))
    assert {event["status"] for event in samples} == {"ok"}
    assert events[-1]["state"] == "complete"
    assert events[-1]["path"] == events[0]["path"]
    assert Path(tmp_path, events[-1]["path"]).is_dir()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["validate", "nosuch"], 2),
        (["report", "nosuch"], 2),
        (["plan", "quick", "--filter", "task=nosuch"], 4),
        (["list", "tasks", "nosuch"], 2),
        (["runs", "--last", "none"], 2),
        (["runs", "--nosuch"], 2),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_an_error_is_an_object_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int
) -> None:
    monkeypatch.setattr("sys.argv", ["overside", *words, "--json"])
    done = overside(*words, "--json", cwd=tmp_path, code=code)
    answer = json.loads(done.stdout)
    assert answer["schema"] == "error/1"
    assert answer["exit_code"] == code
    assert answer["message"] in done.stderr
    assert answer["remedy"] is None or answer["remedy"] in done.stderr
    monkeypatch.setattr("sys.argv", ["overside", *words])
    text = overside(*words, cwd=tmp_path, code=code)
    assert text.stdout == "", "without --json there is none"


def test_validate_says_how_many_tests_can_run(tmp_path: Path) -> None:
    box = tiny_box(tmp_path)
    assert "all 4 tests can run here" in overside("validate", box, cwd=tmp_path, code=0).stdout
    form = json.loads(box.read_text())
    form["tasks"][0]["parameters"]["device"] = ["cpu", "dpdk:nosuch"]
    box.write_text(json.dumps(form))
    answer = json.loads(overside("validate", box, "--json", cwd=tmp_path, code=0).stdout)
    assert answer["valid"]
    skipped = sum(one["tests"] for one in answer["skipped"])
    assert (answer["can_run"], skipped) == (4, answer["tests"] - 4)
    assert skipped > 0
    shown = overside("validate", box, cwd=tmp_path, code=0).stdout
    assert f"4 of {answer['tests']} tests can run here" in shown
    assert answer["skipped"][0]["reason"] in " ".join(shown.split())
