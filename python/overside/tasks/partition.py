"""Measures unpacking, partitioning and packing a table: `overside flow bench`, from memory to
memory."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overside.data import tables
from overside.errors import UserError
from overside.tasks.agents import native
from overside.tasks.common import ExternalTask, Json, Machine
from overside.tasks.programs import ProgramError, Programs

if TYPE_CHECKING:
    from overside.bench.plan import Test

#: What `overside flow bench` ends with when a partition is wrong, and when the device can do
#: nothing of it.
_WRONG, _ABSENT = 101, 3
_STAGES = ("unpack", "partition", "repack")
#: Threads that libraries start for a column where nobody bounds them.
_UNBOUNDED = 2
_COLUMNS = {"particles": 10, "ships": 17}
#: How long a sample takes beside its passes, about; and a pass for each million rows.
_START_S, _PASS_S = 3.0, 1.5


class PartitionTask(ExternalTask):
    """A process of its own for each sample. Every pass is verified."""

    def __init__(self) -> None:
        self.declare("partition")
        self._logs = Path()
        self._files: dict[str, Path] = {}

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults; what has no effect is left out."""
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
        if name != "cpu":
            if parameters["compression"] == "none":
                return f"{name}: nothing is compressed, so a device has nothing to do"
            device = machine.device(name)
            if device is None:
                return f"{name}: there is no such device here"
            if device.get("unavailable"):
                return f"{name} is not available: {' '.join(str(device['unavailable']).split())}"
        return None

    def sample_s(self, parameters: Json) -> float:
        """Its passes, one before them, and the check."""
        rows = parameters["rows"] or tables.ROWS
        return float(_START_S + (parameters["passes"] + 3) * _PASS_S * rows / 1e6)

    def prepare(self, run_dir: Path, tests: Sequence[Test]) -> str | None:
        """Makes the tables."""
        self._logs = run_dir / "logs"
        try:
            for test in tests:
                which = _which(test.parameters)
                if which not in self._files:
                    self._files[which] = _table(test.parameters)
        except UserError as error:
            return str(error)
        return None

    def sample(self, test: Test, round_number: int, timeout_s: float) -> Json:
        """Runs the command once."""
        name = f"partition-{test.id.rpartition('/')[2]}-round{round_number}"
        command = [native(), "flow", "bench", str(self._files[_which(test.parameters)]), "--json"]
        try:
            with Programs(self._logs, name, timeout_s) as programs:
                bench = programs.start("bench", [*command, *_options(test.parameters)])
                try:
                    said: Json = json.loads(bench.finish())
                except ProgramError as failure:
                    if bench.code == _ABSENT:
                        return {"status": "skipped", "reason": str(failure), "warnings": []}
                    if bench.code == _WRONG:
                        failure.kind = "verification"
                    raise
        except ProgramError as failure:
            return failure.sample()
        return result(said)

    def clean(self) -> None:
        """Programs end with their samples."""


def _which(parameters: Json) -> str:
    return json.dumps([parameters[name] for name in ("table", "rows", "key", "time")])


def _table(parameters: Json) -> Path:
    """The file. Raises `UserError`."""
    table, rows = parameters["table"], parameters["rows"]
    if table in tables.KEYS:
        return tables.made(native(), table, rows).files[0]
    path = Path(table).absolute()
    if rows is None:
        return path
    key, time = parameters["key"], parameters["time"]
    return tables.enlarged(native(), path, rows, key, time).files[0]


def threads(parameters: Json) -> int:
    """The number that the test's words for it mean here."""
    text: str = parameters["threads"]
    if text == "all":
        return len(os.sched_getaffinity(0))
    if text == "unbounded":
        return _UNBOUNDED * _COLUMNS[parameters["table"]]
    return int(text)


def _options(parameters: Json) -> list[str]:
    """The options of `overside flow bench`."""
    words = ["--passes", str(parameters["passes"]), "--threads", str(threads(parameters))]
    if parameters["algorithm"] != "none":
        bits = parameters["method"] == "bits"
        partitions = parameters["partitions"]
        number = partitions.bit_length() - 1 if bits else partitions
        words += ["--algorithm", parameters["algorithm"], "--key", parameters["key"]]
        words += ["--bits" if bits else "--hash", str(number)]
    outer, _, codec = parameters["compression"].rpartition("-")
    words += [f"--{outer or 'codec'}", codec]
    if parameters["device"] != "cpu":
        words += ["--device", parameters["device"], "--placement", "device"]
    return words


def result(said: Json) -> Json:
    """A sample of what `overside flow bench` prints."""
    passes, device = said["passes"], said["device"]
    count, table_bytes = len(passes), said["table_bytes"]

    elapsed_ns = statistics.fmean(one["elapsed_ns"] for one in passes)
    host_s = statistics.fmean(one["cpu"]["host_ns"] for one in passes) / 1e9
    output_bytes = sum(part["bytes"] for part in said["parts"])
    metrics = {
        "throughput": table_bytes * 1e3 / elapsed_ns,
        "time": elapsed_ns / 1e6,
        "cpu_cost": host_s / table_bytes * 1e9,
        "output_bytes": float(output_bytes),
        "ratio": output_bytes / table_bytes,
    }
    for stage in _STAGES:
        wall_ns = statistics.fmean(one[stage]["wall_ns"] for one in passes)
        if stage != "partition" or said["partitioned"]:
            metrics[f"{stage}_time"] = wall_ns / 1e6
            metrics[f"{stage}_throughput"] = table_bytes * 1e3 / wall_ns
    if said["partitioned"]:
        metrics["imbalance"] = said["imbalance"]
    sample: Json = {
        "status": "ok",
        "provenance": device["provenance"] if device else "measured",
        "timing": device["timing"] if device else "real",
        "elapsed_ns": round(elapsed_ns * count),
        "applied": (device and device["applied"]) or _own(said),
        "work": {"jobs": count, "bytes": table_bytes * count, "doorbells": 0},
        "check": {
            "method": passes[-1]["check"]["method"],
            "value": passes[-1]["check"]["value"],
            "buffers": sum(one["check"]["parts"] for one in passes),
        },
        "metrics": metrics,
        "cpu": {
            f"{ledger}_s": sum(one["cpu"][f"{ledger}_ns"] for one in passes) / 1e9
            for ledger in ("host", "dpu", "emulator")
        },
        "warnings": [],
    }
    if device and device["timing"] != "real":
        sample["late"] = sum(one["device"]["late"] for one in passes)
        sample["late_of"] = sum(one["device"]["jobs"] for one in passes)
    return sample


def _own(said: Json) -> Json:
    return {
        "device": "this machine's cores",
        "driver": "threads",
        "variant": said["algorithm"] if said["partitioned"] else "not partitioned",
        "library": f"overside {said['version']}",
        "provenance": "measured",
    }


TASK = PartitionTask()
