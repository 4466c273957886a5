"""Measures the cost of a filter on a served table: pushed down, on the client, and on the file.

A sample is made by this module as a process in a network namespace of its own, where nothing else
is sent: it starts the server (`overside flow serve-table`) on as many cores as asked for, and the
client (`pushdown_client`), with the loopback interface between them. A link that has a rate is
virtual: the client computes when the bytes that it received would have come over it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overside.bench import network_path
from overside.data import lineitem
from overside.errors import UserError
from overside.processes import ProcessError, output
from overside.tasks.agents import native, place
from overside.tasks.common import Json, Machine
from overside.tasks.programs import Programs, ProgramTask, answer, in_namespaces

if TYPE_CHECKING:
    from overside.tasks.common import Test

#: Typical seconds for starting programs and checking.
_START_S = 3.0
_LOOPBACK = "127.0.0.1"


class PushdownTask(ProgramTask):
    """A server and a client of its own for each sample. Every result is verified."""

    no_nodes = (
        "its server and its client are DuckDB and Python, which no agent has; run the box there, "
        "where Overside is installed"
    )

    def __init__(self) -> None:
        super().__init__("pushdown")
        self._files: dict[float, Path] = {}

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults; removes parameters without effect."""
        full = super().normal(parameters)
        if full["way"] == "local":
            full["rate"] = None
        return full

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """Message if a package, cores, or a tool for the link is missing."""
        del machine
        for module in ("duckdb", "pyarrow"):
            if importlib.util.find_spec(module) is None:
                return f"no {module}: pip install 'overside[flow]'"
        cores = len(os.sched_getaffinity(0))
        if parameters["cores"] > cores:
            return f"cores={parameters['cores']}, and there are {cores}"
        return network_path.unavailable("direct")

    def sample_s(self, parameters: Json) -> float:
        """The queries, one before them, and the check."""
        rows_s = parameters["scale_factor"] * (0.5 if parameters["way"] == "pushdown" else 4.0)
        return float(_START_S + (parameters["queries"] + 2) * rows_s)

    def prepare(self, run_dir: Path, tests: Sequence[Test]) -> str | None:
        """Makes the tables."""
        try:
            for scale in dict.fromkeys(test.parameters["scale_factor"] for test in tests):
                (self._files[scale],) = lineitem.resolve(scale).files
        except UserError as error:
            return str(error)
        return super().prepare(run_dir, tests)

    def measured(self, programs: Programs, test: Test) -> Json:
        """Measures in namespaces of its own."""
        file, parameters = str(self._files[test.parameters["scale_factor"]]), test.parameters
        said = in_namespaces(programs, "outer", __name__, file=file, parameters=parameters)
        return _sample(parameters, said)


def _sample(parameters: Json, said: Json) -> Json:
    """The measured part of a sample, of the client's report."""
    queries = said["queries"]
    if said["wrong"] is not None:
        raise ProcessError(said["wrong"], "verification")

    def sum_of(name: str) -> float:
        return float(sum(query[name] for query in queries))

    count, rows, link = len(queries), said["table_rows"] * len(queries), parameters["rate"]
    # What the bytes wait for the link comes on top of what was measured.
    measured_ns = sum_of("elapsed_ns")
    elapsed_ns = measured_ns + sum_of("late_ns")
    client_s, server_s = sum_of("client_s"), 0.0
    metrics = {"rate": rows * 1e9 / elapsed_ns, "time": elapsed_ns / 1e6 / count}
    if parameters["way"] == "local":
        client_s, server_s = 0.0, client_s
    else:
        server_s = sum_of("server_s")
        metrics |= {"link_bytes": sum_of("bytes") / count, "client_cpu": client_s * 1e3 / count}
    metrics["server_cpu"] = server_s * 1e3 / count
    where = "loopback" if link is None else f"a virtual link of {link:g} Gb/s"
    sample: Json = {
        "elapsed_ns": round(elapsed_ns),
        "applied": {
            "device": f"this machine's cores, {where}",
            "driver": "DuckDB" if parameters["way"] == "local" else "Arrow Flight SQL",
            "variant": parameters["way"],
            "library": f"duckdb {said['duckdb']}",
            "provenance": "measured" if link is None else "emulated",
        },
        "metrics": metrics,
        "cpu": {"host_s": client_s, "dpu_s": server_s, "emulator_s": 0.0},
    }
    if link is not None:
        sample |= {"provenance": "emulated", "timing": "virtual"}
        # Work and link overlap wholly, or not at all.
        link_ns = sum_of("bytes") * 8 / link
        ends_ns = (max(measured_ns, link_ns), measured_ns + link_ns)
        sample["bounds"] = {
            "time": [end / 1e6 / count for end in ends_ns],
            "rate": [rows * 1e9 / end for end in reversed(ends_ns)],
        }
    return sample


def _measured(asked: Json) -> Json:
    """Server and client, in the namespaces of this process, which is behind `in_namespaces`."""
    output(["ip", "link", "set", "dev", "lo", "up"], _START_S)
    parameters, file = asked["parameters"], asked["file"]
    cores = sorted(os.sched_getaffinity(0))[: parameters["cores"]]
    pinned = ["taskset", "--cpu-list", ",".join(map(str, cores))]
    with Programs(Path(asked["logs"]), asked["name"], asked["timeout_s"]) as programs:
        question = {"parameters": parameters, "file": file, "server": None, "uri": ""}
        command = [sys.executable, "-m", "overside.tasks.pushdown_client"]
        if parameters["way"] == "local":
            command = [*pinned, *command]
        else:
            serve = [native(), "flow", "serve-table", "--json", "--listen", place(_LOOPBACK, 0)]
            serve += [f"lineitem={file}", "--threads", str(len(cores)), "--drain", "0"]
            server = programs.start("server", [*pinned, *serve])
            question["uri"] = f"grpc://{server.announced()['address']}/lineitem"
            question["server"] = server.pid
        found: Json = json.loads(
            programs.start("client", [*command, json.dumps(question)]).finish()
        )
        return found


TASK = PushdownTask()

if __name__ == "__main__":
    answer(_measured)
