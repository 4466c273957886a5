"""A client of the key-value store's datagram protocol, which docs/kv-datagram.md specifies.

    with DatagramClient("127.0.0.1", 6379) as client:
        client.set({b"a": b"1", b"b": b"2"})
        client.get([b"a", b"b", b"c"])  # [b"1", b"2", None]

Many requests travel in one datagram. Those that are not answered in time are sent again if that
does no harm; the number of datagrams in flight follows their loss (AIMD).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
import time
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from overside.kv.ring import tag

_HEADER = struct.Struct("<2sBBHHQQQH")
_MAGIC = b"KV"
_VERSION = 1
_ANSWER = 1
_REQUESTS_MAX = 256
_DATAGRAM_MAX_BYTES = 65_507
_WINDOW_MAX = 512
_WINDOW_FIRST = 8
_WAIT_MIN_S = 0.02
_WAIT_FIRST_S = 0.2
_WAIT_MAX_S = 2.0

#: Magic, version, flags, partition, length, epoch; the tag follows.
_ENVELOPE = struct.Struct("<2sBBHHQ")
_SEAL_MAGIC = b"KS"
_SEAL_PURPOSE = b"overside kv datagram seal 1"
_TAG_BYTES = 16
#: An epoch that was heard longer ago may be over.
_EPOCH_S = 20.0
_HELLO_TRIES = 10

_GET, _SET, _INCREMENT, _DELETE = 0, 5, 8, 11
#: Numbers of answers with their operands: strings, varints, signed varints, bytes, times, doubles,
#: versions.
_OPERANDS = {
    0: "svVt",
    1: "",
    2: "",
    3: "V",
    4: "",
    5: "",
    6: "i",
    7: "vV",
    8: "d",
    9: "bvVtvv",
    10: "vs",
    11: "b",
    253: "",
    254: "",
    255: "",
}


class Outcome(Enum):
    """What became of a request; the numbers are the protocol's."""

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
    #: Not executed: too many clients write.
    BUSY = 254
    #: Executed before; what the answer was is not known.
    REPEATED = 255
    #: No answer in time; whether it was executed is not known.
    NO_ANSWER = -1


class DatagramError(Exception):
    """A request was not executed, or nobody knows."""

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
    """What became of a request, with its operands in the order of the specification."""

    outcome: Outcome
    operands: tuple[bytes | int | float | None, ...] = ()


def get(key: bytes) -> Request:
    """The value of a key."""
    return Request(key, bytes([_GET]) + _string(key), is_repeatable=True)


def store(key: bytes, value: bytes, expires_at_ms: int | None = None) -> Request:
    """Stores a value; it expires at a time in milliseconds since 1970, or never."""
    expiry = b"\x01" if expires_at_ms is None else b"\x02" + _varint(expires_at_ms)
    record = bytes([_SET]) + _string(key) + _string(value) + b"\0" + expiry + b"\0\0"
    return Request(key, record, is_repeatable=True)


def delete(key: bytes) -> Request:
    """Removes a key."""
    return Request(key, bytes([_DELETE]) + _string(key) + b"\0", is_repeatable=True)


def increment(key: bytes, delta: int = 1) -> Request:
    """Adds to a number of 64 bits."""
    if not -(1 << 63) <= delta < 1 << 63:
        msg = f"{delta} is no number of 64 bits"
        raise ValueError(msg)
    zigzag = delta << 1 if delta >= 0 else (-delta << 1) - 1
    record = bytes([_INCREMENT]) + _string(key) + _varint(zigzag)
    return Request(key, record, is_repeatable=False)


@dataclass
class _Question:
    partition: int
    records: bytearray = field(default_factory=bytearray)
    #: Numbers of its requests, in order.
    requests: list[int] = field(default_factory=list)
    is_repeatable: bool = True
    sent_s: float = 0.0
    tries: int = 0


class _Seal:
    """Envelopes of datagrams, for one port of a server."""

    def __init__(self, password: str | bytes, port: int) -> None:
        secret = password.encode() if isinstance(password, str) else password
        digest = hashlib.sha256(secret).digest()
        self._key = hmac.digest(digest, _SEAL_PURPOSE, "sha256")
        self._port = struct.pack("<H", port)
        self._epoch = 0
        self._heard_s = -_EPOCH_S

    def is_recent(self) -> bool:
        """Whether the server takes the epoch that was heard last."""
        return time.monotonic() - self._heard_s < _EPOCH_S

    def seal(self, datagram: bytes) -> bytes:
        """A datagram in its envelope."""
        partition = int.from_bytes(datagram[4:6], "little")
        envelope = _ENVELOPE.pack(_SEAL_MAGIC, 1, 0, partition, len(datagram), self._epoch)
        return envelope + self._tag(envelope, datagram) + datagram

    def open(self, data: bytes) -> bytes | None:
        """What is in an envelope of the server; `None`: it is none."""
        begin = _ENVELOPE.size + _TAG_BYTES
        if len(data) < begin:
            return None
        envelope, tag = data[: _ENVELOPE.size], data[_ENVELOPE.size : begin]
        magic, version, flags, _, length, epoch = _ENVELOPE.unpack(envelope)
        datagram = data[begin : begin + length]
        is_right = hmac.compare_digest(tag, self._tag(envelope, datagram))
        if (magic, version, flags, len(datagram)) != (_SEAL_MAGIC, 1, _ANSWER, length):
            return None
        if not is_right:
            return None
        self._epoch, self._heard_s = epoch, time.monotonic()
        return datagram

    def _tag(self, envelope: bytes, datagram: bytes) -> bytes:
        return hmac.digest(self._key, envelope + self._port + datagram, "sha256")[:_TAG_BYTES]


class DatagramClient:
    """A client of one server. It blocks, and belongs to one thread at a time.

    A server that other machines can reach answers those who know its password alone.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        password: str | bytes | None = None,
        tries: int = 5,
        datagram_bytes: int = 1452,
    ) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.connect(address)
        self._client = int.from_bytes(os.urandom(8), "little")
        self._sequence = 0
        self._tries = tries
        self._seal = None if password is None else _Seal(password, int(address[1]))
        longest = _DATAGRAM_MAX_BYTES
        if self._seal is not None:
            longest -= _ENVELOPE.size + _TAG_BYTES
            datagram_bytes -= _ENVELOPE.size + _TAG_BYTES
        self._datagram_max_bytes = longest
        self._limit = min(max(datagram_bytes, _HEADER.size + 1), longest)
        self._partitions = 1
        self._window = float(_WINDOW_FIRST)
        self._slow_start_until = float(_WINDOW_MAX)
        self._reduced_s = 0.0
        self._round_trip: tuple[float, float] | None = None

    def __enter__(self) -> DatagramClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the socket back."""
        self._socket.close()

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
        """Has requests executed, in no certain order. Replies are in the order of the requests."""
        if self._seal is not None and not self._seal.is_recent():
            self._hello(self._seal)
        replies: list[Reply | None] = [None] * len(requests)
        waiting = deque(self._pack(requests))
        flight: dict[int, _Question] = {}
        while waiting or flight:
            while waiting and self._has_room(flight):
                flight[self._sequence] = waiting.popleft()
                self._send(self._sequence, flight[self._sequence])
                self._sequence += 1
            self._receive(flight, replies)
            self._time_out(flight, replies)
        return [reply or Reply(Outcome.NO_ANSWER) for reply in replies]

    def _has_room(self, flight: dict[int, _Question]) -> bool:
        # The server does not tell older ones apart.
        is_recent = not flight or self._sequence - min(flight) < _WINDOW_MAX
        return len(flight) < int(self._window) and is_recent

    def _pack(self, requests: Sequence[Request]) -> Iterable[_Question]:
        open_: dict[int, _Question] = {}
        for number, request in enumerate(requests):
            if _HEADER.size + len(request.record) > self._datagram_max_bytes:
                msg = f"{request.key[:40]!r}: longer than a datagram; use a connection for it"
                raise ValueError(msg)
            partition = partition_of(request.key, self._partitions)
            question = open_.setdefault(partition, _Question(partition))
            size = _HEADER.size + len(question.records) + len(request.record)
            if question.requests and (
                size > self._limit or len(question.requests) == _REQUESTS_MAX
            ):
                yield question
                question = open_[partition] = _Question(partition)
            question.records += request.record
            question.requests.append(number)
            question.is_repeatable &= request.is_repeatable
        yield from open_.values()

    def _send(self, sequence: int, question: _Question) -> None:
        question.sent_s = time.monotonic()
        stamp = int(question.sent_s * 1e9)
        count = len(question.requests)
        partition, limit = question.partition, max(512, self._limit)
        header = (_MAGIC, _VERSION, 0, partition, count, self._client, sequence, stamp, limit)
        datagram = _HEADER.pack(*header) + bytes(question.records)
        self._socket.send(datagram if self._seal is None else self._seal.seal(datagram))

    def _hello(self, seal: _Seal) -> None:
        """Asks for the server's epoch, without which it executes nothing."""
        for _ in range(_HELLO_TRIES):
            self._socket.send(seal.seal(b""))
            self._socket.settimeout(_WAIT_FIRST_S)
            with suppress(TimeoutError):
                while not seal.is_recent():
                    seal.open(self._socket.recv(1 << 16))
                return
        msg = "the server does not answer: it has another password, or is not there"
        raise ConnectionError(msg)

    def _receive(self, flight: dict[int, _Question], replies: list[Reply | None]) -> None:
        due = min(question.sent_s + self._wait_s(question.tries) for question in flight.values())
        self._socket.settimeout(max(due - time.monotonic(), 1e-4))
        with suppress(TimeoutError):
            datagram: bytes | None = self._socket.recv(1 << 16)
            if self._seal is not None and datagram is not None:
                datagram = self._seal.open(datagram)
            self._take(datagram or b"", flight, replies)

    def _take(
        self, datagram: bytes, flight: dict[int, _Question], replies: list[Reply | None]
    ) -> None:
        if len(datagram) < _HEADER.size:
            return
        magic, version, flags, partitions, count, client, sequence, stamp, first = (
            _HEADER.unpack_from(datagram)
        )
        if magic != _MAGIC or not flags & _ANSWER:
            return
        if version != _VERSION:
            msg = f"the server speaks version {version} of the datagram protocol"
            raise ConnectionError(msg)
        question = flight.get(sequence)
        if client != self._client or question is None:
            return
        at = _HEADER.size
        for number in question.requests[first : first + count]:
            try:
                reply, at = _reply(datagram, at)
            except (IndexError, ValueError, struct.error):
                return  # It is cut off, or of a later version.
            replies[number] = replies[number] or reply
        if all(replies[number] for number in question.requests):
            del flight[sequence]
            self._answered(time.monotonic() - stamp / 1e9)
        self._partitions = max(partitions, 1)

    def _time_out(self, flight: dict[int, _Question], replies: list[Reply | None]) -> None:
        now_s = time.monotonic()
        for sequence, question in list(flight.items()):
            if question.sent_s + self._wait_s(question.tries) > now_s:
                continue
            self._lost(question.sent_s, now_s)
            if question.is_repeatable and question.tries < self._tries:
                question.tries += 1
                self._send(sequence, question)
            else:
                del flight[sequence]

    def _answered(self, round_trip_s: float) -> None:
        growth = 1.0 if self._window < self._slow_start_until else 1.0 / self._window
        self._window = min(self._window + growth, _WINDOW_MAX)
        if self._round_trip is None:
            self._round_trip = (round_trip_s, round_trip_s / 2)
            return
        mean, deviation = self._round_trip
        deviation += (abs(mean - round_trip_s) - deviation) / 4
        self._round_trip = (mean + (round_trip_s - mean) / 8, deviation)

    def _lost(self, sent_s: float, now_s: float) -> None:
        if sent_s >= self._reduced_s:
            self._window = self._slow_start_until = max(self._window / 2, 1.0)
            self._reduced_s = now_s

    def _wait_s(self, tries: int) -> float:
        wait = _WAIT_FIRST_S
        if self._round_trip is not None:
            mean, deviation = self._round_trip
            wait = max(mean + 4 * deviation, _WAIT_MIN_S)
        return min(wait * 2.0**tries, _WAIT_MAX_S)


def partition_of(key: bytes, count: int) -> int:
    """The partition of `count` that has a key; of one with a tag (`{tag}rest`) the tag decides."""
    return zlib.crc32(tag(key)) * count >> 32


def _check(key: bytes, reply: Reply, *expected: Outcome) -> None:
    if reply.outcome not in expected:
        raise DatagramError(key, reply.outcome)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _string(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _read_varint(datagram: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = datagram[at]
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            return number, at


def _reply(datagram: bytes, at: int) -> tuple[Reply, int]:
    """The answer at a place, and where the next begins."""
    outcome = Outcome(datagram[at])
    at += 1
    operands: list[bytes | int | float | None] = []
    for kind in _OPERANDS[outcome.value]:
        operand, at = _operand(datagram, at, kind)
        operands.append(operand)
    return Reply(outcome, tuple(operands)), at


def _operand(datagram: bytes, at: int, kind: str) -> tuple[bytes | int | float | None, int]:
    if kind == "d":
        return struct.unpack_from("<d", datagram, at)[0], at + 8
    if kind == "V":
        return struct.unpack_from("<Q", datagram, at)[0], at + 8
    if kind == "b":
        return datagram[at], at + 1
    if kind == "t":
        if not datagram[at]:
            return None, at + 1
        return _read_varint(datagram, at + 1)
    number, at = _read_varint(datagram, at)
    if kind == "s":
        return datagram[at : at + number], at + number
    if kind == "i":
        return number >> 1 ^ -(number & 1), at
    return number, at
