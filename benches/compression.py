"""`overside compress` and `decompress` beside gzip, pigz, igzip and rapidgzip: whole commands, from
a file to nowhere, two threads each where a program has threads.

    python benches/compression.py [--quick] [--command OVERSIDE] [FILE]

Without a file the input is at least 1 GiB made of the Silesia files in `../shared/data`, or else of
words made here. The programs take turns, forwards and backwards, so that what the machine does in
between strikes all of them; ratios are medians of ratios within a turn. Programs that are not
installed are left out; rapidgzip is looked for beside this Python and on the path. Every output is
checked once.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BESIDE = Path(sys.executable).parent
SMALL_BYTES = 1 << 20


@dataclass(frozen=True)
class Target:
    """Program that the first of a list is compared with, and the expected ratio."""

    peer: str
    at_least: float


COMPRESS = {
    "overside": "{overside} compress -1 -c -p2 {input}",
    "igzip": "igzip -1 -c {input}",
    "pigz": "pigz -p2 -1 -c {input}",
    "gzip": "gzip -1 -c {input}",
}
DECOMPRESS = {
    "overside": "{overside} decompress -c -p2 {input}",
    "pigz": "pigz -dc -p2 {input}",
    "rapidgzip": "{rapidgzip} -d -P 2 -c {input}",
    "igzip": "igzip -dc {input}",
    "gzip": "gzip -dc {input}",
}
COMPRESS_TARGETS = [Target("pigz", 3.0), Target("igzip", 1.8)]
DECOMPRESS_TARGETS = [Target("pigz", 2.0), Target("rapidgzip", 1.0)]
SMALL_MS_MAX = 10.0
LONGER_MAX = 0.01


def main() -> None:
    """Prints times, rates, ratios and what became of the targets."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="128 MiB and three turns")
    parser.add_argument("--command", default=str(BESIDE / "overside"), metavar="OVERSIDE")
    args = parser.parse_args()
    turns, target_bytes = (3, 1 << 27) if args.quick else (7, 1 << 30)
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        data = args.file or make(directory / "data", target_bytes)
        programs = {"overside": args.command, "rapidgzip": find("rapidgzip")}
        print(f"data: {data.stat().st_size} B")
        compress(data, directory, programs, turns)
        decompress(data, directory, programs, turns)
        small(data, directory, programs, 20 if args.quick else 100)
    print(machine())


def machine() -> str:
    """Properties of the machine that influence the figures."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"machine: {os.cpu_count()} CPUs, {platform.machine()}, load {load}"


def find(program: str) -> str:
    """Path of a program, beside this Python or on the path; empty if there is none."""
    return shutil.which(program, path=f"{BESIDE}:{os.environ.get('PATH', '')}") or ""


def make(path: Path, least_bytes: int) -> Path:
    """A file of at least so many bytes."""
    pool = b"".join(silesia()) or words(1 << 24)
    with path.open("wb") as file:
        while file.tell() < least_bytes:
            file.write(pool)
    return path


def silesia() -> Iterator[bytes]:
    """The files of the corpus that are at hand."""
    shared = Path(os.environ.get("OVERSIDE_SHARED", ROOT.parent / "shared"))
    for path in sorted((shared / "data/silesia").glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(member) for member in archive.namelist())


def words(count: int) -> bytes:
    """Words of `count` bytes in total, always the same."""
    chance = random.Random(7)  # noqa: S311 - nothing secret
    vocabulary = [f"{chance.getrandbits(24):x}" for _ in range(20_000)]
    text = " ".join(chance.choices(vocabulary, k=count // 6))
    return text.encode()[:count]


def compress(data: Path, directory: Path, programs: dict[str, str], turns: int) -> None:
    """Times compression and compares the lengths of what comes out."""
    lines = available(COMPRESS, programs, data)
    print("\ncompress, level 1")
    report(lines, turns, data.stat().st_size, COMPRESS_TARGETS)
    lengths = {}
    for name, line in lines.items():
        output = directory / f"{name}.gz"
        with output.open("wb") as file:
            subprocess.run(shlex.split(line), stdout=file, check=True)
        lengths[name] = output.stat().st_size
        print(f"  {name:10} {lengths[name]:>12} B")
    if digest(["gzip", "-dc", str(directory / "overside.gz")]) != digest(["cat", str(data)]):
        sys.exit("gzip does not read back what overside compressed")
    if "igzip" in lengths:
        longer = lengths["overside"] / lengths["igzip"] - 1
        say(f"{100 * longer:+.2f} % longer than igzip's", longer <= LONGER_MAX, "at most +1 %")


def decompress(data: Path, directory: Path, programs: dict[str, str], turns: int) -> None:
    """Times decompression of what `compress` made."""
    own = directory / "overside.gz"
    lines = available(DECOMPRESS, programs, own)
    print("\ndecompress what overside compressed")
    report(lines, turns, data.stat().st_size, DECOMPRESS_TARGETS)
    if digest(shlex.split(lines["overside"])) != digest(["cat", str(data)]):
        sys.exit("overside does not read back what it compressed")


def small(data: Path, directory: Path, programs: dict[str, str], turns: int) -> None:
    """Times whole processes on a short file."""
    path = directory / "small"
    with data.open("rb") as file:
        path.write_bytes(file.read(SMALL_BYTES))
    lines = available(COMPRESS, programs, path)
    print(f"\ncompress a file of {SMALL_BYTES} B")
    times = report(lines, turns, path.stat().st_size, [])
    if "igzip" in times:
        pairs = zip(times["overside"], times["igzip"], strict=True)
        ms = 1e3 * statistics.median(ours - theirs for ours, theirs in pairs)
        say(f"{ms:+.2f} ms beside igzip", ms <= SMALL_MS_MAX, f"at most +{SMALL_MS_MAX:.0f} ms")


def available(lines: dict[str, str], programs: dict[str, str], data: Path) -> dict[str, str]:
    """The command lines of the programs that are there."""
    ready = {}
    for name, line in lines.items():
        command = line.format(input=shlex.quote(str(data)), **programs)
        if programs.get(name, name) and shutil.which(command.split()[0]):
            ready[name] = command
        else:
            print(f"  {name} is not installed")
    return ready


def report(
    lines: dict[str, str], turns: int, plain_bytes: int, targets: list[Target]
) -> dict[str, list[float]]:
    """Times all lines in turns and prints what comes out."""
    times: dict[str, list[float]] = {name: [] for name in lines}
    for line in lines.values():
        timed(line)
    for turn in range(turns):
        for name in list(lines)[:: -1 if turn % 2 else 1]:
            times[name].append(timed(lines[name]))
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(
            f"  {name:10} {median * 1e3:9.1f} ms  ({min(seconds) * 1e3:.1f}.."
            f"{max(seconds) * 1e3:.1f})  {plain_bytes / median / 1e6:8.1f} MB/s"
        )
    for target in targets:
        if target.peer in times:
            pairs = zip(times[target.peer], times["overside"], strict=True)
            ratio = statistics.median(theirs / ours for theirs, ours in pairs)
            met = ratio >= target.at_least
            say(f"{ratio:.2f} times as fast as {target.peer}", met, f"{target.at_least:.1f} times")
    return times


def say(what: str, met: bool, target: str) -> None:
    """Prints what became of a target."""
    print(f"  {what}; target {target}: {'met' if met else 'MISSED'}")


def timed(line: str) -> float:
    """Seconds that a command takes, its output going nowhere."""
    words = shlex.split(line)
    begin = time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def digest(command: list[str]) -> str:
    """A checksum of what a command writes."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        if process.stdout is None:
            raise AssertionError
        return hashlib.file_digest(process.stdout, "sha256").hexdigest()


if __name__ == "__main__":
    main()
