"""Compressed files that are read and written like others."""

from __future__ import annotations

import builtins
import io
import os
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from overside._core import MAX_SIZE, Compressor, Decompressor

if TYPE_CHECKING:
    from typing_extensions import Buffer

Format = Literal["gzip", "zlib", "lz4", "zstd"]
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

SUFFIXES: dict[str, Format] = {".gz": "gzip", ".zz": "zlib", ".lz4": "lz4", ".zst": "zstd"}

# Compressed bytes that are read at once, and plain bytes that are gathered before they are written.
READ_BYTES = 256 << 10
WRITE_BYTES = 128 << 10


class _Reader(io.RawIOBase):
    """Decompresses what it reads from a file."""

    def __init__(self, file: BinaryIO, owns: bool, decompressor: Decompressor) -> None:
        super().__init__()
        self._file = file
        self._owns = owns
        self._decompressor = decompressor
        self._ready = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        while not self._ready and not self._ended:
            piece = self._file.read(READ_BYTES)
            if piece:
                made = self._decompressor.decompress(piece)
            else:
                made = self._decompressor.finish()
                self._ended = True
            self._ready = memoryview(made)
        with memoryview(buffer) as view, view.cast("B") as room:
            size = min(len(room), len(self._ready))
            room[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._owns:
                self._file.close()


class _Writer(io.RawIOBase):
    """Compresses what it is given and writes it to a file."""

    def __init__(self, file: BinaryIO, owns: bool, compressor: Compressor) -> None:
        super().__init__()
        self._file = file
        self._owns = owns
        self._compressor = compressor

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        self._file.write(self._compressor.compress(data))
        return memoryview(data).nbytes

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
            self._file.write(self._compressor.finish())
        finally:
            if self._owns:
                self._file.close()


def open(  # noqa: A001
    file: Path | BinaryIO,
    mode: str = "rb",
    *,
    format: Format | None = None,  # noqa: A002
    level: int | None = None,
    max_size: int | None = MAX_SIZE,
    placement: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    chunk: int | None = None,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> io.BufferedReader | io.BufferedWriter | io.TextIOWrapper:
    """Opens a compressed file, as `gzip.open` does: bytes, or text with "t" in the mode.

    `file` is a path, or a binary file, which stays open when this one is closed. The mode begins
    with "r", "w", "x" or "a". Unless `format` says otherwise, what is read tells what it is, and
    what is written goes by the ending of the file's name, gzip if that is another. `max_size`
    bounds what 256 KiB of the file may become. The other arguments are those of `Compressor`, of
    `Decompressor`, and those for text of the built-in `open`. Nothing can be sought.
    """
    kind = mode.replace("t", "").replace("b", "")
    if kind not in {"r", "w", "x", "a"} or ("t" in mode and "b" in mode) or len(mode) > 2:
        raise ValueError(f"no mode is {mode!r}; there are r, w, x and a, each also with b or t")
    if "t" not in mode and (encoding, errors, newline) != (None, None, None):
        raise ValueError("encoding, errors and newline are for text: add t to the mode")
    is_path = isinstance(file, str | bytes | os.PathLike)
    if kind == "r":
        decompressor = Decompressor(
            format=format,
            max_size=max_size,
            placement=placement,
            device=device,
            threads=threads,
        )
        source = cast(BinaryIO, builtins.open(file, "rb")) if is_path else file
        stream: io.BufferedReader | io.BufferedWriter = io.BufferedReader(
            _Reader(source, is_path, decompressor), WRITE_BYTES
        )
    else:
        format = format or _format_of(file)  # noqa: A001
        if format == "zlib" and kind == "a":
            raise ValueError("zlib streams cannot follow each other; nothing can be appended")
        compressor = Compressor(
            format=format,
            level=level,
            placement=placement,
            device=device,
            threads=threads,
            chunk=chunk,
        )
        target = cast(BinaryIO, builtins.open(file, f"{kind}b")) if is_path else file
        stream = io.BufferedWriter(_Writer(target, is_path, compressor), WRITE_BYTES)
    if "t" in mode:
        return io.TextIOWrapper(stream, encoding, errors, newline)
    return stream


def _format_of(file: object) -> Format:
    name = file if isinstance(file, str | bytes | os.PathLike) else getattr(file, "name", "")
    if not isinstance(name, str | bytes | os.PathLike):
        return "gzip"
    return SUFFIXES.get(os.path.splitext(os.fsdecode(name))[1], "gzip")
