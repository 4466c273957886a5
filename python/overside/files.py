"""Compressed files that are read and written like others."""

# The names are those that Python uses for the same things.
# ruff: noqa: A001, A002
from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, BinaryIO, Literal, TypedDict, Unpack, cast, overload

from overside._core import MAX_SIZE, Compressor, DataError, Decompressor

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
    """Decompresses the bytes that it reads from a file."""

    def __init__(
        self, file: BinaryIO, owns: bool, decompressor: Decompressor, *, may_be_empty: bool
    ) -> None:
        super().__init__()
        self._file = file
        self._owns = owns
        self._decompressor = decompressor
        self._may_be_empty = may_be_empty
        #: Error in the data. It is raised once everything before it was given.
        self.failure: DataError | None = None
        #: Thread for which the error is an end of the file, because it would lose bytes by it.
        self.deferring_thread = 0
        self._ready = memoryview(b"")
        self._ended = False
        self._taken = 0
        self._made = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        while not self._ready and not self._ended:
            if self.failure is not None:
                if self.deferring_thread == get_ident():
                    return 0
                raise self.failure
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
        """Returns the next decompressed bytes; `None` if the file has none at the moment."""
        # In a forked child this raises, before it takes bytes from its parent.
        _ = self._decompressor.applied
        ratio = self._made // max(self._taken, 1)
        is_dense = not self._taken or ratio > MADE_BYTES // READ_BYTES
        size = max(MADE_BYTES // (ratio or MADE_BYTES), READ_BYTES_MIN) if is_dense else READ_BYTES
        piece = cast("bytes | None", self._file.read(size))
        if piece is None:
            return None
        if not piece:
            made = b""
            if self._taken or not self._may_be_empty:
                made = self._before_failure(self._decompressor.finish)
            self._ended = self.failure is None
            return made
        made = self._before_failure(self._decompressor.decompress, piece)
        if is_dense and self.failure is None:
            made += self._before_failure(self._decompressor.flush)
        self._taken += len(piece)
        self._made += len(made)
        return made

    def _before_failure(self, call: Callable[..., bytes], *arguments: Buffer) -> bytes:
        """Returns the output of a call, or of its part before an error in the data."""
        try:
            return call(*arguments)
        except DataError as error:
            self.failure = error
            made, error.output = error.output, b""
            return made

    def put_back(self, data: bytes) -> None:
        """Gives these bytes again."""
        self._ready = memoryview(data + bytes(self._ready))

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._owns:
                self._file.close()


class _BufferedReader(io.BufferedReader):
    """Raises an error in the data after everything before it was given. The class that it extends
    loses the bytes that a call has gathered when the error comes."""

    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader, BUFFER_BYTES)
        self._reader = reader

    def read(self, size: int | None = -1, /) -> bytes:
        reader = self._reader
        reader.deferring_thread = get_ident()
        try:
            data = super().read(size)
        finally:
            reader.deferring_thread = 0
        if reader.failure is not None:
            if size is None or size < 0:
                reader.put_back(data)
                raise reader.failure
            if size and not data:
                raise reader.failure
        return data

    def readinto(self, buffer: Buffer, /) -> int:
        with memoryview(buffer) as view, view.cast("B") as room:
            data = cast("bytes | None", self.read(len(room)))
            if data is not None:
                room[: len(data)] = data
            # As the class that it extends does for a file that has nothing at the moment.
            return cast(int, None if data is None else len(data))


class _Writer(io.RawIOBase):
    """Compresses its input and writes it to a file."""

    def __init__(self, file: BinaryIO, owns: bool, compressor: Compressor) -> None:
        super().__init__()
        self._file = file
        self._owns = owns
        self._compressor = compressor
        #: Error of an earlier write. Bytes are missing in the file since then, so every later
        #: write raises it.
        self._failure: Exception | None = None

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
        except Exception as error:
            self._failure = error
            raise
        except BaseException:
            self._failure = OSError(errno.EIO, "an earlier write failed; the file is not whole")
            raise

    def flush(self) -> None:
        super().flush()
        self._write(self._compressor.flush)
        if hasattr(self._file, "flush"):
            self._file.flush()

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
            self._write(self._compressor.finish)
        finally:
            if self._owns:
                self._file.close()


class _BufferedWriter(io.BufferedWriter):
    """Ends a block when it is flushed, so that others can read what was written so far."""

    def flush(self) -> None:
        super().flush()
        self.raw.flush()


def _write_all(file: BinaryIO, data: bytes) -> None:
    """Writes all bytes: unbuffered files and sockets take only as many as they have room for."""
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
        A file of bytes or text. Not seekable. `flush()` ends a block: others can read what was
        written before it. A forked child cannot use it.

    Raises:
        ValueError: The mode, or another argument, cannot be.
        OSError: The file cannot be opened, read or written.
        DataError: What is read is not what its format says. Reading gives all that is whole before
            the error; `read()` without a size raises at once, and loses nothing.
        TruncatedError: It ends in the middle; a `DataError`.
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
        # No member at all is an empty content, but a zlib file is one stream.
        may_be_empty = (format or _format_of(file)) != "zlib"
        reader = _Reader(*_file(file, "rb"), decompressor, may_be_empty=may_be_empty)
        stream = _BufferedReader(reader)
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
        stream = _BufferedWriter(writer, BUFFER_BYTES)
    if "t" in mode:
        return io.TextIOWrapper(stream, encoding, errors, newline)
    return stream


def _file(file: Path | BinaryIO, mode: str) -> tuple[BinaryIO, bool]:
    """The file, and whether it is to be closed."""
    if isinstance(file, str | bytes | os.PathLike):
        # Without a buffer, of which a forked child would write its copy.
        return cast(BinaryIO, builtins.open(file, mode, buffering=0)), True
    return file, False


def _format_of(file: object) -> Format:
    name = file if isinstance(file, str | bytes | os.PathLike) else getattr(file, "name", "")
    if not isinstance(name, str | bytes | os.PathLike):
        return "gzip"
    return SUFFIXES.get(os.path.splitext(os.fsdecode(name))[1], "gzip")
