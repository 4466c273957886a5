"""`overside.dataset`: what engines push down, against the same of a local dataset."""

from __future__ import annotations

import datetime
import math
import operator
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import datafusion
import duckdb
import overside
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.flight as fl
import pyarrow.parquet
import pyarrow.substrait
import pytest
from command import PATIENCE_S, server_keys
from flow_server import ROWS, TableServer, same, table_server, values, write_tables
from overside.flow import expressions, messages
from overside.flow.dataset import TableDataset
from overside.flow.engine import StatementError
from overside.flow.protobuf import ProtobufError

F = pads.field
NAN = pa.scalar(math.nan)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableServer]:
    with table_server(**write_tables(tmp_path_factory.mktemp("tables"))) as running:
        yield running


@pytest.fixture(scope="module")
def remote(server: TableServer) -> TableDataset:
    return overside.dataset(f"{server.uri}/v")


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return values()


class Scans:
    """Requests of a dataset to its server."""

    def __init__(self, dataset: TableDataset) -> None:
        table = dataset._table
        self.asked: list[tuple[list[str] | None, bool]] = []

        def scan(columns: Any = None, predicate: Any = None, *rest: Any, **more: Any) -> Any:
            # Rows that are counted have no columns.
            names = [] if more.get("count") else columns and list(columns)
            self.asked.append((names, predicate is not None))
            return type(table).scan(table, columns, predicate, *rest, **more)

        self.patch = mock.patch.object(table, "scan", scan)


# Of SQL, and whether all of it is pushed down by DuckDB.
CONDITIONS = [
    ("id < 10", True),
    ("id BETWEEN 100 AND 200 AND small <> 7", True),
    ("word = 'it''s'", True),
    ("word IN ('red', 'a \"word\"', 'nothing')", True),
    ("word IS NULL OR small = 3", True),
    ("price >= 9999.5", True),
    ("day < DATE '1992-02-01'", True),
    ("\"at\" >= TIMESTAMP '2020-01-05 00:00:00'", True),
    ("nested.x = 3 AND id < 1000", True),
    ("bytes = '\\x07\\x00'::BLOB", True),
    ("NOT flag", False),
    ("real > 1.5", False),
    ("word LIKE 'r%'", False),
    ("length(word) = 3", False),
    ("id % 7 = 3", False),
]


@pytest.mark.parametrize(("condition", "is_pushed"), CONDITIONS)
def test_duckdb_pushes_columns_and_filter(
    remote: TableDataset, table: pa.Table, condition: str, is_pushed: bool
) -> None:
    local = table
    assert local.num_rows == ROWS
    statement = f"SELECT id FROM {{}} WHERE {condition} ORDER BY id"
    scans = Scans(remote)
    with scans.patch:
        found = duckdb.sql(statement.format("remote")).fetchall()
    assert found == duckdb.sql(statement.format("local")).fetchall()
    assert len(found) > 0
    ((columns, has_filter),) = scans.asked
    assert columns is not None
    assert has_filter or not is_pushed
    # The column that only the filter needs is left away.
    assert (columns == ["id"]) == (is_pushed or condition.startswith("id"))


POLARS = [
    (polars.col("id") < 10, True),
    (polars.col("word") == "it's", True),
    (polars.col("word").is_in(["red", "nothing"]), True),
    (polars.col("small").is_null() & (polars.col("price") > Decimal("5000.00")), True),
    (polars.col("real") > 1.5, True),
    (polars.col("day") < datetime.date(1992, 2, 1), True),
    (~polars.col("flag"), True),
    (polars.col("word").str.starts_with("r"), False),
]


@pytest.mark.parametrize(("condition", "is_pushed"), POLARS, ids=str)
def test_polars_pushes_columns_and_filter(
    remote: TableDataset, table: pa.Table, condition: Any, is_pushed: bool
) -> None:
    scans = Scans(remote)
    with scans.patch:
        lazy = polars.scan_pyarrow_dataset(remote)
        found = lazy.filter(condition).select("id").collect()["id"].sort().to_list()
    local = polars.scan_pyarrow_dataset(pads.dataset(table))
    assert found == local.filter(condition).select("id").collect()["id"].sort().to_list()
    ((columns, has_filter),) = scans.asked
    assert columns is not None
    assert len(columns) <= 3
    assert has_filter == is_pushed


def test_polars_takes_few_rows(remote: TableDataset) -> None:
    assert polars.scan_pyarrow_dataset(remote).head(3).select("id").collect().height == 3


@pytest.mark.parametrize("condition", [one for one, _ in CONDITIONS if "nested" not in one])
def test_datafusion_pushes_columns_and_filter(
    remote: TableDataset, table: pa.Table, condition: str
) -> None:
    if "BLOB" in condition:
        condition = "bytes = X'0700'"
    context = datafusion.SessionContext()
    context.register_dataset("t", remote)
    scans = Scans(remote)
    with scans.patch:
        found = context.sql(f"SELECT id FROM t WHERE {condition} ORDER BY id").to_pydict()["id"]
        count = context.sql(f"SELECT count(*) AS n FROM t WHERE {condition}").to_pydict()["n"]
    local = datafusion.SessionContext()
    local.register_dataset("t", pads.dataset(table))
    statement = f"SELECT id FROM t WHERE {condition} ORDER BY id"
    assert found == local.sql(statement).to_pydict()["id"]
    assert count == [len(found)]
    assert all(columns is not None and len(columns) <= 3 for columns, _ in scans.asked)


FILTERS = [
    (F("id") < 100) & ~F("flag"),
    F("nested", "x") == 3,
    F("real").is_null(nan_is_null=True),
    F("id") * 2 - 7 == 13,
    pc.match_like(F("word"), "r%"),
    pc.if_else(F("flag"), F("id") < 10, F("small") == 3),
    F("id") / 2 == 4,
    F("id").cast(pa.int32()) == 7,
    pc.scalar(True),
]


@pytest.mark.parametrize("condition", FILTERS, ids=str)
def test_filters_mean_what_they_mean_in_arrow(
    remote: TableDataset, table: pa.Table, condition: pads.Expression
) -> None:
    found = remote.to_table(columns=["id"], filter=condition)["id"].to_pylist()
    local = pads.dataset(table)
    assert sorted(found) == local.to_table(columns=["id"], filter=condition)["id"].to_pylist()
    assert remote.count_rows(condition) == len(found) == local.count_rows(filter=condition)
    assert len(found) == remote.filter(condition).count_rows()


GROUP_ROWS = 250
START = datetime.datetime(2020, 1, 1)
FLOATS = [math.nan, -0.0, 0.0, 1.5, -1.5, math.inf, -math.inf, None]
#: Values of each column; a row group has two of them, so that its statistics say much.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [0, 1, -1, 7, 2**62, -(2**62), None]),
    "small": (pa.int32(), [0, 1, -1, 7, 2**31 - 1, -(2**31), None]),
    "tiny": (pa.uint8(), [0, 1, 7, 255, None]),
    "real": (pa.float64(), [*FLOATS, 1e300]),
    "single": (pa.float32(), FLOATS),
    "price": (pa.decimal128(15, 2), [Decimal("0.00"), Decimal("-1.25"), Decimal("99.99"), None]),
    "day": (pa.date32(), [datetime.date(1970, 1, 1), datetime.date(2020, 2, 29), None]),
    "at": (pa.timestamp("us"), [START, START - datetime.timedelta(days=30_000), None]),
    "zoned": (pa.timestamp("us", "US/Central"), [START.replace(tzinfo=datetime.UTC), None]),
    "word": (pa.string(), ["", "red", "RED", "Übel", "übel", "a%b_c", "it's", "nul\0", None]),
    "flag": (pa.bool_(), [True, False, None]),
    "bytes": (pa.binary(), [b"", b"\0", b"\xff\0", None]),
}
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
PATTERNS = ["", "r", "R", "b", "Ü", "%", "_c", "'", "\0"]


def random_rows() -> pa.Table:
    source, columns = random.Random(5), {"id": pa.array(range(16 * GROUP_ROWS), pa.int64())}
    for name, (kind, some) in VALUES.items():
        pairs = [source.sample(some, 2) for _ in range(16)]
        column = [source.choice(pair) for pair in pairs for _ in range(GROUP_ROWS)]
        columns[name] = pa.array(column, kind)
    return pa.table(columns)


def random_filter(source: random.Random, depth: int) -> pads.Expression:
    kind = source.randrange(5) if depth else 4
    if kind == 0:
        return ~random_filter(source, depth - 1)
    if kind < 4:
        combine = source.choice([operator.and_, operator.or_])
        return combine(random_filter(source, depth - 1), random_filter(source, depth - 1))
    name = source.choice(list(VALUES))
    kind, known = VALUES[name]
    column, some = F(name), source.choices(known, k=source.randrange(1, 4))
    compare, literal, is_odd = (
        source.choice(COMPARISONS),
        pa.scalar(some[0], kind),
        some[-1] is None,
    )
    tests = [
        lambda: compare(column, literal),
        lambda: compare(pc.scalar(literal), column),
        lambda: compare(column, column),
        column.is_null,
        column.is_valid,
        lambda: pc.is_in(column, pa.array(some, kind), skip_nulls=source.random() < 0.5),
    ]
    if name in ("real", "single"):
        tests += [column.is_nan, lambda: compare(column + pc.scalar(literal), literal)]
    if name == "flag":
        tests.append(lambda: column)
    if name == "word":
        function = source.choice([pc.starts_with, pc.ends_with, pc.match_substring])
        tests.append(lambda: function(column, source.choice(PATTERNS), ignore_case=is_odd))
    return source.choice(tests)()


def test_random_filters_mean_what_they_mean_in_arrow(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, source = random_rows(), random.Random(1)
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=GROUP_ROWS)
    with table_server(t=tmp_path / "t.parquet") as server, caplog.at_level("INFO", "overside.flow"):
        remote, local = overside.dataset(server.uri), pads.dataset(table)
        for _ in range(300):
            condition = random_filter(source, 3)
            found = remote.to_table(columns=["id"], filter=condition)["id"].to_pylist()
            expected = local.to_table(columns=["id"], filter=condition)["id"].to_pylist()
            assert sorted(found) == expected, condition
    # Others are not pushed down.
    assert sum("is filtered here" in line for line in caplog.messages) < 150


def test_a_dataset_is_read_in_all_ways(remote: TableDataset, table: pa.Table) -> None:
    assert isinstance(remote, pads.Dataset)
    assert remote.schema.equals(table.schema.remove(9).append(remote.schema.field("nested")))
    assert same(remote.to_table().sort_by("id"), table)
    assert remote.count_rows() == ROWS
    assert remote.head(7, columns=["word"]).shape == (7, 1)
    assert remote.head(0).num_rows == 0
    computed = remote.to_table(
        columns={"twice": F("id") * 2, "word": F("word")}, filter=F("id") < 3
    )
    assert sorted(computed["twice"].to_pylist()) == [0, 2, 4]
    sizes = pc.utf8_length(F("word"))
    here = remote.to_table(columns={"size": sizes}, filter=F("id") < 3)
    assert here.equals(pads.dataset(table).to_table(columns={"size": sizes}, filter=F("id") < 3))
    assert sum(batch.num_rows for batch in remote.to_batches(columns=["id"])) == ROWS
    assert remote.scanner(columns=[]).count_rows() == ROWS
    (fragment,) = remote.get_fragments(F("id") < 5)
    assert fragment.scanner(columns=["id"]).to_table().num_rows == 5
    narrowed = remote.filter(F("id") < 50).filter(F("id") > 45)
    assert pickle.loads(pickle.dumps(narrowed)).count_rows() == 4
    assert duckdb.sql("SELECT count(*) FROM narrowed").fetchall() == [(4,)]


def test_received_buffers_are_aligned(remote: TableDataset) -> None:
    for batch in remote.to_batches():
        for array in batch.columns:
            assert all(buffer.address % 64 == 0 for buffer in array.buffers() if buffer)


def test_what_cannot_be_is_said(server: TableServer, remote: TableDataset) -> None:
    for uri in ("http://127.0.0.1:1/v", "grpc://127.0.0.1/v", server.address):
        with pytest.raises(ValueError, match="is not like grpc://HOST:PORT/NAME"):
            overside.dataset(uri)
    for uri in (f"{server.uri}/nothing", server.uri):
        with pytest.raises(ValueError, match=r"there is no table .*: v, w"):
            overside.dataset(uri)
    with pytest.raises(fl.FlightUnavailableError):
        overside.dataset("grpc://127.0.0.1:1/v")
    with pytest.raises(pa.ArrowInvalid, match="nobody"):
        remote.to_table(columns=["nobody"])
    with pytest.raises(pa.ArrowInvalid, match="nobody"):
        remote.to_table(filter=F("nobody") == 1)
    # Arrow's own code cannot get at the rows, and does not say that there are none.
    with pytest.raises((NotImplementedError, pa.ArrowException)):
        pads.dataset([remote]).to_table()


FORKED = """
import multiprocessing, os, sys, overside
uri, how = sys.argv[1:]
table = overside.dataset(uri)
batches = table.to_batches() if how == "in the middle" else None
rows = [next(batches).num_rows] if batches else []

def use():
    global table, batches
    for call in (table.count_rows, table.to_table, lambda: overside.dataset(uri)):
        try:
            call()
        except RuntimeError as error:
            assert "spawn" in str(error)
            os.write(1, b"refused ")
    if how == "destroyed":
        table = batches = None
    if how == "ends by itself":
        sys.exit(0)

if how == "ends by itself":
    if os.fork() == 0:
        use()
    os.wait()
else:
    child = multiprocessing.get_context("fork").Process(target=use)
    child.start()
    child.join()
print(table.count_rows(), flush=True)
# After a fork, Arrow's own threads may be waited for without end when the process ends by itself.
os._exit(0)
"""


@pytest.mark.parametrize("how", ["destroyed", "ends by itself", "in the middle"])
def test_a_forked_child_is_refused_and_does_not_hang(server: TableServer, how: str) -> None:
    command = [sys.executable, "-c", FORKED, f"{server.uri}/v", how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout == "refused " * 3 + f"{ROWS}\n", done.stderr


def test_a_scan_that_is_left_does_not_go_on(server: TableServer, remote: TableDataset) -> None:
    for _ in range(40):
        batches = remote.to_batches()
        next(batches)
        del batches
    assert server.ask("SELECT count(*) n FROM v").to_pylist() == [{"n": ROWS}]


def test_expressions_that_are_broken_are_refused(server: TableServer, table: pa.Table) -> None:
    source = random.Random(13)
    whole = [
        bytes(pyarrow.substrait.serialize_expressions([one], ["filter"], table.schema))
        for one in (*FILTERS[:2], F("price") >= Decimal("9.50"), F("word").isin(["red"]))
    ]
    deep = F("flag")
    for _ in range(150):
        deep = ~deep
    for _ in range(600):
        broken = bytearray(source.choice(whole))
        for _ in range(source.randint(1, 4)):
            broken[source.randrange(len(broken))] = source.randrange(256)
        try:
            expressions.predicate(bytes(broken), table.schema)
        except (StatementError, ProtobufError):
            continue
    with fl.connect(server.uri) as client:
        for data in (*whole, b"", b"\xff", bytes(1000)):
            ticket = messages.scan("v", data, ["x", "y"], data, 5)
            with pytest.raises((fl.FlightServerError, pa.ArrowNotImplementedError)):
                client.do_get(fl.Ticket(ticket)).read_all()
        with pytest.raises(fl.FlightServerError, match="there is no table"):
            client.do_get(fl.Ticket(messages.scan("x; DROP VIEW v"))).read_all()
    quoted = 'a"; SELECT 1 --'
    schema = pa.schema([(quoted, pa.int64())])
    data = bytes(pyarrow.substrait.serialize_expressions([F(quoted) > 1], ["f"], schema))
    assert expressions.predicate(data, schema).startswith('("a""; SELECT 1 --" > ')


def test_the_extra_is_named_where_it_is_missing() -> None:
    code = "import sys; sys.modules['pyarrow'] = None\nimport overside; overside.dataset"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'overside[flow]'" in done.stderr


def test_passwords_and_certificates_are_used(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    password = tmp_path / "password"
    password.touch(mode=0o600)
    password.write_text("word\n")
    with table_server("--password-file", password, v=tables["v"]) as server:
        assert overside.dataset(server.uri, password="word").count_rows() == ROWS
        with pytest.raises(fl.FlightUnauthenticatedError):
            overside.dataset(server.uri)
    keys = server_keys(tmp_path / "keys")
    with table_server("--tls-keys", keys, "--tls-clients", "required", v=tables["v"]) as server:
        uri = server.uri.replace("grpc:", "grpc+tls:")
        assert overside.dataset(uri, tls_keys=keys).count_rows() == ROWS
        with pytest.raises(ValueError, match="tls_keys"):
            overside.dataset(uri)
