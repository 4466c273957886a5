"""Entries of a directory about servers and their cluster, read once or followed.

docs/kv/kv.md has the entries; `crates/kv/server/src/directory/` reads them in the same way.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from overside import strict_json
from overside.kv.errors import DirectoryError
from overside.kv.etcd import Etcd

_Value = TypeVar("_Value")

_FORMAT = 1
#: Seconds to wait for a change before everything is read again.
_WAIT_S = 10.0
#: Between two reads at least, and after a failure.
_PAUSE_S = 0.05
_RETRY_S = 1.0
_VALUE_MAX_BYTES = 4096
_MEMBERS_MAX = 1024
_EXPIRY_MAX_S = 86_400
_HOST = r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])"
_ADDRESS = re.compile(rf"{_HOST}:([0-9]{{1,5}})")
_NAME = re.compile(rf"{_HOST}(?::[0-9]{{1,5}})?")
_WORD = re.compile(r"[!-.0-~]{1,64}")


@dataclass(frozen=True)
class Endpoint:
    """Address at which clients of one protocol connect to a server."""

    server: str
    instance: str
    protocol: str
    address: str
    design: str
    side: str
    partitions: int
    semantics: str


@dataclass(frozen=True)
class Membership:
    """Members of a cluster: the named servers, or all registered caches."""

    members: tuple[str, ...] | None = None
    #: With registered caches, how long values are stored at most.
    expiry_s: int | None = None


@dataclass(frozen=True)
class View:
    """Content of a directory at one time."""

    endpoints: tuple[Endpoint, ...] = ()
    membership: Membership | None = None
    revision: int = field(default=0, compare=False)

    def address(self, server: str, protocol: str) -> str:
        """Returns the address of a server for a protocol.

        Raises `LookupError` with the reason if it has none.
        """
        endpoints = [one for one in self.endpoints if one.server == server]
        if not endpoints:
            raise LookupError("it is not registered in the directory")
        if len({one.instance for one in endpoints}) > 1:
            raise LookupError("two servers are registered by this name")
        for one in endpoints:
            if one.protocol == protocol:
                return one.address
        others = ", ".join(one.protocol for one in endpoints)
        raise LookupError(f"it has no endpoint of protocol {protocol}, only of {others}")


def read(etcd: Etcd) -> View:
    """Reads the current content of a directory."""
    found = etcd.range(f"{etcd.prefix}/")
    membership = None
    endpoints = []
    for key, value in found.entries.items():
        if key == f"{etcd.prefix}/cluster".encode():
            membership = _membership(value)
        elif key.startswith(f"{etcd.prefix}/endpoints/".encode()):
            endpoint = _endpoint(key, value, etcd.prefix)
            endpoints += [endpoint] if endpoint else []
    return View(tuple(endpoints), membership, found.revision)


class Follower:
    """Follows a directory, in a thread that ends with the program or soon after `close`."""

    def __init__(self, location: str, tls_keys: Path | None = None) -> None:
        self._etcd = Etcd(location, tls_keys)
        #: Content of the directory when it was read last.
        self.view = read(self._etcd)
        #: Error of the last attempt to read the directory; `None` if the view is current.
        self.error: DirectoryError | None = None
        self._is_closed = threading.Event()
        threading.Thread(target=self._follow, name="kv-follower", daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self._is_closed.set()

    def _follow(self) -> None:
        pause_s = 0.0
        while not self._is_closed.wait(pause_s):
            try:
                self._etcd.wait_for_change(f"{self._etcd.prefix}/", self.view.revision, _WAIT_S)
                self.view = read(self._etcd)
                self.error, pause_s = None, _PAUSE_S
            except DirectoryError as error:
                self.error, pause_s = error, _RETRY_S


def _value(table: Any, name: str, kind: type[_Value], check: Callable[[_Value], object]) -> _Value:
    value = table[name]
    if type(value) is not kind or not check(value):
        raise ValueError(f"impossible {name}")
    return value


def _endpoint(key: bytes, text: bytes, prefix: str) -> Endpoint | None:
    """Parses an entry of the directory; `None` if it is something else."""
    try:
        if len(text) > _VALUE_MAX_BYTES:
            return None
        table = strict_json.loads(text)
        _value(table, "format", int, lambda value: value == _FORMAT)
        names = ("instance", "protocol", "design", "side", "semantics")
        words = {name: _value(table, name, str, _WORD.fullmatch) for name in names}
        endpoint = Endpoint(
            server=_value(table, "server", str, _NAME.fullmatch),
            address=_value(table, "address", str, _is_address),
            partitions=_value(table, "partitions", int, lambda count: count >= 0),
            **words,
        )
    except (ValueError, KeyError, TypeError):
        return None
    expected = f"{prefix}/endpoints/{endpoint.server}/{endpoint.protocol}/{endpoint.address}"
    return endpoint if key == expected.encode() else None


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[1]) < 1 << 16


def _membership(text: bytes) -> Membership:
    try:
        table = strict_json.loads(text)
        _value(table, "format", int, lambda value: value == _FORMAT)
        if table.keys() == {"format", "members"}:
            members = _value(table, "members", list, lambda names: 0 < len(names) <= _MEMBERS_MAX)
            if len(set(members)) < len(members) or not all(map(_NAME.fullmatch, members)):
                raise ValueError("impossible members")
            return Membership(members=tuple(members))
        if table.keys() == {"format", "expiry_s"}:
            expiry = _value(table, "expiry_s", int, lambda value: 0 < value <= _EXPIRY_MAX_S)
            return Membership(expiry_s=expiry)
        raise ValueError("it needs members or expiry_s, not both")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text_of = f"the directory has a cluster that cannot be read: {error}"
        raise DirectoryError(text_of) from error
