"""Partitioning beside polars and pyarrow, one thread each: GB of input a second of CPU time.

    python benches/partition.py [--folder FOLDER] [--rounds N]

`cargo bench` writes the tables, `particles` and `ships`, into FOLDER as Arrow IPC (1 GB together)
and measures our side. The others are measured here, in memory, and keep their output: a filter for
each output, which both have, and polars' `partition_by`. A figure is the median over the rounds.
CPU time is compared, because other programs disturb it less. Outputs of a round lie in the memory
of the round before: polars' allocator keeps it, and so does our side `kept`; `new memory` does not.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "1"

import polars
import pyarrow
import pyarrow.compute

ROOT = Path(__file__).resolve().parent.parent
BENCH = ["cargo", "bench", "--locked", "--quiet", "-p", "overside-flow"]
BENCH += ["--bench", "partition", "--"]
KEYS = {"particles": "id", "ships": "MMSI"}
OURS = re.compile(r"^(\w+) +bits:(\d+) +(overside, \w+) +([\d.]+) GB/s")


def filter_by_pyarrow(table: pyarrow.Table, key: str, ways: int) -> list[pyarrow.Table]:
    """Filter the whole table for each output."""
    low = pyarrow.compute.bit_wise_and(table[key], pyarrow.scalar(ways - 1, table[key].type))
    return [table.filter(pyarrow.compute.equal(low, part)) for part in range(ways)]


def filter_by_polars(frame: polars.DataFrame, key: str, ways: int) -> list[polars.DataFrame]:
    """Filter the whole table for each output."""
    low = frame[key] & (ways - 1)
    return [frame.filter(low == part) for part in range(ways)]


def partition_by_polars(frame: polars.DataFrame, key: str, ways: int) -> list[polars.DataFrame]:
    """Group rows by their low bits."""
    low = (frame[key] & (ways - 1)).alias("partition")
    parts: list[polars.DataFrame] = frame.with_columns(low).partition_by(
        "partition", include_key=False
    )
    return parts


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return the CPU time of all threads of this process."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def ours(table: str) -> dict[tuple[int, str], float]:
    """Rates by ways and side, of one run of the native benchmark."""
    command = [*BENCH, table, "overside", "bits", "--turns=5"]
    lines = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ).stdout.splitlines()
    found = [match for line in lines if (match := OURS.match(line))]
    return {(1 << int(one[2]), one[3]): float(one[4]) for one in found}


def measure(name: str, table: pyarrow.Table, rounds: int) -> None:
    """Print the median rates of all sides on one table."""
    pyarrow.set_cpu_count(1)
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    key, rates = KEYS[name], dict[tuple[int, str], list[float]]()
    for _ in range(rounds):
        for at, rate in ours(name).items():
            rates.setdefault(at, []).append(rate)
        for ways in (4, 16):
            sides: dict[str, Callable[[], object]] = {
                "pyarrow filter": partial(filter_by_pyarrow, table, key, ways),
                "polars filter": partial(filter_by_polars, frame, key, ways),
                "polars partition_by": partial(partition_by_polars, frame, key, ways),
            }
            for side, run in sides.items():
                rates.setdefault((ways, side), []).append(table.nbytes / cpu_seconds(run) / 1e9)
    for (ways, side), all_rates in sorted(rates.items()):
        if ways <= 16:
            print(f"{name:9} {ways:2} ways  {side:22} {statistics.median(all_rates):6.2f} GB/s")


def main() -> None:
    """Write the tables and measure both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or Path(made)
        subprocess.run([*BENCH, "--write", str(folder.resolve())], check=True, cwd=ROOT)
        for name in KEYS:
            with pyarrow.OSFile(str(folder / f"{name}.arrow")) as file:
                table = pyarrow.ipc.open_file(file).read_all()
                measure(name, table, arguments.rounds)


if __name__ == "__main__":
    main()
