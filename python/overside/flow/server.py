"""Arrow Flight SQL over an `Engine`.

`GetFlightInfo` runs nothing: a ticket carries the command, and `DoGet` runs it. So a ticket that no
client redeems costs nothing, and a server has no state but prepared statements. Rows go out as
DuckDB makes them; a client that takes none stops it (gRPC's flow control), until its time is over.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from overside.flow import catalog, expressions, messages
from overside.flow.access import Access
from overside.flow.engine import (
    AbandonedError,
    BusyError,
    Engine,
    NotReadOnlyError,
    Query,
    StatementError,
    TimeLimitError,
    UnsupportedError,
    quoted,
)
from overside.flow.prepared import PreparedStatements
from overside.flow.protobuf import Message, ProtobufError

_LOG = logging.getLogger(__name__)

_ACTIONS = {
    "CreatePreparedStatement": "prepare a statement",
    "ClosePreparedStatement": "forget a prepared statement",
}
#: About as large are messages; Go's client takes 16 MiB.
_MESSAGE_BYTES = 2 << 20
#: Commands that are refused, and why.
_REFUSED = {
    "CommandStatementUpdate": "tables are read-only: send a SELECT as a query",
    "CommandPreparedStatementUpdate": "tables are read-only: send a SELECT as a query",
    "CommandStatementIngest": "tables are read-only",
    "CommandStatementSubstraitPlan": "DuckDB has no Substrait extension here: send SQL",
    "ActionCreatePreparedSubstraitPlanRequest": "DuckDB has no Substrait extension here: send SQL",
}


#: Errors, what they count as, and those of Flight that clients get for them: the first that fits.
_ERRORS: tuple[tuple[type[Exception], str, type[Exception]], ...] = (
    (TimeLimitError, "timeouts", fl.FlightTimedOutError),
    (AbandonedError, "abandoned", fl.FlightCancelledError),
    (BusyError, "refused", fl.FlightUnavailableError),
    (UnsupportedError, "", pa.ArrowNotImplementedError),
    (NotReadOnlyError, "refused", fl.FlightUnauthorizedError),
    (Exception, "failed", fl.FlightServerError),
)


def _without_stack(kind: Any, *_: object, **__: object) -> list[str]:
    """The name of an exception's class."""
    return [getattr(kind, "__name__", type(kind).__name__)]


class Server(fl.FlightServerBase):  # type: ignore[misc]
    """Serves from its making until `shutdown`."""

    def __init__(self, engine: Engine, access: Access) -> None:
        """Raises `OSError` if it cannot listen, `UserError` for its keys."""
        self._engine = engine
        self._prepared = PreparedStatements(engine)
        # pyarrow puts what this returns into an answer, which is the stack otherwise.
        traceback.format_exception = _without_stack
        options = access.options()
        try:
            super().__init__(access.location, **options)
        except pa.ArrowException:
            # What did not start is kept by gRPC: DuckDB complains of what it would keep with it.
            del self._engine, self._prepared
            # gRPC has written down why, and says no more.
            keys = " or its keys are no pair in PEM" if access.tls_keys else ""
            raise OSError(f"the address is in use or not this machine's{keys}") from None

    def list_flights(self, context: object, criteria: bytes) -> Iterator[fl.FlightInfo]:
        """The tables, by their names as paths."""
        del context, criteria
        with self._answering():
            for name, schema in self._engine.tables.items():
                yield _info(schema, fl.FlightDescriptor.for_path(name), messages.scan(name))

    def get_flight_info(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
    ) -> fl.FlightInfo:
        """Returns the endpoint for a command's rows, which is this server."""
        with self._answering():
            return _info(*self._described(descriptor, context.is_cancelled))

    def get_schema(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
    ) -> fl.SchemaResult:
        """The columns of a command's rows."""
        with self._answering():
            return fl.SchemaResult(self._described(descriptor, context.is_cancelled)[0])

    def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.FlightDataStream:
        """Runs a command."""
        with self._answering():
            name, command = messages.unpack(ticket.ticket)
            if name in catalog.ANSWERS:
                return fl.RecordBatchStream(catalog.ANSWERS[name](self._engine.schemas, command))
            statement = self._statement(name, command)
            query = self._engine.query(*statement, context.is_cancelled)
            try:
                schema = self._announced(name, command, query.schema)
                rows = self._rows(query, schema)
                # From here on the statement ends with its generator, also if nobody takes a row.
                next(rows)
                return fl.GeneratorStream(schema, rows)
            except BaseException:
                # It asks if the client has gone, and must not after this call.
                query.close()
                raise

    def do_put(
        self,
        context: object,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: object,
    ) -> None:
        """Takes the parameters of a prepared statement."""
        del context, writer
        with self._answering():
            name, command = messages.unpack(descriptor.command or b"")
            if name != "CommandPreparedStatementQuery":
                raise _refusal(name)
            try:
                batch = reader.read_chunk().data
            except StopIteration:
                raise StatementError("there are no parameters") from None
            with contextlib.suppress(StopIteration):
                reader.read_chunk()
                raise StatementError("more than one batch of parameters: bind one row at a time")
            self._prepared.bind(command.bytes(1), batch)

    def list_actions(self, context: object) -> Sequence[fl.ActionType]:
        """Returns the actions that `do_action` supports."""
        del context
        return [fl.ActionType(name, text) for name, text in _ACTIONS.items()]

    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> list[bytes]:
        """Makes and closes prepared statements."""
        with self._answering():
            if action.type not in _ACTIONS:
                raise _refusal(f"Action{action.type}Request")
            _, request = messages.unpack(action.body.to_pybytes())
            if action.type == "ClosePreparedStatement":
                self._prepared.close(request.bytes(1))
                return []
            created = self._prepared.create(request.text(1), context.is_cancelled)
            handle, columns, parameters = created
            schemas = (schema.serialize().to_pybytes() for schema in (columns, parameters))
            fields = ((1, handle), *enumerate(schemas, 2))
            return [messages.pack("ActionCreatePreparedStatementResult", *fields)]

    def _described(
        self, descriptor: fl.FlightDescriptor, is_cancelled: Callable[[], bool]
    ) -> tuple[pa.Schema, fl.FlightDescriptor, bytes]:
        """Columns, descriptor and ticket of a command."""
        if descriptor.descriptor_type == fl.DescriptorType.PATH:
            name = b"/".join(descriptor.path).decode("utf-8", "replace")
            if name not in self._engine.tables:
                raise StatementError(f"there is no table {name}")
            return self._engine.tables[name], descriptor, messages.scan(name)
        name, command = messages.unpack(descriptor.command)
        if name in catalog.ANSWERS:
            schema = catalog.ANSWERS[name](self._engine.schemas, command).schema
            return schema, descriptor, descriptor.command
        statement, parameters = self._statement(name, command)
        schema = self._engine.schema(statement, parameters, is_cancelled)
        schema = self._announced(name, command, schema)
        is_text = name == "CommandStatementQuery"
        return schema, descriptor, _ticket(statement) if is_text else descriptor.command

    def _statement(self, name: str, command: Message) -> tuple[str, Sequence[Any]]:
        """Returns the SQL statement and the parameters of a command.

        Raises `StatementError`.
        """
        if name in ("CommandStatementQuery", "TicketStatementQuery"):
            return command.text(1), ()
        if name == "CommandPreparedStatementQuery":
            prepared = self._prepared.find(command.bytes(1))
            return prepared.statement, prepared.parameters
        if name == messages.SCAN:
            return self._scan(command), ()
        raise _refusal(name)

    def _announced(self, name: str, command: Message, schema: pa.Schema) -> pa.Schema:
        """The columns of a command as they are sent, for which DuckDB has `schema`."""
        is_table = name == messages.SCAN and not command.has(2) and not command.flag(5)
        return self._engine.tables[command.text(1)] if is_table else schema

    def _scan(self, command: Message) -> str:
        """Returns the SQL statement for a command of `messages.scan`."""
        table = command.text(1)
        if table not in self._engine.schemas:
            raise StatementError(f"there is no table {table}")
        schema = self._engine.schemas[table]
        columns = ["*"]
        if command.flag(5):
            columns = ["count(*) AS count"]
        elif command.has(2):
            columns = expressions.columns(command.bytes(2), schema, command.texts(6))
        statement = f"SELECT {', '.join(columns)} FROM {quoted(table)}"
        if command.has(3):
            statement += f" WHERE {expressions.predicate(command.bytes(3), schema)}"
        if command.integer(4) > 0:
            statement += f" LIMIT {command.integer(4) - 1}"
        return statement

    def _rows(self, query: Query, schema: pa.Schema) -> Iterator[pa.RecordBatch | None]:
        """Yields `None` first, and then the rows."""
        # A client that goes leaves the rows where they are.
        outcome = "abandoned"
        try:
            yield None
            with self._answering():
                try:
                    for batch in query.batches():
                        is_same = schema is query.schema
                        yield from _messages(batch if is_same else batch.cast(schema))
                    outcome = "answered"
                except StatementError:
                    outcome = ""
                    raise
        finally:
            query.close()
            if outcome:
                self._engine.count(**{outcome: 1})

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        """Makes Flight's errors of others, and counts them."""
        try:
            yield
        except fl.FlightError:
            raise
        except (StatementError, ProtobufError, pa.ArrowException) as error:
            outcome, kind = next(
                (outcome, kind) for known, outcome, kind in _ERRORS if isinstance(error, known)
            )
            if outcome:
                self._engine.count(**{outcome: 1})
            raise kind(str(error)) from None
        except Exception:
            self._engine.count(failed=1)
            _LOG.exception("a call failed")
            raise fl.FlightInternalError("an internal error; the server's log has it") from None


def _messages(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts that every client takes, and that go out while DuckDB makes the next."""
    rows = max(1, batch.num_rows * _MESSAGE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _ticket(statement: str) -> bytes:
    return messages.pack("TicketStatementQuery", (1, statement))


def _info(schema: pa.Schema, descriptor: fl.FlightDescriptor, ticket: bytes) -> fl.FlightInfo:
    return fl.FlightInfo(schema, descriptor, [fl.FlightEndpoint(ticket, [])], -1, -1)


def _refusal(name: str) -> UnsupportedError:
    return UnsupportedError(f"{name} is refused: {_REFUSED.get(name, 'not supported')}")
