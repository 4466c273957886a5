"""Compressed files that are read and written like others."""

# The names are those that Python uses for the same things.
# ruff: noqa: A001, A002
from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Literal, TypedDict, Unpack, cast, overload

from overside._core import MAX_SIZE, Compressor, Decompressor

if TYPE_CHECKING:
    from typing_extensions import Buffer

Format = Literal["gzip", "zlib", "lz4", "zstd"]
Verify = Literal["all", "sampled", "none"]
File = io.BufferedReader | io.BufferedWriter | io.TextIOWrapper
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

SUFFIXES: dict[str, Format] = {".gz": "gzip", ".zz": "zlib", ".lz4": "lz4", ".zst": "zstd"}

# Compressed bytes that are read at once, unless they become much more; then fewer, for so many
# plain bytes, but not fewer than a few frames have.
READ_BYTES = 256 << 10
READ_BYTES_MIN = 512
MADE_BYTES = 16 << 20
# Plain bytes that are gathered before they are handed on.
BUFFER_BYTES = 128 << 10


class _Reader(io.RawIOBase):
    """Decompresses what it reads from a file."""

    def __init__(self, file: BinaryIO, owns: bool, decompressor: Decompressor) -> None:
        super().__init__()
        self._file = file
        self._owns = owns
        self._decompressor = decompressor
        self._ready = memoryview(b"")
        self._ended = False
        self._taken = 0
        self._made = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        while not self._ready and not self._ended:
            more = self._more()
            if more is None:
                return None
            self._ready = memoryview(more)
        with memoryview(buffer) as view, view.cast("B") as room:
            size = min(len(room), len(self._ready))
            room[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _more(self) -> bytes | None:
        """What comes next; `None`: the file has nothing at the moment."""
        ratio = self._made // max(self._taken, 1)
        is_dense = not self._taken or ratio > MADE_BYTES // READ_BYTES
        size = max(MADE_BYTES // (ratio or MADE_BYTES), READ_BYTES_MIN) if is_dense else READ_BYTES
        piece = cast("bytes | None", self._file.read(size))
        if piece is None:
            return None
        if not piece:
            self._ended = True
            return self._decompressor.finish()
        made = self._decompressor.decompress(piece)
        if is_dense:
            made += self._decompressor.flush()
        self._taken += len(piece)
        self._made += len(made)
        return made

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
        #: Why something is missing in the file: whatever followed could not be read.
        self._failure: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        self._write(lambda: self._compressor.compress(data))
        return memoryview(data).nbytes

    def _write(self, make: Callable[[], bytes]) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            _write_all(self._file, make())
        except OSError as error:
            self._failure = error
            raise
        except BaseException:
            self._failure = OSError(errno.EIO, "an earlier write failed; the file is not whole")
            raise

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
            self._write(self._compressor.finish)
        finally:
            if self._owns:
                self._file.close()


def _write_all(file: BinaryIO, data: bytes) -> None:
    """Unbuffered files and sockets take what they have room for at the moment."""
    rest = memoryview(data)
    while rest:
        taken = cast("int | None", file.write(rest))
        if taken is None:
            if isinstance(file, io.RawIOBase):
                raise BlockingIOError(
                    errno.EAGAIN, "the file has no room at the moment; set it blocking"
                )
            # A class that only resembles a file, and does not count.
            return
        if taken <= 0:
            raise OSError(errno.EIO, "the file takes no more bytes")
        rest = rest[taken:]


class Options(TypedDict, total=False):
    """The keyword arguments of `open`."""

    format: Format | None
    level: int | None
    max_size: int | None
    placement: str | None
    device: str | None
    threads: int | None
    verify: Verify | None
    chunk: int | Literal["auto"] | None
    encoding: str | None
    errors: str | None
    newline: str | None


@overload
def open(
    file: Path | BinaryIO, mode: Literal["r", "rb"] = "rb", **options: Unpack[Options]
) -> io.BufferedReader: ...
@overload
def open(
    file: Path | BinaryIO,
    mode: Literal["w", "wb", "x", "xb", "a", "ab"],
    **options: Unpack[Options],
) -> io.BufferedWriter: ...
@overload
def open(
    file: Path | BinaryIO, mode: Literal["rt", "wt", "xt", "at"], **options: Unpack[Options]
) -> io.TextIOWrapper: ...
@overload
def open(file: Path | BinaryIO, mode: str, **options: Unpack[Options]) -> File: ...
def open(
    file: Path | BinaryIO,
    mode: str = "rb",
    *,
    format: Format | None = None,
    level: int | None = None,
    max_size: int | None = MAX_SIZE,
    placement: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    verify: Verify | None = None,
    chunk: int | Literal["auto"] | None = None,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> File:
    """Opens a compressed file, as `gzip.open` does.

    Args:
        file: A path, or a binary file, which stays open when this one is closed.
        mode: `r`, `w`, `x` or `a`, with `b` for bytes (the default) or `t` for text.
        format: `gzip`, `zlib`, `lz4` or `zstd`. Default: what is read is detected, what is written
            goes by the suffix of the file's name (`.gz`, `.zz`, `.lz4`, `.zst`), otherwise gzip.
        level: As of `Compressor`.
        max_size: The most bytes that a piece of the file, 256 KiB or less, may become; `None`: any
            number. Default: 1 GiB.
        placement: As of `Compressor`.
        device: As of `Compressor`.
        threads: As of `Compressor`.
        verify: As of `Compressor`.
        chunk: As of `Compressor`.
        encoding: Of text, as of the built-in `open`.
        errors: Of text, as of the built-in `open`.
        newline: Of text, as of the built-in `open`.

    Returns:
        A file of bytes or text. Not seekable.

    Raises:
        ValueError: The mode, or another argument, cannot be.
        OSError: The file cannot be opened, read or written.
        DataError: What is read is not what its format says.
        TruncatedError: It ends in the middle.
        LimitError: A piece of it becomes longer than `max_size`.
        DeviceError: The device is not there, cannot do it, or was lost with no CPU to replace it.
    """
    kind = mode.replace("t", "").replace("b", "")
    if kind not in {"r", "w", "x", "a"} or ("t" in mode and "b" in mode) or len(mode) > 2:
        raise ValueError(f"no mode is {mode!r}; there are r, w, x and a, each also with b or t")
    if "t" not in mode and (encoding, errors, newline) != (None, None, None):
        raise ValueError("encoding, errors and newline are for text: add t to the mode")
    stream: io.BufferedReader | io.BufferedWriter
    if kind == "r":
        decompressor = Decompressor(
            format=format,
            max_size=max_size,
            placement=placement,
            device=device,
            threads=threads,
            verify=verify,
        )
        reader = _Reader(*_file(file, "rb"), decompressor)
        stream = io.BufferedReader(reader, BUFFER_BYTES)
    else:
        format = format or _format_of(file)
        if format == "zlib" and kind == "a":
            raise ValueError("zlib streams cannot follow each other; nothing can be appended")
        compressor = Compressor(
            format=format,
            level=level,
            placement=placement,
            device=device,
            threads=threads,
            verify=verify,
            chunk=chunk,
        )
        writer = _Writer(*_file(file, f"{kind}b"), compressor)
        stream = io.BufferedWriter(writer, BUFFER_BYTES)
    if "t" in mode:
        return io.TextIOWrapper(stream, encoding, errors, newline)
    return stream


def _file(file: Path | BinaryIO, mode: str) -> tuple[BinaryIO, bool]:
    """The file, and whether it is to be closed."""
    if isinstance(file, str | bytes | os.PathLike):
        return cast(BinaryIO, builtins.open(file, mode)), True
    return file, False


def _format_of(file: object) -> Format:
    name = file if isinstance(file, str | bytes | os.PathLike) else getattr(file, "name", "")
    if not isinstance(name, str | bytes | os.PathLike):
        return "gzip"
    return SUFFIXES.get(os.path.splitext(os.fsdecode(name))[1], "gzip")
