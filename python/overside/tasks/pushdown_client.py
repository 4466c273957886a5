"""The client of a sample of the task `pushdown`: a process of its own, in the namespace of its end.

It runs the query a number of times and compares each result with DuckDB's own on the file.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet

from overside.flow.connection import TLS_NAME
from overside.flow.dataset import Table, TableDataset
from overside.processes import cpu_s
from overside.tasks.common import Json

#: Number of parts, and highest order key, of scale factor 1.
_PARTS, _ORDER_KEYS = 200_000, 6_000_000


def condition(rows: str, selectivity: float, scale_factor: float) -> str:
    """Returns a condition that selects `selectivity` percent of the rows."""
    name, most = {"scattered": ("l_partkey", _PARTS), "clustered": ("l_orderkey", _ORDER_KEYS)}[
        rows
    ]
    return f"{name} <= {max(1, round(most * scale_factor * selectivity / 100))}"


def checksum(table: pa.Table) -> tuple[int, int]:
    """Rows, and a sum of hashes of them, whatever their order."""
    with duckdb.connect() as connection:
        connection.register("result", table)
        columns = ", ".join(table.column_names)
        sums = f"SELECT count(*), coalesce(sum(hash({columns})::HUGEINT), 0) FROM result"
        rows, total = connection.execute(sums).fetchall()[0]
        return int(rows), int(total)


#: A time on the monotonic clock in nanoseconds, and bytes in memory that arrived then.
Arrival = tuple[int, int]


class Arrivals(TableDataset):
    """A table of a server that notes when rows arrive."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.seen: list[Arrival] = []

    def _batches(self, *which: Any) -> Iterator[pa.RecordBatch]:
        for batch in super()._batches(*which):
            self.seen.append((time.monotonic_ns(), batch.nbytes))
            yield batch


def late_ns(seen: Sequence[Arrival], received: float, gbit_per_s: float) -> float:
    """Returns by how much later the last of the rows would have come over a link of this rate.

    The link sends one batch after the other, in their order, each when it was there to be sent:
    when it arrived without the link. `received` are all bytes of the interface; each batch has its
    part of them, by its bytes in memory.
    """
    whole = sum(size for _, size in seen)
    if not whole:
        # All bytes are those of messages.
        return received * 8 / gbit_per_s
    free_ns = 0.0
    for at, size in seen:
        free_ns = max(free_ns, at) + received * size / whole * 8 / gbit_per_s
    return free_ns - max(at for at, _ in seen)


def received_bytes() -> int:
    """Returns the number of bytes that the loopback interface of this namespace has received."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    raise OSError("there is no loopback interface")


def query(
    way: str, asked: Json, dataset: Arrivals | None, statement: str
) -> Callable[[], pa.Table]:
    """Returns a function that runs the statement on `lineitem`: the dataset, or the file."""
    connection = duckdb.connect()
    if dataset is None:
        cores, file = asked["parameters"]["cores"], asked["file"]
        connection.execute(f"SET threads = {cores}")
        connection.execute(f"CREATE VIEW lineitem AS SELECT * FROM read_parquet('{file}')")
        return lambda: connection.sql(statement).to_arrow_table()
    if way == "pushdown":
        connection.register("lineitem", dataset)
        return lambda: connection.sql(statement).to_arrow_table()

    def whole() -> pa.Table:
        # A stream of all rows: there is nothing to push down to.
        connection.register("lineitem", dataset.scanner().to_reader())
        return connection.sql(statement).to_arrow_table()

    return whole


def measure(asked: Json) -> Json:
    """Times, CPU times and bytes of each query; `wrong` describes a wrong result."""
    parameters = asked["parameters"]
    names = pyarrow.parquet.read_schema(asked["file"]).names[: parameters["columns"]]
    which = (parameters[name] for name in ("rows", "selectivity", "scale_factor"))
    statement = f"SELECT {', '.join(names)} FROM lineitem WHERE {condition(*which)}"
    expected = checksum(query("local", asked, None, statement)())
    way, link = parameters["way"], parameters["rate"]
    dataset = None
    if way != "local":
        dataset = Arrivals(Table(asked["uri"], None, None, TLS_NAME))
    run = query(way, asked, dataset, statement)
    # Files are in the page cache and connections are made before the clock starts.
    found = [checksum(run())]
    taken = []
    for _ in range(parameters["queries"]):
        if dataset is not None:
            dataset.seen.clear()
        before = _counts(asked)
        table = run()
        after = _counts(asked)
        one = {name: after[name] - before[name] for name in after}
        one["late_ns"] = 0.0
        if dataset is not None and link is not None:
            one["late_ns"] = late_ns(dataset.seen, one["bytes"], link)
        taken.append(one)
        found.append(checksum(table))
    wrong = next((one for one in found if one != expected), None)
    told = f"{wrong} rows and checksum, {expected} by DuckDB beside the file" if wrong else None
    rows = pyarrow.parquet.read_metadata(asked["file"]).num_rows
    return {"queries": taken, "table_rows": rows, "wrong": told, "duckdb": duckdb.__version__}


def _counts(asked: Json) -> dict[str, float]:
    """Returns the CPU seconds, received bytes and time up to now."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    counts = {"client_s": own.ru_utime + own.ru_stime}
    if asked["server"] is not None:
        counts["server_s"] = cpu_s(asked["server"])
        counts["bytes"] = received_bytes()
    return counts | {"elapsed_ns": time.monotonic_ns()}


def main() -> None:
    """Measures the query that the first argument describes; writes the result to stdout."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(measure(asked)))


if __name__ == "__main__":
    main()
