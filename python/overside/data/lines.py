"""Writes text line by line up to a size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

SIZE_BYTES = 16 << 20


def write(path: Path, lines: Iterator[str], size_bytes: int = SIZE_BYTES) -> None:
    """Writes as many whole lines, in ASCII and each ended by a line feed, as fit `size_bytes`."""
    left = size_bytes
    with path.open("wb") as file:
        for line in lines:
            data = line.encode("ascii") + b"\n"
            left -= len(data)
            if left < 0:
                break
            file.write(data)
