"""A node of a pipeline on a machine of a Ray cluster."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from overside.processes import PIPE, Process
from overside.tasks.agents import native

#: Longest times in seconds for the process to report its address, and to end.
_START_S = 60.0
_END_S = 10.0


class NodeProcess:
    """A Ray actor with `overside flow serve --node` as its child. Ray starts it again, there or
    elsewhere, if it is lost; it starts the process again if that has ended."""

    def __init__(self, tls_keys: str | None) -> None:
        self._tls_keys = tls_keys
        self._process: Process | None = None
        self._place: dict[str, Any] = {}

    def place(self) -> dict[str, Any]:
        """Returns the address of the process, and a password that only this caller gets.

        Starts the process if it does not run.
        """
        if self._process is None or self._process.poll() is not None:
            self._start()
        return self._place

    def _start(self) -> None:
        import ray.util  # noqa: PLC0415 (only actors need it)

        host = ray.util.get_node_ip_address()
        password = secrets.token_urlsafe(32)
        command = [native(), "flow", "serve", "--node", "--json", "--listen", _any_port(host)]
        with tempfile.TemporaryDirectory(prefix="overside-node-") as directory:
            file = Path(directory) / "password"
            file.touch(mode=0o600)
            file.write_text(f"{password}\n", encoding="ascii")
            command += ["--password-file", str(file)]
            if self._tls_keys is not None:
                command += ["--tls-keys", self._tls_keys]
            # It inherits what the actor's log is, and ends with the actor.
            process = Process(command, stdout=PIPE, dies_with_parent=True)
            # It has read the password when it says where it is.
            line = process.first_line(_START_S)
        if not line.endswith(b"\n"):
            process.end()
            raise RuntimeError(
                f"`overside flow serve --node` did not start on {host} (exit code "
                f"{process.returncode}); why is in the log of Ray's worker {os.getpid()} there"
            )
        said = json.loads(line)
        self._process = process
        scheme = "grpc" if self._tls_keys is None else "grpc+tls"
        self._place = {
            "address": f"{scheme}://{said['address']}",
            "password": password,
            "machine": host,
            "process": process.pid,
        }

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.end(_END_S)


def _any_port(host: str) -> str:
    return f"[{host}]:0" if ":" in host else f"{host}:0"
