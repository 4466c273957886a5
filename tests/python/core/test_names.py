"""Names that are not UTF-8: named, and nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import native, overside, said, tiny_box
from overside import strict_json

ODD = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    "words",
    [
        ["run", f"{ODD}.json"],
        ["run", "tiny.json", "--out", ODD],
        ["run", "tiny.json", "--set", f"compress.data={ODD}"],
        ["report", ODD],
        ["facts", "show", ODD],
        ["list", "variants", ODD],
        ["simulate", ODD],
    ],
    ids=lambda words: words[0],
)
def test_an_argument_that_is_not_utf_8_is_named(words: list[str], tmp_path: Path) -> None:
    shutil.copy(tiny_box(tmp_path), tmp_path / f"{ODD}.json")
    done = subprocess.run(
        [*native(), *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "caf\\xe9" in done.stderr
    assert "is not UTF-8" in done.stderr
    assert not list(tmp_path.rglob("manifest.json"))


def test_a_data_file_whose_name_is_not_utf_8_is_named(tmp_path: Path) -> None:
    box = tiny_box(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / ODD).write_text("x" * 100_000)
    words = ["run", box, "--set", "compress.data=./texts", "--set", "decompress.data=./texts"]
    done = overside(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "caf\\xe9 is not UTF-8" in said(done)
    # What is left is a run that `clean` knows.
    overside("clean", "--runs", "--yes", cwd=tmp_path, code=0)
    assert not list((tmp_path / "results").iterdir())


def test_where_a_run_is_made_need_not_be_utf_8(tmp_path: Path) -> None:
    here = tmp_path / ODD
    here.mkdir()
    plugin = here / "plugins" / "good"
    plugin.parent.mkdir()
    plugin.write_text("#!/bin/sh\n")
    plugin.chmod(0o755)
    box = {
        "schema": "box/1",
        "name": "x",
        "tasks": [{"task": "good"}, {"task": "hash", "parameters": {"data": "noise"}}],
        "measure": {"rounds": 1, "warmup_s": 0, "sample_s": 0.01},
    }
    (here / "box.json").write_text(json.dumps(box))
    done = overside("run", "box.json", "--filter", "task=good", cwd=here)
    assert done.returncode == 100, done.stderr
    assert "Traceback" not in done.stderr


def test_a_variable_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    tiny_box(tmp_path)
    done = overside("run", "tiny.json", cwd=tmp_path, OVERSIDE_CACHE=str(tmp_path / ODD))
    assert done.returncode == 2, done.stderr
    assert "caf\\xe9 is not UTF-8" in said(done)


def test_a_box_of_that_name_is_listed(tmp_path: Path) -> None:
    (tmp_path / "boxes").mkdir()
    (tmp_path / "boxes" / f"{ODD}.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", "overside", "list", "boxes"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "caf\\udce9" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud800"',
        '{"\\uDFFF": 1}',
        '["\\ud83d\\u0041"]',
        "1e309",
        "-1e999",
        "NaN",
        "[Infinity]",
        "9" * 400,
        "[" * 100_000,
        b'"\xed\xa0\x80"',
        b"\xff",
    ],
)
def test_json_that_nobody_can_write_again_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        strict_json.loads(text)


def test_other_json_is_read() -> None:
    text = '{"a": [1, -2.5, 1e308, true, null, "\\ud83d\\ude00 \\u00e9 é"]}'
    assert strict_json.loads(text) == {"a": [1, -2.5, 1e308, True, None, "\U0001f600 é é"]}
    assert strict_json.loads(text.encode()) == strict_json.loads(text)


@pytest.mark.parametrize("damage", ['"\\ud800"', "1e309", "NaN", "1" * 400])
@pytest.mark.parametrize("file", ["manifest.json", "samples.jsonl", "nodes/local.json"])
def test_a_run_with_such_a_file_is_refused(
    damage: str,
    file: str,
    tmp_path: Path,
    tiny_run: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    shutil.copytree(tiny_run[0], tmp_path / "tiny")
    (run,) = (tmp_path / "tiny" / "results").iterdir()
    text = (run / file).read_text()
    (run / file).write_text(text.replace("{", f'{{"extra": {damage}, ', 1))
    code = 2 if file != "nodes/local.json" else 0  # a report can do without the machine
    done = overside("report", run)
    assert done.returncode == code, done.stderr
    resumed = overside("run", "--resume", run, "-q", cwd=tmp_path / "tiny")
    assert resumed.returncode == code, resumed.stderr
    assert "internal error" not in done.stderr + resumed.stderr
