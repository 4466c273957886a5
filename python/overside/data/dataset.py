"""Data sets: their files, and the digest that identifies them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20


@dataclass(frozen=True)
class DataFile:
    """One file of a data set."""

    #: Name in the data set, the same on every machine.
    name: str
    #: Absolute path of the file on this machine.
    path: Path
    size_bytes: int


@dataclass(frozen=True)
class DataSet:
    """Files whose bytes, one file after the other, are the input of tasks."""

    #: Name by which the data set was requested.
    name: str
    entries: tuple[DataFile, ...]
    #: SHA-256 over names, sizes and contents of the files, in hex; see `digest`.
    digest: str
    #: Source of the bytes.
    origin: str
    licence: str
    #: Warning about the data for readers of a result; usually empty.
    note: str = ""

    @property
    def files(self) -> list[Path]:
        """Paths of the files, in order."""
        return [entry.path for entry in self.entries]

    @property
    def size_bytes(self) -> int:
        """All files together."""
        return sum(entry.size_bytes for entry in self.entries)

    def json(self) -> dict[str, Any]:
        """Returns the data set in the form of a run's manifest."""
        return {
            "name": self.name,
            "size_bytes": self.size_bytes,
            "digest": self.digest,
            "origin": self.origin,
            "licence": self.licence,
            "files": [
                {"name": entry.name, "size_bytes": entry.size_bytes} for entry in self.entries
            ],
            **({"note": self.note} if self.note else {}),
        }


def digest(entries: Iterable[DataFile]) -> str:
    """SHA-256 in hex over, for each file: the length of its name in UTF-8, the name, its size
    (both numbers as 8 bytes, big-endian), its bytes.

    Raises `OSError` if a file cannot be read, or is not as long as its entry says.
    """
    total = hashlib.sha256()
    for entry in entries:
        # Names of the user's files need not be UTF-8.
        name = entry.name.encode(errors="surrogateescape")
        total.update(len(name).to_bytes(8, "big") + name + entry.size_bytes.to_bytes(8, "big"))
        left = entry.size_bytes
        with entry.path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                left -= len(chunk)
                total.update(chunk)
        if left:
            raise OSError(f"{entry.path} is not {entry.size_bytes} bytes long")
    return total.hexdigest()


def sha256(path: Path) -> str:
    """SHA-256 of one file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
