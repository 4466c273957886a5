"""Runs as a user sees them: the real command, real boxes, what they leave behind."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from command import (
    Json,
    children,
    environment,
    manifest,
    only_run,
    overside,
    samples,
    start,
    tiny_box,
    wait_for,
    write_box,
)
from overside.bench import store

LONG_ROUNDS = 10
LONG: dict[str, float] = {"rounds": LONG_ROUNDS, "sample_s": 0.05}


TinyRun = tuple[Path, subprocess.CompletedProcess[str]]


def test_a_run_leaves_what_the_documentation_says(tiny_run: TinyRun) -> None:
    directory, done = tiny_run
    run = only_run(directory)
    assert re.fullmatch(r"\d{8}T\d{6}Z-tiny-[0-9a-f]{4}", run.name)

    about = manifest(run)
    assert about["schema"] == "run/1"
    assert about["id"] == run.name
    assert about["state"] == "complete"
    assert about["exit_code"] == 0
    assert about["seed"] == about["box"]["seed"] == 9
    assert about["command"] == ["overside", "run", "tiny.json", "--seed", "9"]
    assert about["rounds"] == {
        "done": 6,
        "planned": 6,
        "most": 6,
        "reason": "target interval reached",
    }
    assert [(d["name"], d["size_bytes"]) for d in about["data"]] == [("words.txt", 78000)]
    assert about["metrics"]["throughput"]["unit"] == "MB/s"
    assert len(about["tests"]) == 4
    assert all(re.fullmatch(r"(compress|decompress)/[0-9a-f]{12}", t["id"]) for t in about["tests"])

    taken = samples(run)
    assert len(taken) == 4 * 6
    assert {sample["status"] for sample in taken} == {"ok"}
    for sample in taken:
        assert sample["applied"]["device"] == "cpu"
        assert sample["provenance"] == "measured"
        assert sample["check"]["buffers"] > 0
        assert sample["work"]["bytes"] / sample["elapsed_ns"] * 1000 == pytest.approx(
            sample["metrics"]["throughput"], rel=1e-6
        )
    machine = json.loads((run / "nodes" / "local.json").read_text())
    assert machine["cpu"]["model"]
    assert "load_1min" in machine["load_before"]
    assert "load_1min" in machine["load_after"]
    assert (run / "report.html").is_file()
    assert not list((run / "logs").iterdir()), "workers that had nothing to say leave no log"
    assert done.stdout.strip(), "the summary is on stdout"
    assert run.name in done.stderr


def test_order_alternates_from_round_to_round(tiny_run: TinyRun) -> None:
    run = only_run(tiny_run[0])
    planned = [test["id"] for test in manifest(run)["tests"]]
    for number in range(6):
        order = [s["test"] for s in samples(run) if s["round"] == number]
        assert order == (planned if number % 2 == 0 else planned[::-1])


def test_json_is_all_that_is_on_stdout_and_quiet_says_nothing(tmp_path: Path) -> None:
    tiny_box(tmp_path, rounds=1)
    done = overside("run", "tiny.json", "--json", cwd=tmp_path, code=0)
    view = json.loads(done.stdout)
    assert len(view["tests"]) == 4
    assert view["manifest"]["rounds"]["reason"] == "rounds reached"
    assert all(test["metrics"]["throughput"]["kind"] == "range" for test in view["tests"])
    quiet = overside("run", "tiny.json", "--quiet", "--out", "other", cwd=tmp_path, code=0)
    assert quiet.stdout == quiet.stderr == ""


def test_set_and_filter_choose_the_tests(tmp_path: Path) -> None:
    tiny_box(tmp_path, rounds=1)
    done = overside(
        *("run", "tiny.json", "--set", "decompress.buffer_size=1024,2048", "--json"),
        *("--filter", "task=decompress", "--filter", "buffer_size=1*"),
        cwd=tmp_path,
        code=0,
    )
    (test,) = json.loads(done.stdout)["tests"]
    assert (test["task"], test["parameters"]["buffer_size"]) == ("decompress", 1024)


def test_nothing_selected(tmp_path: Path) -> None:
    tiny_box(tmp_path)
    done = overside("run", "tiny.json", "--filter", "variant=zlob", cwd=tmp_path, code=4)
    assert "--filter variant=zlob" in done.stderr
    assert not (tmp_path / "results").exists()


def test_what_cannot_run_is_skipped_with_its_reason(tmp_path: Path) -> None:
    box = json.loads(tiny_box(tmp_path, rounds=1).read_text())
    for task in box["tasks"]:
        task["parameters"] |= {"device": "emulated:bf2", "format": "zlib", "variant": "auto"}
    write_box(tmp_path, box)
    done = overside("run", "tiny.json", cwd=tmp_path, code=3)
    about = manifest(only_run(tmp_path))
    assert len(about["tests"]) == 3
    assert {test["status"] for test in about["tests"]} == {"skipped"}
    for test in about["tests"]:
        assert "emulated:bf2 cannot do" in test["reason"]
        assert test["reason"] in done.stderr


def test_a_level_that_a_library_lacks_is_skipped_and_the_others_run(tmp_path: Path) -> None:
    box = json.loads(tiny_box(tmp_path, rounds=1).read_text())
    box["tasks"][0]["parameters"]["level"] = [1, 12]
    write_box(tmp_path, box)
    overside("run", "tiny.json", cwd=tmp_path, code=0)
    run = only_run(tmp_path)
    (skipped,) = [t for t in manifest(run)["tests"] if t["status"] == "skipped"]
    assert skipped["parameters"]["variant"] == "zlib"
    assert "levels 0 to 9, not 12" in skipped["reason"]
    assert len(samples(run)) == 5


def test_time_ends_before_the_rounds_and_resume_does_the_rest(tmp_path: Path) -> None:
    tiny_box(tmp_path, rounds=8, sample_s=0.05)
    done = overside("run", "tiny.json", "--timeout", "0.8", cwd=tmp_path, code=5)
    run = only_run(tmp_path)
    assert f"overside run --resume results/{run.name}" in done.stderr
    assert manifest(run)["state"] == "incomplete"
    assert manifest(run)["rounds"]["reason"] == "max_s reached"
    assert len(samples(run)) < 4 * 8
    overside("run", "tiny.json", "--resume", run, cwd=tmp_path, code=0)
    assert_complete(run, 4 * 8)


def assert_complete(run: Path, count: int) -> None:
    """Every test was measured once in each round."""
    taken = samples(run)
    assert len({(sample["test"], sample["round"]) for sample in taken}) == len(taken) == count
    assert {sample["status"] for sample in taken} == {"ok"}
    assert manifest(run)["state"] == "complete"


def started_run(directory: Path, **measure: float) -> tuple[subprocess.Popen[str], Path]:
    """A long run that has taken its first sample and is at the next one."""
    tiny_box(directory, **(LONG | measure))
    process = start("run", "tiny.json", cwd=directory)
    results = directory / "results"
    wait_for(lambda: list(results.glob("*/samples.jsonl")))
    run = only_run(directory)
    wait_for(lambda: (run / "samples.jsonl").stat().st_size)
    return process, run


def test_a_killed_run_can_be_resumed_and_its_worker_does_not_outlive_it(tmp_path: Path) -> None:
    process, run = started_run(tmp_path)
    (worker,) = wait_for(lambda: children(process.pid))
    process.kill()
    process.communicate()
    wait_for(lambda: not Path(f"/proc/{worker}").exists())
    assert manifest(run)["state"] == "running"
    before = (run / "samples.jsonl").read_bytes()
    # A write that was cut off, as after a power failure.
    (run / "samples.jsonl").write_bytes(before[: before.rindex(b"\n") + 1] + b'{"test": "compr')
    assert before.count(b"\n") < 4 * LONG_ROUNDS
    overside("run", "--resume", run, cwd=tmp_path, code=0)
    assert_complete(run, 4 * LONG_ROUNDS)
    assert (run / "samples.jsonl").read_bytes().startswith(before[: before.rindex(b"\n") + 1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_measured(tmp_path: Path, number: signal.Signals) -> None:
    process, run = started_run(tmp_path)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert manifest(run)["state"] == "interrupted"
    assert manifest(run)["exit_code"] == 130
    assert samples(run)
    assert not children(process.pid)
    assert "--resume" in stderr
    assert (run / "report.html").is_file(), "there is a report of what was measured"
    assert stdout.strip()


def test_a_worker_that_dies_fails_its_test_and_no_other(tmp_path: Path) -> None:
    process, run = started_run(tmp_path, rounds=2, sample_s=0.5)
    (worker,) = wait_for(lambda: children(process.pid))
    os.kill(worker, signal.SIGKILL)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 100, stderr
    (failed,) = [sample for sample in samples(run) if sample["status"] == "failed"]
    assert failed["error"]["kind"] == "crash"
    assert "SIGKILL" in failed["error"]["message"]
    assert failed["error"]["message"] in stderr
    for test in manifest(run)["tests"]:
        if test["id"] != failed["test"]:
            mine = [s["status"] for s in samples(run) if s["test"] == test["id"]]
            assert mine == ["ok", "ok"]


def test_two_processes_cannot_write_the_same_run(tmp_path: Path) -> None:
    process, run = started_run(tmp_path)
    done = overside("run", "--resume", run, cwd=tmp_path, code=2)
    assert "another process" in done.stderr
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)


def test_a_resumed_run_must_be_of_the_same_box_and_data(tmp_path: Path) -> None:
    tiny_box(tmp_path)
    overside("run", "tiny.json", "--timeout", "0.01", cwd=tmp_path, code=5)
    run = only_run(tmp_path)
    changed = tiny_box(tmp_path, rounds=7)
    done = overside("run", "tiny.json", "--resume", run, cwd=tmp_path, code=2)
    assert "is not the box of" in done.stderr
    done = overside("run", "--resume", run, "--seed", "3", cwd=tmp_path, code=2)
    assert "--seed" in done.stderr
    changed.unlink()
    (tmp_path / "words.txt").write_text("other words\n" * 9000)
    done = overside("run", "--resume", run, cwd=tmp_path, code=2)
    assert "words.txt has changed" in done.stderr


def test_a_full_disk_leaves_an_incomplete_run_that_can_be_resumed(tmp_path: Path) -> None:
    tiny_box(tmp_path, rounds=4)
    full = subprocess.run(
        [sys.executable, "-m", "overside", "run", "tiny.json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        # A file that may not grow any further answers as a full disk does.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384)),
        timeout=120,
        check=False,
    )
    run = only_run(tmp_path)
    assert full.returncode == 5, full.stderr
    assert "cannot write" in full.stderr
    assert manifest(run)["rounds"]["reason"] == "disk full"
    assert len(samples(run)) < 16, "every line that is there is whole"
    overside("run", "--resume", run, cwd=tmp_path, code=0)
    assert_complete(run, 16)


def test_results_that_cannot_be_written(tmp_path: Path) -> None:
    tiny_box(tmp_path)
    (tmp_path / "file").write_text("")
    done = overside("run", "tiny.json", "--out", "file", cwd=tmp_path, code=2)
    assert "cannot write file/" in done.stderr
    assert "--out DIR" in done.stderr


def plugin(directory: Path, run: str) -> None:
    """A plug-in beside the box; `run` is what it does when it is to measure. When it has cleaned
    up there is a file `cleaned`."""
    folder = directory / "plugins" / "odd"
    folder.mkdir(parents=True)
    program = folder / "plugin"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib, sys, time\n"
        "sys.stdin.read()\n"
        "if sys.argv[1] == 'describe':\n"
        "    print(json.dumps({'plugin': '1', 'name': 'odd', 'description': 'odd',\n"
        "        'parameters': {}, 'verifies': True, 'metrics': {'speed': {'unit': 'MB/s',\n"
        "        'better': 'higher', 'description': 'how fast'}}}))\n"
        "elif sys.argv[1] == 'run':\n"
        f"    {run}\n"
        "else:\n"
        "    if sys.argv[1] == 'clean':\n"
        f"        pathlib.Path({str(directory / 'cleaned')!r}).touch()\n"
        "    print('{}')\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_a_plugin_is_cleaned_up_after_an_interrupt(tmp_path: Path) -> None:
    plugin(tmp_path, f"pathlib.Path({str(tmp_path / 'begun')!r}).touch(); time.sleep(60)")
    tiny_box(tmp_path, tasks=[{"task": "odd"}])
    process = start("run", "tiny.json", cwd=tmp_path)
    wait_for((tmp_path / "begun").exists)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert (tmp_path / "cleaned").exists()
    assert samples(only_run(tmp_path)) == []


def test_the_end_of_the_time_is_no_fault_of_a_plugin(tmp_path: Path) -> None:
    plugin(tmp_path, "time.sleep(60)")
    tiny_box(tmp_path, tasks=[{"task": "odd"}], max_s=1)
    overside("run", "tiny.json", cwd=tmp_path, code=5)
    assert (tmp_path / "cleaned").exists()
    assert samples(only_run(tmp_path)) == []


def test_a_wrong_result_weighs_more_than_all_else(tmp_path: Path) -> None:
    body = {"error": {"kind": "verification", "message": "the bytes differ"}}
    plugin(tmp_path, f"print({json.dumps(body)!r})")
    box = json.loads(tiny_box(tmp_path, rounds=2).read_text())
    box["tasks"].append({"task": "odd"})
    write_box(tmp_path, box)
    done = overside("run", "tiny.json", cwd=tmp_path, code=101)
    assert "the bytes differ" in done.stderr
    run = only_run(tmp_path)
    statuses = [sample["status"] for sample in samples(run)]
    assert statuses.count("ok") == 8, "the other tests are unharmed"
    assert statuses.count("failed") == 1, "what failed is not repeated"


def test_help_needs_nothing_that_takes_long_to_load(tmp_path: Path) -> None:
    code = (
        "import sys; from overside.__main__ import main\n"
        "main(['run', '--help'])\n"
        "heavy = {'tqdm', 'jinja2', 'vl_convert', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--resume" in done.stdout


def test_there_is_a_bar_on_a_terminal_and_none_elsewhere(tmp_path: Path) -> None:
    tiny_box(tmp_path, rounds=2)
    reader, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    process = subprocess.Popen(
        [sys.executable, "-m", "overside", "run", "tiny.json", "--out", "seen"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""
    # Reading a terminal that nobody writes to any more is an error, not an end.
    with contextlib.suppress(OSError):
        while chunk := os.read(reader, 4096):
            shown += chunk
    os.close(reader)
    assert process.wait(60) == 0
    assert b"round 2" in shown
    assert b"%|" in shown
    piped = overside("run", "tiny.json", cwd=tmp_path, code=0)
    assert "%|" not in piped.stderr + piped.stdout


def test_tests_whose_emulated_timing_is_invalid_are_not_passed(tmp_path: Path) -> None:
    tiny_box(tmp_path, rounds=2)
    overside("run", "tiny.json", cwd=tmp_path, code=0)
    run = only_run(tmp_path)
    taken = samples(run)
    emulated = {"provenance": "emulated", "timing": "paced"}

    def resumed(late: set[str], *words: str, code: int) -> dict[str, Any]:
        """The run's JSON with the tests of some tasks late: its samples are all there."""
        for sample in taken:
            is_late = sample["test"].partition("/")[0] in late
            sample.update(emulated, late=sample["work"]["jobs"] if is_late else 0)
        lines = "".join(json.dumps(sample) + "\n" for sample in taken)
        (run / "samples.jsonl").write_text(lines)
        done = overside("run", "--resume", run, "--json", *words, cwd=tmp_path, code=code)
        assert manifest(run)["exit_code"] == code
        return json.loads(done.stdout)

    some = resumed({"compress"}, code=0)
    assert {test["status"] for test in some["tests"] if test["task"] == "compress"} == {"invalid"}
    assert some["manifest"]["counts"] == {
        "tests": 4,
        "ok": 2,
        "invalid": 2,
        "failed": 0,
        "skipped": 0,
        "missing": 0,
        "unverified": 0,
    }
    resumed({"compress"}, "--strict", code=104)
    summary = overside("report", run, "--format", "csv", "--out", "-", cwd=tmp_path, code=0)
    rows = list(csv.DictReader(summary.stdout.splitlines()))
    assert {row["task"] for row in rows if row["status"] == "invalid"} == {"compress"}
    assert {row["task"] for row in rows if row["status"] == "ok"} == {"decompress"}
    every = resumed({"compress", "decompress"}, code=104)
    assert every["manifest"]["counts"]["invalid"] == 4


def test_a_run_is_gone_on_with_as_its_last_writer_left_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {"schema": store.SCHEMA, "id": "run", "box_path": "box.json", "tests": []}
    store.RunStore.create(tmp_path, form).close()
    read, others = store.read_manifest, [{"ended": "meanwhile"}]

    def read_before_another_ends(path: Path) -> Json:
        manifest = read(path)
        while others:
            with store.RunStore(path, manifest | others.pop()) as other:
                other.write_manifest()
        return manifest

    monkeypatch.setattr(store, "read_manifest", read_before_another_ends)
    with store.RunStore.reopen(tmp_path / "run") as again:
        assert again.manifest["ended"] == "meanwhile"
