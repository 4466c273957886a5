"""`overside flow serve-table`: statements by a Flight SQL client, and what is refused."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.flight as fl
import pyarrow.parquet
import pytest
from adbc_driver_manager import Error
from command import PATIENCE_S, overside, server_keys, wait_for
from flow_server import ROWS, TableServer, same, table_server, values, write_tables
from overside.flow import messages
from overside.flow.engine import Slots
from overside.flow.protobuf import Message, ProtobufError, encode

pytestmark = pytest.mark.begun_first


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def server(tables: dict[str, Path]) -> Iterator[TableServer]:
    options = ("--memory", "256MiB", "--metrics", "127.0.0.1:0")
    with table_server(*options, **tables) as running:
        yield running


@pytest.fixture(scope="module")
def limited(tables: dict[str, Path]) -> Iterator[TableServer]:
    with table_server("--memory", "256MiB", "--timeout", "3", **tables) as running:
        yield running


def local(statement: str) -> pa.Table:
    v = values()
    assert v.num_rows == ROWS
    return duckdb.connect().sql(statement).to_arrow_table()


def prepared(client: fl.FlightClient, statement: str) -> Message:
    request = messages.pack("ActionCreatePreparedStatementRequest", (1, statement))
    (result,) = client.do_action(("CreatePreparedStatement", request))
    return messages.unpack(result.body.to_pybytes())[1]


def announced(client: fl.FlightClient, command: bytes) -> tuple[pa.Schema, pa.Table]:
    """The columns of a command, as they are announced, and its rows."""
    info = client.get_flight_info(fl.FlightDescriptor.for_command(command))
    return info.schema, client.do_get(info.endpoints[0].ticket).read_all()


def assert_memory_is_bounded(server: TableServer) -> None:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (resident,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(resident.split()[1]) << 10 < 1536 << 20


@pytest.mark.parametrize("table", ["v", "w"])
def test_statements_are_answered_as_locally(server: TableServer, table: str) -> None:
    statement = (
        "SELECT word, count(*) n, sum(price) p, min(day) d FROM {} "
        "WHERE small < 50 OR flag GROUP BY ALL ORDER BY ALL"
    )
    assert server.ask(statement.format(table)).equals(local(statement.format("v")))
    rows = f"SELECT * FROM {table} ORDER BY id"
    # What is more than a message takes several.
    assert same(server.ask(rows), local("SELECT * FROM v ORDER BY id"))


def test_prepared_statements_take_parameters(server: TableServer) -> None:
    statement = "SELECT id FROM v WHERE word = ? AND small > ? ORDER BY id"
    with server.connect() as connection, connection.cursor() as cursor:
        parameters = cursor.adbc_prepare(statement)
        assert parameters is None or len(parameters) == 2
        for word in ("red", "it's"):
            cursor.execute(statement, (word, 40))
            found = cursor.fetch_arrow_table()
            escaped = word.replace("'", "''")
            asked = statement.replace("= ?", f"= '{escaped}'").replace("> ?", "> 40")
            assert found.equals(local(asked))
            assert found.num_rows > 0


@pytest.mark.parametrize(
    ("statement", "types"),
    [
        (
            "SELECT id FROM v WHERE id BETWEEN ? AND ? AND word = ? AND price > ? LIMIT ?",
            [pa.int64(), pa.int64(), pa.string(), "price", pa.int64()],
        ),
        (
            "WITH x AS (SELECT id + 1 AS y FROM v WHERE day IN (?, DATE '2020-01-01')) "
            "SELECT * FROM x WHERE y = ? OR CAST(? AS SMALLINT) > 3",
            ["day", pa.int64(), pa.int16()],
        ),
        (
            "SELECT id FROM v WHERE word LIKE ? AND word NOT ILIKE ? ESCAPE '#'"
            " AND starts_with(word, ?) AND word SIMILAR TO ?",
            [pa.string()] * 4,
        ),
        # JDBC's driver writes milliseconds whatever is announced.
        (
            'SELECT id FROM v WHERE "at" > ? AND "at"::TIMESTAMPTZ < ? AND "at"::TIME = ?',
            [pa.timestamp("ms"), pa.timestamp("ms", "Etc/UTC"), pa.time32("ms")],
        ),
        # Nothing says what these are.
        ("SELECT ? IS NULL, ? = ?", [pa.null()] * 3),
    ],
)
def test_parameters_have_the_types_of_what_they_are_compared_with(
    server: TableServer, statement: str, types: list[pa.DataType | str]
) -> None:
    """JDBC's driver binds no other."""
    schema = local("SELECT * FROM v LIMIT 0").schema
    expected = [schema.field(kind).type if isinstance(kind, str) else kind for kind in types]
    with fl.connect(server.uri) as client:
        found = prepared(client, statement)
    assert pa.ipc.read_schema(pa.py_buffer(found.bytes(3))).types == expected


def test_several_rows_of_parameters_are_refused(server: TableServer) -> None:
    rows = pa.record_batch({"1": [1, 2]})
    with fl.connect(server.uri) as client:
        handle = prepared(client, "SELECT ? + 1 AS n").bytes(1)
        command = messages.pack("CommandPreparedStatementQuery", (1, handle))
        descriptor = fl.FlightDescriptor.for_command(command)

        def bind(*batches: pa.RecordBatch) -> None:
            writer, _ = client.do_put(descriptor, rows.schema)
            for batch in batches:
                writer.write_batch(batch)
            writer.close()

        for batches, said in (((rows,), "one at a time"), ((rows[:1],) * 2, "more than one")):
            with pytest.raises(fl.FlightServerError, match=said):
                bind(*batches)
        with pytest.raises(fl.FlightServerError, match="no parameters"):
            bind()
        bind(rows[:1])
        ticket = client.get_flight_info(descriptor).endpoints[0].ticket
        assert client.do_get(ticket).read_all().to_pylist() == [{"n": 2}]
        closing = messages.pack("ActionClosePreparedStatementRequest", (1, handle))
        list(client.do_action(("ClosePreparedStatement", closing)))
        with pytest.raises(fl.FlightServerError, match="no such prepared statement"):
            client.do_get(ticket)


@pytest.mark.parametrize("value", ["{}", "[{}]", "{{'x': [{}]}}"])
def test_enumerations_are_refused_with_what_to_write(server: TableServer, value: str) -> None:
    enumeration = value.format("word::ENUM('red', 'green')")
    with pytest.raises(Error, match="CAST it to VARCHAR"):
        server.ask(f"SELECT {enumeration} AS e FROM v WHERE word = 'red'")
    cast = value.format("word::ENUM('red', 'green')::VARCHAR")
    statement = f"SELECT {cast} AS e FROM v WHERE word = 'red' LIMIT 1"
    assert server.ask(statement).equals(local(statement))


def test_prepared_statements_that_are_never_closed_are_forgotten(server: TableServer) -> None:
    def run(handle: bytes) -> list[dict[str, int]]:
        command = messages.pack("CommandPreparedStatementQuery", (1, handle))
        return client.do_get(fl.Ticket(command)).read_all().to_pylist()

    with fl.connect(server.uri) as client:
        texts = [f"SELECT {number} AS n -- {'x' * 50_000}" for number in range(340)]
        handles = [prepared(client, text).bytes(1) for text in texts]
        assert run(handles[-1]) == [{"n": 339}]
        assert run(handles[-320]) == [{"n": 20}]
        with pytest.raises(fl.FlightServerError, match="no such prepared statement"):
            run(handles[0])


def test_columns_of_the_same_name_keep_it(server: TableServer) -> None:
    found = server.ask("SELECT 1 AS a, 2 AS a, 'x' AS A")
    assert found.column_names == ["a", "a", "A"]


def test_the_catalogue_has_tables_and_columns(server: TableServer) -> None:
    with server.connect() as connection:
        assert connection.adbc_get_info()["vendor_name"] == "overside"
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_table_schema("v").field("price").type == pa.decimal128(15, 2)
        objects = connection.adbc_get_objects(depth="all", table_name_filter="w").read_all()
        (catalog,) = objects.to_pylist()
        (schema,) = catalog["catalog_db_schemas"]
        (table,) = schema["db_schema_tables"]
        assert table["table_name"] == "w"
        assert [column["column_name"] for column in table["table_columns"]][:2] == ["id", "small"]


@pytest.mark.parametrize(
    "name",
    [
        "GetPrimaryKeys",
        "GetExportedKeys",
        "GetImportedKeys",
        "GetCrossReference",
        "GetCatalogs",
        "GetDbSchemas",
        "GetTables",
        "GetTableTypes",
        "GetSqlInfo",
        "GetXdbcTypeInfo",
    ],
)
def test_catalogue_calls_announce_the_columns_that_they_have(
    server: TableServer, name: str
) -> None:
    with fl.connect(server.uri) as client:
        command = messages.pack(f"Command{name}", (3, "v"), (5, 1))
        if name == "GetXdbcTypeInfo":
            command = messages.pack("CommandGetXdbcTypeInfo", (1, -5))
        if name == "GetSqlInfo":
            command = messages.pack("CommandGetSqlInfo", (1, 0), (1, 3), (1, 4711))
        schema, table = announced(client, command)
        assert table.schema == schema
        assert (table.num_rows > 0) == (name not in _KEY_CALLS)
        if name == "GetSqlInfo":
            assert table.to_pylist() == [
                {"info_name": 0, "value": "overside"},
                {"info_name": 3, "value": True},
            ]
        if name == "GetXdbcTypeInfo":
            assert table["type_name"].to_pylist() == ["BIGINT"]
            _, every = announced(client, messages.pack("CommandGetXdbcTypeInfo"))
            named = every["type_name"].to_pylist()
            assert {"VARCHAR", "DOUBLE", "TIMESTAMP", "DECIMAL"} <= set(named)


_KEY_CALLS = ("GetPrimaryKeys", "GetExportedKeys", "GetImportedKeys", "GetCrossReference")


def test_plain_flight_clients_have_tables_as_paths(server: TableServer) -> None:
    with fl.connect(server.uri) as client:
        listed = {info.descriptor.path[0]: info for info in client.list_flights()}
        assert set(listed) == {b"v", b"w"}
        info = client.get_flight_info(fl.FlightDescriptor.for_path("v"))
        assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == ROWS


HOSTILE = [
    "CREATE TABLE x(i INT)",
    "CREATE TEMP VIEW x AS SELECT 1",
    "INSERT INTO v SELECT * FROM v",
    "DELETE FROM v",
    "DROP VIEW v",
    "WITH x AS (DELETE FROM v RETURNING *) SELECT * FROM x",
    "COPY v TO '{there}'",
    "COPY (SELECT 1) TO '{there}' (FORMAT parquet)",
    "EXPORT DATABASE '{there}'",
    "ATTACH '{there}' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '100GB'",
    "SET GLOBAL threads = 64",
    "RESET memory_limit",
    "PRAGMA memory_limit='100GB'",
    "CALL enable_logging()",
    "SELECT * FROM enable_logging('QueryLog', storage='file', storage_path='{there}')",
    "SELECT * FROM enable_profiling()",
    "EXPLAIN ANALYZE DELETE FROM v",
    "PREPARE p AS SELECT 1",
    "BEGIN",
    "USE memory",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY v TO '{there}'",
    "",
    ";",
    "-- nothing",
    "SELEC 1",
    "SELECT 1) UNION ALL (SELECT 2",
    "SELECT * FROM '{here}'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM read_parquet('http://192.0.2.1/x.parquet')",
    "SELECT * FROM parquet_kv_metadata('{here}')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM read_duckdb('{there}')",
    "SELECT getenv('HOME')",
    "SELECT * FROM query('COPY v TO ''{there}''')",
    "SELECT nextval('x')",
    "SELECT \x00",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "+".join(["1"] * 50_000),
    "SELECT '" + "x" * (2 << 20) + "'",
    "SELECT * FROM values_of_nobody",
]


@pytest.mark.parametrize("statement", HOSTILE, ids=lambda text: text[:50])
def test_statements_that_are_no_reads_of_tables_are_refused(
    server: TableServer, tmp_path: Path, statement: str
) -> None:
    there, here = tmp_path / "there", tmp_path / "here.parquet"
    here.write_bytes(b"PAR1")
    text = statement.format(there=there, here=here) if "{" in statement else statement
    with pytest.raises(Error):
        server.ask(text)
    assert not there.exists()
    assert server.ask("SELECT count(*) n FROM v").to_pylist() == [{"n": ROWS}]


GREEDY = [
    "SELECT count(*) FROM range(1000000000000)",
    "SELECT repeat('x', 3000000000)",
    "SELECT range(2000000000)",
    "SELECT list_sum(range(2000000000))",
    "SELECT array_to_string(range(300000000), ',')",
    "SELECT count(*) FROM v a, v b, v c WHERE a.price < b.price AND b.price < c.price",
    "SELECT string_agg(a.word || b.word) FROM v a, v b",
    "SELECT a.* FROM v a, v b ORDER BY a.price, b.price",
    "WITH RECURSIVE r AS (SELECT 1 i UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r",
    "SELECT * FROM v a, v b",
    "SELECT repeat('x', 1000000) FROM v",
]


def drain(server: TableServer, statement: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        for _ in cursor.fetch_record_batch():
            pass


@pytest.mark.parametrize("statement", GREEDY, ids=lambda text: text[:50])
def test_time_and_memory_are_bounded(limited: TableServer, statement: str) -> None:
    with pytest.raises((Error, OSError), match=r"time limit|[Mm]emory|alloc"):
        drain(limited, statement)
    assert_memory_is_bounded(limited)
    assert limited.ask("SELECT count(*) n FROM v").to_pylist() == [{"n": ROWS}]


def _ask_until_answered(server: TableServer) -> list[dict[str, int]]:
    """Answer of a server that may reply \"try again later\" at first."""
    for _ in range(3):
        with contextlib.suppress(Error):
            return server.ask("SELECT count(*) n FROM v").to_pylist()
    return server.ask("SELECT count(*) n FROM v").to_pylist()


def test_a_client_that_stalls_gives_its_slot_back(tables: dict[str, Path]) -> None:
    many = messages.pack("TicketStatementQuery", (1, "SELECT a.* FROM v a, range(1000)"))
    options = ("--statements", "1", "--timeout", "4")
    with table_server(*options, **tables) as server, fl.connect(server.uri) as stalled:
        reader = stalled.do_get(fl.Ticket(many))
        reader.read_chunk()
        # It may wait as long as the other has: about as long as that takes.
        assert _ask_until_answered(server) == [{"n": ROWS}]
        with pytest.raises(fl.FlightTimedOutError, match="time limit"):
            reader.read_all()


def _write_ids(file: Path, first: int, **metadata: str) -> None:
    """A table whose file has the same size, whatever it begins with."""
    table = pa.table({"id": range(first, first + 1000)}).replace_schema_metadata(metadata)
    pyarrow.parquet.write_table(table, file, compression="none", use_dictionary=False)


def _is_metadata_kept(server: TableServer) -> bool:
    (row,) = server.ask("SELECT current_setting('parquet_metadata_cache') kept").to_pylist()
    return bool(row["kept"])


def test_a_file_that_is_replaced_is_read_anew(tmp_path: Path) -> None:
    file, new = tmp_path / "ids.parquet", tmp_path / "new.parquet"
    _write_ids(file, 0)
    size = file.stat().st_size
    os.utime(file, (1, 1))
    with table_server(t=file) as server:

        def begins_with(first: int) -> None:
            statement = f"SELECT min(id) a, count(*) FILTER (id >= {first}) n FROM t"
            assert server.ask(statement).to_pylist() == [{"a": first, "n": 1000}]
            # This one is decided by what the file's metadata say.
            assert server.ask(f"SELECT id FROM t WHERE id >= {first}").num_rows == 1000

        begins_with(0)
        assert _is_metadata_kept(server)
        for first in (1000, 2000, 3000, 4000):
            _write_ids(file, first)
            assert file.stat().st_size == size
            begins_with(first)
        assert not _is_metadata_kept(server)
        _write_ids(new, 5000)
        os.utime(new, (1, 1))
        new.replace(file)
        begins_with(5000)
        assert _is_metadata_kept(server)
        file.unlink()
        with pytest.raises(Error, match=r"ids\.parquet"):
            server.ask("SELECT * FROM t")
        _write_ids(file, 0)
        begins_with(0)


def test_metadata_that_would_take_much_memory_are_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "ids.parquet"
    _write_ids(file, 0, much="x" * (17 << 20))
    os.utime(file, (1, 1))
    with table_server(t=file) as server:
        assert server.ask("SELECT count(*) n FROM t").to_pylist() == [{"n": 1000}]
        assert not _is_metadata_kept(server)


def test_settings_are_those_of_every_statement(server: TableServer) -> None:
    names = ("python_enable_replacements", "autoload_known_extensions", "enable_external_access")
    values = ", ".join(f"current_setting('{name}') AS {name}" for name in names)
    assert server.ask(f"SELECT {values}").to_pylist() == [dict.fromkeys(names, False)]


def test_rows_may_be_wide(server: TableServer) -> None:
    statement = "SELECT id, repeat('x', 10000) x FROM v WHERE id < 20000"
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        assert sum(batch.num_rows for batch in cursor.fetch_record_batch()) == 20_000


def _repeated(start: str, part: str, end: str, size: int) -> str:
    return start + part * ((size - len(start) - len(end)) // len(part)) + end


@pytest.mark.parametrize(
    "parts",
    [
        ("SELECT count(*) n FROM v WHERE id IN (-1", ",1", ")"),
        ("SELECT count(*) n FROM v WHERE id > 5", " AND id > 5", ""),
        ("SELECT len([1", ",1", "]) n"),
    ],
    ids=["in", "and", "list"],
)
def test_long_statements_take_turns(tables: dict[str, Path], parts: tuple[str, str, str]) -> None:
    longest = _repeated(*parts, 64 << 10)
    with table_server("--memory", "64 MiB", **tables) as server:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(server.ask, [longest] * 4))
        assert all(answer == answers[0] and answer.num_rows > 0 for answer in answers)
        assert_memory_is_bounded(server)
        with pytest.raises(Error, match="a statement has at most 65536 bytes, not 65537"):
            server.ask(longest + " " * (65_537 - len(longest)))


def test_a_statement_that_takes_many_slots_has_its_turn() -> None:
    slots = Slots(2)
    order: list[str] = []
    slots.acquire(1, 1)

    def take(name: str, count: int) -> None:
        slots.acquire(count, 10)
        order.append(name)
        slots.release(count)

    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(take, "long", 2)
        wait_for(lambda: slots.waiting == 1)
        short = pool.submit(take, "short", 1)
        wait_for(lambda: slots.waiting == 2)
        slots.release(1)
        long.result()
        short.result()
    assert order == ["long", "short"]


def test_columns_of_a_result_are_bounded(server: TableServer) -> None:
    assert server.ask("SELECT " + ",".join(["1"] * 1600)).num_columns == 1600
    with pytest.raises(Error, match="a result has at most 1600 columns, not 1601"):
        server.ask("SELECT " + ",".join(["1"] * 1601))


def test_parallel_clients_have_their_own_answers(server: TableServer) -> None:
    def ask(number: int) -> list[int]:
        return server.ask(f"SELECT id FROM v WHERE id % 16 = {number} ORDER BY id")[
            "id"
        ].to_pylist()

    with ThreadPoolExecutor(16) as pool:
        for number, ids in enumerate(pool.map(ask, range(16))):
            assert ids == list(range(number, ROWS, 16))


def test_messages_that_are_none_are_refused(server: TableServer) -> None:
    source = random.Random(11)
    statement = messages.pack("CommandStatementQuery", (1, "SELECT 1"))
    deep = b""
    for _ in range(2000):
        deep = encode((1, deep))
    hostile = [
        b"",
        b"\xff" * 40,
        encode((1, "type.googleapis.com/x"), (2, deep)),
        b"\x0a\xff\xff\x7f",
    ]
    hostile += [messages.pack(name, (1, b"\xff")) for name in ("CommandStatementQuery", "Ingest")]
    hostile.append(messages.pack("CommandStatementUpdate", (1, "DELETE FROM v")))
    hostile.append(messages.pack("CommandStatementSubstraitPlan", (1, b"plan")))
    hostile.append(messages.pack("CommandPreparedStatementQuery", (1, b"nobody's")))
    hostile.append(messages.pack("CommandGetTables", (3, b"\xff\xfe")))
    hostile.append(messages.pack("TicketStatementQuery", (1, "SELECT CAST(word AS DATE) FROM v")))
    hostile.append(messages.scan("v", b"\0", ["x"], b"\xff", 5))
    for _ in range(100):
        broken = bytearray(statement)
        for _ in range(source.randint(1, 6)):
            broken[source.randrange(len(broken))] = source.randrange(256)
        hostile.append(bytes(broken)[: source.randint(1, len(broken))])
    schema = pa.schema([("a", pa.int64())])
    with fl.connect(server.uri) as client:
        for data in hostile:
            descriptor = fl.FlightDescriptor.for_command(data)
            for call in (
                lambda data=data: client.do_get(fl.Ticket(data)).read_all(),
                lambda descriptor=descriptor: client.get_flight_info(descriptor),
                lambda data=data: list(client.do_action(("CreatePreparedStatement", data))),
                lambda data=data: list(client.do_action((data.decode("latin1")[:20], data))),
                lambda descriptor=descriptor: client.do_put(descriptor, schema)[0].close(),
                lambda descriptor=descriptor: client.get_schema(descriptor),
                lambda descriptor=descriptor: client.do_exchange(descriptor)[1].read_all(),
            ):
                said = ""
                try:
                    call()
                except (fl.FlightError, pa.ArrowException, UnicodeError) as error:
                    said = str(error)
                assert "Traceback" not in said
    assert server.ask("SELECT count(*) n FROM v").to_pylist() == [{"n": ROWS}]


def test_updates_and_plans_are_refused_by_name(server: TableServer) -> None:
    with fl.connect(server.uri) as client:
        plan = messages.pack("CommandStatementSubstraitPlan", (1, b""))
        with pytest.raises(pa.ArrowNotImplementedError, match="no Substrait extension"):
            client.get_flight_info(fl.FlightDescriptor.for_command(plan))
        update = messages.pack("CommandStatementUpdate", (1, "DELETE FROM v"))
        writer, _ = client.do_put(fl.FlightDescriptor.for_command(update), pa.schema([]))
        with pytest.raises(pa.ArrowNotImplementedError, match="read-only"):
            writer.close()


def test_the_wire_format_is_read_as_it_is_written() -> None:
    data = encode((1, "text"), (2, b"\x00\xff"), (3, 300), (4, encode((1, 1 << 63))), (1, "more"))
    message = Message(data)
    assert message.texts(1) == ["text", "more"]
    assert (message.text(1), message.bytes(2), message.integer(3)) == ("more", b"\x00\xff", 300)
    assert message.message(4).integer(1) == -(1 << 63)
    assert Message(encode((5, bytes([1, 0x96, 1])))).integers(5) == [1, 150]
    for length in range(1, len(data)):
        try:
            Message(data[:length])
        except ProtobufError:
            continue
        assert length in (6, 10, 13, 26)
    for broken in (b"\x0b", b"\x00", b"\x0d\x00", b"\x08" + b"\xff" * 10, b"\x0a\x05a"):
        with pytest.raises(ProtobufError):
            Message(broken)


def test_metrics_count_statements(server: TableServer) -> None:
    server.ask("SELECT 1")
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=PATIENCE_S) as reply:
        lines = dict(line.rsplit(" ", 1) for line in reply.read().decode().splitlines())
    assert int(lines['overside_flow_statements_total{outcome="answered"}']) > 0
    assert int(lines["overside_flow_rows_total"]) > 0
    assert lines["overside_flow_running_statements"] == "0"


def test_a_password_is_required_where_others_can_connect(
    tables: dict[str, Path], tmp_path: Path
) -> None:
    table = f"v={tables['v']}"
    refused = overside("flow", "serve-table", table, "--listen", "0.0.0.0:0", code=2)
    assert "--password-file FILE is required" in refused.stderr
    file = tmp_path / "password"
    file.write_text("wide open\n")
    file.chmod(0o644)
    words = ("--password-file", file)
    refused = overside("flow", "serve-table", table, *words, code=2)
    assert "others can read" in refused.stderr
    file.chmod(0o600)
    with table_server("--listen", "0.0.0.0:0", *words, v=tables["v"]) as server:
        server.uri = server.uri.replace("0.0.0.0", "127.0.0.1")
        header = "adbc.flight.sql.authorization_header"
        good = ({header: "Bearer wide open"}, {"username": "any", "password": "wide open"})
        for options in good:
            with server.connect(**options) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM v")
                assert cursor.fetchall() == [(ROWS,)]
        bad = ({}, {header: "Bearer wide"}, {header: "wide open"}, {header: "Basic !!!"})
        for options in (*bad, {"username": "any", "password": "shut"}):
            with pytest.raises(Error, match="password"):
                server.connect(**options).cursor().execute("SELECT count(*) FROM v")


def test_certificates_of_agents_serve(tables: dict[str, Path], tmp_path: Path) -> None:
    keys = server_keys(tmp_path / "keys")
    words = ("--tls-keys", keys, "--tls-clients", "required", "--listen", "0.0.0.0:0")
    with table_server(*words, v=tables["v"]) as server:
        uri = server.uri.replace("grpc:", "grpc+tls:").replace("0.0.0.0", "127.0.0.1")
        root = (keys / "ca.pem").read_bytes()
        pair = {
            "cert_chain": (keys / "host.pem").read_bytes(),
            "private_key": (keys / "host.key").read_bytes(),
        }
        name = "agent.overside.invalid"
        with fl.connect(uri, tls_root_certs=root, override_hostname=name, **pair) as client:
            assert len(list(client.list_flights())) == 1
        client = fl.connect(uri, tls_root_certs=root, override_hostname=name)
        with pytest.raises(fl.FlightUnavailableError):
            list(client.list_flights())
        client.close()


def test_it_ends_when_asked_also_while_a_client_takes_nothing(tables: dict[str, Path]) -> None:
    many = messages.pack("TicketStatementQuery", (1, "SELECT a.* FROM v a, range(1000)"))
    with table_server("--drain", "0.2", **tables) as server, fl.connect(server.uri) as client:
        reader = client.do_get(fl.Ticket(many))
        reader.read_chunk()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 nothing PAR1")
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    for path, said in (
        (broken, "cannot be read as a table"),
        (tmp_path / "absent.parquet", "there is no file"),
        (tmp_path, "cannot be read as a table"),
        (Path("/dev/null"), "neither a file nor a directory"),
    ):
        done = overside("flow", "serve-table", f"t={path}")
        assert done.returncode in (2, 3)
        assert said in done.stderr
        assert "CREATE VIEW" not in done.stderr
    done = overside("flow", "serve-table", "a b=x", code=2)
    assert "NAME=PATH" in done.stderr
    # Programs that are started after it hear signals as before.
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked


def test_addresses_and_keys_that_cannot_be_used_are_said(
    server: TableServer, tables: dict[str, Path], tmp_path: Path
) -> None:
    for side in ("pem", "key"):
        (tmp_path / f"server.{side}").write_text("nothing")
    table = f"v={tables['v']}"
    taken = f"cannot listen at {server.address}: the address is in use"
    limit = resource.getrlimit(resource.RLIMIT_DATA)
    for words, said in (
        (("--listen", server.address), taken),
        (("--listen", "127.0.0.1:0", "--tls-keys", tmp_path), "its keys are no pair"),
        (("--listen", "127.0.0.1:0", "--metrics", server.metrics), server.metrics),
    ):
        done = overside("flow", "serve-table", table, *words, code=3)
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert "leaked" not in done.stderr
    # Programs that are started after it have as much memory as before.
    assert resource.getrlimit(resource.RLIMIT_DATA) == limit


def test_packages_that_are_missing_are_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from overside.__main__ import main\n"
        f"sys.exit(main(['flow', 'serve-table', 't={tmp_path}']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "pip install 'overside[flow]'" in done.stderr
