"""Runs read-only statements on tables in DuckDB, bounded in memory, time and number.

Tables are views of an in-memory database on Parquet files, or Arrow files that pyarrow scans. Then
access to other files, extensions and settings are switched off for good. A statement runs on a
connection of its own:

1. it waits for one of the slots; a long text takes several, so that all together are bounded;
2. it is parsed; anything but one SELECT is refused;
3. its result is streamed: DuckDB stops when some 2 MiB wait to be fetched;
4. when its time is over, or its client has gone, it is interrupted and gives its slot and memory
   back, also while whoever fetches it is stalled.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from overside.errors import Exit, UserError
from overside.flow import parameters

#: Rows of a batch: a vector of DuckDB has 2,048. Wide rows need memory for all of a batch.
_BATCH_ROWS = 4 * 2048
#: Statements that may wait for a slot, for each slot.
_WAITING_PER_SLOT = 16
#: Text of all statements that run: DuckDB takes up to some 6 KiB a byte for its plan of it, and
#: counts none of that.
_STATEMENT_BYTES_MAX = 64 << 10
#: Columns of a result: a batch takes some 16 KiB for each before it has a row.
_COLUMNS_MAX = 1600
#: Seconds between two looks at whether a statement's client has gone, and between two interrupts of
#: a statement that continues although it was stopped.
_LOOK_S = 0.05
#: Metadata of Parquet files are kept if all changed longer ago: DuckDB knows a file again by its
#: size and the second in which it changed. And if they are not longer than this: they take some 7
#: times as much memory, of which DuckDB counts a part.
_SETTLED_S = 10.0
_FOOTERS_BYTES_MAX = 16 << 20
_SETTINGS = {
    "temp_directory": "''",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    # Rows of a table have no order that a client could rely on.
    "preserve_insertion_order": "false",
    "parquet_metadata_cache": "true",
    # What a connection sets for itself, below.
    "allowed_configs": "['streaming_buffer_size', 'parquet_metadata_cache']",
}
#: Bytes that wait before rows go out. Without this setting, 10 MiB.
_STREAMED = "SET streaming_buffer_size = '2 MiB'"
_UNCACHED = "SET parquet_metadata_cache = false"


class StatementError(Exception):
    """A statement that cannot be answered, and why."""


class UnsupportedError(StatementError):
    """A call or an expression that is not known here, by its name."""


class NotReadOnlyError(StatementError):
    """The statement is not one SELECT."""


class TimeLimitError(StatementError):
    """The statement took too long."""


class AbandonedError(StatementError):
    """The client cancelled it, or has gone."""

    def __init__(self) -> None:
        super().__init__("the client cancelled the statement, or has gone")


class BusyError(StatementError):
    """Too many wait already, or the server ends."""


def never() -> bool:
    """Returns `False`, for statements that nobody cancels."""
    return False


@dataclass(frozen=True)
class Limits:
    """Limits on the resources of statements."""

    #: DuckDB's memory, of all statements together.
    memory_bytes: int
    #: Time of a statement, until its last row was taken.
    timeout_s: float
    #: Statements at a time.
    statements: int
    #: Threads of all statements together.
    threads: int


def quoted(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string in SQL."""
    return "'" + text.replace("'", "''") + "'"


def files_of(path: Path) -> tuple[str, list[Path]]:
    """The format of a table, `parquet` or `ipc`, and its files: the path itself, or those in the
    directory.

    Raises `UserError`.
    """
    endings = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
    path = path.expanduser().resolve()
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in endings)
        if not files:
            raise UserError(f"{path} has no files {', '.join(endings)}", "name another directory")
    elif path.is_file():
        files = [path]
    elif path.exists():
        raise UserError(f"{path} is neither a file nor a directory", "", Exit.ABSENT)
    else:
        raise UserError(f"there is no file or directory {path}", "", Exit.ABSENT)
    formats = {endings.get(file.suffix, "parquet") for file in files}
    if len(formats) > 1:
        raise UserError(f"{path} has Parquet and Arrow files", "one table has one format")
    return formats.pop(), files


class Engine:
    """Tables that statements read."""

    def __init__(self, tables: Mapping[str, Path], limits: Limits) -> None:
        """Raises `UserError` for files that are no tables."""
        self.limits = limits
        self._counts: Counter[str] = Counter()
        self.slots = Slots(limits.statements)
        self._running: set[Query] = set()
        self._lock = threading.Lock()
        self._scanned: dict[str, pads.Dataset] = {}
        self._database = duckdb.connect()
        self._parquet: list[Path] = []
        #: Identities of the Parquet files, and the bytes of their footers together.
        self._footers: tuple[list[tuple[int, int, int]], int] = ([], 0)
        sources: dict[str, pa.Schema] = {}
        for name, path in tables.items():
            form, files = files_of(path)
            try:
                source = pads.dataset([str(file) for file in files], format=form)
                sources[name] = source.schema
                if form == "ipc":
                    self._scanned[name] = source
                else:
                    listed = ", ".join(literal(str(file)) for file in files)
                    view = f"CREATE VIEW {quoted(name)} AS SELECT * FROM read_parquet([{listed}])"
                    self._database.execute(view)
                    self._parquet += files
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                # Further lines are of a statement that nobody wrote.
                reason = str(error).partition("\n")[0]
                raise UserError(f"{path} cannot be read as a table: {reason}") from None
        listed = ", ".join(literal(str(path)) for path in self._parquet)
        settings = {
            "memory_limit": literal(f"{limits.memory_bytes} bytes"),
            "threads": str(limits.threads),
            **_SETTINGS,
            "allowed_paths": f"[{listed}]",
            "enable_external_access": "false",
            "lock_configuration": "true",
        }
        for key, value in settings.items():
            # Others than global ones would be those of this connection only.
            self._database.execute(f"SET GLOBAL {key} = {value}")
        #: The tables and their columns in SQL.
        self.schemas: Mapping[str, pa.Schema] = {
            name: self.schema(f"SELECT * FROM {quoted(name)}") for name in tables
        }
        #: The tables and their columns as a whole table is sent.
        self.tables: Mapping[str, pa.Schema] = {
            name: _announced(schema, sources[name]) for name, schema in self.schemas.items()
        }

    def connection(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own, with all tables."""
        connection = self._database.cursor()
        connection.execute(_STREAMED)
        if not self._keeps_metadata():
            connection.execute(_UNCACHED)
        for name, scanned in self._scanned.items():
            connection.register(name, scanned)
        return connection

    def _keeps_metadata(self) -> bool:
        """Returns `True` if DuckDB may keep the metadata of the Parquet files.

        It must notice changes of the files, and the metadata must be small.
        """
        settled = time.time() - _SETTLED_S
        try:
            states = [path.stat() for path in self._parquet]
            if any(state.st_mtime > settled for state in states):
                return False
            versions = [(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]
            if versions != self._footers[0]:
                self._footers = versions, sum(map(_footer_bytes, self._parquet))
        except OSError:
            # The statement says itself what is wrong.
            return False
        return self._footers[1] <= _FOOTERS_BYTES_MAX

    def query(
        self,
        statement: str,
        parameters: Sequence[Any] = (),
        is_cancelled: Callable[[], bool] = never,
    ) -> Query:
        """Runs a statement. Close it. It ends by itself once `is_cancelled` returns `True`, which
        is not called after it was closed.

        Raises `StatementError`.
        """
        return Query(self, statement, parameters, is_cancelled)

    def schema(
        self,
        statement: str,
        parameters: Sequence[Any] = (),
        is_cancelled: Callable[[], bool] = never,
    ) -> pa.Schema:
        """The columns of a statement's result, without running it.

        Raises `StatementError`.
        """
        with Query(self, statement, parameters, is_cancelled, only_schema=True) as query:
            return query.schema

    def parameters(
        self, statement: str, is_cancelled: Callable[[], bool] = never
    ) -> list[pa.DataType]:
        """The types of a statement's parameters, null where any will do; they have to be `?`, or
        `$1` and so on.

        Raises `StatementError`.
        """
        slots = slots_of(statement, self.limits.statements)
        self.slots.acquire(slots, self.limits.timeout_s, is_cancelled)
        try:
            with closing(self.connection()) as connection:
                count = len(parsed(connection, statement).named_parameters)
                found = parameters.types(connection, statement) if count else {}
            return [found.get(str(number + 1), pa.null()) for number in range(count)]
        except duckdb.Error as error:
            raise StatementError(str(error)) from None
        finally:
            self.slots.release(slots)

    def count(self, **events: int) -> None:
        """Adds to the counts of these names."""
        with self._lock:
            self._counts.update(events)

    @property
    def counts(self) -> Counter[str]:
        """Returns a copy of the event counters."""
        with self._lock:
            return self._counts.copy()

    @property
    def running(self) -> int:
        """Number of statements that run now."""
        with self._lock:
            return len(self._running)

    def stop(self, drain_s: float) -> None:
        """Refuses further statements, waits for those that run, and interrupts them then, without
        waiting for their ends."""
        self.slots.close()
        end = time.monotonic() + drain_s
        while self.running and time.monotonic() < end:
            time.sleep(0.02)
        with self._lock:
            running = list(self._running)
        for query in running:
            end_it = (TimeLimitError("the server ends"),)
            threading.Thread(target=query.interrupt, args=end_it, daemon=True).start()

    def add(self, query: Query) -> None:
        """Knows of one that runs."""
        with self._lock:
            self._running.add(query)

    def remove(self, query: Query) -> None:
        """Forgets it."""
        with self._lock:
            self._running.discard(query)
        self.slots.release(query.slots)


def slots_of(statement: str, slots: int) -> int:
    """Returns the number of slots that a statement takes; the longest allowed one takes all.

    Raises `StatementError`.
    """
    size = len(statement.encode(errors="surrogatepass"))
    if size > _STATEMENT_BYTES_MAX:
        most = f"a statement has at most {_STATEMENT_BYTES_MAX} bytes, not {size}"
        raise StatementError(f"{most}: send it in parts")
    return max(1, math.ceil(size * slots / _STATEMENT_BYTES_MAX))


def parsed(connection: duckdb.DuckDBPyConnection, statement: str) -> duckdb.Statement:
    """Parses a text that must be one SELECT.

    Raises `StatementError`.
    """
    try:
        found = connection.extract_statements(statement)
    except (duckdb.Error, UnicodeError) as error:
        raise StatementError(str(error)) from None
    if len(found) != 1:
        raise NotReadOnlyError(f"there are {len(found)} statements: send one SELECT at a time")
    if found[0].type != duckdb.StatementType.SELECT:
        raise NotReadOnlyError(f"{found[0].type.name} is refused: tables are read-only, use SELECT")
    return found[0]


class Query:
    """A statement that runs, until it is closed or its time is over."""

    def __init__(
        self,
        engine: Engine,
        statement: str,
        parameters: Sequence[Any],
        is_cancelled: Callable[[], bool],
        *,
        only_schema: bool = False,
    ) -> None:
        self._engine = engine
        #: Reason why another thread ended it; `None` if none did.
        self.stopped_by: StatementError | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        #: Held while it is asked if the client has gone: after its call nobody may ask.
        self._asking = threading.Lock()
        self._is_over = threading.Event()
        self._reader: pa.RecordBatchReader | None = None
        timeout_s = engine.limits.timeout_s
        #: Number of slots that the statement takes.
        self.slots = slots_of(statement, engine.limits.statements)
        engine.slots.acquire(self.slots, timeout_s, is_cancelled)
        engine.add(self)
        self._connection: duckdb.DuckDBPyConnection | None = None
        watch = (timeout_s, is_cancelled)
        watching = threading.Thread(target=self._watch, args=watch, daemon=True)
        try:
            self._connection = engine.connection()
            try:
                watching.start()
            except RuntimeError:
                raise BusyError("there is no memory for one more statement: try later") from None
            select = parsed(self._connection, statement)
            with self._lock, _Failures(self):
                relation = self._connection.sql(select, params=list(parameters) or None)
                names = relation.columns
                if len(names) > _COLUMNS_MAX:
                    most = f"a result has at most {_COLUMNS_MAX} columns, not {len(names)}"
                    raise StatementError(f"{most}: select fewer")
                if only_schema:
                    relation = relation.limit(0)
                self._reader = relation.to_arrow_reader(_BATCH_ROWS)
                # A limit gives columns of the same name other ones.
                columns = zip(names, self._reader.schema, strict=True)
                self.schema = pa.schema([field.with_name(name) for name, field in columns])
                for field in self.schema:
                    if _has_dictionary(field.type):
                        # A Flight server in Python sends batches without their dictionaries.
                        raise StatementError(f"{field.name} has an ENUM: CAST it to VARCHAR")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows. Raises `StatementError`."""
        while True:
            with self._lock, _Failures(self):
                if self._reader is None:
                    return
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    return
            self._engine.count(rows=batch.num_rows, bytes=batch.nbytes)
            yield batch

    def _watch(self, timeout_s: float, is_cancelled: Callable[[], bool]) -> None:
        """Ends it when its time is over, or its client has gone."""
        end = time.monotonic() + timeout_s
        while not self._is_over.wait(min(_LOOK_S, timeout_s)):
            with self._asking:
                has_gone = not self._is_over.is_set() and is_cancelled()
            if has_gone:
                self.interrupt(AbandonedError())
            elif time.monotonic() >= end:
                limit = f"the time limit of {timeout_s:g} s is over: narrow the statement"
                self.interrupt(TimeLimitError(limit))

    def interrupt(self, why: StatementError) -> None:
        """Ends it from another thread."""
        self.stopped_by = why
        # An interrupt before DuckDB has begun is forgotten.
        while not self._lock.acquire(timeout=_LOOK_S):
            connection = self._connection
            if connection is not None:
                connection.interrupt()
        self._lock.release()
        self.close()

    def close(self) -> None:
        """Gives back what it has; again without effect."""
        with self._asking:
            self._is_over.set()
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._reader = None
            if self._connection is not None:
                self._connection.close()
        self._engine.remove(self)


def _announced(schema: pa.Schema, source: pa.Schema) -> pa.Schema:
    """DuckDB's columns of a table with the time zones of its files. Where a column has another type
    in the files, its metadata say which."""

    def announced(field: pa.Field) -> pa.Field:
        at = source.get_field_index(field.name)
        kind = field.type if at < 0 else source.field(at).type
        if all(pa.types.is_timestamp(one) and one.tz for one in (kind, field.type)):
            field = field.with_type(pa.timestamp(field.type.unit, kind.tz))
        return field if kind == field.type else field.with_metadata({"source_type": str(kind)})

    return pa.schema(map(announced, schema))


def _footer_bytes(path: Path) -> int:
    with path.open("rb") as file:
        # Before the last word, which is "PAR1".
        file.seek(-8, os.SEEK_END)
        return int.from_bytes(file.read(4), "little")


def _has_dictionary(kind: pa.DataType) -> bool:
    inner = (kind.field(at).type for at in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, inner))


class _Failures:
    """Says of DuckDB's errors why they came, and of a query that was stopped that it was."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def __enter__(self) -> None:
        self._check()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, StatementError):
            return
        self._check()
        if isinstance(error, duckdb.Error | pa.ArrowException | OSError):
            raise StatementError(str(error)) from None

    def _check(self) -> None:
        if self._query.stopped_by is not None:
            raise self._query.stopped_by


class Slots:
    """Statements at a time. Further ones wait in turn, up to a number and a time."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._turns: deque[object] = deque()
        self._waiting_max = count * _WAITING_PER_SLOT
        self._is_open = True
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """Number of statements that wait for slots."""
        return len(self._turns)

    def acquire(
        self, count: int, timeout_s: float, is_cancelled: Callable[[], bool] = never
    ) -> None:
        """Waits for so many. Raises `BusyError`, `AbandonedError`."""
        with self._changed:
            if len(self._turns) >= self._waiting_max:
                raise BusyError("too many statements wait already: try again later")
            turn = object()

            def has_turn() -> bool:
                is_first = self._turns[0] is turn
                return (is_first and self._free >= count) or not self._is_open

            self._turns.append(turn)
            try:
                # Else those that take few slots would always come before one that takes many.
                available, end = False, time.monotonic() + timeout_s
                while not available and time.monotonic() < end:
                    if is_cancelled():
                        raise AbandonedError
                    available = self._changed.wait_for(has_turn, min(_LOOK_S, timeout_s))
            finally:
                self._turns.remove(turn)
                self._changed.notify_all()
            if not self._is_open:
                raise BusyError("the server ends")
            if not available:
                raise BusyError(f"other statements took all of {timeout_s:g} s: try again later")
            self._free -= count

    def release(self, count: int) -> None:
        """Gives them to the next."""
        with self._changed:
            self._free += count
            self._changed.notify_all()

    def close(self) -> None:
        """Gives none any more."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
