"""Raw connections of hosts to agents, and the resources that an agent uses."""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command import PATIENCE_S, native

#: The first bytes of either side: magic, oldest and newest version, zeroes.
PREAMBLE = b"OVERSIDE" + struct.pack("<HHI", 3, 3, 0)
CONTROL, JOB, PING, PROBE = 1, 2, 5, 7
#: Memory that an allocator may keep, and pages of the program that were not needed before.
SLACK_BYTES = 48 << 20


@dataclass(frozen=True)
class Resources:
    """Resources of a process."""

    resident_bytes: int
    threads: int
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> Resources:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        return cls(
            int(status["VmRSS"].split()[0]) * 1024,
            int(status["Threads"]),
            len(os.listdir(f"/proc/{pid}/fd")),
        )


class Agent:
    """A running agent, and an inventory that has it as `dpu0`."""

    def __init__(self, directory: Path, process: subprocess.Popen[str], keys: Path | None) -> None:
        self.process = process
        self.keys = keys
        assert process.stdout is not None
        host, _, port = json.loads(process.stdout.readline())["address"].rpartition(":")
        self.address = (host, int(port))
        self.inventory = directory / "agents.toml"
        entry = f'[agents.dpu0]\naddress = "{host}:{port}"\n'
        self.inventory.write_text(entry + (f'keys = "{keys}"\n' if keys else ""))
        self.before = Resources.of(process.pid)

    @property
    def resources(self) -> Resources:
        return Resources.of(self.process.pid)

    def assert_settles(self) -> None:
        """Threads, descriptors and memory are back where they were when it began, soon."""
        end, before = time.monotonic() + PATIENCE_S, self.before
        while True:
            now = self.resources
            if (
                now.threads <= before.threads
                and now.descriptors <= before.descriptors
                and now.resident_bytes <= before.resident_bytes + SLACK_BYTES
            ):
                return
            assert time.monotonic() < end, f"{before} before, {now} now"
            time.sleep(0.05)

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """A connection to it, from an address of this machine."""
        made = socket.create_connection(self.address, PATIENCE_S, (source, 0))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def login(self, source: str = "127.0.0.1") -> socket.socket:
        """The same, by somebody who has the keys, up to the agent's welcome; raises
        `ConnectionError` if it takes nobody."""
        made = self.connect(source)
        try:
            if self.keys:
                context = ssl.create_default_context(cafile=str(self.keys / "ca.pem"))
                context.load_cert_chain(self.keys / "host.pem", self.keys / "host.key")
                made = context.wrap_socket(made, server_hostname="agent.overside.invalid")
            made.sendall(PREAMBLE)
            assert received(made, len(PREAMBLE)) == PREAMBLE
            if "welcome" not in reply(made):
                raise ConnectionRefusedError
        except BaseException:
            made.close()
            raise
        return made

    def host(
        self, *words: str | Path, timeout_s: float = PATIENCE_S, **how: Any
    ) -> subprocess.CompletedProcess[bytes]:
        """The native command of a host that knows the agent."""
        return subprocess.run(
            [*native(), *map(str, words)],
            env=self.environment(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
            **how,
        )

    def environment(self) -> dict[str, str]:
        return os.environ | {"OVERSIDE_AGENTS": str(self.inventory)}

    def assert_serves(self, text: bytes) -> None:
        """A host has some bytes compressed on the agent, and gets them back."""
        words = ["compress", "-c", "--device", "dpu0/cpu", "--placement", "device"]
        done = self.host(*words, "--stats", "json", input=text)
        assert done.returncode == 0, done.stderr
        stats = json.loads(done.stderr.splitlines()[-1])
        assert stats["summary"]["report"]["devices"][0]["chunks"] > 0, done.stderr
        back = subprocess.run(["gzip", "-dc"], input=done.stdout, capture_output=True, check=True)
        assert back.stdout == text


@contextmanager
def agent(directory: Path, *words: str, secure: bool = False) -> Iterator[Agent]:
    """An agent with one thread and the CPU as its device."""
    keys = None
    if secure:
        keys = directory / "keys"
        if not keys.exists():
            command = [*native(), "agent", "keys", str(keys)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    who = ["--keys", str(keys)] if keys else ["--insecure"]
    common = ["agent", "--listen", "127.0.0.1:0", "--json", "--device", "cpu", "-p", "1"]
    with (
        (directory / "agent.log").open("w") as log,
        subprocess.Popen(
            [*native(), *common, *who, *words], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            yield Agent(directory, process, keys)
        finally:
            process.kill()
            process.wait(PATIENCE_S)


def frame(kind: int, body: bytes) -> bytes:
    return struct.pack("<IB3x", len(body), kind) + body


def message(form: object) -> bytes:
    return frame(CONTROL, json.dumps(form).encode())


def opening(operation: str = "copy", **setup: object) -> bytes:
    """A request for a context on the agent's CPU."""
    usual = {
        "operation": operation,
        "variant": "auto",
        "level": None,
        "patterns": [],
        "depth": 4,
        "max_source_bytes": 1 << 20,
        "max_destination_bytes": 1 << 20,
    }
    return message({"open": {"device": "cpu", "setup": usual | setup}})


def job(slot: int, source: bytes, capacity: int) -> bytes:
    return frame(JOB, struct.pack("<IIQ", slot, 0, capacity) + source)


def received(connection: socket.socket, count: int) -> bytes:
    """Receives `count` bytes; raises `ConnectionError` if there are fewer."""
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionResetError("the agent has ended the connection")
        data += piece
    return data


def reply(connection: socket.socket) -> dict[str, Any]:
    """The agent's next message."""
    while True:
        size, kind = struct.unpack("<IB3x", received(connection, 8))
        body = received(connection, size)
        if kind == CONTROL:
            form = json.loads(body)
            return form if isinstance(form, dict) else {form: None}


def hang_up(connection: socket.socket) -> None:
    """Ends a connection so that the other side is told at once and gets nothing more."""
    with suppress(OSError):
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.close()


def send(connection: socket.socket, data: bytes) -> None:
    """Sends as much as the agent takes."""
    with suppress(OSError):
        connection.sendall(data)


def python() -> Sequence[str]:
    return [sys.executable, "-m", "overside"]
