"""Measures the cost of a filter on a served table: pushed down, on the client, and on the file.

A sample is made by this module as a process in network namespaces of its own, where nothing else
is sent: it starts the server (`overside flow serve-table`) on as many cores as asked for, and the
client (`pushdown_client`), with the loopback interface or a shaped link between them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overside.bench import network_path
from overside.data import lineitem
from overside.errors import UserError
from overside.processes import ProcessError, output
from overside.tasks.agents import is_loopback, native, place
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
        reason = network_path.unavailable("direct")
        if reason is None and parameters["rate"] is not None:
            reason = network_path.cannot_shape()
        return reason

    def sample_s(self, parameters: Json) -> float:
        """The queries, one before them, and the check."""
        rows_s = parameters["scale_factor"] * (0.5 if parameters["way"] == "pushdown" else 4.0)
        if parameters["rate"] is not None and parameters["way"] == "whole-table":
            rows_s += parameters["scale_factor"] * 8.5 / parameters["rate"]
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

    elapsed_ns, count = sum_of("elapsed_ns"), len(queries)
    client_s, server_s = sum_of("client_s"), 0.0
    metrics = {
        "rate": said["table_rows"] * count * 1e9 / elapsed_ns,
        "time": elapsed_ns / 1e6 / count,
    }
    if parameters["way"] == "local":
        client_s, server_s = 0.0, client_s
    else:
        server_s = sum_of("server_s")
        metrics |= {"link_bytes": sum_of("bytes") / count, "client_cpu": client_s * 1e3 / count}
    metrics["server_cpu"] = server_s * 1e3 / count
    return {
        "elapsed_ns": round(elapsed_ns),
        "applied": {
            "device": f"this machine's cores, {said['link']}",
            "driver": "DuckDB" if parameters["way"] == "local" else "Arrow Flight SQL",
            "variant": parameters["way"],
            "library": f"duckdb {said['duckdb']}",
            "provenance": "measured",
        },
        "metrics": metrics,
        "cpu": {"host_s": client_s, "dpu_s": server_s, "emulator_s": 0.0},
    }


def _measured(asked: Json) -> Json:
    """Server and client, in the namespaces of this process, which is behind `in_namespaces`."""
    parameters = asked["parameters"]
    output(["ip", "link", "set", "dev", "lo", "up"], _START_S)
    if parameters["rate"] is None:
        return _run(asked, _LOOPBACK, "lo", {}) | {"link": "loopback"}
    hop = network_path.Hop("direct")
    try:
        hop.shape(parameters["rate"])
        ends = hop.json()
        pair = (Path(ends[f"{side}_namespace"]).name for side in ("client", "server"))
        namespaces = dict(zip(("client", "server"), pair, strict=True))
        found = _run(asked, ends["server_address"], hop.client_interface, namespaces)
    finally:
        hop.close()
    return found | {"link": f"{ends['description']}, {parameters['rate']:g} Gb/s"}


def _run(asked: Json, ip: str, interface: str, namespaces: dict[str, str]) -> Json:
    parameters, file = asked["parameters"], asked["file"]
    cores = sorted(os.sched_getaffinity(0))[: parameters["cores"]]
    pinned = ["taskset", "--cpu-list", ",".join(map(str, cores))]
    logs = Path(asked["logs"])
    with Programs(logs, asked["name"], asked["timeout_s"], namespaces) as programs:
        question = {"parameters": parameters, "file": file, "interface": interface}
        question |= {"server": None, "uri": "", "password": None}
        command = [sys.executable, "-m", "overside.tasks.pushdown_client"]
        if parameters["way"] == "local":
            command = [*pinned, *command]
        else:
            serve = [native(), "flow", "serve-table", "--json", "--listen", place(ip, 0)]
            serve += [f"lineitem={file}", "--threads", str(len(cores)), "--drain", "0"]
            if not is_loopback(ip):
                question["password"] = secrets.token_hex(16)
                password = programs.private_file("password", question["password"] + "\n")
                serve += ["--password-file", str(password)]
            server = programs.start("server", [*pinned, *serve])
            question["uri"] = f"grpc://{server.announced()['address']}/lineitem"
            question["server"] = server.pid
        secret = programs.private_file("question", json.dumps(question))
        found: Json = json.loads(programs.start("client", [*command, str(secret)]).finish())
        return found


TASK = PushdownTask()

if __name__ == "__main__":
    answer(_measured)
