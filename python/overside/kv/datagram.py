"""A client of the key-value store's datagram protocol, which docs/kv/kv-datagram.md specifies.

    with DatagramClient("127.0.0.1", 6379) as client:
        client.set({b"a": b"1", b"b": b"2"})
        client.get([b"a", b"b", b"c"])  # [b"1", b"2", None]

Many requests travel in one datagram. Those that are not answered in time are sent again if that
does no harm; the number of datagrams in flight follows their loss (AIMD). It is the client of Rust.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from overside import _core


class Outcome(Enum):
    """Outcome of a request; the numbers are the protocol's."""

    VALUE = 0
    MISSING = 1
    DONE = 2
    STORED = 3
    NOT_STORED = 4
    VERSION_DIFFERS = 5
    NUMBER = 6
    COUNTER = 7
    SCORE = 8
    METADATA = 9
    LIST = 10
    REFUSED = 11
    #: Executed, but the answer does not fit into a datagram.
    TOO_LONG = 253
    #: The request was not executed: too many clients write.
    BUSY = 254
    #: Executed before; the answer is not known any more.
    REPEATED = 255
    #: No answer in time; the request may or may not have been executed.
    NO_ANSWER = -1


class DatagramError(Exception):
    """A request was not executed, or its outcome is unknown."""

    def __init__(self, key: bytes, outcome: Outcome) -> None:
        super().__init__(f"{key!r}: {outcome.name.lower().replace('_', ' ')}")
        self.key = key
        self.outcome = outcome


@dataclass(frozen=True)
class Request:
    """A request as it is sent, for which key, and whether it may be executed twice."""

    key: bytes
    record: bytes
    is_repeatable: bool


@dataclass(frozen=True)
class Reply:
    """Outcome of a request, with its operands in the order of the specification."""

    outcome: Outcome
    operands: tuple[bytes | int | float | None, ...] = ()


def get(key: bytes) -> Request:
    """The value of a key."""
    return Request(key, *_core.kv_get(key))


def store(key: bytes, value: bytes, expires_at_ms: int | None = None) -> Request:
    """Stores a value; it expires at a time in milliseconds since 1970, or never."""
    return Request(key, *_core.kv_set(key, value, expires_at_ms))


def delete(key: bytes) -> Request:
    """Removes a key."""
    return Request(key, *_core.kv_delete(key))


def increment(key: bytes, delta: int = 1) -> Request:
    """Adds to a number of 64 bits."""
    if not -(1 << 63) <= delta < 1 << 63:
        msg = f"{delta} is no number of 64 bits"
        raise ValueError(msg)
    return Request(key, *_core.kv_increment(key, delta))


class DatagramClient:
    """A client of one server on this machine. It blocks, and belongs to one thread at a time."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tries: int = 5,
        datagram_bytes: int = 1452,
    ) -> None:
        self._client = _core.KvDatagramClient(host, port, tries, max(datagram_bytes, 0))

    def __enter__(self) -> DatagramClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the socket back."""
        self._client.close()

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values of keys; `None` for one that is missing."""
        values: list[bytes | None] = []
        for key, reply in zip(keys, self.execute([get(key) for key in keys]), strict=True):
            value = reply.operands[0] if reply.outcome is Outcome.VALUE else None
            if value is None:
                _check(key, reply, Outcome.MISSING)
            values.append(value if isinstance(value, bytes) else None)
        return values

    def set(self, items: Mapping[bytes, bytes], expires_at_ms: int | None = None) -> None:
        """Stores values."""
        requests = [store(key, value, expires_at_ms) for key, value in items.items()]
        for key, reply in zip(items, self.execute(requests), strict=True):
            _check(key, reply, Outcome.STORED, Outcome.REPEATED)

    def delete(self, keys: Sequence[bytes]) -> None:
        """Removes keys, whether or not they are there."""
        for key, reply in zip(keys, self.execute([delete(key) for key in keys]), strict=True):
            _check(key, reply, Outcome.DONE, Outcome.MISSING, Outcome.REPEATED)

    def increment(self, key: bytes, delta: int = 1) -> int:
        """Adds to a number, and has the sum. It is not sent twice."""
        reply = self.execute([increment(key, delta)])[0]
        _check(key, reply, Outcome.NUMBER)
        return int(reply.operands[0] or 0)

    def execute(self, requests: Sequence[Request]) -> list[Reply]:
        """Executes requests, in any order. Replies are in the order of the requests."""
        outcomes = self._client.execute([request.record for request in requests])
        return [Reply(Outcome(number), tuple(operands)) for number, operands in outcomes]


def partition_of(key: bytes, count: int) -> int:
    """The partition of `count` that has a key; of one with a tag (`{tag}rest`) the tag decides."""
    return _core.kv_partition_of(key, count)


def _check(key: bytes, reply: Reply, *expected: Outcome) -> None:
    if reply.outcome not in expected:
        raise DatagramError(key, reply.outcome)
