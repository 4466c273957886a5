"""Partitioning beside polars and pyarrow, one thread each: GB of input a second of CPU time.

    python benches/partition.py [--folder FOLDER] [--rounds N]
    python benches/partition.py --files BINARY [--bytes N] [--rounds N]

`cargo bench` writes the tables, `particles` and `ships`, into FOLDER as Arrow IPC (1 GB together)
and measures our side. The others are measured here, in memory, and keep their output: a filter for
each output, which both have, and polars' `partition_by`. A figure is the median over the rounds.
CPU time is compared, because other programs disturb it less. Outputs of a round lie in the memory
of the round before: polars' allocator keeps it, and so does our side `kept`; `new memory` does not.

`--files` compares `flow partition` of BINARY with polars' partitioned sink, DuckDB's `COPY ...
PARTITION_BY`, pyarrow's dataset writer, and pyarrow with a filter for each output as published
implementations have it (Arrow only), from a file to files in memory (`/dev/shm`), two threads each,
one after the other in each round. All compress with Zstandard of level 1 or LZ4 (raw), write
statistics of Parquet, and decide by themselves which columns get a dictionary, as they do unless
told otherwise; the bytes that each writes are printed. Times of the others are without their start,
ours are those of the whole process. A ratio is the median over the rounds of theirs to ours, so
above 1 is faster here; the best of the others is by wall time.
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
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import polars
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

ROOT = Path(__file__).resolve().parent.parent
BENCH = ["cargo", "bench", "--locked", "--quiet", "-p", "overside-flow"]
BENCH += ["--bench", "partition", "--"]
KEYS = {"particles": "id", "ships": "MMSI"}
#: Bytes of a row in memory, about.
ROW_BYTES = {"particles": 80, "ships": 190}
#: Formats and codecs of the files that are written.
OUTPUTS = [("parquet", "zstd"), ("parquet", "lz4")]
OUTPUTS += [("arrow", "none"), ("arrow", "lz4"), ("arrow", "zstd")]
BATCH_ROWS = 64 << 10
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


@dataclass(frozen=True)
class Setting:
    """Source, target, key, number of partitions, format and codec of one comparison."""

    source: Path
    target: Path
    key: str
    ways: int
    kind: str
    codec: str

    @property
    def ipc_codec(self) -> str | None:
        """The codec of Arrow IPC, as pyarrow calls it."""
        return None if self.codec == "none" else self.codec


def files_by_polars(what: Setting) -> None:
    """A lazy scan into a partitioned sink."""
    is_parquet = what.source.suffix == ".parquet"
    scan = polars.scan_parquet(what.source) if is_parquet else polars.scan_ipc(what.source)
    rows = scan.with_columns((polars.col(what.key) & (what.ways - 1)).alias("partition"))
    directory = polars.PartitionBy(what.target, key="partition", include_key=False)
    if what.kind == "arrow":
        rows.sink_ipc(directory, compression=what.ipc_codec or "uncompressed")
    elif what.codec == "lz4":
        rows.sink_parquet(directory, compression="lz4")
    else:
        rows.sink_parquet(directory, compression="zstd", compression_level=1)


def files_by_duckdb(what: Setting) -> None:
    """A statement; Arrow comes by pyarrow."""
    import duckdb  # noqa: PLC0415

    table = f"read_parquet('{what.source}')"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        if what.source.suffix == ".arrow":
            connection.register("arrow", pyarrow.dataset.dataset(what.source, format="ipc"))
            table = "arrow"
        level = ", COMPRESSION_LEVEL 1" if what.codec == "zstd" else ""
        compression = "lz4_raw" if what.codec == "lz4" else what.codec
        rows = f'SELECT *, "{what.key}" & {what.ways - 1} AS partition FROM {table}'  # noqa: S608
        settings = f"FORMAT parquet, PARTITION_BY (partition), COMPRESSION {compression}{level}"
        connection.execute(f"COPY ({rows}) TO '{what.target}' ({settings})")


def files_by_pyarrow(what: Setting) -> None:
    """A projected scan into a dataset."""
    is_arrow = what.source.suffix == ".arrow"
    scanned = pyarrow.dataset.dataset(what.source, format="ipc" if is_arrow else None)
    field = pyarrow.compute.field
    columns = {name: field(name) for name in scanned.schema.names}
    kind = scanned.schema.field(what.key).type
    low = pyarrow.compute.bit_wise_and(field(what.key), pyarrow.scalar(what.ways - 1, kind))
    if what.kind == "arrow":
        ipc = pyarrow.dataset.IpcFileFormat()
        options = ipc.make_write_options(compression=what.ipc_codec)
    else:
        options = pyarrow.dataset.ParquetFileFormat().make_write_options(
            compression=what.codec, compression_level=1 if what.codec == "zstd" else None
        )
    pyarrow.dataset.write_dataset(
        scanned.scanner(columns={**columns, "partition": low}),
        what.target,
        format=options.format,
        file_options=options,
        partitioning=pyarrow.dataset.partitioning(pyarrow.schema([("partition", kind)])),
    )


def files_by_filters(what: Setting) -> None:
    """A filter of the whole table for each output; a source of Arrow is mapped into memory."""
    what.target.mkdir()
    if what.source.suffix == ".arrow":
        table = pyarrow.ipc.open_file(pyarrow.memory_map(str(what.source))).read_all()
    else:
        table = pyarrow.parquet.read_table(what.source)
    options = pyarrow.ipc.IpcWriteOptions(compression=what.ipc_codec)
    for number, part in enumerate(filter_by_pyarrow(table, what.key, what.ways)):
        path = what.target / f"part-{number}.arrow"
        with pyarrow.ipc.new_file(str(path), table.schema, options=options) as out:
            out.write_table(part, max_chunksize=BATCH_ROWS)


SIDES = {
    "polars": files_by_polars,
    "duckdb": files_by_duckdb,
    "pyarrow": files_by_pyarrow,
    "filters": files_by_filters,
}


def one_side(words: list[str]) -> None:
    """Run one of the others, and print its wall and CPU time."""
    side, source, target, key, ways, kind, codec = words
    setting = Setting(Path(source), Path(target), key, int(ways), kind, codec)
    pyarrow.set_cpu_count(2)
    pyarrow.set_io_thread_count(2)
    begin, cpu = time.perf_counter(), time.process_time()
    SIDES[side](setting)
    print(json.dumps([time.perf_counter() - begin, time.process_time() - cpu]))


def made(binary: str, name: str, path: Path, size: int) -> pyarrow.Table:
    """A table of about so many bytes; ships are enlarged from real positions where they are."""
    shared = Path(os.environ.get("OVERSIDE_SHARED", ROOT.parent / "shared"))
    sample = next(iter(sorted((shared / "data/ais").glob("*.parquet"))), None)
    words = ["generate", name, str(path)]
    if sample is not None and name == "ships":
        words = ["enlarge", str(sample), str(path), "--id", "MMSI", "--time", "BaseDateTime"]
    rows = str(size // ROW_BYTES[name])
    subprocess.run([binary, "flow", *words, "--rows", rows], check=True)
    with pyarrow.memory_map(str(path)) as source:
        return pyarrow.ipc.open_file(source).read_all()


def files(binary: str, size: int, rounds: int, folder: Path) -> None:
    """Print the ratios of all sides, from files to files."""
    print(f"{'':36} wall and CPU time of others to ours; GB of files that each writes")
    for name, key in KEYS.items():
        arrow, parquet = folder / f"{name}.arrow", folder / f"{name}.parquet"
        table = made(binary, name, arrow, size)
        pyarrow.parquet.write_table(table, parquet, compression="zstd", compression_level=1)
        rows = table.num_rows
        del table
        for source in (parquet, arrow):
            for kind, codec in OUTPUTS:
                for ways in (4, 16):
                    setting = Setting(source, folder / "out", key, ways, kind, codec)
                    of_files(binary, setting, rows, rounds)


def of_files(binary: str, what: Setting, rows: int, rounds: int) -> None:
    """Print the ratios of one setting."""
    source, target = str(what.source), str(what.target)
    words = [source, target, what.key, str(what.ways), what.kind, what.codec]
    bits = str(what.ways.bit_length() - 1)
    ours = [binary, "flow", "partition", source, "--key", what.key, "--bits", bits]
    ours += ["--threads", "2", "--format", what.kind, "--codec", what.codec, "--out", target]
    commands = {"overside": ours}
    # DuckDB writes no Arrow.
    others = ["polars", "duckdb" if what.kind == "parquet" else "filters", "pyarrow"]
    for side in others:
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
            found = pyarrow.dataset.dataset(written, format="ipc" if what.kind == "arrow" else None)
            assert found.count_rows() == rows, side
    line = f"{what.source.name:17} {what.ways:>2} ways {what.kind:7} {what.codec:4}"
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
