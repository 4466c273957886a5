"""Damaged tables: an answer or a refusal in a line, and never more memory than there may be."""

from __future__ import annotations

import io
import random as randomness
import resource
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from archives import PATIENCE_S
from command import native
from pyarrow import ipc

if TYPE_CHECKING:
    from conftest import Trials

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus" / "records"
#: Maximum memory of a search in a table of some kilobytes.
MEMORY_BYTES_MAX = 4 << 30


def tables() -> dict[str, bytes]:
    """Tables that others wrote, by name. The first byte of each file is the fuzzer's."""
    names = [path for path in sorted(CORPUS.iterdir()) if path.name[0] in "pfsc"]
    found = {path.name: path.read_bytes()[1:] for path in names}
    csv = io.StringIO()
    random = randomness.Random(1)
    csv.write("n,t,x\r\n")
    for number in range(200):
        quoted = "".join(random.choice('ab,"\n ') for _ in range(9)).replace('"', '""')
        csv.write(f'{number},"{quoted}",{random.random()}\r\n')
    return found | {"csv-long": csv.getvalue().encode()}


def bound() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def damage(random: Random, data: bytes, others: list[bytes]) -> bytes:
    """A few changes of one kind or another."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        if not made:
            break
        at = random.randrange(len(made))
        if random.random() < 0.4:
            # The metadata stand at the ends.
            at = random.choice((at % 64, len(made) - 1 - at % 200)) % len(made)
        match random.randrange(7):
            case 0:
                made[at] ^= 1 << random.randrange(8)
            case 1:
                made[at] = random.choice((0, 1, 127, 128, 255))
            case 2:
                del made[at : at + random.randint(1, 30)]
            case 3:
                made[at:at] = random.randbytes(random.randint(1, 30))
            case 4:
                number = random.choice((0, -1, 1 << 31, (1 << 31) - 1, 1 << 62, len(made), 1 << 20))
                size = random.choice((4, 8))
                made[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
            case 5:
                del made[at:]
            case _:
                other = random.choice(others)
                begin = random.randrange(len(other) or 1)
                made[at : at + 40] = other[begin : begin + 40]
    return bytes(made)


def search(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run(file, "match", *options, "--column", "t", "a", file.name)


def run(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*native(), *words],
        cwd=file.parent,
        capture_output=True,
        text=True,
        errors="replace",
        preexec_fn=bound,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("kind", ["parquet", "file", "stream", "csv"])
def test_a_damaged_table_is_searched_or_refused(trials: Trials, kind: str, tmp_path: Path) -> None:
    all_tables = tables()
    chosen = [name for name in all_tables if name.startswith(kind)]
    others = list(all_tables.values())
    for trial in trials(quick=40):
        with trial() as random:
            name = random.choice(chosen)
            file = tmp_path / "table"
            file.write_bytes(damage(random, all_tables[name], others))
            done = search(file, *random.choice(([], ["-c"], ["-v"], ["--json"], ["-o"])))
            assert done.returncode in (0, 1, 2), f"{name}: {done.returncode} {done.stderr}"
            if done.returncode == 2:
                assert done.stderr.startswith("overside match: table: "), done.stderr
                assert len(done.stderr.splitlines()) == 1, done.stderr
            else:
                assert done.stderr == ""


@pytest.mark.parametrize("kind", ["parquet", "file", "stream", "csv"])
def test_a_damaged_table_is_partitioned_or_refused(
    trials: Trials, kind: str, tmp_path: Path
) -> None:
    all_tables = tables()
    chosen = [name for name in all_tables if name.startswith(kind)]
    others = list(all_tables.values())
    file = tmp_path / "table"
    for number, trial in enumerate(trials(quick=30)):
        with trial() as random:
            name = random.choice(chosen)
            file.write_bytes(damage(random, all_tables[name], others))
            out = tmp_path / str(number)
            how = random.choice((["--hash", "4"], ["--bits", "2"]))
            key = random.choice(("t", "n"))
            done = run(file, "flow", "partition", "table", "--key", key, *how, "--out", out.name)
            assert done.returncode in (0, 2), f"{name}: {done.returncode} {done.stderr}"
            if done.returncode == 2:
                *notes, refusal = done.stderr.splitlines()
                assert refusal.startswith("overside flow partition: "), done.stderr
                assert all(" is read as text: " in note for note in notes), done.stderr
            else:
                # Whatever was understood, others read what was made of it.
                for made in out.iterdir():
                    ipc.open_file(made).read_all().validate(full=True)
            shutil.rmtree(out, ignore_errors=True)
