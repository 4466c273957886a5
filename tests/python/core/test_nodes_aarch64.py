"""An agent for 64-bit Arm and one for this processor in one run, by emulation, with what `make
test-aarch64` has built."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from unittest import mock

import pytest
from command import Json, ran, running_agent, samples, short_box
from overside.bench import statistics

BUILT = Path(__file__).parents[3] / "target"
COMMANDS = sorted(BUILT.glob("aarch64-unknown-linux-gnu/*/overside"))
ROOTS = sorted(BUILT.glob("aarch64-sysroot-*"))
QEMU = shutil.which("qemu-aarch64-static")

pytestmark = pytest.mark.skipif(
    not (COMMANDS and ROOTS and QEMU) or platform.machine() == "aarch64",
    reason="no command for 64-bit Arm, or no emulator: `make test-aarch64` builds one",
)


def test_one_run_measures_on_both_processors(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("all work and no play makes a dull text\n" * 2000)
    data = {"data": "words.txt", "sample_bytes": 16384, "buffer_size": 4096}
    tasks: list[Json] = [
        {"task": "compress", "parameters": {"format": "lz4", **data}},
        {"task": "match", "parameters": {"patterns": "dull", "variant": "regex", **data}},
        {"task": "copy", "parameters": data},
        {"task": "dma", "parameters": {"device": "shm"}},
        {"task": "network", "parameters": {}},
    ]
    runner = f"{QEMU} -L {ROOTS[-1]}"
    arm = [*runner.split(), str(COMMANDS[-1])]
    with (
        running_agent("--insecure", "--data-dir", str(tmp_path / "x86")) as (_, x86),
        mock.patch.dict(os.environ, {"OVERSIDE_RUNNER": runner}),
        running_agent("--insecure", "--data-dir", str(tmp_path / "arm"), command=arm) as (_, other),
    ):
        inventory = tmp_path / "agents.toml"
        inventory.write_text(
            f'[agents.x86]\naddress = "{x86["address"]}"\n'
            f'[agents.arm]\naddress = "{other["address"]}"\n'
        )
        with mock.patch.dict(os.environ, {"OVERSIDE_AGENTS": str(inventory)}):
            box = short_box(tmp_path, *tasks, sample_s=0.01, rounds=1)
            run = ran(box, "--node", "local,x86,arm")
    taken = samples(run)
    assert len(taken) == 3 * len(tasks)
    assert {sample["status"] for sample in taken} == {"ok"}, taken
    assert {sample.get("node", "local") for sample in taken} == {"local", "x86", "arm"}
    about = statistics.load_run(run).nodes
    assert about["arm"]["cpu"]["architecture"] == "aarch64"
    assert about["x86"]["cpu"]["architecture"] == platform.machine()
