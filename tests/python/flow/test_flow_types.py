"""Every type through every format: foreign readers find what went in, or the column is refused."""

from __future__ import annotations

import csv
import datetime
import decimal
import math
import struct
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet as pq
from command import completed, flow, native

UTC = datetime.UTC
DAY = datetime.date(2018, 8, 1)
NOON = datetime.datetime(2018, 8, 1, 12, 0, 1)
TIME = datetime.time(23, 59, 58)
D = decimal.Decimal


def _times(unit: str) -> dict[str, tuple[pa.DataType, list[Any]]]:
    part = {"s": 0, "ms": 1000, "us": 1001, "ns": 1001}[unit]
    value = NOON + datetime.timedelta(microseconds=part)
    aware = value.replace(tzinfo=UTC)
    return {
        f"timestamp {unit}": (pa.timestamp(unit), [value, None, value.replace(year=1901)]),
        f"timestamp {unit} UTC": (pa.timestamp(unit, "UTC"), [aware, None]),
        f"timestamp {unit} Paris": (pa.timestamp(unit, "Europe/Paris"), [aware, None]),
        f"duration {unit}": (pa.duration(unit), [datetime.timedelta(seconds=-90), None]),
    }


#: Types with values; each is a column of a table of its own.
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "null": (pa.null(), [None, None]),
    "bool": (pa.bool_(), [True, None, False]),
    **{
        str(kind): (kind, [1, None, 100])
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    "int64 edge": (pa.int64(), [-(2**63), None, 2**63 - 1]),
    **{str(kind): (kind, [1, None, 200]) for kind in (pa.uint8(), pa.uint16())},
    "uint32": (pa.uint32(), [2**32 - 1, None]),
    "uint64": (pa.uint64(), [2**64 - 1, None]),
    "float16": (pa.float16(), [0.5, None, -0.25]),
    "float32": (pa.float32(), [0.5, None, math.inf]),
    "float64": (pa.float64(), [0.1, None, -1e300, math.nan]),
    "decimal32": (pa.decimal32(7, 2), [D("12345.67"), None]),
    "decimal64": (pa.decimal64(16, 4), [D("-1.2345"), None]),
    "decimal128 1": (pa.decimal128(1, 0), [D(7), None]),
    "decimal128": (pa.decimal128(38, 10), [D("1234567890123456789012345678.0123456789"), None]),
    "decimal256": (pa.decimal256(76, 10), [D("-1.0123456789"), None]),
    "decimal negative scale": (pa.decimal128(5, -3), [D("12000"), None]),
    "date32": (pa.date32(), [DAY, None, datetime.date(1901, 2, 3)]),
    "date64": (pa.date64(), [DAY, None, datetime.date(1901, 2, 3)]),
    "time32 s": (pa.time32("s"), [TIME, None]),
    "time32 ms": (pa.time32("ms"), [TIME.replace(microsecond=5000), None]),
    "time64 us": (pa.time64("us"), [TIME.replace(microsecond=5001), None]),
    "time64 ns": (pa.time64("ns"), [TIME.replace(microsecond=5001), None]),
    **_times("s"),
    **_times("ms"),
    **_times("us"),
    **_times("ns"),
    "interval": (pa.month_day_nano_interval(), [pa.MonthDayNano([14, 3, 5_000_000_000]), None]),
    "string": (pa.string(), ["Genève", None, 'a,"b"\nc']),
    "large_string": (pa.large_string(), ["Genève", None]),
    "string_view": (pa.string_view(), ["a longer text than a view has", None, "x"]),
    "binary": (pa.binary(), [b"\x00\xff", None, b"abc"]),
    "large_binary": (pa.large_binary(), [b"\x00\xff", None]),
    "binary_view": (pa.binary_view(), [b"\x00\xff longer than a view", None]),
    "binary(3)": (pa.binary(3), [b"\x00\xffa", None]),
    "binary(0)": (pa.binary(0), [b"", None]),
    "dictionary string": (pa.dictionary(pa.int8(), pa.string()), ["a", None, "b", "a"]),
    "dictionary large binary": (
        pa.dictionary(pa.int32(), pa.large_binary()),
        [b"a", None, b"\xff"],
    ),
    "dictionary binary(16)": (
        pa.dictionary(pa.int32(), pa.binary(16)),
        [bytes(range(16)), None, bytes(range(16, 32)), bytes(range(16))],
    ),
    "dictionary int64": (pa.dictionary(pa.int8(), pa.int64()), [7, None, -9, 7]),
    "dictionary timestamp s": (pa.dictionary(pa.int8(), pa.timestamp("s")), [NOON, None, NOON]),
    "runs": (pa.run_end_encoded(pa.int32(), pa.int64()), [7, 7, None, 9]),
    "list": (pa.list_(pa.int32()), [[1, None], None, []]),
    "large_list": (pa.large_list(pa.string()), [["a", None], None, []]),
    "list(2)": (pa.list_(pa.int16(), 2), [[1, 2], [3, None]]),
    "list timestamp s": (pa.list_(pa.timestamp("s")), [[NOON, None], None]),
    "list_view": (pa.list_view(pa.int32()), [[1, None], None, []]),
    "struct": (pa.struct([("x", pa.float64()), ("y", pa.string())]), [{"x": 0.5, "y": "a"}, None]),
    "struct time32 s": (pa.struct([("x", pa.time32("s"))]), [{"x": TIME}, {"x": None}]),
    "struct()": (pa.struct([]), [{}, {}]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], None, []]),
    "dense union": (pa.dense_union([pa.field("a", pa.int64())]), []),
}

#: Types that Parquet and CSV refuse.
REFUSED = {
    "parquet": {"binary(0)", "struct()", "dense union"},
    "csv": {name for name, (kind, _) in TYPES.items() if pa.types.is_nested(kind)}
    - {"runs", "dictionary"},
}


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """The values as that type, also where pyarrow cannot make it of a list."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pa.compute.run_end_encode(pa.array(values, kind.value_type), kind.run_end_type)
    if pa.types.is_union(kind):
        types, offsets = pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32())
        return pa.UnionArray.from_dense(types, offsets, [pa.array([1, 2], pa.int64())], ["a"])
    return pa.array(values, kind)


def canonical(value: Any) -> Any:
    """A value by its meaning: instants in UTC, numbers as numbers, a map as pairs."""
    match value:
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        case datetime.datetime() | datetime.date() | datetime.time() | datetime.timedelta():
            return value
        case float() if math.isnan(value):
            return "NaN"
        case uuid.UUID():
            return value.bytes
        case bytearray() | memoryview():
            return bytes(value)
        case pa.MonthDayNano():
            return list(value)
        case dict():
            return {name: canonical(one) for name, one in value.items()}
        case list() | tuple() | polars.Series():
            return [canonical(one) for one in value]
        case _:
            return value


def canonical_all(values: Any) -> list[Any]:
    return [canonical(value) for value in values]


def through(source: Path, form: str, out: Path, code: int = 0, *words: str) -> tuple[Path, str]:
    """The only file of a table, and what was said."""
    options = ("--key", "id", "--ranges", "1000", "--format", form, "--out", out, "--force")
    done = completed(*native(), "flow", "partition", source, *options, *words, code=code)
    extension = {"arrow-stream": "arrows"}.get(form, form)
    return out / f"part-0.{extension}", done.stderr


def arrow_file(table: pa.Table, path: Path) -> Path:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return path


def table_of(name: str) -> pa.Table:
    values = array(*TYPES[name])
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "x": values})


def by_pyarrow(path: Path) -> list[Any]:
    if path.suffix == ".parquet":
        found = pq.read_table(path)
    elif path.suffix == ".arrow":
        found = pa.ipc.open_file(path).read_all()
    else:
        found = pa.ipc.open_stream(path).read_all()
    found.validate(full=True)
    return canonical_all(found["x"].to_pylist())


def by_duckdb(path: Path) -> list[Any]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql(f"SELECT x FROM '{path}'").to_arrow_table()
    return canonical_all(found["x"].to_pylist())


def by_polars(path: Path) -> list[Any]:
    return canonical_all(polars.read_parquet(path)["x"].to_list())


def _whole(values: list[Any]) -> list[Any]:
    return [None if value is None else round(value.total_seconds() * 1e9) for value in values]


def _parts(values: list[Any]) -> list[Any]:
    """Bytes of INTERVAL: months, days, milliseconds."""
    parts = [value and struct.pack("<III", *value[:2], value[2] // 10**6) for value in values]
    return parts


#: Values of a type in another reader, where that is its own or Parquet's choice; none: it cannot
#: read the type. Durations are whole numbers to those that do not know Arrow's schema.
ELSEWHERE: dict[tuple[str, str], Callable[[list[Any]], list[Any]] | None] = {
    **{
        ("by_duckdb", f"duration {unit}"): lambda values, step=step: [
            value and value // step for value in _whole(values)
        ]
        for unit, step in (("s", 10**9), ("ms", 10**6), ("us", 1000), ("ns", 1))
    },
    ("by_duckdb", "decimal256"): lambda values: [value and float(value) for value in values],
    ("by_polars", "decimal256"): None,
    ("by_polars", "map"): lambda values: [
        None if value is None else dict(value) for value in values
    ],
    ("by_pyarrow", "interval"): _parts,
    ("by_polars", "interval"): None,
}


def test_types_are_kept_by_arrow(tmp_path: Path) -> None:
    for number, name in enumerate(TYPES):
        table = table_of(name)
        source = arrow_file(table, tmp_path / f"{number}.arrow")
        for form in ("arrow", "arrow-stream"):
            path, said = through(source, form, tmp_path / f"{number}-{form}")
            assert said == "", name
            open_ = pa.ipc.open_file if form == "arrow" else pa.ipc.open_stream
            found = open_(path).read_all()
            found.validate(full=True)
            assert found.schema.equals(table.schema), name
            wanted = canonical_all(table["x"].to_pylist())
            assert canonical_all(found["x"].to_pylist()) == wanted, name


def stored(form: str, tmp_path: Path) -> Iterator[tuple[str, pa.Table, Path]]:
    """Each type that the format takes: its name, a table of it, its file. Others are refused."""
    for number, name in enumerate(TYPES):
        table = table_of(name)
        source = arrow_file(table, tmp_path / f"{number}.arrow")
        refused = name in REFUSED[form]
        path, said = through(source, form, tmp_path / str(number), 2 if refused else 0)
        if not refused:
            yield name, table, path
            continue
        assert 'column "x" has' in said, (name, said)
        assert f"{form} cannot hold" in said, (name, said)


def test_parquet_has_the_values_for_every_reader(tmp_path: Path) -> None:
    for name, table, path in stored("parquet", tmp_path):
        wanted = canonical_all(table["x"].to_pylist())
        for reader in (by_pyarrow, by_duckdb, by_polars):
            seen = ELSEWHERE.get((reader.__name__, name), lambda values: values)
            if seen is not None:
                found = reader(path)
                assert seen(wanted) == found, (name, reader.__name__, found)
        # And here, back to Arrow.
        again, _ = through(path, "arrow", tmp_path / f"{path.parent.name}-again")
        assert by_pyarrow(again) == wanted, name


def text_of(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float() if math.isnan(value):
            return "NaN"
        case float():
            return repr(value).replace("e+", "e")
        case bytes():
            return value.hex()
        case decimal.Decimal():
            return format(value, "f")
        case datetime.datetime() | datetime.time():
            # The fraction has as few groups of three digits as it needs.
            fine = "auto" if value.microsecond % 1000 else "milliseconds"
            text = value.isoformat(timespec=fine if value.microsecond else "seconds")
            return text.replace("+00:00", "Z")
        case _:
            return str(value)


def test_csv_has_the_text_and_gives_it_back(tmp_path: Path) -> None:
    for name, table, path in stored("csv", tmp_path):
        kind, _ = TYPES[name]
        if not (pa.types.is_duration(kind) or pa.types.is_interval(kind)):
            with path.open(newline="", encoding="utf-8") as file:
                found = [row["x"] for row in csv.DictReader(file)]
            values = table["x"].to_pylist()
            found = [text.removesuffix("T00:00:00") for text in found]
            wanted = [text_of(value) for value in values]
            assert found == wanted, name
        again, _ = through(path, "csv", tmp_path / f"{path.parent.name}-again")
        assert again.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), name


def described(path: Path) -> list[Any]:
    """Types and values, as DuckDB reads them."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        kinds = connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
        rows = connection.execute(f"SELECT COLUMNS(*)::VARCHAR FROM '{path}'").fetchall()
    return [(name, kind) for name, kind, *_ in kinds] + rows


def test_what_duckdb_writes_stays_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "duckdb.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (SELECT i AS id, uuid() AS u, '{{"a": 1}}'::JSON AS j,
                '10:11:12+02'::TIMETZ AS tz,
                INTERVAL '14 months 3 days 5 seconds' AS span, 'b'::ENUM('a', 'b') AS e,
                '\\xFF\\x00'::BLOB AS b, 12.345::DECIMAL(18, 3) AS d, 2::UBIGINT AS big,
                1.5::FLOAT AS f,
                '2018-08-01 12:00:00'::TIMESTAMP_S AS s,
                '2018-08-01 12:00:00.001'::TIMESTAMP_MS AS ms,
                '2018-08-01 12:00:00.000001'::TIMESTAMP AS us,
                '2018-08-01 12:00:00.000000001'::TIMESTAMP_NS AS ns,
                '2018-08-01 12:00:00+02'::TIMESTAMPTZ AS z, DATE '1901-02-03' AS day,
                TIME '23:59:58' AS t, [1, NULL] AS l,
                {{'u': uuid(), 'z': '10:11:12+02'::TIMETZ}} AS st,
                MAP {{'k': i}} AS m, 'POINT (1 2)'::GEOMETRY AS g,
                'bson'::VARIANT AS v, CASE WHEN i = 1 THEN NULL ELSE i END AS n
                FROM range(3) r(i)) TO '{path}'"""
        )
    made, _ = through(path, "parquet", tmp_path / "out")
    assert described(made) == described(path)
    # By Arrow in between, too.
    arrow, _ = through(path, "arrow", tmp_path / "arrow")
    made, _ = through(arrow, "parquet", tmp_path / "again")
    assert described(made) == described(path)


#: Ways of pyarrow to write the same table as Parquet: the kinds of apache/parquet-testing.
WRITERS: dict[str, dict[str, Any]] = {
    "1.0": {"version": "1.0"},
    "2.4": {"version": "2.4"},
    "data pages 2": {"data_page_version": "2.0"},
    **{codec: {"compression": codec} for codec in ("none", "snappy", "gzip", "zstd", "lz4")},
    "plain": {"use_dictionary": False},
    "small pages": {"data_page_size": 64, "row_group_size": 7, "write_page_index": True},
    "checksums": {"write_page_checksum": True},
    "int96": {"use_deprecated_int96_timestamps": True},
    "delta": {
        "use_dictionary": False,
        "column_encoding": {
            "id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY",
            "bytes": "DELTA_LENGTH_BYTE_ARRAY",
            "x": "BYTE_STREAM_SPLIT", "flag": "RLE",
        },
    },
    "no arrow schema": {"store_schema": False},
    "decimals as integers": {"store_decimal_as_integer": True},
    "lists of 1.0": {"use_compliant_nested_type": False},
}  # fmt: skip


def mixed() -> pa.Table:
    """Columns of the usual types, some with nulls."""
    rows = range(50)
    at = [None if row == 3 else NOON + datetime.timedelta(seconds=row) for row in rows]
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "text": pa.array([None if row % 5 == 0 else f"text {row % 7}" for row in rows]),
            "bytes": pa.array([bytes([row]) * (row % 4) for row in rows], pa.binary()),
            "x": pa.array([row / 3 for row in rows], pa.float64()),
            "flag": pa.array([row % 3 == 0 for row in rows]),
            "at": pa.array(at, pa.timestamp("us")),
            "price": pa.array([D(row) / 4 for row in rows], pa.decimal128(9, 2)),
            "words": pa.array([["a", None][: row % 3] for row in rows], pa.list_(pa.string())),
            "pair": pa.array([{"n": row, "l": [row]} for row in rows]),
        }
    )


def test_parquet_of_every_kind_is_read_right(tmp_path: Path) -> None:
    table = mixed()
    wanted = table.to_pylist()
    for number, (name, options) in enumerate(WRITERS.items()):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path, **options)
        made, _ = through(path, "arrow", tmp_path / f"{number}")
        assert pa.ipc.open_file(made).read_all().to_pylist() == wanted, name
    path = tmp_path / "brotli.parquet"
    pq.write_table(table, path, compression="brotli")
    _, said = through(path, "arrow", tmp_path / "brotli", 2)
    assert "brotli" in said.lower()


def test_damaged_pages_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sums.parquet"
    table = pa.table({"id": pa.array(range(5), pa.int64()), "x": pa.array([7777] * 5, pa.int64())})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    values = (7777).to_bytes(8, "little") * 5
    whole = path.read_bytes()
    assert whole.count(values) == 1
    path.write_bytes(whole.replace(values, values[:32] + (7778).to_bytes(8, "little")))
    _, said = through(path, "arrow", tmp_path / "out", 2)
    assert "crc" in said.lower() or "checksum" in said.lower()


def test_times_in_int96_and_metadata_of_bytes(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    late = [datetime.datetime(2018, 8, 1), datetime.datetime(2500, 1, 1)]
    table = pa.table({"id": [1, 2], "x": pa.array(late, pa.timestamp("us"))})
    metadata = {b"geo": b"{}", b"raw": b"a\xff"}
    words: dict[str, Any] = {"use_deprecated_int96_timestamps": True, "store_schema": False}
    with pq.ParquetWriter(path, table.schema, **words) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)
    made, said = through(path, "arrow", tmp_path / "out")
    assert "INT96" in said
    assert by_pyarrow(made) == late
    made, _ = through(path, "parquet", tmp_path / "parquet")
    metadata = pq.read_schema(made).metadata
    assert metadata[b"geo"] == b"{}"
    assert metadata[b"raw"] == b"a?"
    assert pq.read_metadata(made).metadata[b"geo"] == b"{}"
    source = arrow_file(table.replace_schema_metadata(metadata), tmp_path / "raw.arrow")
    made, _ = through(source, "parquet", tmp_path / "from-arrow")
    assert pq.read_metadata(made).metadata[b"raw"] == b"a?"


def test_arrow_of_every_kind_is_read_right(tmp_path: Path) -> None:
    """The kinds of apache/arrow-testing that pyarrow writes."""
    nested = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None], pa.int8()), pa.array([[1], [2, None]], pa.list_(pa.int32()))
    )
    inner = pa.array(["a", "b", "a"]).dictionary_encode()
    columns = {
        "id": pa.array([1, 2, 3], pa.int64()),
        "nested": nested,
        "inner": pa.StructArray.from_arrays([inner], ["d"]),
        "uuid": pa.array([uuid.UUID(int=number).bytes for number in range(3)], pa.uuid()),
        "json": pa.array(["{}", None, "[]"], pa.json_()),
        "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, None], pa.int8())),
        "unsigned keys": pa.DictionaryArray.from_arrays(
            pa.array([0, 0, 1], pa.uint32()), ["x", "y"]
        ),
    }
    fields = [pa.field(name, column.type, metadata={"k": "v"}) for name, column in columns.items()]
    schema = pa.schema(fields, metadata={"table": "metadata"})
    table = pa.Table.from_arrays(list(columns.values()), schema=schema)
    for number, options in enumerate(
        [
            {},
            {"metadata_version": pa.ipc.MetadataVersion.V4},
            {"use_legacy_format": True, "metadata_version": pa.ipc.MetadataVersion.V4},
            {"compression": "lz4"},
            {"compression": "zstd"},
        ]
    ):
        # Streams without markers, of before 0.15, are not known by their first bytes.
        is_old = options.get("use_legacy_format", False)
        for make in (pa.ipc.new_file, pa.ipc.new_stream)[: 1 if is_old else 2]:
            path = tmp_path / f"{number}-{make.__name__}"
            with make(path, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
                writer.write_table(table)
            made, _ = through(path, "arrow", tmp_path / f"{path.name}-out")
            found = pa.ipc.open_file(made).read_all()
            assert found.schema.equals(schema, check_metadata=True)
            assert found.to_pylist() == table.to_pylist()
    made, _ = through(path, "parquet", tmp_path / "parquet")
    found = pq.read_table(made)
    assert [str(found.schema.field(name).type) for name in ("uuid", "json")] == [
        str(schema.field(name).type) for name in ("uuid", "json")
    ]
    assert found.to_pylist() == table.to_pylist()


def test_trees_answer_for_times_of_any_zone(tmp_path: Path) -> None:
    for zone, noon in (("UTC", "12:00"), ("Europe/Paris", "14:00"), ("America/New_York", "08:00")):
        at = [datetime.datetime(2018, 8, 1, hour, tzinfo=UTC) for hour in range(24)]
        for unit in ("s", "us"):
            table = pa.table({"id": [1] * 24, "time": pa.array(at, pa.timestamp(unit, zone))})
            name = zone.replace("/", "-") + unit
            source, tree = arrow_file(table, tmp_path / f"{name}.arrow"), tmp_path / name
            flow("tree", "add", tree, source, "--id", "id", "--time", "time")
            for _ in range(2):
                for start in (
                    f"2018-08-01T{noon}",
                    f"2018-08-01 {noon}:00",
                    "2018-08-01T12:00:00Z",
                ):
                    words = ("--from", start, "--to", "2018-08-01T13:30:00Z")
                    rows = flow("tree", "query", tree, *words).splitlines()[1:]
                    assert len(rows) == 2, (zone, start, rows)
                    assert noon in rows[0], (zone, start, rows)
                flow("tree", "compact", tree)


def test_types_of_csv_are_chosen(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,zip,day\n1,00501,2022-02-28\n2,7,2022-02-30\n", encoding="utf-8")
    made, said = through(path, "arrow", tmp_path / "guessed")
    found = pa.ipc.open_file(made).read_all()
    assert found["zip"].to_pylist() == ["00501", "7"]
    assert found["day"].to_pylist()[1] == "2022-02-30"
    assert '"zip"' in said
    assert '"2022-02-30" in row 2' in said
    made, said = through(
        path, "arrow", tmp_path / "named", 0, "--types", "zip=int,id=decimal(8,2),day=text"
    )
    found = pa.ipc.open_file(made).read_all()
    assert said == ""
    assert found["zip"].to_pylist() == [501, 7]
    assert found["id"].to_pylist()[0] == 1
    made, said = through(path, "arrow", tmp_path / "text", 0, "--types", "id=bigint", "--no-guess")
    assert pa.ipc.open_file(made).read_all()["zip"].to_pylist() == ["00501", "7"]
    _, said = through(path, "arrow", tmp_path / "wrong", 2, "--types", "day=date")
    assert 'row 2, column "day": "2022-02-30"' in said
    for words in ("day", "day=nonsense"):
        assert "--types" in through(path, "arrow", tmp_path / "bad", 2, "--types", words)[1]


def test_values_that_parquet_cannot_hold_are_refused(tmp_path: Path) -> None:
    interval = pa.month_day_nano_interval()
    cases = [
        pa.Array.from_buffers(pa.date64(), 1, [None, pa.array([1], pa.int64()).buffers()[1]]),
        pa.array([2**60], pa.int64()).cast(pa.timestamp("s")),
        pa.array([2**31 - 1], pa.int32()).cast(pa.time32("s")),
        *(
            pa.array([pa.MonthDayNano(list(parts))], interval)
            for parts in ((-1, 0, 0), (0, -1, 0), (0, 0, -1_000_000), (0, 0, 1))
        ),
    ]
    for number, values in enumerate(cases):
        table = pa.table({"id": pa.array([1], pa.int64()), "x": values})
        source = arrow_file(table, tmp_path / f"{number}.arrow")
        _, said = through(source, "parquet", tmp_path / str(number), 2)
        assert "parquet cannot hold" in said
        flow("tree", "add", tmp_path / f"t{number}", source, "--id", "id", "--time", "id", code=2)


def test_trees_give_back_what_they_take(tmp_path: Path) -> None:
    for number, name in enumerate(TYPES):
        table = table_of(name)
        source, tree = arrow_file(table, tmp_path / f"{number}.arrow"), tmp_path / str(number)
        words = ("tree", "add", tree, source, "--id", "id", "--time", "id")
        if name in REFUSED["parquet"] | {"runs"}:
            flow(*words, code=2)
            continue
        for _ in range(2):
            flow(*words)
            flow("tree", "compact", tree)
        made = tmp_path / f"{number}.arrows"
        flow("tree", "query", tree, "-o", made, "--format", "arrow-stream")
        with pa.ipc.open_stream(made) as reader:
            found = reader.read_all()
        assert found.schema.field("x").type == table.schema.field("x").type, name
        twice = [value for value in table["x"].to_pylist() for _ in range(2)]
        assert canonical_all(found["x"].to_pylist()) == canonical_all(twice), name


def test_footers_that_contradict_their_groups_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "six.parquet"
    pq.write_table(pa.table({"id": pa.array(range(6), pa.int64())}), path, store_schema=False)
    whole = path.read_bytes()
    # The rows of the file, and the field behind it, in Thrift's compact protocol.
    assert whole.count(b"\x16\x0c\x19") == 1
    for rows in (0, 5, 7):
        path.write_bytes(whole.replace(b"\x16\x0c\x19", bytes([0x16, 2 * rows, 0x19])))
        _, said = through(path, "arrow", tmp_path / "out", 2)
        assert f"its footer has {rows} rows, its row groups have 6" in said


#: Columns of CSV, and their types where these are not text.
COLUMNS: list[tuple[str, str]] = [
    ("00501 10001", ""), ("007 7", ""), ("7 007", ""), ("+5", ""), ("-0 0", "double"),
    ("1 1.0", ""),
    ("1 -2 9223372036854775807", "int64"), ("18446744073709551615 1", "decimal128(38, 0)"),
    ("1.50 2.25", "decimal128(38, 2)"), ("1.5 2.25", "double"), ("1.10 1.9", ""),
    ("1 2.5", "double"),
    ("1.0 2.5", "double"), ("1e5 12E3 1e05", ""), ("1e-05 1e+16 0.5", ""),
    ("1e-7 1e16", "double"),
    ("1.0 1e-05", ""),
    ("0.1234567890123456789", "decimal128(38, 19)"), ("0.30000000000000004 0.1", "double"),
    ("NaN 1.5", "double"), ("nan 1.5", ""), ("true false", "bool"), ("True false", ""),
    ("2018-08-01 2022-02-28", "date32[day]"), ("2022-02-28 2022-02-30", ""),
    ("2018-08-01T12:00:00 2018-08-01T12:00:01", "timestamp[s]"),
    ("2018-08-01_12:00:00 2018-08-01_12:00:01", "timestamp[s]"),
    ("2018-08-01T12:00:00 2018-08-01_12:00:00", ""),
    ("2018-08-01T12:00:00.000 2018-08-01T12:00:01.500", "timestamp[ms]"),
    ("2018-08-01T12:00:00 2018-08-01T12:00:01.500", "timestamp[ms]"),
    ("2018-08-01_12:00:00.000000 2018-08-01_12:00:00.000001", "timestamp[us]"),
    ("2018-08-01T12:00:00.5", ""),
    ("2018-08-01T10:00:00+02:00 2018-08-01T11:00:00+02:00", "timestamp[s, tz=+02:00]"),
    ("2018-08-01T10:00:00+02:00 2018-08-01T11:00:00+01:00", ""),
    ("2018-08-01T10:00:00+02:00 2018-08-01T11:00:00", ""), ("10:00+02:00", ""),
    ("2018-08-01T10:00:00Z", "timestamp[s, tz=UTC]"),
    ("2018-08-01_10:00:00Z", "timestamp[s, tz=UTC]"),
    ("2018-08-01T10:00:00+00:00", "timestamp[s, tz=+00:00]"),
    ("2016-12-31T23:59:60 2016-12-31T23:59:59", ""), ("2016-12-31T24:00:00", ""),
]  # fmt: skip


def test_csv_to_csv_changes_no_text(tmp_path: Path) -> None:
    for number, (words, kind) in enumerate(COLUMNS):
        values = [word.replace("_", " ") for word in words.split()]
        path = tmp_path / f"{number}.csv"
        rows = [f"{row},{value}" for row, value in enumerate([*values, ""])]
        path.write_text("\n".join(["id,x", *rows, ""]), encoding="utf-8")
        made, _ = through(path, "csv", tmp_path / str(number))
        assert made.read_text(encoding="utf-8") == path.read_text(encoding="utf-8")
        made, _ = through(path, "arrow", tmp_path / f"{number}-arrow")
        found = str(pa.ipc.open_file(made).read_all().schema.field("x").type)
        assert found == (kind or "string"), words


def test_metadata_of_columns_do_not_outlive_them(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "b": [2]}).replace_schema_metadata({"geo": "{}", "mine": "m"})
    source = arrow_file(table, tmp_path / "t.arrow")
    for number, (select, keys) in enumerate(
        [("*", {b"geo", b"mine"}), ("id, b", {b"geo", b"mine"}), ("id", {b"mine"})]
    ):
        made, _ = through(source, "arrow", tmp_path / str(number), 0, "--select", select)
        assert set(pa.ipc.open_file(made).schema.metadata) == keys
