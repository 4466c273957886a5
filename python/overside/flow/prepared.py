"""Prepared statements of a Flight SQL server: texts with parameters, by handles."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from overside.flow.engine import Engine, StatementError
from overside.flow.messages import COMMAND_BYTES_MAX

#: Beyond either the one that was not used for longest is forgotten.
_STATEMENTS_MAX, _BYTES_MAX = 1024, 16 << 20


@dataclass
class Prepared:
    """One statement, and the parameters that were bound last."""

    statement: str
    parameters: list[Any] = field(default_factory=list)
    parameters_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """About the memory that it takes."""
        return len(self.statement) + self.parameters_bytes


class PreparedStatements:
    """All clients' statements."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._all: OrderedDict[bytes, Prepared] = OrderedDict()
        self._lock = threading.Lock()

    def create(
        self, statement: str, is_cancelled: Callable[[], bool]
    ) -> tuple[bytes, pa.Schema, pa.Schema]:
        """The handle of a new one, the columns of its result, and its parameters: of the type null
        where any value will do.

        Raises `StatementError`.
        """
        types = self._engine.parameters(statement, is_cancelled)
        columns = self._engine.schema(statement, [None] * len(types), is_cancelled)
        handle = secrets.token_bytes(16)
        with self._lock:
            self._all[handle] = Prepared(statement)
            self._shrink()
        names = pa.schema([pa.field(str(at), kind) for at, kind in enumerate(types, 1)])
        return handle, columns, names

    def find(self, handle: bytes) -> Prepared:
        """Raises `StatementError` if there is none."""
        with self._lock:
            return self._found(handle)

    def _found(self, handle: bytes) -> Prepared:
        if handle not in self._all:
            raise StatementError("there is no such prepared statement: prepare it again")
        self._all.move_to_end(handle)
        return self._all[handle]

    def _shrink(self) -> None:
        size_bytes = sum(prepared.size_bytes for prepared in self._all.values())
        while len(self._all) > _STATEMENTS_MAX or size_bytes > _BYTES_MAX:
            size_bytes -= self._all.popitem(last=False)[1].size_bytes

    def bind(self, handle: bytes, batch: pa.RecordBatch) -> None:
        """Gives a statement its parameters, the columns of one row.

        Raises `StatementError`.
        """
        if batch.num_rows != 1:
            raise StatementError(f"{batch.num_rows} rows of parameters: bind one at a time")
        if batch.nbytes > COMMAND_BYTES_MAX:
            raise StatementError(f"{batch.nbytes} bytes of parameters: {COMMAND_BYTES_MAX} at most")
        values = [column[0].as_py() for column in batch.columns]
        with self._lock:
            prepared = self._found(handle)
            prepared.parameters, prepared.parameters_bytes = values, batch.nbytes
            self._shrink()

    def close(self, handle: bytes) -> None:
        """Forgets one."""
        with self._lock:
            self._all.pop(handle, None)
