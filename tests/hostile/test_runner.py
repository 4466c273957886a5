"""Runs that are killed at any moment and resumed: at most the sample in progress is lost."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from archives import emptied
from command import children, environment, manifest, samples, tiny_box
from programs import GOOD, write

if TYPE_CHECKING:
    from conftest import Trials

ROUNDS = 3
KILLS_MAX = 3
PATIENCE_S = 240


def box(random: Random, folder: Path) -> tuple[Path, int]:
    """A box of native tests and plug-ins, and how many samples it stands for."""
    path = tiny_box(folder, rounds=ROUNDS, sample_s=0.001)
    form = json.loads(path.read_text())
    for number in range(random.randint(0, 2)):
        write(folder, f"good{number}", f"sleep 0.0{random.randint(0, 9)}; {GOOD}")
        form["tasks"].append({"task": f"good{number}"})
    path.write_text(json.dumps(form))
    return path, ROUNDS * (2 + len(form["tasks"]))


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "overside", "run", *words, "-q"],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )


def killed(process: subprocess.Popen[bytes], after_s: float) -> int:
    """Ends it with SIGKILL after a while, unless it has ended; nothing of it goes on."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_s)
    started = children(process.pid)
    process.kill()
    code = process.wait()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in started):
        time.sleep(0.01)
    return code


def whole_lines(run: Path) -> list[bytes]:
    with suppress(FileNotFoundError):
        content = (run / "samples.jsonl").read_bytes()
        return content[: content.rfind(b"\n") + 1].splitlines()
    return []


def test_a_killed_run_loses_at_most_the_sample_in_progress(trials: Trials, tmp_path: Path) -> None:
    for trial in trials(quick=1):
        with trial() as random:
            go_on_until_done(random, emptied(tmp_path / "work"))


def go_on_until_done(random: Random, folder: Path) -> None:
    path, expected = box(random, folder)
    results = folder / "results"
    before: list[bytes] = []
    words = (path.name,)
    for _ in range(random.randint(1, KILLS_MAX)):
        code = killed(start(folder, *words), random.uniform(0, 2.5))
        runs = list(results.iterdir()) if results.exists() else []
        assert code in (-signal.SIGKILL, 0), code
        if not runs or not (runs[0] / "manifest.json").exists():
            # It had not begun to measure.
            shutil.rmtree(results, ignore_errors=True)
            words, before = (path.name,), []
            continue
        (run,) = runs
        after = whole_lines(run)
        assert after[: len(before)] == before
        before = after
        words = ("--resume", str(run))
    process = start(folder, *words)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said.decode("utf-8", "replace")
    (run,) = results.iterdir()
    assert manifest(run)["state"] == "complete"
    assert whole_lines(run)[: len(before)] == before
    taken = [(one["test"], one["round"]) for one in samples(run)]
    assert len(set(taken)) == len(taken)
    assert len([one for one in taken if one[1] < ROUNDS]) == expected
    assert {one["status"] for one in samples(run)} == {"ok"}
    # Nothing is left that belongs to nobody.
    assert not [one.name for one in run.iterdir() if one.name.startswith(".")]
