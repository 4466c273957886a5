"""Agents that a sample needs: those of the inventory, and those that are started here."""

from __future__ import annotations

import ipaddress
import json
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from overside.processes import ProcessError, output
from overside.tasks.programs import Program, Programs

if TYPE_CHECKING:
    from overside.tasks.common import Json

#: An agent of this name is always started on this machine.
HERE = "here"
#: Longest time in seconds for listing the agents; each gets less than a second.
_LISTING_S = 20.0


class Agents:
    """Agents by their names, with an inventory in which all of them stand."""

    def __init__(
        self,
        programs: Programs,
        names: Iterable[str],
        *,
        stand_ins: bool,
        options: Sequence[str] = (),
    ) -> None:
        """Finds or starts agents; those that are started here get further `options`."""
        self._options = options
        #: Agents that were started on this machine; they end with the sample.
        self.started: dict[str, Program] = {}
        #: Variables of the environment by which programs find them.
        self.variables: dict[str, str] = {}
        self._entries: dict[str, Json] = {}
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return
        known = _inventory() if set(wanted) != {HERE} else {}
        for name in wanted:
            if name != HERE and name in known:
                self._entries[name] = known[name]
            elif name == HERE or stand_ins:
                self._entries[name] = self._start(programs, name)
            else:
                raise ProcessError(f"no agent is called {name!r}")
        path = programs.logs / f"{programs.name}-agents.toml"
        path.write_text("\n".join(_toml(name, entry) for name, entry in self._entries.items()))
        self.variables["OVERSIDE_AGENTS"] = str(path)

    def _start(self, programs: Programs, name: str) -> Json:
        command = [native(), "agent", "--listen", "127.0.0.1:0", "--json", "--insecure"]
        command += ["--device", "cpu", "-p", "1", *self._options]
        agent = programs.start(f"agent-{name}", command)
        self.started[name] = agent
        return {"address": agent.announced()["address"]}

    def entry(self, name: str) -> tuple[str, Path | None]:
        """Returns an agent's address, and the directory of the keys for it, or `None`."""
        entry = self._entries[name]
        keys = entry.get("keys")
        return entry["address"], None if keys is None else Path(keys)

    def ip(self, name: str) -> str:
        """Returns the IP address at which this machine reaches the agent."""
        host, port = self._place(name)
        return str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])

    def own_ip(self, name: str) -> str:
        """Returns the IP address at which the agent's machine reaches this one."""
        ip = self.ip(name)
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as unsent:
            unsent.connect((ip, self._place(name)[1]))
            return str(unsent.getsockname()[0])

    def _place(self, name: str) -> tuple[str, int]:
        parts = urlsplit(f"//{self._entries[name]['address']}")
        return parts.hostname or "", parts.port or 0


def native() -> str:
    """The native command beside this Python."""
    return str(Path(sys.executable).parent / "overside")


def is_loopback(ip: str) -> bool:
    """Returns `True` if only this machine can reach the address."""
    return ipaddress.ip_address(ip.partition("%")[0]).is_loopback


def place(ip: str, port: int) -> str:
    """Joins address and port in the form that commands take."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _inventory() -> dict[str, Json]:
    """Address and keys of the agents of the inventory."""
    command = [native(), "agents", "list", "--json"]
    try:
        found = json.loads(output(command, _LISTING_S))["agents"]
    except (ProcessError, ValueError) as error:
        raise ProcessError(f"listing the agents: {error}") from None
    return {entry["name"]: {key: entry[key] for key in ("address", "keys")} for entry in found}


def _toml(name: str, entry: Json) -> str:
    # A JSON string is a TOML string.
    lines = [f"[agents.{json.dumps(name, ensure_ascii=False)}]"]
    for key, value in entry.items():
        if value is not None:
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join([*lines, ""])
