"""The smaller verbs: doctor, list, clean; and what all of them do with wrong words."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from command import PATIENCE_S, native, overside, tiny_box
from overside.commands import table
from syrupy.assertion import SnapshotAssertion


def test_doctor_says_what_it_sees_and_changes_nothing(tmp_path: Path) -> None:
    done = overside("doctor", "--json", cwd=tmp_path, code=0)
    report = json.loads(done.stdout)
    levels = {finding["level"] for finding in report["findings"]}
    assert levels <= {"ok", "note", "noise", "lack"}
    for finding in report["findings"]:
        assert finding["remedy"] or finding["level"] != "noise", "what is noisy can be mended"
    assert any(finding["message"].startswith("cpu does") for finding in report["findings"])
    assert list(tmp_path.iterdir()) == []
    text = overside("doctor", cwd=tmp_path, code=0).stdout
    for finding in report["findings"]:
        if finding["level"] in ("ok", "note"):
            assert finding["kind"] in ("load", "disk", "virtualised") or finding["message"] in text


def test_what_cannot_be_read_of_the_machine_is_null_with_a_reason(tmp_path: Path) -> None:
    report = json.loads(overside("doctor", "--json", cwd=tmp_path, code=0).stdout)
    environment = report["environment"]
    assert environment["cpu"]["architecture"]
    for part in ("cpu", "memory", "kernel", "limits", "software", "load"):
        facts = environment[part]
        for key, value in facts.items():
            assert value is not None or facts[f"{key}_reason"]


def test_list_tasks(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert overside("list", "tasks", cwd=tmp_path, code=0).stdout == snapshot
    assert overside("list", "tasks", "hash", cwd=tmp_path, code=0).stdout == snapshot
    listed = json.loads(overside("list", "tasks", "--json", cwd=tmp_path, code=0).stdout)
    assert listed["schema"] == "tasks/1"
    for task in listed["tasks"]:
        for metric in task["metrics"].values():
            assert metric["unit"]
            assert metric["better"] in ("higher", "lower")
    assert "did you mean hash?" in overside("list", "tasks", "hsah", cwd=tmp_path, code=2).stderr


@pytest.mark.parametrize("what", ["boxes", "profiles", "data"])
def test_lists_are_there_for_people_and_programs(tmp_path: Path, what: str) -> None:
    assert overside("list", what, cwd=tmp_path, code=0).stdout
    answer = json.loads(overside("list", what, "--json", cwd=tmp_path, code=0).stdout)
    assert answer["schema"] == f"{what}/1"
    assert answer[what]


def test_one_of_a_list_can_be_shown_and_a_wrong_name_is_said(tmp_path: Path) -> None:
    answer = json.loads(overside("list", "data", "noise", "--json", cwd=tmp_path, code=0).stdout)
    (row,) = answer["data"]
    assert row["name"] == "noise"
    answer = json.loads(overside("list", "profiles", "bf2", "--json", cwd=tmp_path, code=0).stdout)
    (row,) = answer["profiles"]
    assert row["name"] == "bf2"
    assert "no data set nose" in overside("list", "data", "nose", cwd=tmp_path, code=2).stderr
    assert "no profile bf9" in overside("list", "profiles", "bf9", cwd=tmp_path, code=2).stderr


def test_profiles_that_cannot_be_read_make_their_tests_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/mine.toml").write_text("garbage =")
    monkeypatch.setenv("OVERSIDE_PROFILES", str(tmp_path / "profiles"))
    done = overside("list", "profiles", cwd=tmp_path, code=2)
    assert "mine.toml" in done.stderr
    tiny_box(tmp_path, rounds=1)
    words = ("tiny.json", "--set", "compress.device=cpu,emulated:bf2", "--json")
    tests = json.loads(overside("plan", *words, cwd=tmp_path, code=0).stdout)["tests"]
    reasons = [test["reason"] for test in tests if test["status"] == "skipped"]
    assert len(reasons) == 2
    assert all(
        reason.startswith("emulated:bf2 is not available") and "mine.toml" in reason
        for reason in reasons
    )
    overside("plan", "tiny.json", "--set", "compress.device=emulated:*", cwd=tmp_path, code=2)


def test_data_sets_that_are_not_there_are_usage_errors(tmp_path: Path) -> None:
    assert "did you mean" in overside("data", "verify", "noize", cwd=tmp_path, code=2).stderr
    assert "no data set noize" in overside("data", "make", "noize", cwd=tmp_path, code=2).stderr
    assert "data fetch" in overside("data", "make", "silesia", cwd=tmp_path, code=2).stderr


def test_clean_removes_runs_only_when_told_to(tmp_path: Path) -> None:
    tiny_box(tmp_path, rounds=1)
    overside("run", "tiny.json", cwd=tmp_path, code=0)
    results = tmp_path / "results"
    (results / "mine").mkdir()
    (results / "mine/manifest.json").write_text("{}")
    done = overside("clean", cwd=tmp_path, code=0)
    assert "nothing was removed" in done.stderr
    assert len(list(results.iterdir())) == 2
    overside("clean", "--older-than", "1", "--yes", cwd=tmp_path, code=0)
    assert len(list(results.iterdir())) == 2, "it is younger than a day"
    done = overside("clean", "--runs", "--yes", "--json", cwd=tmp_path, code=0)
    (removed,) = json.loads(done.stdout)["found"]
    assert removed["size_bytes"] > 1000
    assert removed["kind"] == "run"
    assert [path.name for path in results.iterdir()] == ["mine"], "only what Overside wrote"


def test_clean_removes_what_a_killed_compressor_left(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/.overside-mine.tmp").write_text("another's")
    left, alive = tmp_path / "below/left", tmp_path / "alive"
    for output in (left, alive):
        command = [*native(), "compress", "-o", output]
        child = subprocess.Popen(command, stdin=subprocess.PIPE)
        until = time.monotonic() + PATIENCE_S
        while not list(output.parent.glob(".overside-????????????????.tmp")):
            assert time.monotonic() < until
        if output == left:
            child.kill()
            child.wait()
    done = overside("clean", "--files", "--yes", "--json", cwd=tmp_path, code=0)
    (removed,) = json.loads(done.stdout)["found"]
    assert (removed["kind"], Path(removed["path"]).parent) == ("file", Path("below"))
    assert [path.name for path in (tmp_path / "below").iterdir()] == [".overside-mine.tmp"]
    assert "there is nothing" in overside("clean", "--files", cwd=tmp_path, code=0).stdout
    child.communicate(b"text")
    assert child.returncode == 0, "what it writes was left alone"
    assert [path.name for path in tmp_path.glob("*alive*")] == ["alive"]


def test_clean_says_that_a_directory_is_not_there(tmp_path: Path) -> None:
    done = overside("clean", "--below", "nosuch", cwd=tmp_path, code=2)
    assert "--below: nosuch is not a directory" in done.stderr


@pytest.mark.parametrize("days", ["-1", "nan", "soon"])
def test_clean_wants_a_number_of_days(tmp_path: Path, days: str) -> None:
    done = overside("clean", f"--older-than={days}", "--yes", cwd=tmp_path, code=2)
    assert "not a number of days" in done.stderr


def test_clean_removes_made_data(tmp_path: Path) -> None:
    own = {"OVERSIDE_CACHE": str(tmp_path / "cache")}
    overside("data", "make", "noise", cwd=tmp_path, code=0, **own)
    overside("clean", "--data", "--yes", cwd=tmp_path, code=0, **own)
    assert "there is nothing" in overside("clean", cwd=tmp_path, code=0, **own).stdout


@pytest.mark.parametrize("words", [(), ("rum",), ("run", "--sed", "1"), ("list", "taks")])
def test_wrong_words_are_usage_errors(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = overside(*words, cwd=tmp_path, code=2)
    if words:
        assert done.stderr.startswith("overside")
        assert "--help` lists what it takes" in done.stderr
    else:
        assert "Usage: overside <VERB>" in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [sys.executable, "-m", "overside", "list", "tasks", "compress"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    os.close(writer)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [("list", "tasks"), ("list", "data", "--json")])
def test_output_that_cannot_be_written_is_said(tmp_path: Path, words: tuple[str, ...]) -> None:
    import subprocess
    import sys

    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "overside", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
    assert done.returncode == 5
    assert done.stderr.strip().endswith("cannot write the output: No space left on device")
    assert "Traceback" not in done.stderr


def test_names_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    for words in (("validate",), ("report",), ("run",), ("data", "make")):
        said = overside(*words, "no\x1b[31m\u202ebox", cwd=tmp_path, code=2).stderr
        assert "no\\x1b[31m\\u202ebox" in said


def test_a_table_follows_the_terminal() -> None:
    rows = [["copy", "copy buffers and compare what arrived with what was sent"]]
    text = table.text(["task", "what"], rows, width=40)
    assert text.splitlines() == [
        "task  what",
        "copy  copy buffers and compare what",
        "      arrived with what was sent",
    ]
    narrow = table.text(["task", "what"], rows, width=28).splitlines()
    assert narrow[1] == "copy"
    assert narrow[2:4] == ["    copy buffers and compare", "    what arrived with what"]
    assert len(table.text(["task", "what"], rows).splitlines()) == 2, "no terminal, no wrapping"
    head, rows = ["run", "box", "state", "tests"], [["first", "quick", "complete", "62"]]
    assert len(table.text(head, rows, width=40).splitlines()) == 2
    assert table.text(head, rows, width=24).splitlines() == [
        "first: box quick, state",
        "    complete, tests 62",
    ], "no room for its columns"
