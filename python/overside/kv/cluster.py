"""A cluster of key-value servers: the client of `crates/kv/client`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from overside._core import KvCluster
from overside.kv.errors import DirectoryError, ErrorReply

Key = bytes | str
#: Types of a command's words, and of a reply: text, an error, a number, bytes, nothing, or a list
#: of these.
Word = bytes | str | int
Reply: TypeAlias = "str | ErrorReply | int | bytes | list[Reply] | None"


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
        tls_name: str = "agent.overside.invalid",
        timeout_s: float = 5.0,
    ) -> None:
        secret = None if password is None else _as_bytes(password)
        self._cluster = KvCluster(
            directory, directory_tls_keys, secret, tls_keys, tls_name, timeout_s
        )

    def close(self) -> None:
        """Ends all connections."""
        self._cluster.close()

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
        return self._cluster.servers()

    @property
    def directory_error(self) -> DirectoryError | None:
        """Error that keeps the client from following the directory; `None` without one.

        Until it ends, servers that have moved are not found.
        """
        text = self._cluster.directory_error()
        return None if text is None else DirectoryError(text)

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
        self.set_many({_as_bytes(key): value}, expiry_s=expiry_s)

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
        return self._cluster.delete([_as_bytes(key) for key in keys])

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
        return self._cluster.get([_as_bytes(key) for key in keys])

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
        encoded = [(_as_bytes(key), _as_bytes(value)) for key, value in pairs.items()]
        self._cluster.set(encoded, expiry_s)

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
        reply: Reply = self._cluster.execute(_as_bytes(key), [_as_bytes(word) for word in words])
        return reply


def _as_bytes(word: Word) -> bytes:
    """A word as it is sent: text is UTF-8."""
    return word if isinstance(word, bytes) else str(word).encode()
