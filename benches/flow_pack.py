"""Unpack, partition and repack: this project and pyarrow, in alternation.

    python benches/flow_pack.py BINARY [--ships SAMPLE] [--bytes N] [--threads N]

BINARY is `overside`. Tables are `particles`, and `ships`, which are enlarged from a SAMPLE of AIS
records if there is one (default: that in `../shared/data`). Each is read from an Arrow IPC file,
partitioned by the lowest two bits of its object's number, and written to four files, all with one
codec; pyarrow does it by one filter a partition, as published implementations do, and maps the file
into memory. Files are in memory (`/dev/shm`). What is written is read by pyarrow and compared.
Times of this project are those of the whole process.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parents[1]
BATCH_ROWS = 64 << 10
TARGETS = {"none": 2.0, "lz4": 1.4, "zstd": 1.3}
KEYS = {"particles": "id", "ships": "MMSI"}
#: Bytes of a row in memory, about.
ROW_BYTES = {"particles": 80, "ships": 190}


def ships_here() -> Path | None:
    """Real positions, where they are."""
    shared = Path(os.environ.get("OVERSIDE_SHARED", ROOT.parent / "shared"))
    return next(iter(sorted((shared / "data/ais").glob("*.parquet"))), None)


def made(binary: str, name: str, sample: Path | None, size: int, path: Path) -> pa.Table:
    """A table of about so many bytes."""
    words = ["generate", name, str(path)]
    if sample is not None and name == "ships":
        words = ["enlarge", str(sample), str(path), "--id", "MMSI", "--time", "BaseDateTime"]
    rows = str(size // ROW_BYTES[name])
    subprocess.run([binary, "flow", *words, "--rows", rows], check=True)
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def write(table: pa.Table, path: Path, codec: str) -> None:
    """An Arrow IPC file as pyarrow writes it."""
    compression = None if codec == "none" else codec
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as out,
    ):
        out.write_table(table, max_chunksize=BATCH_ROWS)


def low_bits(table: pa.Table, key: str) -> pa.ChunkedArray:
    """The partition of each row."""
    return pc.bit_wise_and(table[key], pa.scalar(3, table[key].type))


def pyarrow_way(path: Path, key: str, directory: Path, codec: str) -> tuple[float, float]:
    """Seconds, and CPU seconds, that pyarrow takes."""
    begin, cpu = time.perf_counter(), time.process_time()
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
        low = low_bits(table, key)
        for number in range(4):
            part = table.filter(pc.equal(low, number))
            write(part, directory / f"part-{number}.arrow", codec)
    return time.perf_counter() - begin, time.process_time() - cpu


def our_way(
    binary: str, path: Path, key: str, directory: Path, *, codec: str, threads: int
) -> tuple[float, float]:
    """Seconds, and CPU seconds, that this project takes."""
    command = [binary, "flow", "partition", str(path), "--key", key, "--bits", "2"]
    command += ["--codec", codec, "--threads", str(threads), "--out", str(directory), "--force"]
    begin, before = time.perf_counter(), children_cpu()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin, children_cpu() - before


def children_cpu() -> float:
    """CPU seconds of processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def check(table: pa.Table, key: str, directory: Path) -> None:
    """pyarrow finds the rows of each partition in what was written last, in their order."""
    low = low_bits(table, key)
    for number in range(4):
        with pa.memory_map(str(directory / f"part-{number}.arrow")) as source:
            part = pa.ipc.open_file(source).read_all()
            part.validate(full=True)
            if not part.equals(table.filter(pc.equal(low, number))):
                raise SystemExit(f"partition {number} has other rows")


def measure(name: str, table: pa.Table, codec: str, arguments: argparse.Namespace) -> None:
    """Prints seconds and ratios of one table and codec."""
    key = KEYS[name]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        directory = Path(scratch)
        source = directory / "source.arrow"
        write(table, source, codec)
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            theirs.append(pyarrow_way(source, key, directory, codec))
            how = {"codec": codec, "threads": arguments.threads}
            ours.append(our_way(arguments.binary, source, key, directory, **how))
        check(table, key, directory)
    wall, cpu = (
        statistics.median(a[which] / b[which] for a, b in zip(theirs, ours, strict=True))
        for which in (0, 1)
    )
    ours_s, theirs_s = (statistics.median(seconds for seconds, _ in way) for way in (ours, theirs))
    print(
        f"{name:9} {codec:5} here {ours_s:.3f} s, pyarrow {theirs_s:.3f} s: {wall:.2f} times as"
        f" fast (target {TARGETS[codec]}) with {1 / cpu:.2f} of the CPU time"
    )


def main() -> None:
    """Prints seconds and ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--ships", type=Path, default=ships_here())
    parser.add_argument("--bytes", type=int, default=500_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    pa.set_cpu_count(arguments.threads)
    for name in KEYS:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
            path = Path(scratch, "table.arrow")
            table = made(arguments.binary, name, arguments.ships, arguments.bytes, path)
            print(f"{name}, {table.nbytes / 1e6:.0f} MB, {arguments.threads} threads")
            for codec in TARGETS:
                measure(name, table, codec, arguments)


if __name__ == "__main__":
    main()
