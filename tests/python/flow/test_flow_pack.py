"""Output of `overside flow partition` is read by pyarrow and polars, and the other way round."""

from __future__ import annotations

import datetime
import functools
import random
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from command import partitioned

ROWS = 5000
CODECS = ("none", "lz4", "zstd", "zstd:9")


@functools.cache
def table(*, for_polars: bool = False) -> pa.Table:
    """Columns of many types, some rows null in all of them."""
    draw = random.Random(7)

    def column(kind: pa.DataType, value: Any) -> pa.Array:
        values = [None if draw.random() < 0.1 else value(row) for row in range(ROWS)]
        return pa.array(values, kind)

    words = ["", "a", "Genève", "a longer text than a view can have inline", "ok"]
    epoch = datetime.datetime(2024, 2, 28, 23)
    columns = {
        "id": pa.array([draw.randrange(1000) for _ in range(ROWS)], pa.int64()),
        "double": column(pa.float64(), lambda _: draw.gauss(0, 1)),
        "flag": column(pa.bool_(), lambda row: row % 3 == 0),
        "text": column(pa.string(), lambda row: words[row % 5]),
        "bytes": column(pa.binary(), lambda row: bytes([row % 256]) * (row % 20)),
        "time": column(pa.timestamp("us"), lambda row: epoch + datetime.timedelta(seconds=row)),
        "words": column(pa.list_(pa.string()), lambda row: words[: row % 4]),
        "pair": column(
            pa.struct([("x", pa.float64()), ("y", pa.string())]),
            lambda row: {"x": row / 2, "y": words[row % 5]},
        ),
        "kind": column(pa.string(), lambda row: words[row % 3]).dictionary_encode(),
        "view": column(pa.string_view(), lambda row: words[row % 5]),
    }
    if not for_polars:
        columns |= {
            "fixed": column(pa.binary(3), lambda row: bytes([row % 256] * 3)),
            "deep": column(
                pa.list_(pa.struct([("k", pa.list_(pa.int32()))])),
                lambda row: [{"k": [row]}, None, {"k": []}][: row % 4],
            ),
            "nothing": pa.nulls(ROWS),
        }
    return pa.table(columns)


def write(source: pa.Table, path: Path, codec: str, layout: str) -> None:
    """Writes a file with pyarrow, in several batches."""
    compression = None if codec == "none" else codec.partition(":")[0]
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_file if layout == "arrow" else pa.ipc.new_stream
    with make(path, source.schema, options=options) as writer:
        writer.write_table(source, max_chunksize=1700)


def read(path: Path, layout: str) -> pa.Table:
    """Reads a file with pyarrow and validates every value."""
    with pa.OSFile(str(path)) as file:
        opened = pa.ipc.open_file(file) if layout == "arrow" else pa.ipc.open_stream(file)
        found = opened.read_all()
    found.validate(full=True)
    return found


def split(path: Path, out: Path, *words: str) -> list[dict[str, Any]]:
    """The partitions by the lowest bit of `id`."""
    return partitioned(path, "--key", "id", "--bits", "1", "--out", out, *words)


@functools.cache
def expected(partition: int) -> dict[str, list[Any]]:
    """The values of a partition. pyarrow itself cannot filter columns of views."""
    source = table()
    rows = [row for row, number in enumerate(source["id"].to_pylist()) if number & 1 == partition]
    values = {name: source[name].to_pylist() for name in source.column_names}
    return {name: [column[row] for row in rows] for name, column in values.items()}


@pytest.mark.parametrize("layout", ["arrow", "arrow-stream"])
@pytest.mark.parametrize("codec", CODECS)
def test_pyarrow_and_this_read_each_other(tmp_path: Path, codec: str, layout: str) -> None:
    source, path = table(), tmp_path / "table"
    write(source, path, codec, layout)
    files = split(path, tmp_path / "out", "--codec", codec, "--format", layout)
    assert len(files) == 2
    for number, file in enumerate(files):
        found = read(Path(file["file"]), layout)
        assert found.schema.equals(source.schema)
        assert found.num_rows > 1000
        for name, values in expected(number).items():
            assert found[name].to_pylist() == values, name


@pytest.mark.parametrize("layout", ["arrow", "arrow-stream"])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_polars_and_this_read_each_other(tmp_path: Path, codec: str, layout: str) -> None:
    frame = polars.from_arrow(table(for_polars=True))
    assert isinstance(frame, polars.DataFrame)
    path = tmp_path / "table"
    compression: Any = "uncompressed" if codec == "none" else codec
    if layout == "arrow":
        frame.write_ipc(path, compression=compression)
    else:
        frame.write_ipc_stream(path, compression=compression)
    files = split(path, tmp_path / "out", "--codec", codec, "--format", layout)
    for number, file in enumerate(files):
        reader = polars.read_ipc if layout == "arrow" else polars.read_ipc_stream
        found = reader(Path(file["file"]))
        wanted = frame.filter((polars.col("id") & 1) == number)
        assert found.schema == frame.schema
        assert found.equals(wanted)


def test_dictionaries_that_grow_and_change_are_read(tmp_path: Path) -> None:
    def batch(first: int, words: list[str]) -> pa.RecordBatch:
        kinds = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1], pa.int8()), words)
        return pa.record_batch({"id": pa.array(range(first, first + 4)), "kind": kinds})

    batches = [batch(0, ["a", "b"]), batch(4, ["a", "b", "c"]), batch(8, ["x", "y"])]
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    path = tmp_path / "table"
    with pa.ipc.new_stream(path, batches[0].schema, options=options) as writer:
        for one in batches:
            writer.write_batch(one)
    files = split(path, tmp_path / "out", "--format", "arrow-stream")
    found = [read(Path(file["file"]), "arrow-stream") for file in files]
    assert [one["id"].to_pylist() for one in found] == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]
    assert found[0]["kind"].to_pylist() == ["a", None, "a", None, "x", None]
    assert found[1]["kind"].to_pylist() == ["b", "b", "b", "b", "y", "y"]


def test_lz4_buffers_go_to_an_engine_and_come_back(tmp_path: Path) -> None:
    source = table()
    for codec in ("lz4", "none"):
        write(source, tmp_path / f"{codec}.arrow", codec, "arrow")
    device = ("--device", "emulated:bf3", "--placement", "device", "--codec", "lz4")
    by_cpu = split(tmp_path / "none.arrow", tmp_path / "cpu", "--codec", "lz4")
    # pyarrow's frames, and those of independent blocks that this writes.
    for name in (tmp_path / "lz4.arrow", Path(by_cpu[0]["file"])):
        for number, file in enumerate(split(name, tmp_path / f"of-{name.stem}", *device)):
            found = read(Path(file["file"]), "arrow")
            if name.stem == "lz4":
                assert found.to_pydict() == expected(number)
            else:
                # All of them have the bit.
                assert found.to_pydict() == read(name, "arrow").to_pydict()
