"""Measures unpacking, partitioning and packing a table: `overside flow bench`, from memory to
memory."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from overside import data
from overside.data import tables
from overside.tasks.agents import native
from overside.tasks.common import Json, Machine, MeasuredTask

if TYPE_CHECKING:
    from overside.data import DataSet

#: Threads that libraries start for a column if their number is not bounded.
_UNBOUNDED = 2
_COLUMNS = {"particles": 10, "ships": 17}
#: Typical seconds of a sample without its passes, and of a pass for each million rows: by the
#: compression, or with one that is not named.
_START_S, _PASS_S, _SLOW_PASS_S = 0.6, {"none": 0.1, "lz4": 0.2}, 0.45


class PartitionTask(MeasuredTask):
    """A process of its own for each sample, on any node. Every pass is verified."""

    beside_s = 600.0

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults; removes parameters without effect."""
        full = super().normal(parameters)
        if full["table"] in tables.KEYS:
            full["rows"] = full["rows"] or tables.ROWS
            full["key"] = full["key"] or tables.KEYS[full["table"]]
            full["time"] = None
        elif full["rows"] is None:
            full["time"] = None
        if full["algorithm"] == "none":
            full |= dict.fromkeys(("method", "partitions"))
            if full["table"] in tables.KEYS or full["rows"] is None:
                full["key"] = None
        return full

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """The device is not there, or parameters do not fit each other."""
        if reason := _unfit(parameters):
            return reason
        name = parameters["device"]
        if name != "cpu":
            device = machine.device(name)
            if device is None:
                return f"{name}: there is no such device here"
            if device.get("unavailable"):
                return f"{name} is not available: {' '.join(str(device['unavailable']).split())}"
        return None

    def no_node(self, parameters: Json, node: str, machine: Machine) -> str | None:
        """See `Task`."""
        return _unfit(parameters) or super().no_node(parameters, node, machine)

    def timed_s(self, parameters: Json, sample_s: float) -> float:
        """Returns the seconds of a sample: its passes, one before them, and the check."""
        del sample_s
        rows = parameters["rows"] or tables.ROWS
        pass_s = _PASS_S.get(parameters["compression"].removeprefix("outer-"), _SLOW_PASS_S)
        return float(_START_S + (parameters["passes"] + 3) * pass_s * rows / 1e6)

    def data_name(self, parameters: Json) -> str:
        """The table, which is made or enlarged."""
        which = json.dumps([parameters[name] for name in ("table", "rows", "key", "time")])
        return f"table-{hashlib.sha256(which.encode()).hexdigest()[:16]}"

    def data_set(self, parameters: Json, seed: int) -> DataSet:
        """See `MeasuredTask`."""
        table, rows = parameters["table"], parameters["rows"]
        if table in tables.KEYS:
            return tables.made(native(), table, rows)
        path = Path(table).absolute()
        if rows is None:
            return data.resolve(path, seed=seed)
        return tables.enlarged(native(), path, rows, parameters["key"], parameters["time"])

    def test(self, parameters: Json) -> Json:
        """See `MeasuredTask`. The worker of a node runs its own command."""
        names = ("algorithm", "method", "partitions", "compression", "device", "passes")
        test = {name: parameters[name] for name in names}
        if parameters["algorithm"] != "none":
            test["key"] = parameters["key"]
        return {
            "kind": self.name,
            "program": native(),
            "data": {"name": self.data_name(parameters), "sample_bytes": 0},
            "threads": threads(parameters),
            **{name: value for name, value in test.items() if value is not None},
        }


def _unfit(parameters: Json) -> str | None:
    """Returns the reason why parameters do not fit each other; `None` if they do.

    It is the same on every node.
    """
    partitions = parameters["partitions"]
    if parameters["method"] == "bits" and partitions & (partitions - 1):
        return f"partitions={partitions} is no power of two: set method to hash"
    table = parameters["table"]
    if table not in tables.KEYS:
        if not Path(table).is_file():
            return f"table={table}: neither {', '.join(tables.KEYS)} nor a file"
        if parameters["key"] is None and (partitions or parameters["rows"]):
            return f"table={table} needs a key: the column that decides"
        if parameters["threads"] == "unbounded":
            return f"table={table}: threads=unbounded is for {', '.join(tables.KEYS)}"
    name = parameters["device"]
    if name != "cpu" and parameters["compression"] == "none":
        return f"{name}: nothing is compressed, so a device has nothing to do"
    return None


def threads(parameters: Json) -> int | str:
    """Returns the number of threads, or `all` for all cores of the node.

    The test's parameter may be a word.
    """
    text: str = parameters["threads"]
    if text == "unbounded":
        return _UNBOUNDED * _COLUMNS[parameters["table"]]
    return text if text == "all" else int(text)


TASK = PartitionTask("partition")
