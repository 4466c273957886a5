"""`overside flow serve-table`: clients that leave, errors without a stack, announced types."""

from __future__ import annotations

import datetime
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import overside
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.feather
import pyarrow.flight as fl
import pyarrow.parquet
import pytest
from command import PATIENCE_S, wait_for
from flow_server import ROWS, TableServer, table_server, write_tables
from overside.flow import messages
from overside.flow.access import Access
from overside.flow.engine import Engine, Limits
from overside.flow.server import Server

#: A statement that has no row for hours, and one that never ends to have some.
WORKS = "SELECT sum(hash(a.range + b.range)) s FROM range(10000000) a, range(10000000) b"
STREAMS = "SELECT a.* FROM v a, range(10000000)"
KILLED = """
import sys, pyarrow.flight as fl
for chunk in fl.connect(sys.argv[1]).do_get(fl.Ticket(bytes.fromhex(sys.argv[2]))):
    pass
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TableServer]:
    options = ("--statements", "2", "--metrics", "127.0.0.1:0", "--threads", "1")
    with table_server(*options, "--timeout", "3600", **write_tables(tmp_path)) as running:
        yield running


def metric(server: TableServer, name: str) -> int:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=PATIENCE_S) as reply:
        lines = dict(line.rsplit(" ", 1) for line in reply.read().decode().splitlines())
    return int(lines[f"overside_flow_{name}"])


def ticket(statement: str) -> fl.Ticket:
    return fl.Ticket(messages.pack("TicketStatementQuery", (1, statement)))


def killed(server: TableServer) -> subprocess.Popen[bytes]:
    arguments = [server.uri, ticket(WORKS).ticket.hex()]
    return subprocess.Popen([sys.executable, "-c", KILLED, *arguments])


def test_a_client_that_leaves_frees_its_slot(server: TableServer) -> None:
    # Those of the second pair leave while they wait.
    clients = [killed(server), killed(server)]
    wait_for(lambda: metric(server, "running_statements") == 2)
    clients += [killed(server), killed(server)]
    wait_for(lambda: metric(server, "waiting_statements") == 2)
    descriptor, soon = fl.FlightDescriptor.for_path("v"), fl.FlightCallOptions(timeout=1)
    request = messages.pack("ActionCreatePreparedStatementRequest", (1, "SELECT 1"))
    with fl.connect(server.uri) as client:
        assert client.get_schema(descriptor).schema.names[0] == "id"
        with pytest.raises(fl.FlightTimedOutError):
            list(client.do_action(("CreatePreparedStatement", request), soon))
        for process in reversed(clients):
            process.kill()
            process.wait()
        wait_for(lambda: metric(server, "running_statements") == 0)
        for _ in range(3):
            with pytest.raises(fl.FlightTimedOutError):
                client.do_get(ticket(WORKS), soon).read_all()
        readers = [client.do_get(ticket(STREAMS)) for _ in range(2)]
        for reader in readers:
            reader.read_chunk()
            reader.cancel()
        assert server.ask("SELECT count(*) n FROM v").to_pylist() == [{"n": ROWS}]
    wait_for(lambda: metric(server, 'statements_total{outcome="abandoned"}') == 10)
    assert metric(server, "waiting_statements") == metric(server, "running_statements") == 0


def test_an_internal_error_has_no_stack(tmp_path: Path) -> None:
    engine = Engine({"v": write_tables(tmp_path)["v"]}, Limits(1 << 28, 60, 2, 1))
    serving = Server(engine, Access("127.0.0.1", 0, None, None, False))
    # Something that cannot be.
    engine.tables = {}
    with fl.connect(f"grpc://127.0.0.1:{serving.port}") as client:
        with pytest.raises(fl.FlightInternalError, match="the server's log has it") as error:
            client.do_get(fl.Ticket(messages.scan("v")))
        assert "Traceback" not in str(error.value)
        assert engine.running == 0
    serving.shutdown()


MOMENT = datetime.datetime(2020, 7, 1, 12, tzinfo=datetime.UTC)
#: Types that a file can have, and those that are announced where it is another.
TYPES: dict[str, tuple[pa.DataType, pa.DataType | None, Any]] = {
    "central": (pa.timestamp("us", "US/Central"), None, MOMENT),
    "utc": (pa.timestamp("us", "UTC"), None, MOMENT),
    "offset": (pa.timestamp("us", "+02:00"), None, MOMENT),
    "millis": (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), MOMENT),
    "local": (pa.timestamp("us"), None, MOMENT.replace(tzinfo=None)),
    "kinds": (pa.dictionary(pa.int32(), pa.string()), pa.string(), "a"),
    "large": (pa.large_string(), pa.string(), "a"),
    "number": (pa.int16(), None, 1),
}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_types_are_kept_or_the_schema_says_what_they_were(tmp_path: Path, form: str) -> None:
    rows = {name: pa.array([value, None], kind) for name, (kind, _, value) in TYPES.items()}
    table, path = pa.table(rows), tmp_path / f"table.{form}"
    if form == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, str(path))
    with table_server(t=path) as server, fl.connect(server.uri) as client:
        descriptor = fl.FlightDescriptor.for_path("t")
        info = client.get_flight_info(descriptor)
        found = client.do_get(info.endpoints[0].ticket).read_all()
        dataset = overside.dataset(server.uri)
        schemas = [found.schema, info.schema, client.get_schema(descriptor).schema, dataset.schema]
        for schema in schemas:
            for name, (kind, announced, _) in TYPES.items():
                field = schema.field(name)
                assert field.type == (announced or kind)
                said = (field.metadata or {}).get(b"source_type")
                assert said == (str(kind).encode() if announced else None)
        assert found.to_pydict() == dataset.to_table().to_pydict() == table.to_pydict()
        assert dataset.to_table().schema == found.schema
        columns = {"x": pads.field("central"), "central": pads.field("utc")}
        computed = dataset.to_table(columns=columns).schema.types
        assert computed == [pa.timestamp("us", zone) for zone in ("US/Central", "UTC")]
        # SQL has one zone.
        zone = server.ask("SELECT central FROM t").schema.field(0).type.tz
        assert zone == "Etc/UTC"
