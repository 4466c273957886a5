"""`overside.Compressor`, `overside.Decompressor`, `overside.open`."""

import errno
import gzip
import io
import random
import shutil
import signal
import socket
import subprocess
import threading
import zlib
from pathlib import Path
from typing import Any, Literal

import overside
import pytest

FORMATS: list[Literal["gzip", "zlib", "lz4", "zstd"]] = ["gzip", "zlib", "lz4", "zstd"]
DATA = b"".join(b"line %d is said %d times\n" % (n * 7919 % 100003, n) for n in range(60000))


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("size", [777, 65536, len(DATA)])
def test_streams_go_there_and_back(format: Any, size: int) -> None:  # noqa: A002
    compressor = overside.Compressor(format=format, chunk=1 << 16)
    assert compressor.report is None
    made = [compressor.compress(piece) for piece in pieces(DATA, size)]
    compressed = b"".join([*made, compressor.finish()])
    assert compressor.report is not None
    assert compressor.report["bytes_in"] == len(DATA)
    assert compressor.report["bytes_out"] == len(compressed)
    assert compressor.applied is not None
    assert [place["target"] for place in compressor.applied] == ["cpu"]

    decompressor = overside.Decompressor()
    back = [decompressor.decompress(piece) for piece in pieces(compressed, size)]
    assert b"".join([*back, decompressor.finish()]) == DATA
    assert decompressor.report is not None
    assert decompressor.report["format"] == format


@pytest.mark.parametrize("stream", [overside.Compressor(), overside.Compressor(format="zstd")])
def test_a_stream_ends_once(stream: overside.Compressor) -> None:
    assert stream.finish() != b""
    for call in (stream.finish, stream.flush, lambda: stream.compress(b"more")):
        with pytest.raises(ValueError, match="finished"):
            call()


def test_a_stream_that_failed_stays_failed() -> None:
    decompressor = overside.Decompressor()
    decompressor.decompress(gzip.compress(DATA)[:5000])
    with pytest.raises(overside.TruncatedError):
        decompressor.finish()
    with pytest.raises(ValueError, match="failed before"):
        decompressor.decompress(b"more")
    decompressor = overside.Decompressor()
    with pytest.raises(overside.DataError):
        decompressor.decompress(b"what is said three times" * 1000000)


def test_what_one_call_gives_is_bounded() -> None:
    bomb = bytes(overside.compress(bytes(64 << 20), format="zstd"))
    decompressor = overside.Decompressor(max_size=4 << 20)
    assert decompressor.decompress(bomb) == b""
    with pytest.raises(overside.LimitError, match="max_size"):
        decompressor.finish()
    with overside.open(io.BytesIO(bomb), max_size=32 << 20) as file:
        size = 0
        while piece := file.read(1 << 20):
            size += len(piece)
    assert size == 64 << 20


def test_several_threads_share_a_stream() -> None:
    compressor = overside.Compressor(chunk=1 << 16)
    made: list[bytes] = []
    order = threading.Lock()

    def write(thread: int) -> None:
        for number in range(200):
            with order:
                made.append(compressor.compress(b"%d %d\n" % (thread, number) * 50))

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = gzip.decompress(b"".join([*made, compressor.finish()]))
    lines = set(text.splitlines())
    assert lines == {b"%d %d" % (thread, number) for thread in range(4) for number in range(200)}
    assert text.count(b"\n") == 4 * 200 * 50


def test_calls_of_several_threads_take_turns() -> None:
    compressor = overside.Compressor(format="zstd", level=15)
    made: list[bytes] = []
    call = threading.Thread(target=lambda: made.append(compressor.compress(DATA * 4)))
    call.start()
    while call.is_alive():
        # Waits for its turn, and does not keep the other from ending.
        assert compressor.report is None
        call.join(0.001)
    whole = made[0] + compressor.finish()
    assert overside.decompress(whole) == DATA * 4


def test_a_signal_handler_cannot_wait_for_the_stream_it_interrupts() -> None:
    compressor = overside.Compressor(level=12, threads=1)
    caught: list[BaseException] = []

    def handler(*_: object) -> None:
        try:
            compressor.compress(b"more")
        except RuntimeError as error:
            caught.append(error)
            raise

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(RuntimeError, match="in use by this thread"):
            compressor.compress(DATA * 60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("suffix", "program"),
    [("gz", "gzip"), ("lz4", "lz4"), ("zst", "zstd")],
)
def test_files_are_like_others(tmp_path: Path, suffix: str, program: str) -> None:
    path = tmp_path / f"data.{suffix}"
    with overside.open(path, "wb") as file:
        assert isinstance(file, io.BufferedWriter)
        for piece in pieces(DATA, 5000):
            assert file.write(piece) == len(piece)
    with overside.open(path) as file:
        assert isinstance(file, io.BufferedReader)
        assert file.readline() == DATA.split(b"\n", 1)[0] + b"\n"
        assert file.read(10) == DATA[file_start(DATA) :][:10]
        assert file.read() == DATA[file_start(DATA) + 10 :]
        assert file.read() == b""
    if shutil.which(program):
        command = [program, "-q", "-d", "-c", str(path)]
        output = subprocess.run(command, capture_output=True, check=True).stdout
        assert output == DATA


def file_start(data: bytes) -> int:
    return data.index(b"\n") + 1


def test_files_of_text_and_what_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    with overside.open(path, "xt", encoding="utf-8", newline="\n") as file:
        assert isinstance(file, io.TextIOWrapper)
        file.write("gesagt\n")
    with overside.open(path, "at", encoding="utf-8", newline="\n") as file:
        file.writelines(["dreimal\n", "übersetzt\n"])
    with gzip.open(path, "rt", encoding="utf-8") as peer:
        assert peer.read() == "gesagt\ndreimal\nübersetzt\n"
    with overside.open(path, "rt", encoding="utf-8") as file:
        assert list(file) == ["gesagt\n", "dreimal\n", "übersetzt\n"]
    with pytest.raises(FileExistsError):
        overside.open(path, "x")


def test_a_file_of_the_callers_stays_open() -> None:
    memory = io.BytesIO()
    with overside.open(memory, "wb", format="zlib") as file:
        file.write(DATA)
    assert zlib.decompress(memory.getvalue()) == DATA
    memory.seek(0)
    with overside.open(memory) as file:
        assert file.read() == DATA
    assert not memory.closed


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.gz"
    for mode in ("", "rw", "r+", "tb", "rbt", "q"):
        with pytest.raises(ValueError, match="no mode"):
            overside.open(path, mode)
    with pytest.raises(ValueError, match="add t"):
        overside.open(path, encoding="utf-8")
    with pytest.raises(ValueError, match="appended"):
        overside.open(tmp_path / "data.zz", "a")
    with pytest.raises(FileNotFoundError):
        overside.open(path)
    path.write_bytes(gzip.compress(DATA)[:2000])
    with overside.open(path) as file, pytest.raises(overside.TruncatedError):
        file.read()


class Slow(io.RawIOBase):
    """An unbuffered file that takes a few bytes at a time, and up to `room` in all."""

    def __init__(self, room: int = 1 << 30) -> None:
        super().__init__()
        self.room = room
        self.taken = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)[: min(1000, self.room - len(self.taken))]
        if not piece:
            raise OSError(errno.ENOSPC, "no space left")
        self.taken += piece
        return len(piece)


@pytest.mark.parametrize("format", FORMATS)
def test_an_unbuffered_file_gets_all(format: Any) -> None:  # noqa: A002
    file = Slow()
    with overside.open(file, "wb", format=format) as stream:
        stream.write(DATA)
    assert bytes(overside.decompress(file.taken)) == DATA


def test_a_socket_gets_all() -> None:
    ours, theirs = socket.socketpair()
    # With a time limit it does not wait until it has room for all.
    ours.settimeout(60)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    data = random.Random(1).randbytes(1 << 20)
    got = bytearray()

    def receive() -> None:
        while piece := theirs.recv(1000):
            got.extend(piece)

    receiver = threading.Thread(target=receive)
    receiver.start()
    with ours, ours.makefile("wb", buffering=0) as raw, overside.open(raw, "wb") as stream:
        stream.write(data)
    receiver.join(60)
    theirs.close()
    assert gzip.decompress(got) == data


def test_a_file_that_was_full_is_never_taken_for_whole() -> None:
    file = Slow(room=5000)
    stream = overside.open(file, "wb", chunk=1 << 16)
    with pytest.raises(OSError, match="no space left"):
        stream.write(random.Random(1).randbytes(1 << 22))
    file.room = 1 << 30
    with pytest.raises(OSError, match="no space left"):
        stream.close()
    assert stream.closed


def test_a_file_that_takes_nothing_or_would_block_raises() -> None:
    class Nothing(Slow):
        def write(self, data: Any) -> Any:
            return self.room

    for room, message in ((0, "takes no more"), (None, "no room at the moment")):
        stream = overside.open(Nothing(room), "wb")  # type: ignore[arg-type]
        with pytest.raises(OSError, match=message):
            stream.close()


def test_a_file_without_bytes_for_now_has_not_ended() -> None:
    whole = gzip.compress(b"first") + gzip.compress(b"second")
    cut = len(gzip.compress(b"first"))

    class Waits(io.RawIOBase):
        def __init__(self) -> None:
            super().__init__()
            self.parts = [whole[:cut], None, whole[cut:], b""]

        def readable(self) -> bool:
            return True

        def readinto(self, room: Any) -> int | None:
            part = self.parts.pop(0)
            if part is None:
                return None
            room[: len(part)] = part
            return len(part)

    stream = overside.open(Waits(), "rb")  # type: ignore[arg-type]
    said = b""
    for _ in range(4):
        said += stream.read() or b""
    assert said == b"firstsecond"
