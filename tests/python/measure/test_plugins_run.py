"""Plug-ins in a run, from the command line: whom a bad one harms, and what the run says."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import overside, planned, short_box

HERE = Path(__file__).parent / "plugins"


def run(box: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], dict, list[dict]]:
    """Runs a box; what it printed, its manifest, and its samples."""
    out = box.parent / "out"
    done = overside("run", str(box), "--out", str(out), *words)
    (folder,) = out.iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    lines = (folder / "samples.jsonl").read_text().splitlines()
    return done, manifest, [json.loads(line) for line in lines]


def plugin(tmp_path: Path, name: str, script: str, **about: object) -> None:
    """Writes a plug-in in shell with one metric."""
    folder = tmp_path / "plugins" / name
    folder.mkdir(parents=True)
    text = json.dumps(
        {
            "plugin": "1",
            "name": name,
            "description": f"the plug-in {name}",
            "parameters": {},
            "metrics": {"rate": {"unit": "1/s", "better": "higher"}},
            **about,
        }
    )
    (folder / "plugin").write_text(
        f"#!/bin/sh\ncase $1 in\ndescribe) printf %s '{text}' ;;\nrun) {script} ;;\nesac\n"
    )
    (folder / "plugin").chmod(0o755)


def box(tmp_path: Path, *names: str) -> Path:
    tasks = [{"task": name} for name in names]
    return short_box(tmp_path, *tasks, rounds=2, max_s=60, target_interval=1)


def test_a_bad_plugin_harms_no_other(tmp_path: Path) -> None:
    plugin(tmp_path, "bad", "kill -SEGV $$")
    plugin(tmp_path, "good", """echo '{"metrics": {"rate": 5}}'""")
    plugin(tmp_path, "mute", ":")
    (tmp_path / "plugins" / "mute" / "plugin").write_text("#!/bin/sh\nexit 9\n")
    done, manifest, samples = run(box(tmp_path, "bad", "good", "mute"))
    assert done.returncode == 100, done.stderr
    assert manifest["state"] == "complete"
    by_task: dict[str, list[dict]] = {}
    for sample in samples:
        by_task.setdefault(sample["test"].partition("/")[0], []).append(sample)
    assert [s["metrics"] for s in by_task["good"] if s["status"] == "ok"][:2] == [
        {"good.rate": 5},
        {"good.rate": 5},
    ]
    assert "plug-in bad (run): crashed (SIGSEGV)" in by_task["bad"][0]["error"]["message"]
    assert "(describe): ended with exit status 9" in by_task["mute"][0]["error"]["message"]
    assert manifest["metrics"]["good.rate"]["unit"] == "1/s"


MEDDLING = {
    "changes a byte": "printf x | dd of=../../samples.jsonl conv=notrunc 2>/dev/null",
    "makes samples a folder": "rm ../../samples.jsonl; mkdir ../../samples.jsonl",
    "replaces the machine": "rm -r ../../nodes; ln -s /tmp ../../nodes",
    "removes the run": 'rm -r "$(realpath ../..)"',
}


@pytest.mark.parametrize("case", MEDDLING, ids=lambda case: case.replace(" ", "-"))
def test_a_plugin_that_changes_the_runs_files_spoils_its_own_test_only(
    case: str, tmp_path: Path
) -> None:
    plugin(tmp_path, "first", """echo '{"metrics": {"rate": 1}}'""")
    plugin(tmp_path, "meddles", MEDDLING[case] + """; echo '{"metrics": {"rate": 2}}'""")
    plugin(tmp_path, "last", """echo '{"metrics": {"rate": 3}}'""")
    done = overside("run", str(box(tmp_path, "first", "meddles", "last")), cwd=tmp_path)
    assert done.returncode == 100, done.stderr
    (folder,) = (run for run in (tmp_path / "results").iterdir() if run.name[0] == "2")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["state"] == "complete"
    assert manifest["counts"] | {"tests": 3, "ok": 2, "failed": 1} == manifest["counts"]
    lines = (folder / "samples.jsonl").read_text().splitlines()
    samples = [json.loads(line) for line in lines]
    found = [(s["test"].partition("/")[0], s["round"]) for s in samples]
    assert sorted(found) == [
        ("first", 0),
        ("first", 1),
        ("last", 0),
        ("last", 1),
        ("meddles", 0),
    ]
    (bad,) = (sample for sample in samples if sample["status"] == "failed")
    assert bad["error"]["kind"] == "plugin"
    assert "changed the run's own files (" in bad["error"]["message"]
    assert json.loads((folder / "nodes" / "local.json").read_text())["schema"] == "node/1"


def test_a_plugin_that_meddles_while_it_prepares_fails(tmp_path: Path) -> None:
    plugin(
        tmp_path,
        "meddles",
        'echo \'{"metrics": {"rate": 2}}\' ;;\nprepare) rm -r "$(realpath ../..)"',
    )
    plugin(tmp_path, "good", """echo '{"metrics": {"rate": 5}}'""")
    done, manifest, samples = run(box(tmp_path, "meddles", "good"))
    assert done.returncode == 100, done.stderr
    assert [s["status"] for s in samples] == ["failed", "ok", "ok"]
    assert "manifest.json" in samples[0]["error"]["message"]
    assert manifest["counts"]["ok"] == 1


def test_a_plugin_that_removes_its_directory_has_it_again(tmp_path: Path) -> None:
    script = 'rm -r "$OVERSIDE_WORK"; echo \'{"metrics": {"rate": 2}}\''
    plugin(tmp_path, "tidy", script)
    done, _, samples = run(box(tmp_path, "tidy"))
    assert done.returncode == 0, done.stderr
    assert [s["status"] for s in samples] == ["ok", "ok"]


@pytest.mark.parametrize(
    "answer",
    [
        {"description": "\ud800"},
        {"parameters": {"x": {"type": "any", "description": "\udfff"}}},
        {"timeout_s": 1e300 * 1e9},
    ],
)
def test_half_a_character_in_a_description_ends_no_run(answer: dict, tmp_path: Path) -> None:
    plugin(tmp_path, "half", 'echo \'{"metrics": {"rate": 1}}\'', **answer)
    plugin(tmp_path, "good", """echo '{"metrics": {"rate": 5}}'""")
    done, manifest, samples = run(box(tmp_path, "half", "good"))
    assert done.returncode == 100, done.stderr
    assert [s["status"] for s in samples] == ["failed", "ok", "ok"]
    assert manifest["counts"]["ok"] == 1


def test_prepare_declines_with_half_a_character(tmp_path: Path) -> None:
    plugin(tmp_path, "half", """: ;;\nprepare) echo '{"skip": "\\\\ud800"}'""")
    plugin(tmp_path, "good", """echo '{"metrics": {"rate": 5}}'""")
    done, manifest, _ = run(box(tmp_path, "half", "good"))
    assert done.returncode == 100, done.stderr
    assert manifest["counts"] | {"ok": 1, "failed": 1} == manifest["counts"]


def test_a_declared_change_of_the_system_that_nobody_allowed_is_skipped(tmp_path: Path) -> None:
    plugin(tmp_path, "careful", ":", changes_system=["loads a kernel module"])
    done, manifest, samples = run(box(tmp_path, "careful"))
    assert done.returncode == 3, done.stderr
    assert samples == []
    (test,) = manifest["tests"]
    assert test["status"] == "skipped"
    assert "--allow-scripts" in test["reason"]


def test_an_allowed_change_is_made(tmp_path: Path) -> None:
    good = """echo '{"metrics": {"rate": 5}}'"""
    plugin(tmp_path, "careful", good, changes_system=["loads a kernel module"])
    done, _, samples = run(box(tmp_path, "careful"), "--allow-scripts")
    assert done.returncode == 0, done.stderr
    assert {sample["status"] for sample in samples} == {"ok"}


def dpbento_tree(tmp_path: Path) -> Path:
    """A tree as dpBento's; returns its box."""
    shutil.copytree(HERE / "tree", tmp_path / "tree")
    path = tmp_path / "tree" / "configs_user" / "counting.json"
    path.parent.mkdir()
    return Path(shutil.copy(HERE / "boxes" / "counting.json", path))


def test_scripts_of_dpbento_are_not_run_unless_that_is_allowed(tmp_path: Path) -> None:
    path = dpbento_tree(tmp_path)
    done, manifest, samples = run(path)
    assert done.returncode == 3, done.stderr
    assert samples == []
    assert {test["status"] for test in manifest["tests"]} == {"skipped"}
    assert not list((tmp_path / "tree" / "benchmarks" / "counting").glob("*.jsonl"))


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 3), ("", 3)])
def test_on_a_terminal_it_is_asked_once_for_all(tmp_path: Path, answer: str, code: int) -> None:
    good = """echo '{"metrics": {"rate": 5}}'"""
    plugin(tmp_path, "one", good, changes_system=["loads a module"])
    plugin(tmp_path, "two", good, changes_system=["starts \x1b[2Ja service"])
    leader, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "overside", "run", str(box(tmp_path, "one", "two"))],
        cwd=tmp_path,
        stdin=terminal,
        stderr=terminal,
        stdout=subprocess.DEVNULL,
    )
    os.close(terminal)
    os.write(leader, f"{answer}\n".encode())
    said = b""
    with contextlib.suppress(OSError):  # EIO is how the end of a terminal reads
        while chunk := os.read(leader, 1 << 16):
            said += chunk
    os.close(leader)
    assert process.wait(60) == code
    assert said.count(b"[y/N]") == 1
    assert b"one: loads a module\r\ntwo: starts ?[2Ja service\r\n" in said


needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)


@needs_bwrap
def test_a_sandbox_keeps_scripts_from_changing_anything(tmp_path: Path) -> None:
    path = dpbento_tree(tmp_path)
    victim = tmp_path / "victim.txt"
    victim.write_text("whole")
    scripts = tmp_path / "tree" / "benchmarks" / "counting"
    (scripts / "prepare.py").write_text(
        "import pathlib\n"
        f"for path in ({str(victim)!r}, '/etc/overside-was-here', '/usr/overside-was-here'):\n"
        "    try:\n"
        "        pathlib.Path(path).write_text('changed')\n"
        "    except OSError:\n"
        "        continue\n"
        "    print('could write', path)\n"
    )
    done, _, samples = run(path, "--sandbox")
    assert done.returncode == 0, done.stderr
    assert [sample["metrics"]["counting.latency[upwards]"] for sample in samples] == [2.5, 5]
    assert victim.read_text() == "whole"
    assert not Path("/etc/overside-was-here").exists()
    (log,) = tmp_path.glob("tree/configs_user/out/*/logs/plugin-counting.log")
    # The place is in its own, empty /tmp: what it wrote there is gone with it.
    wrote = [line for line in log.read_text().splitlines() if line.startswith("could write")]
    assert wrote in ([], [f"could write {victim}"])


@needs_bwrap
def test_in_a_sandbox_a_plugin_that_declares_changes_is_run_and_fails(tmp_path: Path) -> None:
    plugin(tmp_path, "wild", "touch /usr/overside-was-here || exit 7", changes_system=["touches"])
    plugin(tmp_path, "crash", "kill -SEGV $$")
    done, _, samples = run(box(tmp_path, "wild", "crash"), "--sandbox")
    assert done.returncode == 100, done.stderr
    messages = [sample["error"]["message"] for sample in samples]
    assert "exit status 7" in messages[0]
    assert "crashed (SIGSEGV)" in messages[1]


def test_a_sandbox_that_is_not_there_is_said(tmp_path: Path) -> None:
    plugin(tmp_path, "good", ":")
    done = subprocess.run(
        [sys.executable, "-m", "overside", "run", str(box(tmp_path, "good")), "--sandbox"],
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "bubblewrap" in done.stderr


def test_a_tree_of_dpbento_runs_unmodified(tmp_path: Path) -> None:
    done, manifest, samples = run(dpbento_tree(tmp_path), "--allow-scripts")
    assert done.returncode == 0, done.stderr
    assert [test["verified"] for test in manifest["tests"]] == [False, False]
    assert [sample["metrics"]["counting.latency[upwards]"] for sample in samples] == [2.5, 5]
    assert manifest["metrics"]["counting.latency[upwards]"]["unit"] == "ms"


def test_a_class_that_nothing_implements_does_not_disappear(tmp_path: Path) -> None:
    path = tmp_path / "classes.json"
    shutil.copy(HERE / "boxes" / "classes.json", path)
    tests = planned(path)
    skipped = {t["task"] for t in tests if t["status"] == "skipped"}
    assert {"KVS_Octeon", "teleport", "compression", "hasing"} <= skipped
    assert {t["task"] for t in tests} >= {"compress", "decompress", "hash"}


@pytest.mark.parametrize("metric", ["rate", "good.speed"])
def test_a_metric_that_a_plugin_does_not_have_is_an_error(metric: str, tmp_path: Path) -> None:
    plugin(tmp_path, "good", ":")
    path = box(tmp_path, "good")
    value = json.loads(path.read_text())
    value["tasks"][0]["metrics"] = [metric]
    path.write_text(json.dumps(value))
    done = overside("validate", str(path))
    assert done.returncode == 2
    assert "/tasks/0/metrics/0" in done.stdout + done.stderr
