"""A table of a server as a `pyarrow.dataset.Dataset`: a scan pushes columns and filter down.

DuckDB, Polars and DataFusion take a `Dataset` and call its `scanner` (or those of its fragments)
with the columns they need and the filter that they could translate. Both go to the server as
Substrait's extended expressions. A filter that Substrait or the server does not know is applied
here, on the columns that it needs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.flight as fl
import pyarrow.fs as pafs
import pyarrow.substrait as pasub

from overside.flow import messages
from overside.flow.connection import TLS_NAME, Connection

_LOG = logging.getLogger(__name__)

#: Options of Arrow's functions that an expression has in its text, and not in Substrait.
_LOST_OPTIONS = ("ignore_case=true", "null_matching_behavior=SKIP")
#: Columns as scanners take them.
Columns = Sequence[str] | Mapping[str, Any] | None


def dataset(
    uri: str,
    *,
    password: str | None = None,
    tls_keys: str | Path | None = None,
    tls_name: str = TLS_NAME,
) -> TableDataset:
    """A table of `overside flow serve-table`, which fetches only the rows and columns it needs.

    Args:
        uri: `grpc://HOST:PORT/TABLE`, or `grpc+tls://...`; a server's only table needs no name.
        password: The server's password, if it has one.
        tls_keys: A directory with `ca.pem`, and with `host.pem` and `host.key` if the server
            requires a certificate.
        tls_name: The name in the server's certificate.

    Returns:
        A `pyarrow.dataset.Dataset`, which DuckDB, Polars and DataFusion take.

    Raises:
        ImportError: pyarrow is missing.
        ValueError: The URI is another one, or there is no such table.
        pyarrow.flight.FlightError: The server does not answer.
    """
    return TableDataset(Table(uri, password, tls_keys, tls_name))


class Table:
    """A table of a server."""

    def __init__(
        self, uri: str, password: str | None, tls_keys: str | Path | None, tls_name: str
    ) -> None:
        #: Arguments to create another object like this one.
        self.arguments = (uri, password, tls_keys, tls_name)
        self.connection = Connection(*self.arguments)
        self.name = self.connection.path
        infos = self.connection.client.list_flights(options=self.connection.options)
        schemas = {info.descriptor.path[0].decode(): info.schema for info in infos}
        if not self.name and len(schemas) == 1:
            (self.name,) = schemas
        if self.name not in schemas:
            raise ValueError(f"there is no table {self.name!r} at {uri}: {', '.join(schemas)}")
        self.schema: pa.Schema = schemas[self.name]

    def scan(
        self,
        columns: Mapping[str, pads.Expression] | None = None,
        predicate: pads.Expression | None = None,
        limit: int | None = None,
        *,
        count: bool = False,
    ) -> fl.FlightStreamReader:
        """Rows from the server.

        Raises `ArrowInvalid` or `ArrowNotImplementedError` for expressions that Substrait or the
        server does not know.
        """
        projection = None
        names = list(columns or ())
        if columns:
            projection = self._substrait(list(columns.values()), names)
        condition = None if predicate is None else self._substrait([predicate], ["filter"])
        ticket = messages.scan(self.name, projection, names, condition, limit, count=count)
        connection = self.connection
        return connection.kept(connection.client.do_get(fl.Ticket(ticket), connection.options))

    def _substrait(self, expressions: list[pads.Expression], names: list[str]) -> bytes:
        lost = [one for one in _LOST_OPTIONS if any(one in str(two) for two in expressions)]
        if lost:
            raise pa.ArrowNotImplementedError(f"Substrait loses the option {lost[0]}")
        return bytes(pasub.serialize_expressions(expressions, names, self.schema))


class TableDataset(pads.UnionDataset):  # type: ignore[misc]
    """A table of a server; each scan is a request to the server."""

    def __init__(self, table: Table, predicate: pads.Expression | None = None) -> None:
        # Arrow's own code would read the dataset below this object: it has one that fails.
        form, files = pads.IpcFileFormat(), pafs.PyFileSystem(_NoFiles())
        fragment = form.make_fragment(f"{table.name} of a server", files)
        child = pads.FileSystemDataset([fragment], table.schema, form, files)
        super().__init__(table.schema, [child])
        self._table, self._predicate = table, predicate

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (*self._table.arguments, self._predicate)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._table.schema

    def scanner(
        self, columns: Columns = None, filter: pads.Expression | None = None, **options: Any
    ) -> pads.Scanner:
        """Scans once, when it is read. `options` of local scans have no effect."""
        del options
        return self._scanner(columns, self._and(filter), None)

    def get_fragments(self, filter: pads.Expression | None = None) -> Iterator[TableFragment]:
        """One fragment: all of the table."""
        yield TableFragment(TableDataset(self._table, self._and(filter)))

    def filter(self, expression: pads.Expression) -> TableDataset:
        """The rows for which it is true."""
        return TableDataset(self._table, self._and(expression))

    def count_rows(self, filter: pads.Expression | None = None, **options: Any) -> int:
        """Returns the number of rows.

        The server counts them, unless it does not support the filter.
        """
        del options
        predicate = self._and(filter)
        try:
            return int(self._table.scan(None, predicate, count=True).read_all()["count"][0].as_py())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if predicate is None:
                raise
            return sum(batch.num_rows for batch in self._local({}, predicate, error))

    def head(
        self,
        num_rows: int,
        columns: Columns = None,
        filter: pads.Expression | None = None,
        **options: Any,
    ) -> pa.Table:
        """Any `num_rows` rows."""
        del options
        return self._scanner(columns, self._and(filter), num_rows).head(num_rows)

    def _and(self, expression: pads.Expression | None) -> pads.Expression | None:
        if self._predicate is None or expression is None:
            return self._predicate if expression is None else expression
        return self._predicate & expression

    def _scanner(
        self, columns: Columns, predicate: pads.Expression | None, limit: int | None
    ) -> pads.Scanner:
        chosen = None if columns is None else _expressions(columns)
        # Says of columns that are not there what Arrow says.
        schema = self._projected(chosen, predicate)
        return pads.Scanner.from_batches(self._batches(chosen, predicate, limit), schema=schema)

    def _projected(
        self, columns: dict[str, pads.Expression] | None, predicate: pads.Expression | None = None
    ) -> pa.Schema:
        empty = pads.InMemoryDataset(self.schema.empty_table())
        return empty.scanner(columns=columns, filter=predicate).projected_schema

    def _batches(
        self,
        columns: dict[str, pads.Expression] | None,
        predicate: pads.Expression | None,
        limit: int | None,
    ) -> Iterator[pa.RecordBatch]:
        if columns == {}:
            count = self.count_rows(predicate)
            yield pa.record_batch({"": pa.nulls(count)}).select([])
            return
        try:
            reader = self._table.scan(columns, predicate, limit)
            # A refusal arrives with the first message.
            received = reader.schema
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            yield from self._local(columns, predicate, error)
            return
        # The server has other types for computed columns, and one time zone for all.
        schema = self._projected(columns)
        is_same = schema.types == received.types
        try:
            for chunk in reader:
                yield chunk.data if is_same else chunk.data.cast(schema)
                self._table.connection.check_process()
        finally:
            # Whoever reads no further leaves nothing behind.
            if self._table.connection.is_usable:
                reader.cancel()

    def _local(
        self,
        columns: dict[str, pads.Expression] | None,
        predicate: pads.Expression | None,
        why: Exception,
    ) -> Iterator[pa.RecordBatch]:
        """Rows with filter and computed columns applied here."""
        _LOG.info("%s is filtered here: %s", self._table.name, why)
        names = self._needed(columns, predicate) or self.schema.names[:1]
        fields = {name: pads.field(name) for name in names}
        schema = pa.schema([self.schema.field(name) for name in names])
        remote = self._batches(fields, None, None)
        scanner = pads.Scanner.from_batches(
            remote, schema=schema, columns=columns, filter=predicate
        )
        yield from scanner.to_batches()

    def _needed(
        self, columns: dict[str, pads.Expression] | None, predicate: pads.Expression | None
    ) -> list[str]:
        """The columns without which the expressions have no meaning."""
        if columns is None:
            return list(self.schema.names)
        needed = []
        for at, name in enumerate(self.schema.names):
            others = pads.InMemoryDataset(self.schema.remove(at).empty_table())
            try:
                others.scanner(columns=columns, filter=predicate)
            except pa.ArrowInvalid:
                needed.append(name)
        return needed


def _expressions(columns: Sequence[str] | Mapping[str, Any]) -> dict[str, pads.Expression]:
    if isinstance(columns, Mapping):
        return dict(columns)
    return {name: pads.field(name) for name in columns}


def _again(
    uri: str,
    password: str | None,
    tls_keys: str | Path | None,
    tls_name: str,
    predicate: pads.Expression | None,
) -> TableDataset:
    return TableDataset(Table(uri, password, tls_keys, tls_name), predicate)


class TableFragment:
    """All of a dataset, for those that scan fragments (DataFusion)."""

    def __init__(self, whole: TableDataset) -> None:
        self._whole = whole

    @property
    def physical_schema(self) -> pa.Schema:
        """The columns."""
        return self._whole.schema

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pads.Expression | None = None,
        **options: Any,
    ) -> pads.Scanner:
        """See `TableDataset.scanner`."""
        del schema
        return self._whole.scanner(columns, filter, **options)


def _refuse(*_: object, **__: object) -> Any:
    raise NotImplementedError(
        "a table of a server is read by its methods: scanner(), to_table(), to_batches(), ..."
    )


#: A file system on which nothing can be done.
_NoFiles = type(
    "_NoFiles",
    (pafs.FileSystemHandler,),
    dict.fromkeys(pafs.FileSystemHandler.__abstractmethods__, _refuse),
)
