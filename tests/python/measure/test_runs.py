"""Runs have names: their own, and `@`, `@1`, ... from the newest back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import environment, manifest, native, overside, tiny_box
from overside import runs
from overside.errors import UserError


@pytest.fixture(name="two", scope="module")
def _two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two runs, `before` and one without a name of its own."""
    directory = tmp_path_factory.mktemp("runs")
    tiny_box(directory, rounds=1)
    overside("run", "tiny.json", "--name", "before", cwd=directory, code=0)
    overside("run", "tiny.json", cwd=directory, code=0)
    return directory


def _newest(directory: Path) -> Path:
    return next(path for path in (directory / "results").iterdir() if path.name != "before")


def test_a_run_is_called_what_it_was_to_be_called(two: Path) -> None:
    assert manifest(two / "results" / "before")["id"] == "before"
    again = overside("run", "tiny.json", "--name", "before", cwd=two, code=2)
    assert "a run called before" in again.stderr
    for name in ("", "../x", ".hidden", "a b", "x" * 61, "@"):
        refused = overside("run", "tiny.json", f"--name={name}", cwd=two, code=2)
        assert "is no name" in refused.stderr
    resumed = overside("run", "--resume", "before", "--name", "x", cwd=two, code=2)
    assert "its name" in resumed.stderr


def test_runs_are_listed_the_newest_first(two: Path) -> None:
    newest = _newest(two).name
    (two / "results" / "nothing").mkdir()
    listed = overside("runs", cwd=two, code=0).stdout.splitlines()
    (two / "results" / "nothing").rmdir()
    assert [line.split()[:3] for line in listed[1:]] == [
        ["@", newest, "tiny"],
        ["@1", "before", "tiny"],
    ]
    assert listed[1].endswith("4 of 4 ok")
    answer = json.loads(overside("runs", "--json", cwd=two, code=0).stdout)
    assert answer["schema"] == "runs/1"
    assert [run["name"] for run in answer["runs"]] == [newest, "before"]
    last = overside("runs", "--last", "1", cwd=two, code=0).stdout
    assert "and 1 older ones" in last
    nothing = overside("runs", "--out", "elsewhere", cwd=two, code=0).stdout
    assert "overside run quick" in nothing


def test_verbs_take_short_names(two: Path) -> None:
    newest = str(_newest(two).relative_to(two))
    for words in (["report"], ["report", "@"], ["report", newest], ["report", _newest(two).name]):
        assert overside(*words, cwd=two, code=0).stdout == f"{newest}/report.html\n"
    assert overside("report", "@1", cwd=two, code=0).stdout == "results/before/report.html\n"
    for words in (["compare", "before"], ["compare", "@1", "@"]):
        done = overside(*words, "--json", cwd=two)
        assert done.returncode in (0, 103, 104, 105), done.stderr
        assert json.loads(done.stdout)["schema"] == "comparison/1"
    absent = overside("report", "@2", cwd=two, code=2)
    assert "@2: there are 2 runs in results" in absent.stderr
    none = overside("report", cwd=two / "results", code=2)
    assert "overside run quick" in none.stderr


def test_a_path_comes_before_a_name(tmp_path: Path) -> None:
    (tmp_path / "results" / "a").mkdir(parents=True)
    assert runs.find("a", tmp_path / "results") == tmp_path / "results" / "a"
    assert runs.find(str(tmp_path), tmp_path / "results") == tmp_path
    assert runs.find("@x", tmp_path) == Path("@x")
    with pytest.raises(UserError, match="no run"):
        runs.find("@", tmp_path)


def test_the_option_that_was_meant_is_named() -> None:
    for command in ([sys.executable, "-m", "overside"], native()):
        done = subprocess.run(
            [*command, "run", "--filtr", "a=b"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert done.stderr == (
            "overside run: unexpected argument '--filtr' found\n  a similar argument exists: "
            "'--filter'; `overside run --help` lists what it takes\n"
        )


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
def test_output_is_utf_8_in_every_locale(tmp_path: Path, locale: str) -> None:
    box = tiny_box(tmp_path)
    named = tmp_path / "Größe µ.json"
    box.rename(named)
    done = subprocess.run(
        [sys.executable, "-m", "overside", "validate", os.fsencode(named)],
        cwd=tmp_path,
        capture_output=True,
        env=environment() | {"LC_ALL": locale},
        timeout=60,
        check=True,
    )
    assert "Größe µ.json: valid" in done.stdout.decode()
