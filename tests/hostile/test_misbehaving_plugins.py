"""Plug-ins that misbehave, many beside each other: each spoils its own test only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from command import environment, manifest, samples, short_box, wait_for
from programs import GOOD, write

if TYPE_CHECKING:
    from conftest import Trials

PATIENCE_S = 240
RUN = '"$(realpath ../..)"'
#: The mark of this process's own: what is left of a plug-in is told by it.
MARK = f"1{os.getpid():07}"


def says(text: str) -> str:
    return f"printf '%s\\n' '{text}'"


def rate(value: str, more: str = "") -> str:
    return says(f'{{"metrics": {{"rate": {value}}}{more}}}')


#: Misbehavior in `run`, by name.
MISBEHAVIOUR = {
    "garbage": says("hello"),
    "bytes": r"printf '\377\376\n'",
    "half-object": says('{"metrics": {"rate"'),
    "list": says("[1]"),
    "deep": "head -c 100000 /dev/zero | tr '\\0' '['",
    "nothing": ":",
    "huge-line": "head -c 3000000 /dev/zero | tr '\\0' a",
    "huge-output": "head -c 100000000 /dev/zero",
    "many-lines": "yes '{}' | head -n 200000",
    "surrogate-key": says(r'{"\ud800": 1}'),
    "surrogate-check": rate("1", r', "check": {"ok": true, "method": "\ud800"}'),
    "surrogate-skip": says(r'{"skip": "\udfff"}'),
    "surrogate-error": says(r'{"error": {"kind": "job", "message": "\udc00"}}'),
    "raw-surrogate": r"""printf '{"skip": "\355\240\200"}\n'""",
    "infinite": rate("1e309"),
    "minus-infinite": rate("-1e309"),
    "not-a-number": rate("NaN"),
    "sums-to-infinity": f"{rate('1e308')}; {rate('1e308')}",
    "endless-number": rate("1" * 5000),
    "text-number": rate('"7"'),
    "no-number": rate("null"),
    "true-number": rate("true"),
    "negative-time": rate("1", ', "elapsed_ns": -5'),
    "infinite-time": rate("1", ', "elapsed_ns": 1e400'),
    "negative-work": rate("1", ', "work": {"bytes": -1}'),
    "twice-work": "; ".join([rate("1", ', "work": {"jobs": 1e308}')] * 2),
    "strange-check": rate("1", ', "check": 5'),
    "false-check": rate("1", ', "check": {"ok": false, "method": "\\u001b[2J"}'),
    "unknown-key": rate("1", ', "joy": 1'),
    "unknown-metric": says('{"metrics": {"joy": 1}}'),
    "exits": "exit 3",
    "exits-after": f"{GOOD}; exit 77",
    "segfault": "kill -SEGV $$",
    "kills-itself": "kill -KILL $$",
    "kills-its-group": "kill -TERM 0; sleep 9",
    "stops-itself": "kill -STOP $$",
    "hangs": f"sleep {MARK}1",
    "hangs-and-ignores": f"trap '' TERM HUP INT; while :; do sleep {MARK}2; done",
    "closes-stdout": f"exec >&-; sleep {MARK}3",
    "closes-all": f"exec >&- 2>&- <&-; sleep {MARK}4",
    "child-holds-output": f"sleep {MARK}5 & {GOOD}",
    "daemon": f"setsid sleep {MARK}6 >/dev/null 2>&1 & {GOOD}",
    "bare-daemon": f"setsid env -i sleep {MARK}7 >/dev/null 2>&1 & {GOOD}",
    "daemon-of-daemon": f"setsid sh -c 'setsid sleep {MARK}8 & exit' >/dev/null 2>&1; {GOOD}",
    "many-children": f"for i in 1 2 3 4 5 6 7 8 9; do sleep {MARK}9 >/dev/null 2>&1 & done; {GOOD}",
    "fills-stderr": f"head -c 40000000 /dev/zero >&2; {GOOD}; exit 1",
    "stderr-never-ends": "yes >&2",
    "commands-terminal": r"printf '\033[2J\033]0;x\007' >&2; exit 1",
    "overwrites-samples": f"echo x >../../samples.jsonl; {GOOD}",
    "appends-to-samples": f"echo '{{}}' >>../../samples.jsonl; {GOOD}",
    "empties-samples": f": >../../samples.jsonl; {GOOD}",
    "removes-samples": f"rm ../../samples.jsonl; {GOOD}",
    "replaces-samples": f"cp ../../samples.jsonl s; mv s ../../samples.jsonl; {GOOD}",
    "samples-a-fifo": f"rm ../../samples.jsonl; mkfifo ../../samples.jsonl; {GOOD}",
    "samples-a-link": f"mv ../../samples.jsonl s; ln -s $PWD/s ../../samples.jsonl; {GOOD}",
    "samples-a-folder": f"rm ../../samples.jsonl; mkdir -p ../../samples.jsonl/x; {GOOD}",
    "edits-manifest": f"sed -i s/planned/skipped/ ../../manifest.json; {GOOD}",
    "removes-manifest": f"rm ../../manifest.json; {GOOD}",
    "removes-machine": f"rm -r ../../nodes; {GOOD}",
    "removes-logs": f"rm -r ../../logs; {GOOD}",
    "logs-a-file": f"rm -r ../../logs; echo >../../logs; {GOOD}",
    "locks-folder": f"chmod 0 ../..; {GOOD}",
    "removes-run": f"rm -r {RUN}; {GOOD}",
    "moves-run": f'mv {RUN} "$(realpath ../../..)/elsewhere"; {GOOD}',
}
#: Harmless misbehavior, whose sample may be good.
HARMLESS = {
    "removes-work": f'rm -r "$OVERSIDE_WORK"; {GOOD}',
    "work-a-file": f'rm -r "$OVERSIDE_WORK"; echo >"$OVERSIDE_WORK"; {GOOD}',
    "reads-nothing": f"exec <&-; {GOOD}",
    "many-empty-lines": f"yes '' | head -n 90000; {GOOD}",
    "fills-work": f"head -c 3000000 /dev/zero >big; {GOOD}",
}
#: Wrong descriptions of themselves, and what they do instead.
DESCRIPTIONS = {
    "describes-garbage": "echo hello",
    "describes-nothing": ":",
    "describes-half-a-character": r"""printf '{"plugin": "1", "description": "\\ud800"}'""",
    "describes-infinity": """printf '{"plugin": "1", "timeout_s": 1e309}'""",
    "describes-twice": "echo '{}'; echo '{}'",
    "describes-and-dies": "kill -SEGV $$",
}


def is_left() -> bool:
    """`True` if one of their processes is left."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if line.startswith(b"sleep\0" + MARK.encode()):
                return True
    return False


def test_each_spoils_only_its_own_test(trials: Trials, tmp_path: Path) -> None:
    # Some cost a second of patience; all of them are too many for one quick run.
    kinds = [*MISBEHAVIOUR, *HARMLESS, *DESCRIPTIONS]
    for trial in trials(quick=1):
        with trial() as random:
            run_them(random, random.sample(kinds, 8), tmp_path / str(trials.tried))


@pytest.mark.long
def test_each_kind_spoils_only_its_own_test(tmp_path: Path) -> None:
    kinds = [*MISBEHAVIOUR, *HARMLESS, *DESCRIPTIONS]
    for number, first in enumerate(range(0, len(kinds), 8)):
        run_them(Random(number), kinds[first : first + 8], tmp_path / str(number))


def run_them(random: Random, chosen: list[str], folder: Path) -> None:
    folder.mkdir()
    names = []
    for kind in chosen:
        script = MISBEHAVIOUR.get(kind) or HARMLESS.get(kind, ":")
        # What never ends is to be over soon; what does need not hurry on a busy machine.
        timeout_s = 1 if kind in MISBEHAVIOUR else 30
        write(folder, kind, script, DESCRIPTIONS.get(kind, ""), timeout_s)
        good = f"good{len(names)}"
        write(folder, good, GOOD)
        names += [kind, good]
    random.shuffle(names)
    box = short_box(folder, *({"task": name} for name in names), max_s=PATIENCE_S)
    done = subprocess.run(
        [sys.executable, "-m", "overside", "run", str(box), "-q"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        timeout=PATIENCE_S * 1.5,
        check=False,
    )
    said = done.stderr.decode("utf-8", "replace")
    assert done.returncode in (100, 101) or set(chosen) <= set(HARMLESS), said
    assert "Traceback" not in said
    (run,) = (path for path in (folder / "results").iterdir() if path.name != "elsewhere")
    about = manifest(run)
    assert about["state"] == "complete"
    found = {one["test"].partition("/")[0]: one for one in samples(run)}
    assert sorted(found) == sorted(names)
    for name, sample in found.items():
        if name.startswith("good"):
            assert sample["status"] == "ok", sample
        elif name not in HARMLESS:
            assert sample["status"] == "failed", sample
            assert sample["error"]["message"].startswith(f"plug-in {name} "), sample
            assert sample["error"]["message"].replace("\n", "").isprintable()
    assert about["exit_code"] == done.returncode
    assert (run / "report.html").stat().st_size > 1000
    wait_for(lambda: not is_left())
