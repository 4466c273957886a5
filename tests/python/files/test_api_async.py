"""`compress_async` and `decompress_async`, several submitters, and a window."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import zlib

import overside
import pytest
from overside import _core

TEXT = b"What I tell you three times is true. " * 100_000


def test_calls_go_on_side_by_side_while_the_loop_does() -> None:
    async def work() -> tuple[list[overside.Result], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        formats = ["gzip", "zlib", "lz4", "zstd"] * 2
        calls = [overside.compress_async(TEXT, format=name) for name in formats]
        done = await asyncio.gather(*calls)
        back = await asyncio.gather(*(overside.decompress_async(result) for result in done))
        ticking.cancel()
        return back, ticks

    back, ticks = asyncio.run(work())
    assert all(result == TEXT for result in back)
    assert ticks > 10


def test_what_goes_wrong_is_raised_where_it_is_awaited() -> None:
    with pytest.raises(overside.DataError):
        asyncio.run(overside.decompress_async(b"garbage"))
    with pytest.raises(overside.LimitError):
        asyncio.run(overside.decompress_async(gzip.compress(TEXT), max_size=1000))
    with pytest.raises(ValueError, match="placement"):
        asyncio.run(overside.compress_async(TEXT, placement="split:50"))
    with pytest.raises(TypeError):
        asyncio.run(overside.compress_async(TEXT, colour="red"))


def test_a_call_that_is_cancelled_lets_go_of_its_memory() -> None:
    data = bytearray(TEXT * 10)

    async def work() -> None:
        call = overside.compress_async(data, format="gzip", level=9, threads=1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call, 0.001)

    asyncio.run(work())
    deadline = time.monotonic() + 60
    while True:
        try:
            data.clear()
            return
        except BufferError:
            assert time.monotonic() < deadline, "the call still holds the memory"
            time.sleep(0.01)


# The bytes that ISA-L makes, which has the levels of gzip up to 3, depend on addresses.
@pytest.mark.parametrize(("name", "level"), [("gzip", 6), ("zstd", 3)])
def test_submitters_and_a_window_do_not_change_the_bytes(name: str, level: int) -> None:
    one = overside.compress(TEXT, format=name, level=level, chunk=65536)
    two = overside.compress(
        TEXT, format=name, level=level, chunk=65536, submitters=2, window=1 << 20
    )
    assert bytes(one) == bytes(two)
    assert overside.decompress(two, submitters=3, window=100_000) == TEXT


def test_several_devices_make_what_one_makes() -> None:
    both = "emulated:bf2+emulated:bf2"
    one = overside.compress(TEXT, device="emulated:bf2", placement="device")
    two = overside.compress(TEXT, device=both, placement="split:50+50", submitters=2)
    assert overside.decompress(one) == overside.decompress(two) == TEXT
    assert abs(len(one) - len(two)) < 100
    assert [place["target"] for place in two.applied] == ["device", "device2"]


@pytest.mark.parametrize("bytes_", [32 << 20, pytest.param(256 << 20, marks=pytest.mark.long)])
@pytest.mark.parametrize("driver", ["compress_zlib", "compress_isal"])
def test_two_dpdk_devices_make_what_one_makes(driver: str, bytes_: int) -> None:
    one_device = f"dpdk:{driver}"
    if one_device not in _devices():
        pytest.skip("no DPDK here")
    line = b"".join(b"%d times %d is %d\n" % (n, n, n * n) for n in range(200_000))
    data = (line * (bytes_ // len(line) + 1))[:bytes_]
    two = overside.compress(
        data,
        device=f"{one_device}+{one_device}1",
        placement="split:50+50",
        verify="sampled",
        submitters=2,
        window=16 << 20,
    )
    assert two.report["executor"]["events"] == []
    chunks = [place["chunks"] for place in two.applied]
    assert len(chunks) == 2
    assert abs(chunks[0] - chunks[1]) <= 2
    if driver == "compress_isal":
        # What it makes of the same input may differ.
        assert overside.decompress(two) == data
        return
    one = overside.compress(data, device=one_device, placement="device", verify="sampled")
    assert one.report["executor"]["events"] == []
    assert bytes(one) == bytes(two)


@pytest.mark.parametrize("bytes_", [0, 1, 256 << 10, 5_000_001])
@pytest.mark.parametrize("driver", ["compress_zlib", "compress_isal"])
def test_two_dpdk_devices_make_one_stream_of_zlib(driver: str, bytes_: int) -> None:
    if f"dpdk:{driver}" not in _devices():
        pytest.skip("no DPDK here")
    lines = b"".join(b"%d times %d is %d\n" % (n, n, n * n) for n in range(300_000))
    data = lines[:bytes_]
    made = overside.compress(
        data, format="zlib", device=f"dpdk:{driver}+dpdk:{driver}1", placement="split:50+50"
    )
    decoder = zlib.decompressobj()
    assert decoder.decompress(bytes(made)) == data
    assert decoder.eof
    assert decoder.unused_data == b""
    assert {place["target"] for place in made.applied} <= {"device", "device2"}
    chunks = sum(place["chunks"] for place in made.applied)
    assert made.report["joining"]["chunks"] == chunks - made.report["stored"]


def _devices() -> list[str]:
    found = json.loads(_core.devices("dpdk"))
    return [device["name"] for device in found if not device.get("unavailable")]
