"""Runs `overside flow serve-table`, and makes tables for it."""

from __future__ import annotations

import datetime
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from command import Listening, ended

ROWS = 60_000


class TableServer(Listening):
    """A server that runs, and where."""

    def connect(self, **options: str) -> Any:
        """A connection of ADBC's driver."""
        return flight_sql.connect(self.uri, db_kwargs=options, autocommit=True)

    def ask(self, statement: str, *parameters: Any) -> pa.Table:
        """The result of a statement."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            return cursor.fetch_arrow_table()


@contextmanager
def table_server(*words: str | Path, **tables: Path) -> Iterator[TableServer]:
    """A server at any port of this machine, with these options too."""
    command = [sys.executable, "-m", "overside", "flow", "serve-table", "--json"]
    named = [f"{name}={path}" for name, path in tables.items()]
    listen = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
    command += [*named, *listen, *map(str, words)]
    with ended(command) as process:
        yield TableServer(process)


def values(rows: int = ROWS) -> pa.Table:
    """A table with a column of each common type, and nulls."""
    random_numbers = random.Random(7)
    words = ["red", "green", "blue", "it's", 'a "word"', "", None]
    day = datetime.date(1992, 1, 1)
    start = datetime.datetime(2020, 1, 1)
    columns = {
        "id": pa.array(range(rows), pa.int64()),
        "small": pa.array([n % 100 if n % 9 else None for n in range(rows)], pa.int32()),
        "word": pa.array([random_numbers.choice(words) for _ in range(rows)], pa.string()),
        "price": pa.array(
            [Decimal(random_numbers.randrange(10**6)).scaleb(-2) for _ in range(rows)],
            pa.decimal128(15, 2),
        ),
        "real": pa.array(
            [
                random_numbers.choice([random_numbers.uniform(-9, 9), float("nan"), None, 0.0])
                for _ in range(rows)
            ],
            pa.float64(),
        ),
        "day": pa.array([day + datetime.timedelta(n % 2500) for n in range(rows)], pa.date32()),
        "at": pa.array(
            [start + datetime.timedelta(seconds=n * 7) for n in range(rows)], pa.timestamp("us")
        ),
        "flag": pa.array([[True, False, None][n % 3] for n in range(rows)], pa.bool_()),
        "bytes": pa.array([bytes([n % 256, 0]) for n in range(rows)], pa.binary()),
        "nested": pa.array(
            [{"x": n % 7, "y": [n % 3]} for n in range(rows)],
            pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int64()))]),
        ),
    }
    return pa.table(columns)


def write_tables(directory: Path) -> dict[str, Path]:
    """`values` as Parquet and as an Arrow file, in small row groups."""
    table = values()
    parquet, arrow = directory / "values.parquet", directory / "values.arrow"
    pyarrow.parquet.write_table(table, parquet, row_group_size=10_000)
    pyarrow.feather.write_feather(table, str(arrow), chunksize=10_000)
    return {"v": parquet, "w": arrow}


def same(one: pa.Table, other: pa.Table) -> bool:
    """`True` if two tables have the same values, with NaN equal to NaN."""
    return repr(one.to_pydict()) == repr(other.to_pydict())
