"""Files that are cut, empty or not finished yet: every reader gives what is whole."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import overside
import pytest
from command import native

SUFFIXES = ["gz", "zz", "lz4", "zst"]
DATA = b"".join(b"line %d is said %d times\n" % (n * 7919 % 100003, n) for n in range(100_000))
SKIPPABLE = b"\x52\x2a\x4d\x18\x05\0\0\0hello"


def run(*command: str | Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)


def until_error(path: Path, read: Callable[[Any], bytes]) -> bytes:
    made: list[bytes] = []
    with overside.open(path) as file:
        with pytest.raises(overside.DataError) as raised:
            made.extend(iter(lambda: read(file), b""))
        # The error does not become an end of the file later.
        for again in (file.read, lambda: file.read(1), file.readline, lambda: next(file)):
            with pytest.raises(overside.DataError) as later:
                again()
            assert later.value is raised.value
    return b"".join(made)


def all_at_once(file: Any) -> bytes:
    """Raises, and loses nothing."""
    with pytest.raises(overside.DataError):
        file.read()
    return bytes(file.read(1 << 30))


def in_error(call: Callable[[], Any]) -> bytes:
    with pytest.raises(overside.DataError) as raised:
        call()
    return raised.value.output


ROOM = bytearray(300_000)
READERS: dict[str, Callable[[Path], bytes]] = {
    "command": lambda path: run(*native(), "decompress", "-c", path).stdout,
    "stdin": lambda path: run(*native(), "decompress", "-c", text=path.read_bytes()).stdout,
    "pieces": lambda path: until_error(path, lambda file: file.read(100_001)),
    "all at once": lambda path: until_error(path, all_at_once),
    "readinto": lambda path: until_error(path, lambda file: bytes(ROOM[: file.readinto(ROOM)])),
    "memory": lambda path: in_error(lambda: overside.decompress(path.read_bytes())),
    "await": lambda path: in_error(
        lambda: asyncio.run(overside.decompress_async(path.read_bytes()))
    ),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_all_that_is_whole_is_given(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"cut.{suffix}"
    with overside.open(path, "wb", chunk=1 << 16) as file:
        file.write(DATA)
    whole = path.read_bytes()
    half = len(whole) // 2
    damaged = whole[:half] + b"\xff\0\xff\0" + whole[half + 4 :]
    streamed = [gzip.compress(DATA)[:-100_000]] if suffix == "gz" else []
    for data in (whole[:10], whole[:half], whole[:-1], damaged, *streamed):
        path.write_bytes(data)
        made = {name: read(path) for name, read in READERS.items()}
        expected = made["command"]
        assert [name for name, one in made.items() if one != expected] == []
        if data is not damaged:
            assert DATA.startswith(expected)
            assert len(expected) > len(DATA) * len(data) / len(whole) - (1 << 18)
            # All but the beginning of a last line.
            lines: list[bytes] = []
            with overside.open(path) as file, pytest.raises(overside.DataError):
                lines.extend(file)
            assert b"".join(lines) == expected[: expected.rfind(b"\n") + 1]


def test_no_bytes_and_no_frames_are_an_empty_content(tmp_path: Path) -> None:
    for name in ("a.gz", "a.lz4", "a.zst", "a"):
        (tmp_path / name).touch()
        assert overside.open(tmp_path / name).read() == gzip.decompress(b"") == b""
    # A zlib file is one stream, which has to be there.
    (tmp_path / "a.zz").touch()
    with pytest.raises(overside.DataError):
        overside.open(tmp_path / "a.zz").read()
    for suffix in ("zst", "lz4"):
        path = tmp_path / f"skip.{suffix}"
        path.write_bytes(SKIPPABLE * 2)
        assert run(*native(), "decompress", "-c", path).returncode == 0
        assert overside.decompress(SKIPPABLE * 2) == overside.open(path).read() == b""
        path.write_bytes(SKIPPABLE + SKIPPABLE[:-1])
        assert [read(path) for read in READERS.values()] == [b""] * len(READERS)


FLUSHED = """
import os, overside, signal, sys
file = overside.open(sys.argv[1], "wt", newline="\\n")
file.flush()
for part in ("first\\n", "flushed\\n" * 100_000):
    print(part, end="", file=file, flush=True)
file.write("not flushed\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_was_flushed_survives_a_kill(tmp_path: Path, suffix: str) -> None:
    path, written = tmp_path / f"log.{suffix}", b"first\n" + b"flushed\n" * 100_000
    assert run(sys.executable, "-c", FLUSHED, path).returncode == -9
    with overside.open(path) as file:
        assert file.read(len(written)) == written
        # The ends of a zlib stream and of an LZ4 frame are missing.
        if suffix in ("zz", "lz4"):
            with pytest.raises(overside.TruncatedError):
                file.read()
        else:
            assert file.read() == b""
    if suffix == "zz":
        assert zlib.decompressobj().decompress(path.read_bytes()) == written
    else:
        program = {"gz": "gzip", "lz4": "lz4", "zst": "zstd"}[suffix]
        assert run(program, "-dc", path).stdout == written
    with path.open("wb", buffering=1 << 20) as inner, overside.open(inner, "wb") as file:
        file.write(b"a file of the caller's")
        file.flush()
        assert path.stat().st_size > 0
