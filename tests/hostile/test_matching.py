"""`overside match` beside `grep -aP` and Python's csv, on random patterns, texts and records."""

from __future__ import annotations

import csv
import io
import os
import subprocess
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from archives import PATIENCE_S
from command import native

if TYPE_CHECKING:
    from conftest import Trials

#: Letters of texts and patterns. Line feeds are added separately.
ALPHABET = "aabbc01_ -.A\t"
ENGINES = ("auto", "auto", "auto", "literal", "hyperscan", "regex", "re2")
PIECES = ("64", "100", "4KiB", "256KiB")


def atom(random: Random, depth: int) -> str:
    """Literal text, in the syntax that grep and Overside have in common."""
    kind = random.random()
    if kind < 0.5 or depth > 3:
        return random.choice("aabbc01_ A-")
    if kind < 0.62:
        return random.choice(("\\d", "\\w", "\\D", "\\W", ".", "\\s", "\\S"))
    if kind < 0.72:
        inside = "".join(random.choice(("a-c", "b", "0-9", "_", " ", "A")) for _ in range(2))
        return f"[{random.choice(('', '^'))}{inside}]"
    if kind < 0.8:
        return random.choice(("\\b", "\\B", "^", "$"))
    if kind < 0.84:
        return f"\\x{random.choice((0x41, 0x62, 0x80, 0xFF)):02x}"
    return f"({random.choice(('', '?:'))}{either(random, depth + 1)})"


def repeated(random: Random, depth: int) -> str:
    one = atom(random, depth)
    if one in ("^", "$", "\\b", "\\B") or random.random() < 0.6:
        return one
    return one + random.choice(("*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?"))


def either(random: Random, depth: int = 0) -> str:
    def one() -> str:
        return "".join(repeated(random, depth) for _ in range(random.randint(1, 4)))

    return "|".join(one() for _ in range(random.choice((1, 1, 1, 2, 3))))


def text(random: Random) -> bytes:
    """Lines, some of which are no text."""
    lines = []
    for _ in range(random.randint(0, 60)):
        line = "".join(random.choice(ALPHABET) for _ in range(random.randint(0, 20))).encode()
        if random.random() < 0.1:
            line += random.randbytes(random.randint(1, 5)).replace(b"\n", b"\r")
        lines.append(line * (50 if random.random() < 0.02 else 1))
    return b"\n".join(lines) + random.choice((b"", b"\n", b"\n\n"))


def run(*words: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        words,
        input=given,
        capture_output=True,
        env=os.environ | {"LC_ALL": "C"},
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_same_lines_as_grep(trials: Trials, tmp_path: Path) -> None:
    file = tmp_path / "text"
    for trial in trials(quick=100):
        with trial() as random:
            pattern, content = either(random), text(random)
            file.write_bytes(content)
            options = [word for word in ("-v", "-c", "-n", "-i") if random.random() < 0.25]
            engine = random.choice(ENGINES)
            theirs = run("grep", "-aP", *options, "-e", pattern, given=content)
            where = [str(file)] if random.random() < 0.5 else []
            ours = run(
                *(*native(), "match", "--engine", engine, "--chunk", random.choice(PIECES)),
                *(*options, "-e", pattern, *where),
                given=b"" if where else content,
            )
            if ours.returncode == 2 and engine not in ("auto", "regex", "re2"):
                assert b"does not compile" in ours.stderr, ours.stderr
                continue
            if theirs.returncode == 2:
                # PCRE gives up where matching takes too many steps; we do not.
                assert b"backtrack" in theirs.stderr or b"PCRE" in theirs.stderr, theirs.stderr
                assert ours.returncode in (0, 1), ours.stderr
                continue
            said = f"{pattern!r} {options} {engine}: {ours.stderr!r}"
            assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout), said


def value(random: Random) -> str:
    return "".join(random.choice("aab\"c,\n\r' ") for _ in range(random.randint(0, 8)))


def test_the_same_records_as_pythons_csv(trials: Trials, tmp_path: Path) -> None:
    for trial in trials(quick=100):
        with trial() as random:
            delimiter = random.choice((",", "\t"))
            file = tmp_path / ("table.tsv" if delimiter == "\t" else "table.csv")
            columns = random.randint(1, 4)
            column = random.randrange(columns)
            rows = [[value(random) for _ in range(columns)] for _ in range(random.randint(0, 40))]
            out = io.StringIO(newline="")
            writer = csv.writer(
                out,
                delimiter=delimiter,
                quoting=random.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
                lineterminator=random.choice(("\n", "\r\n")),
            )
            writer.writerow([f"n{number}" for number in range(columns)])
            writer.writerows(rows)
            file.write_text(out.getvalue(), newline="")
            read = list(csv.reader(io.StringIO(out.getvalue(), newline=""), delimiter=delimiter))
            # An empty line is no row to either, and a short row (Python writes a bare \r unquoted)
            # has no value.
            kept = [row for row in read[1:] if row]
            expected = [
                f"{number}:{row[column]}\n"
                for number, row in enumerate(kept, 1)
                if "a" in "".join(row[column : column + 1])
            ]
            done = run(
                *(*native(), "match", "-n", "--column", f"n{column}", "a", str(file)), given=b""
            )
            assert done.returncode == (0 if expected else 1), done.stderr
            assert done.stdout.decode() == "".join(expected)
