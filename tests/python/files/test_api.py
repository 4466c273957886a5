"""`overside.compress` and `overside.decompress`: memory in, memory out."""

import array
import gzip
import mmap
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import overside
import pytest

FORMATS: list[Literal["gzip", "zlib", "lz4", "zstd"]] = ["gzip", "zlib", "lz4", "zstd"]
LINES = [b"line %d: what is said %d times is true\n" % (n * 7919 % 100003, n) for n in range(60000)]
DATA = b"".join(LINES)


def by_program(name: str) -> Callable[[bytes], bytes]:
    def run(data: bytes) -> bytes:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        command = [name, "--quiet", "--decompress", "--stdout"]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout

    return run


PEERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "zlib": zlib.decompress,
    "lz4": by_program("lz4"),
    "zstd": by_program("zstd"),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("size", [0, 1, 70000, len(DATA)])
def test_what_is_compressed_others_read(format: Any, size: int) -> None:  # noqa: A002
    result = overside.compress(DATA[:size], format=format)
    assert result.format == format
    assert PEERS[format](bytes(result)) == DATA[:size]
    assert overside.decompress(result) == DATA[:size]


@pytest.mark.parametrize(
    ("compressed", "library"),
    [
        (gzip.compress(DATA, 6), "ISA-L"),
        (zlib.compress(DATA), "ISA-L"),
        (gzip.compress(DATA, 1) + gzip.compress(b"more", 9), "ISA-L"),
    ],
)
def test_what_others_compress_is_read(compressed: bytes, library: str) -> None:
    result = overside.decompress(compressed)
    assert bytes(result)[: len(DATA)] == DATA
    [place] = result.applied
    assert place["target"] == "cpu"
    assert place["device"] == "cpu"
    assert place["provenance"] == "measured"
    assert place["library"].startswith(library)
    assert result.report["streamed"] == result.report["members"] == place["chunks"]


def test_memory_of_any_kind_goes_in(tmp_path: Path) -> None:
    expected = bytes(overside.compress(DATA))
    file = tmp_path / "data"
    file.write_bytes(DATA)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as map_:
        kinds: list[Any] = [bytearray(DATA), memoryview(DATA), map_, overside.decompress(expected)]
        for kind in kinds:
            assert overside.compress(kind) == expected
            del kind
        kinds.clear()
    numbers = array.array("d", range(10000))
    assert array.array("d", bytes(overside.decompress(overside.compress(numbers)))) == numbers
    table = memoryview(bytes(600)).cast("B", (20, 30))
    assert overside.decompress(overside.compress(table)) == bytes(600)
    assert overside.decompress(overside.compress(DATA)[:]) == DATA


def test_what_is_not_memory_in_one_piece_is_refused() -> None:
    with pytest.raises(TypeError, match="encode"):
        overside.compress("text")  # type: ignore[arg-type]
    for nothing in (3, None, [1, 2]):
        with pytest.raises(TypeError, match="bytes-like"):
            overside.compress(nothing)  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="one piece"):
        overside.compress(memoryview(DATA)[::2])


def test_a_result_is_bytes_like_and_cannot_be_written_to() -> None:
    result = overside.decompress(gzip.compress(b"said three times"))
    assert len(result) == 16
    assert result[0] == ord("s")
    assert bytes(result[5:10]) == b"three"
    assert b"".join([result, b"!"]) == b"said three times!"
    assert memoryview(result).readonly
    assert result != b"said"
    assert result != "said three times"
    assert "gzip: 36 bytes to 16; ISA-L" in repr(result)
    view = memoryview(result)
    del result
    assert bytes(view) == b"said three times"


MEMORY = """
import re, sys, overside
data = (b"what is said three times is true\\n" * 32768)[:1 << 20] * 256
if sys.argv[1] == "bytearray":
    data = bytearray(data)
peak = lambda: int(re.search("VmHWM:(.*) kB", open("/proc/self/status").read())[1]) >> 10
small = overside.compress(data[:1 << 20])
before = peak()
result = overside.compress(data)
print(peak() - before, len(result))
"""


@pytest.mark.parametrize("kind", ["bytes", "bytearray"])
def test_memory_is_not_copied_as_a_whole(kind: str) -> None:
    run = [sys.executable, "-c", MEMORY, kind]
    output = subprocess.run(run, capture_output=True, check=True, text=True).stdout
    grown_mib, result_bytes = map(int, output.split())
    assert result_bytes < 8 << 20
    # The data have 256 MiB.
    assert grown_mib < 96


def test_memory_that_changes_meanwhile_harms_nothing_but_itself() -> None:
    data = bytearray(DATA)
    stop = threading.Event()

    def scribble() -> None:
        numbers = 0
        while not stop.is_set():
            numbers += 1
            at = numbers * 7919 % (len(data) - 64)
            data[at : at + 64] = os.urandom(64)

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for format in FORMATS:  # noqa: A001
            for level in (1, 9):
                result = overside.compress(data, format=format, level=level)
                assert len(overside.decompress(result)) == len(data)
    finally:
        stop.set()
        thread.join()


def test_other_threads_run_meanwhile() -> None:
    working = threading.Thread(target=lambda: overside.compress(DATA * 8, level=9))
    working.start()
    turns = 0
    while working.is_alive():
        turns += 1
        working.join(0.001)
    assert turns > 5


class Alarm(Exception):  # noqa: N818
    """Exception of the handler below."""


@pytest.fixture
def alarm() -> Iterator[None]:
    def handler(number: int, frame: FrameType | None) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_signals_end_it_early() -> None:
    data = DATA * 60
    begin = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(Alarm):
        overside.compress(data, level=12, threads=1)
    # All of it would take more than half a minute.
    assert time.monotonic() - begin < 10


def test_it_runs_where_it_is_told_to() -> None:
    device = "emulated:bf2"
    both = overside.compress(DATA, device=device, placement="split:50", chunk=1 << 17)
    targets = {place["target"]: place for place in both.applied}
    assert set(targets) == {"cpu", "device"}
    assert targets["device"]["device"] == device
    assert targets["device"]["provenance"] == "emulated"
    executor = both.report["executor"]
    assert targets["device"]["chunks"] == executor["devices"][0]["chunks"] > 1
    read = executor["cpu"]["source_bytes"] + executor["devices"][0]["source_bytes"]
    assert read == len(DATA) == both.report["bytes_in"]
    assert gzip.decompress(bytes(both)) == DATA
    back = overside.decompress(both, device=device, placement="device")
    assert back == DATA
    assert [place["device"] for place in back.applied] == [device]
    assert [place["target"] for place in overside.compress(DATA, device="cpu").applied] == ["cpu"]


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"format": "rar"}, ValueError, "gzip, zlib, lz4 and zstd"),
        ({"level": 99}, ValueError, "not 99"),
        ({"chunk": 7}, ValueError, "not 7"),
        ({"chunk": 1 << 40}, ValueError, "a chunk has"),
        ({"threads": 0}, ValueError, "from 1 to"),
        ({"threads": 1 << 40}, ValueError, "from 1 to"),
        ({"placement": "devise"}, ValueError, "adaptive"),
        ({"placement": "device"}, ValueError, "needs a device"),
        ({"chunk": "most"}, ValueError, 'or "auto", not "most"'),
        ({"placement": "split:101", "device": "emulated:bf2"}, ValueError, "percentage"),
        ({"device": "bf2"}, overside.DeviceError, "emulated:bf2"),
        ({"device": "emulated:bf9"}, overside.DeviceError, "did you mean"),
        (
            {"format": "lz4", "device": "emulated:bf2", "placement": "device"},
            overside.DeviceError,
            "lz4",
        ),
    ],
)
def test_what_cannot_be_done_is_said(
    keywords: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        overside.compress(DATA, **keywords)


def damaged() -> Iterator[bytes]:
    good = bytes(overside.compress(DATA, chunk=1 << 16))
    for format in FORMATS:  # noqa: A001
        other = bytes(overside.compress(DATA, format=format, chunk=1 << 16))
        for at in range(0, len(other), len(other) // 40):
            yield other[:at]
    for at in range(0, 200):
        yield good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :]


def test_damaged_data_are_refused_or_right() -> None:
    refused = 0
    for data in damaged():
        try:
            # A flag, a name or a time can be wrong without a consequence.
            assert overside.decompress(data) == DATA
        except overside.DataError:
            refused += 1
    assert refused > 250


def test_errors_say_what_and_where() -> None:
    good = bytes(overside.compress(DATA))
    with pytest.raises(overside.TruncatedError, match="gzip member 1, at byte 0") as caught:
        overside.decompress(good[:1000])
    assert isinstance(caught.value, EOFError)
    assert isinstance(caught.value, overside.DataError)
    with pytest.raises(overside.DataError, match="not gzip, zlib"):
        overside.decompress(b"plain text")
    with pytest.raises(overside.DataError, match="empty"):
        overside.decompress(b"")
    with pytest.raises(overside.DataError, match="gzip"):
        overside.decompress(overside.compress(DATA, format="zstd"), format="gzip")
    assert issubclass(overside.DataError, overside.Error)
    assert overside.DataError.__module__ == "overside"


@pytest.mark.parametrize("format", FORMATS)
def test_output_is_bounded(format: Any) -> None:  # noqa: A002
    bomb = overside.compress(bytes(32 << 20), format=format)
    with pytest.raises(overside.LimitError, match=r"limit of 1048576 bytes.*max_size"):
        overside.decompress(bomb, max_size=1 << 20)
    assert len(overside.decompress(bomb, max_size=32 << 20)) == 32 << 20
    assert len(overside.decompress(bomb, max_size=None)) == 32 << 20
    assert overside.MAX_SIZE == 1 << 30


LAZY = """
import sys, overside
assert "overside._core" not in sys.modules
assert {"compress", "decompress", "match", "open", "Compressor"} <= set(dir(overside))
assert not hasattr(overside, "comprees")
overside.compress(b"")
for name in ("numpy", "pyarrow", "pandas"):
    assert name not in sys.modules
assert not any("librte" in line for line in open("/proc/self/maps"))
"""


def test_the_package_loads_only_what_is_used() -> None:
    subprocess.run([sys.executable, "-c", LAZY], check=True)


def test_results_of_a_device_are_verified_as_asked() -> None:
    text = b"what the device answers is compared with what the cpu makes of it\n" * 60_000
    placed: dict[str, Any] = {"device": "emulated:bf2", "placement": "device"}
    for verify, verified, unverified in ((None, 4, 0), ("all", 4, 0), ("none", 0, 0)):
        done = overside.compress(text, verify=verify, **placed)
        verification = done.report["executor"]["verification"]
        assert (verification["chunks"], verification["unverified"]) == (verified, unverified)
        assert bytes(overside.decompress(done)) == text
    found = overside.match(text, "device", answer="count", **placed)
    verification = found.report["executor"]["verification"]
    assert verification["verify"] == "sampled"
    assert verification["chunks"] >= 1
    with pytest.raises(ValueError, match="all, sampled and none"):
        overside.compress(text, verify="some", **placed)


def test_adaptive_placement_finds_out_how_long_chunks_are() -> None:
    data = bytes(range(256)) * (1 << 15)
    found = overside.compress(data, device="emulated:bf2", placement="adaptive", chunk="auto")
    assert gzip.decompress(found) == data
    compressor = overside.Compressor(chunk="auto")
    assert gzip.decompress(compressor.compress(data) + compressor.flush()) == data
