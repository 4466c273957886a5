"""Server of a key in a cluster: consistent hashing.

`crates/kv/server/src/client/ring.rs` defines it, byte for byte; `tests/kv-ring.json` has the
results that both must find.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable

_DIGESTS = 32
_WORD = 0xFFFF_FFFF


class Ring:
    """The servers of a cluster on their ring."""

    def __init__(self, members: Iterable[str]) -> None:
        #: Names, in order of their bytes.
        self.members = sorted(set(members), key=str.encode)
        points = sorted(
            (point, number) for number, name in enumerate(self.members) for point in _points(name)
        )
        self._places = [point for point, _ in points]
        self._owners = [number for _, number in points]

    def owner(self, key: bytes) -> str | None:
        """The server that has a key; `None`: there are no servers."""
        if not self._places:
            return None
        at = bisect_left(self._places, place(key))
        return self.members[self._owners[at if at < len(self._owners) else 0]]


def tag(key: bytes) -> bytes:
    """Returns the part of a key that determines its place: its first braces' content, or all."""
    _, brace, rest = key.partition(b"{")
    inner, end, _ = rest.partition(b"}")
    return inner if brace and end and inner else key


def place(key: bytes) -> int:
    """Returns the place of a key on the ring."""
    return _mix(zlib.crc32(tag(key)))


def _points(name: str) -> Iterable[int]:
    for number in range(_DIGESTS):
        yield from struct.unpack(">8I", hashlib.sha256(f"{name}-{number}".encode()).digest())


def _mix(value: int) -> int:
    """The finalizer of MurmurHash3."""
    value ^= value >> 16
    value = value * 0x85EB_CA6B & _WORD
    value ^= value >> 13
    value = value * 0xC2B2_AE35 & _WORD
    return value ^ value >> 16
