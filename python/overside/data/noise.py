"""Incompressible bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

SIZE_BYTES = 16 << 20


def write(directory: Path, seed: int) -> None:
    """Writes the output of SHAKE-256 (FIPS 202) for the seed."""
    stream = hashlib.shake_256(f"overside noise {seed}".encode())
    (directory / "noise.bin").write_bytes(stream.digest(SIZE_BYTES))
