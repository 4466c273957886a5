"""A connection to one server, which speaks RESP2."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

#: Types of a command's words, and of a reply: text, an error, a number, bytes, nothing, or a list
#: of these.
Word = bytes | str | int
Reply: TypeAlias = "str | ErrorReply | int | bytes | list[Reply] | None"

_LINE_MAX_BYTES = 64 << 10
_VALUE_MAX_BYTES = 64 << 20
_ELEMENTS_MAX = 1 << 20
_DEPTH_MAX = 8


@dataclass(frozen=True)
class ErrorReply:
    """Error message of a server that did not execute a command."""

    message: str


class GreetingError(Exception):
    """A server does not let this client in."""


@dataclass(frozen=True)
class ServerTls:
    """TLS settings, with the name that the servers' certificates must have."""

    context: ssl.SSLContext
    name: str


class Connection:
    """A connection to the server of this address, and of this name unless that is `None`.

    Failures are `OSError` or `EOFError`; what is no reply is `ValueError`, and a server that
    refuses this client `GreetingError`.
    """

    def __init__(
        self,
        server: str | None,
        address: str,
        password: bytes | None,
        timeout_s: float,
        tls: ServerTls | None = None,
    ) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.context.wrap_socket(self._socket, server_hostname=tls.name)
        self._input = self._socket.makefile("rb", buffering=1 << 16)
        try:
            self._greet(server, password)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends it."""
        with suppress(OSError):
            self._input.close()
        self._socket.close()

    def is_stale(self) -> bool:
        """Returns `True` if the server has closed the connection, or sent unrequested data."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def send(self, data: bytes) -> None:
        """Sends requests."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            # A server refuses a certificate after the handshake (TLS 1.3), then hangs up.
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.recv(1)
            raise

    def receive(self) -> Reply:
        """The next reply."""
        return self._read(0)

    def info(self, *section: str) -> dict[str, str]:
        """Fields that the server reports of itself."""
        self.send(request("INFO", *section))
        reply = self._expect()
        lines = reply.decode("utf-8", "replace").splitlines() if isinstance(reply, bytes) else []
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def _greet(self, server: str | None, password: bytes | None) -> None:
        """Authenticates, and makes sure that this is the server."""
        if password is not None:
            self.send(request("AUTH", password))
            self._expect()
        if server is not None and self.info("overside").get("server_name") != server:
            raise ConnectionError(f"another server is at {self.address}")

    def _expect(self) -> Reply:
        reply = self.receive()
        if isinstance(reply, ErrorReply):
            raise GreetingError(reply.message)
        return reply

    def _read(self, depth: int) -> Reply:
        line = self._input.readline(_LINE_MAX_BYTES)
        if not line.endswith(b"\r\n"):
            if len(line) == _LINE_MAX_BYTES:
                raise ValueError("a line without end")
            raise EOFError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"+":
                return rest.decode("utf-8", "replace")
            case b"-":
                return ErrorReply(rest.decode("utf-8", "replace"))
            case b":":
                return int(rest)
            case b"$" | b"*" if rest == b"-1":
                return None
            case b"$":
                return self._bytes(int(rest))
            case b"*":
                count = int(rest)
                if not 0 <= count <= _ELEMENTS_MAX or depth == _DEPTH_MAX:
                    raise ValueError("an array that is too large")
                return [self._read(depth + 1) for _ in range(count)]
            case _:
                raise ValueError("an unknown kind of reply")

    def _bytes(self, count: int) -> bytes:
        if not 0 <= count <= _VALUE_MAX_BYTES:
            raise ValueError("a value that is too long")
        data: bytes = self._input.read(count + 2)
        if len(data) < count + 2:
            raise EOFError("the connection was closed")
        if not data.endswith(b"\r\n"):
            raise ValueError("a value that does not end where it should")
        return data[:-2]


def as_bytes(word: Word) -> bytes:
    """A word as it is sent: text is UTF-8."""
    return word if isinstance(word, bytes) else str(word).encode()


def request(*words: Word) -> bytes:
    """A command as it is sent."""
    encoded: Sequence[bytes] = [as_bytes(word) for word in words]
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]
    return b"*%d\r\n" % len(parts) + b"".join(parts)
