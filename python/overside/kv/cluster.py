"""A cluster of key-value servers.

1. Requests are grouped by the server that has their key. Each server gets its requests as a
   pipeline, and all servers work at the same time.
2. Reads are tried once more on a new connection. Writes are not, unless nothing of them was sent:
   nobody knows whether they were executed.
3. A server that cannot be reached fails its own requests, and nothing else.

`crates/kv/server/src/client/` does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from overside.kv.directory import Follower, View
from overside.kv.errors import (
    ClusterError,
    DirectoryError,
    RefusedError,
    ServerFailure,
    UnreachableError,
    UnsupportedError,
)
from overside.kv.resp import (
    Connection,
    ErrorReply,
    GreetingError,
    Reply,
    ServerTls,
    Word,
    as_bytes,
    request,
)
from overside.kv.ring import Ring
from overside.kv.tls import AGENT, client_context

#: Protocols of a server's endpoints that this client can use: in the clear, and by TLS.
_PLAIN, _TLS = _PROTOCOLS = "redis", "rediss"
#: Requests that are sent before the first of their replies is read: this number of bytes fits into
#: the buffers of the sockets, however long a server waits for this client to read.
_SENT_MAX_BYTES = 32 << 10

Key = bytes | str


class Cluster:
    """A client of all servers of a cluster, for one thread at a time.

    Keys and values are bytes, or text, which is UTF-8; results are bytes.

    Args:
        directory: That of the servers: `etcd://HOST:PORT[,HOST:PORT...][/PREFIX]`, or `etcds://...`.
        directory_tls_keys: For `etcds://`: the directory with `ca.pem`, and with `host.pem` and
            `host.key` where etcd wants a client's certificate.
        password: The servers' password, if they have one.
        tls_keys: Reach the servers only by TLS: the directory with `ca.pem`, and with `host.pem`
            and `host.key` where they want a client's certificate. Default: only in the clear.
        tls_name: The name that the servers' certificates must have. Default: that of agents.
        timeout_s: Seconds that connecting may take, and that a server may be silent.

    Raises:
        DirectoryError: The directory cannot be read, or has no cluster.
    """

    def __init__(
        self,
        directory: str,
        *,
        directory_tls_keys: str | Path | None = None,
        password: str | bytes | None = None,
        tls_keys: str | Path | None = None,
        tls_name: str = AGENT,
        timeout_s: float = 5.0,
    ) -> None:
        context = None if tls_keys is None else client_context(Path(tls_keys))
        self._tls = None if context is None else ServerTls(context, tls_name)
        keys = None if directory_tls_keys is None else Path(directory_tls_keys)
        self._follower = Follower(directory, keys)
        self._directory = directory
        self._password = None if password is None else as_bytes(password)
        self._timeout_s = timeout_s
        self._connections: dict[str, Connection] = {}
        self._view: View | None = None
        try:
            self._refresh()
        except ClusterError:
            self.close()
            raise

    def close(self) -> None:
        """Ends all connections."""
        self._follower.close()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def servers(self) -> list[str]:
        """Names of the servers that keys belong to."""
        self._refresh()
        return list(self._ring.members)

    @property
    def directory_error(self) -> DirectoryError | None:
        """Error that keeps the client from following the directory; `None` without one.

        Until it ends, servers that have moved are not found.
        """
        return self._follower.error

    def get(self, key: Key) -> bytes | None:
        """Reads a value.

        Args:
            key: Its key.

        Returns:
            The value; `None` if there is none.

        Raises:
            UnreachableError: Its server could not be reached.
            RefusedError: The server refuses, or the value is no text.
        """
        return self.get_many([key])[0]

    def set(self, key: Key, value: Word, *, expiry_s: float | None = None) -> None:
        """Stores a value.

        Args:
            key: Its key.
            value: The value.
            expiry_s: Seconds after which it is gone. Default: never.

        Raises:
            UnreachableError: Its server could not be reached; the value may have been stored.
            RefusedError: The server refuses, because its memory is full for instance.
        """
        self.set_many({as_bytes(key): value}, expiry_s=expiry_s)

    def delete(self, *keys: Key) -> int:
        """Removes keys.

        Args:
            keys: Any number of them.

        Returns:
            How many there were.

        Raises:
            UnreachableError: Servers could not be reached; the keys of others are removed.
            RefusedError: A server refuses.
        """
        replies = self._ask([(as_bytes(key), _Request(request("DEL", key))) for key in keys])
        return sum(reply if isinstance(reply, int) else self._unexpected() for reply in replies)

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        """Reads several values: one pipeline to each server, all at the same time.

        Args:
            keys: Their keys.

        Returns:
            The values in the order of their keys, `None` for those that are not there.

        Raises:
            UnreachableError: Servers could not be reached.
            RefusedError: A server refuses.
        """
        requests = [(as_bytes(key), _Request(request("GET", key), is_read=True)) for key in keys]
        return [
            reply if reply is None or isinstance(reply, bytes) else self._unexpected()
            for reply in self._ask(requests)
        ]

    def set_many(
        self, pairs: Mapping[bytes, Word] | Mapping[str, Word], *, expiry_s: float | None = None
    ) -> None:
        """Stores several values, each by itself: one pipeline to each server.

        Args:
            pairs: Keys and values.
            expiry_s: Seconds after which they are gone. Default: never.

        Raises:
            UnreachableError: Servers could not be reached; keys of other servers are stored.
            RefusedError: A server refuses.
        """
        self._refresh()
        limits = [limit for limit in (expiry_s, self._expiry_max_s) if limit is not None]
        end: list[Word] = ["PX", max(1, int(min(limits) * 1000))] if limits else []
        self._ask(
            [
                (as_bytes(key), _Request(request("SET", key, value, *end)))
                for key, value in pairs.items()
            ]
        )

    def execute(self, key: Key, *words: Word) -> Reply:
        """Executes any command on the server that has `key`. It is never sent twice.

        Args:
            key: The key that chooses the server. All keys of the command must belong there, as
                keys with the same tag do.
            words: The command: its name and its arguments.

        Returns:
            The reply: bytes, a number, `None`, or a list of these.

        Raises:
            UnsupportedError: The cluster is one of registered caches.
            UnreachableError: The server could not be reached; the command may have been executed.
            RefusedError: The server refuses.
        """
        self._refresh()
        if self._expiry_max_s is not None:
            raise UnsupportedError(
                "a cluster of registered caches only reads and writes whole values"
            )
        return self._ask([(as_bytes(key), _Request(request(*words)))])[0]

    def _refresh(self) -> None:
        """Takes over the directory's current state."""
        view = self._follower.view
        if self._view is None or view != self._view:
            self._ring, self._expiry_max_s = _ring(view, self._directory)
            self._view = view

    def _ask(self, requests: Sequence[tuple[bytes, _Request]]) -> list[Reply]:
        """The replies to requests, in order."""
        self._refresh()
        pipelines: dict[str, _Pipeline] = {}
        for number, (key, one) in enumerate(requests):
            server = self._ring.owner(key)
            if server is None:
                raise DirectoryError("no cache is registered in the directory")
            pipelines.setdefault(server, _Pipeline(server, [])).requests.append((number, one))
        replies: dict[int, Reply] = {}
        while waiting := [one for one in pipelines.values() if not one.is_finished()]:
            for pipeline in waiting:
                self._send(pipeline)
            for pipeline in waiting:
                if not pipeline.is_finished() and pipeline.server in self._connections:
                    self._receive(pipeline, replies)
        return _finish(pipelines, replies)

    def _send(self, one: _Pipeline) -> None:
        try:
            connection = self._connection(one.server)
        except GreetingError as error:
            one.refusal = str(error)
        except (OSError, EOFError, ValueError, LookupError) as error:
            one.failure = _reason(error)
        else:
            try:
                connection.send(one.next_requests())
            except OSError as error:
                self._lost(one, error)

    def _receive(self, one: _Pipeline, replies: dict[int, Reply]) -> None:
        connection = self._connections[one.server]
        try:
            while one.answered < one.sent:
                number, _ = one.requests[one.answered]
                replies[number] = connection.receive()
                one.answered += 1
        except (OSError, EOFError, ValueError) as error:
            self._lost(one, error)

    def _lost(self, one: _Pipeline, error: Exception) -> None:
        """Handles a lost connection: safe requests are tried again, once."""
        self._connections.pop(one.server).close()
        if one.was_retried or one.may_be_executed():
            one.failure = _reason(error)
        one.was_retried = True
        if one.failure is None:
            one.sent = one.answered

    def _connection(self, server: str) -> Connection:
        """A connection to a server, on which nothing that was asked is without a reply."""
        assert self._view is not None
        address = self._view.address(server, _PLAIN if self._tls is None else _TLS)
        connection = self._connections.get(server)
        if connection is not None:
            if connection.address == address and not connection.is_stale():
                return connection
            self._connections.pop(server).close()
        connection = Connection(server, address, self._password, self._timeout_s, self._tls)
        self._connections[server] = connection
        return connection

    def _unexpected(self) -> NoReturn:
        raise ClusterError("a server answers something else than was asked")


@dataclass(frozen=True)
class _Request:
    data: bytes
    #: `True` if it changes nothing, so that it can be sent twice.
    is_read: bool = False


@dataclass
class _Pipeline:
    """Requests for one server, in order, with the numbers of their replies."""

    server: str
    requests: list[tuple[int, _Request]]
    sent: int = 0
    answered: int = 0
    was_retried: bool = False
    failure: str | None = None
    refusal: str | None = None

    def is_finished(self) -> bool:
        is_done = self.answered == len(self.requests)
        return is_done or self.failure is not None or self.refusal is not None

    def next_requests(self) -> bytes:
        """Returns the requests that may be sent now, and counts them as sent."""
        parts: list[bytes] = []
        size = 0
        for _, one in self.requests[self.sent :]:
            if parts and size + len(one.data) > _SENT_MAX_BYTES:
                break
            parts.append(one.data)
            size += len(one.data)
        self.sent += len(parts)
        return b"".join(parts)

    def may_be_executed(self) -> bool:
        """Returns `True` if a request that may change data was sent and has no reply."""
        return any(not one.is_read for _, one in self.requests[self.answered : self.sent])


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error.args[0]) if isinstance(error, LookupError) else str(error)


def _ring(view: View, directory: str) -> tuple[Ring, int | None]:
    """The ring of a cluster, and for how many seconds its values are stored at most."""
    membership = view.membership
    if membership is None:
        raise DirectoryError(f"{directory} has no cluster; `overside kv cluster` makes one")
    if membership.members is not None:
        return Ring(membership.members), None
    # The same for all clients, whether by TLS or not.
    servers = [one for one in view.endpoints if one.protocol in _PROTOCOLS]
    for one in servers:
        if one.semantics != "cache":
            raise DirectoryError(
                f"{one.server} is a store; a cluster of stores needs fixed members"
            )
    return Ring(one.server for one in servers), membership.expiry_s


def _finish(pipelines: Mapping[str, _Pipeline], replies: Mapping[int, Reply]) -> list[Reply]:
    """All replies, or the error."""
    in_order = [pipelines[server] for server in sorted(pipelines)]
    for one in in_order:
        if one.refusal is not None:
            raise RefusedError(one.server, one.refusal)
    failures = [
        ServerFailure(
            one.server, one.failure, len(one.requests) - one.answered, one.may_be_executed()
        )
        for one in in_order
        if one.failure is not None
    ]
    if failures:
        raise UnreachableError(failures)
    for one in in_order:
        for number, _ in one.requests:
            reply = replies[number]
            if isinstance(reply, ErrorReply):
                raise RefusedError(one.server, reply.message)
    return [replies[number] for number in range(len(replies))]
