"""A key-value server behind a forwarding hop: server and load in network namespaces of their own,
which end with the process that has made them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from overside.bench import network_path
from overside.tasks.common import Json
from overside.tasks.programs import ProgramError, Programs, cpu_s

#: Seconds that the process may need in addition to the sample, to build the hop.
_BUILDING_S = 20.0


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


def measure(programs: Programs, parameters: Json, timeout_s: float) -> Json:
    """Measures through a hop, and returns the measured part of a sample.

    Raises `ProgramError`.
    """
    asked = json.dumps(
        {
            "logs": str(programs.logs),
            "name": programs.name,
            "timeout_s": timeout_s - _BUILDING_S,
            "parameters": parameters,
        }
    )
    command = [*network_path.prefix(), sys.executable, "-m", __name__, asked]
    said: Json = json.loads(programs.start("hop", command).finish())
    if "error" in said:
        raise ProgramError(said["error"]["message"], said["error"]["kind"])
    return said


def main() -> None:
    """Measures once, behind `network_path.prefix()`; writes the result to stdout."""
    asked = json.loads(sys.argv[1])
    try:
        answer = _measured(asked)
    except ProgramError as failure:
        answer = {"error": failure.sample()["error"]}
    except network_path.HopError as failure:
        answer = {"error": {"kind": failure.kind, "message": str(failure)}}
    print(json.dumps(answer))


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
    main()
