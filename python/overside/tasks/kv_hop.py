"""A key-value server behind a forwarding hop: server and load in network namespaces of their own,
which end with the process that has made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overside.bench import network_path
from overside.processes import cpu_s
from overside.tasks.common import Json
from overside.tasks.programs import Programs, answer, in_namespaces


class Hop:
    """Network path of requests to the server."""

    def __init__(self, built: Json) -> None:
        #: The server's address.
        self.server_ip: str = built["server_address"]
        #: Description of the path, in words.
        self.description: str = built["description"]
        self._processes: list[int] = built["processes"]

    @property
    def has_program(self) -> bool:
        """Returns `True` if a program forwards packets, and not the kernel."""
        return bool(self._processes)

    def cpu_s(self) -> float:
        """CPU seconds of the programs that forward."""
        return sum(map(cpu_s, self._processes))


def measure(programs: Programs, parameters: Json) -> Json:
    """Measures through a hop, and returns the measured part of a sample.

    Raises `ProcessError`.
    """
    return in_namespaces(programs, "hop", __name__, parameters=parameters)


def _measured(asked: Json) -> dict[str, Any]:
    from overside.tasks import kv  # noqa: PLC0415 (it knows this module)

    parameters = asked["parameters"]
    built = network_path.Hop(parameters["mode"], parameters["forwarding_cores"])
    try:
        ends = built.json()
        namespaces = {"load": ends["client_namespace"], "": ends["server_namespace"]}
        names = {role: Path(path).name for role, path in namespaces.items()}
        logs, timeout_s = Path(asked["logs"]), asked["timeout_s"]
        with Programs(logs, asked["name"], timeout_s, names) as programs:
            return kv.measure(programs, asked["parameters"], Hop(ends))
    finally:
        built.close()


if __name__ == "__main__":
    answer(_measured)
