"""Partitioning beside polars and pyarrow, one thread each: GB of input a second of CPU time.

    python benches/partition.py [--folder FOLDER] [--rounds N]
    python benches/partition.py --files BINARY [--bytes N] [--rounds N]

`cargo bench` writes the tables, `particles` and `ships`, into FOLDER as Arrow IPC (1 GB together)
and measures our side. The others are measured here, in memory, and keep their output: a filter for
each output, which both have, and polars' `partition_by`. A figure is the median over the rounds.
CPU time is compared, because other programs disturb it less. Outputs of a round lie in the memory
of the round before: polars' allocator keeps it, and so does our side `kept`; `new memory` does not.

`--files` compares `flow partition` of BINARY with polars' partitioned sink, DuckDB's `COPY ...
PARTITION_BY` and pyarrow's dataset writer, from a file to files in memory (`/dev/shm`), two threads
each, one after the other in each round. All compress with Zstandard of level 1 or LZ4 (raw), write
statistics, and decide by themselves which columns get a dictionary, as they do unless told
otherwise; the bytes that each writes are printed. Times of the others are without their start, ours
are those of the whole process. A ratio is the median over the rounds of theirs to ours, so above 1
is faster here; the best of the others is by wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import flow_pack
import polars
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

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


def files_by_polars(source: Path, target: Path, key: str, ways: int, codec: str) -> None:
    """A lazy scan into a partitioned sink."""
    is_parquet = source.suffix == ".parquet"
    scan = polars.scan_parquet(source) if is_parquet else polars.scan_ipc(source)
    part = (polars.col(key) & (ways - 1)).alias("partition")
    rows = scan.with_columns(part)
    directory = polars.PartitionBy(target, key="partition", include_key=False)
    if codec == "none":
        rows.sink_ipc(directory, compression="uncompressed")
    elif codec == "lz4":
        rows.sink_parquet(directory, compression="lz4")
    else:
        rows.sink_parquet(directory, compression="zstd", compression_level=1)


def files_by_duckdb(source: Path, target: Path, key: str, ways: int, codec: str) -> None:
    """A statement; Arrow comes by pyarrow."""
    import duckdb  # noqa: PLC0415

    table = f"read_parquet('{source}')"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        if source.suffix == ".arrow":
            connection.register("arrow", pyarrow.dataset.dataset(source, format="ipc"))
            table = "arrow"
        level = ", COMPRESSION_LEVEL 1" if codec == "zstd" else ""
        compression = "lz4_raw" if codec == "lz4" else codec
        rows = f'SELECT *, "{key}" & {ways - 1} AS partition FROM {table}'  # noqa: S608
        settings = f"FORMAT parquet, PARTITION_BY (partition), COMPRESSION {compression}{level}"
        connection.execute(f"COPY ({rows}) TO '{target}' ({settings})")


def files_by_pyarrow(source: Path, target: Path, key: str, ways: int, codec: str) -> None:
    """A projected scan into a dataset."""
    pyarrow.set_cpu_count(2)
    pyarrow.set_io_thread_count(2)
    scanned = pyarrow.dataset.dataset(source, format="ipc" if source.suffix == ".arrow" else None)
    field = pyarrow.compute.field
    columns = {name: field(name) for name in scanned.schema.names}
    kind = scanned.schema.field(key).type
    low = pyarrow.compute.bit_wise_and(field(key), pyarrow.scalar(ways - 1, kind))
    if codec == "none":
        options = pyarrow.dataset.IpcFileFormat().make_write_options()
    else:
        level = 1 if codec == "zstd" else None
        options = pyarrow.dataset.ParquetFileFormat().make_write_options(
            compression=codec, compression_level=level
        )
    pyarrow.dataset.write_dataset(
        scanned.scanner(columns={**columns, "partition": low}),
        target,
        format=options.format,
        file_options=options,
        partitioning=pyarrow.dataset.partitioning(pyarrow.schema([("partition", kind)])),
    )


SIDES = {"polars": files_by_polars, "duckdb": files_by_duckdb, "pyarrow": files_by_pyarrow}


def one_side(words: list[str]) -> None:
    """Run one of the others, and print its wall and CPU time."""
    side, source, target, key, ways, codec = words
    begin, cpu = time.perf_counter(), time.process_time()
    SIDES[side](Path(source), Path(target), key, int(ways), codec)
    print(json.dumps([time.perf_counter() - begin, time.process_time() - cpu]))


def files(binary: str, size: int, rounds: int, folder: Path) -> None:
    """Print the ratios of all sides, from files to files."""
    ships = flow_pack.ships_here()
    print(f"{'':36} wall and CPU time of others to ours; GB of files that each writes")
    for name, key in KEYS.items():
        arrow, parquet = folder / f"{name}.arrow", folder / f"{name}.parquet"
        table = flow_pack.made(binary, name, ships, size, arrow)
        pyarrow.parquet.write_table(table, parquet, compression="zstd", compression_level=1)
        rows = table.num_rows
        del table
        for source in (parquet, arrow):
            for codec in ("zstd", "lz4", "none"):
                for ways in (4, 16):
                    words = [str(source), str(folder / "out"), key, str(ways), codec]
                    of_files(binary, words, rows, rounds)


def of_files(binary: str, words: list[str], rows: int, rounds: int) -> None:
    """Print the ratios of one setting."""
    source, target, key, ways, codec = words
    kind = "arrow" if codec == "none" else "parquet"
    bits = str(int(ways).bit_length() - 1)
    ours = [binary, "flow", "partition", source, "--key", key, "--bits", bits, "--threads", "2"]
    ours += ["--format", kind, "--codec", codec, "--out", target]
    commands = {"overside": ours}
    # DuckDB writes no Arrow.
    for side in SIDES if codec != "none" else ["polars", "pyarrow"]:
        commands[side] = [sys.executable, __file__, "--side", side, *words]
    times: dict[str, list[tuple[float, float]]] = {side: [] for side in commands}
    sizes = {}
    for _ in range(rounds):
        for side, command in commands.items():
            shutil.rmtree(target, ignore_errors=True)
            begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            environment = os.environ | {"POLARS_MAX_THREADS": "2"}
            text = subprocess.run(command, check=True, capture_output=True, env=environment).stdout
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            took = (time.perf_counter() - begin, cpu)
            times[side].append(took if side == "overside" else json.loads(text))
            written = [path for path in Path(target).rglob("*") if path.is_file()]
            sizes[side] = sum(path.stat().st_size for path in written) / 1e9
            found = pyarrow.dataset.dataset(written, format="ipc" if codec == "none" else None)
            assert found.count_rows() == rows, side
    line = f"{Path(source).name:17} {ways:>2} ways {kind:7} {codec:4}"
    shutil.rmtree(target)
    ratios = {
        side: [
            statistics.median(
                theirs[at] / own[at] for theirs, own in zip(of, times["overside"], strict=True)
            )
            for at in (0, 1)
        ]
        for side, of in times.items()
    }
    for side, (wall, cpu) in ratios.items():
        line += f" {side} {wall:.2f} {cpu:.2f} {sizes[side]:.2f};"
    best = min(wall for side, (wall, _) in ratios.items() if side != "overside")
    wall, cpu = (statistics.median(one[at] for one in times["overside"]) for at in (0, 1))
    print(f"{line} here {wall:.2f} s, {cpu:.2f} s; the best other: {best:.2f}", flush=True)


def main() -> None:
    """Write the tables and measure both."""
    if sys.argv[1:2] == ["--side"]:
        one_side(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", metavar="BINARY")
    parser.add_argument("--bytes", type=int, default=400_000_000)
    arguments = parser.parse_args()
    if arguments.files:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
            files(arguments.files, arguments.bytes, arguments.rounds, Path(made))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or Path(made)
        subprocess.run([*BENCH, "--write", str(folder.resolve())], check=True, cwd=ROOT)
        for name in KEYS:
            with pyarrow.OSFile(str(folder / f"{name}.arrow")) as file:
                table = pyarrow.ipc.open_file(file).read_all()
                measure(name, table, arguments.rounds)


if __name__ == "__main__":
    main()
