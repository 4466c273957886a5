"""The log of Python's verbs: one switch, one format with the native code's events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from overside.__main__ import main

BOX = {
    "schema": "box/1",
    "name": "log",
    "measure": {"rounds": 2, "sample_s": 0.02, "warmup_s": 0.01},
    "tasks": [{"task": "hash", "parameters": {"buffer_size": 65536}}],
}


def _run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "overside", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_runs_log_has_python_and_native_events_in_one_format(tmp_path: Path) -> None:
    (tmp_path / "box.json").write_text(json.dumps(BOX))
    options = ["-vv", "--log-format", "json", "--log-file", "log"]
    done = _run(tmp_path, "run", "box.json", "--out", "results", *options)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    workers = [event for event in events if event.get("logger") == "overside.bench.process"]
    assert len(workers) == BOX["measure"]["rounds"]  # type: ignore[index]
    assert {event["target"] for event in workers} == {"overside_python"}
    native = [event for event in events if event["target"].startswith("overside_placement")]
    assert {event["level"] for event in workers + native} == {"DEBUG"}


def test_parts_have_levels_of_their_own(tmp_path: Path) -> None:
    code = (
        "import logging; from overside import log; log.begin();"
        "one = logging.getLogger('overside.data'); one.debug('left out'); one.info('kept')"
    )
    environment = {**os.environ, "OVERSIDE_LOG": "off,python=info", "OVERSIDE_LOG_FORMAT": "json"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (event,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert (event["level"], event["message"], event["logger"]) == ("INFO", "kept", "overside.data")


def test_a_verb_leaves_the_environment_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    before = dict(os.environ)
    for words, code in ((["--quiet", "--log-format", "json"], 0), (["--log-file", "/none/log"], 2)):
        assert main(["list", "tasks", *words]) == code, capsys.readouterr().err
        assert dict(os.environ) == before


def test_what_is_no_level_or_no_file_is_a_usage_error(tmp_path: Path) -> None:
    assert _run(tmp_path, "list", "tasks", "--log", "wran").returncode == 2
    assert _run(tmp_path, "list", "tasks", OVERSIDE_LOG_FORMAT="xml").returncode == 2
    absent = ["-v", "--log-file", str(tmp_path / "none" / "log")]
    assert _run(tmp_path, "list", "tasks", *absent).returncode == 2
