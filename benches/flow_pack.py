"""Unpack, partition and repack: this project and pyarrow, in alternation.

    python benches/flow_pack.py BINARY [--rows N] [--threads N]

BINARY is the example `repack` of `overside-flow` (`cargo build --release -p overside-flow --example
repack`). A table of `particles`, an id and nine random columns, is read from an Arrow IPC file,
dealt out by the lowest two bits of the id, and written to four files, all with one codec; pyarrow
does it by one filter a partition, as published implementations do, and maps the file into memory.
Files are in memory (`/dev/shm`). What is written is read by pyarrow and compared.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BATCH_ROWS = 64 << 10
TARGETS = {"none": 2.0, "lz4": 1.4, "zstd": 1.3}


def particles(rows: int) -> pa.Table:
    """Ids, and positions, velocities and momenta in space."""
    random = np.random.default_rng(1)
    columns = {"id": random.integers(0, rows // 8, rows)}
    for name in ("x", "y", "z", "vx", "vy", "vz", "px", "py", "pz"):
        columns[name] = random.normal(size=rows)
    return pa.table(columns)


def write(table: pa.Table, path: Path, codec: str) -> None:
    """An Arrow IPC file as pyarrow writes it."""
    compression = None if codec == "none" else codec
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as out,
    ):
        out.write_table(table, max_chunksize=BATCH_ROWS)


def pyarrow_way(path: Path, directory: Path, codec: str) -> tuple[float, float]:
    """Seconds, and CPU seconds, that pyarrow takes."""
    begin, cpu = time.perf_counter(), time.process_time()
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
        low = pc.bit_wise_and(table["id"], 3)
        for number in range(4):
            part = table.filter(pc.equal(low, number))
            write(part, directory / f"{number}.arrow", codec)
    return time.perf_counter() - begin, time.process_time() - cpu


def our_way(
    binary: str, path: Path, directory: Path, codec: str, threads: int
) -> tuple[float, float]:
    """Seconds, and CPU seconds, that this project takes."""
    before = children_cpu()
    command = [binary, str(path), "id", "2", codec, str(threads), str(directory)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(output.rsplit("all: wall ", 1)[1]) / 1e9, children_cpu() - before


def children_cpu() -> float:
    """CPU seconds of processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def check(table: pa.Table, directory: Path) -> None:
    """pyarrow finds the rows of each partition in what was written last, in their order."""
    low = pc.bit_wise_and(table["id"], 3)
    for number in range(4):
        with pa.memory_map(str(directory / f"{number}.arrow")) as source:
            part = pa.ipc.open_file(source).read_all()
            part.validate(full=True)
            if not part.equals(table.filter(pc.equal(low, number))):
                raise SystemExit(f"partition {number} has other rows")


def main() -> None:
    """Prints seconds and ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--rows", type=int, default=6_250_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    pa.set_cpu_count(arguments.threads)
    table = particles(arguments.rows)
    print(f"particles, {table.nbytes / 1e6:.0f} MB, {arguments.threads} threads")
    for codec, target in TARGETS.items():
        with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
            directory = Path(scratch)
            source = directory / "source.arrow"
            write(table, source, codec)
            ours, theirs = [], []
            for _ in range(arguments.rounds):
                theirs.append(pyarrow_way(source, directory, codec))
                ours.append(our_way(arguments.binary, source, directory, codec, arguments.threads))
            check(table, directory)
            sizes = [(directory / f"{number}.arrow").stat().st_size for number in range(4)]
        wall, cpu = (
            statistics.median(a[which] / b[which] for a, b in zip(theirs, ours, strict=True))
            for which in (0, 1)
        )
        ours_s, theirs_s = (
            statistics.median(seconds for seconds, _ in way) for way in (ours, theirs)
        )
        print(
            f"{codec:5} here {ours_s:.3f} s, pyarrow {theirs_s:.3f} s: {wall:.2f} times as fast"
            f" (target {target}) with {1 / cpu:.2f} of the CPU time; {sum(sizes) / 1e6:.0f} MB"
        )


if __name__ == "__main__":
    main()
