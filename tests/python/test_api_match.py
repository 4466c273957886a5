"""`overside.match`: lines in memory, and Arrow data of whoever has them."""

import re
import threading
from collections.abc import Callable
from typing import Any

import nanoarrow as na  # type: ignore[import-untyped]
import overside
import pytest

LINES = [
    b"Accident on I-%d at Exit %d." % (n % 97, n % 41) if n % 7 == 0 else b"road %d is closed" % n
    for n in range(30000)
]
TEXT = b"\n".join(LINES) + b"\n"
PATTERN = r"on I-(70|71) at Exit [0-9]+"
EXPECTED = [n for n, line in enumerate(LINES) if re.search(PATTERN.encode(), line)]


def found(data: bytes, matches: overside.Matches) -> list[bytes]:
    assert matches.begins is not None
    assert matches.ends is not None
    return [data[begin:end] for begin, end in zip(matches.begins, matches.ends, strict=True)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_lines_of_memory_are_found(kind: Callable[[bytes], Any]) -> None:
    matches = overside.match(kind(TEXT), PATTERN)
    assert matches.count == len(matches) == len(EXPECTED) > 50
    assert matches.indices is not None
    assert matches.indices.format == "Q"
    assert matches.indices.tolist() == EXPECTED
    assert found(TEXT, matches) == [LINES[n] for n in EXPECTED]
    [place] = matches.applied
    assert place["device"] == "cpu"
    assert matches.report["executor"]["cpu"]["source_bytes"] == len(TEXT)


@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("ends", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize("chunk", [1024, 4096, None])
def test_records_are_the_same_however_they_are_cut(
    kind: Callable[[bytes], Any], ends: bytes, chunk: int | None
) -> None:
    lines = [b"x" * (n * 37 % 3000) + (b"y" if n % 3 else b"z") for n in range(200)]
    text = b"\n".join(lines) + ends
    lines = text.split(b"\n")[: None if ends == b"" else -1]
    for invert in (False, True):
        matches = overside.match(kind(text), "x*y", chunk=chunk, invert=invert)
        expected = [n for n, line in enumerate(lines) if (b"y" in line) != invert]
        assert matches.indices is not None
        assert matches.indices.tolist() == expected
        assert found(text, matches) == [lines[n] for n in expected]


def test_what_is_wanted_can_be_less() -> None:
    count = overside.match(TEXT, PATTERN, answer="count")
    assert (count.count, count.indices, count.begins) == (len(EXPECTED), None, None)
    assert overside.match(TEXT, PATTERN, answer="any")
    assert not overside.match(TEXT, "no such thing", answer="any")
    assert overside.match(TEXT, [PATTERN, "road 8 "], answer="count").count == len(EXPECTED) + 1
    assert overside.match(TEXT, "ROAD 8 ", answer="count").count == 0
    assert overside.match(TEXT, "ROAD 8 ", answer="count", ignore_case=True).count == 1
    assert overside.match(b"", PATTERN).count == 0


def strings(values: list[str | None], kind: Any = None) -> Any:
    return na.Array(values, kind or na.string())


@pytest.mark.parametrize("kind", [na.string(), na.large_string()])
def test_arrow_arrays_are_searched(kind: Any) -> None:
    values = [None if n % 11 == 3 else line.decode() for n, line in enumerate(LINES)]
    expected = [n for n in EXPECTED if values[n] is not None]
    matches = overside.match(strings(values, kind), PATTERN)
    assert matches.indices is not None
    assert matches.indices.tolist() == expected
    assert matches.begins is None
    assert matches.report["without_value"] == sum(value is None for value in values)
    mask = na.Array(matches).to_pylist()
    assert mask == [n in set(expected) for n in range(len(values))]


def test_values_may_have_line_feeds_and_bytes() -> None:
    values = ["one\ntwo", "two\n", "", "three", None, "\ntwo"]
    matches = overside.match(strings(values), "^two$")
    assert na.Array(matches).to_pylist() == [False] * 6
    matches = overside.match(strings(values), "two")
    assert na.Array(matches).to_pylist() == [True, True, False, False, False, True]
    matches = overside.match(na.Array([b"\xff\x00two", b"\xfe"], na.binary()), "two")
    assert na.Array(matches).to_pylist() == [True, False]


def table() -> Any:
    return na.c_array_from_buffers(
        na.struct({"number": na.int32(), "text": na.string()}),
        length=4,
        buffers=[None],
        children=[
            na.c_array([1, 2, 3, 4], na.int32()),
            na.c_array(["on I-70", "off", None, "on I-71"], na.string()),
        ],
    )


def test_a_column_of_a_table_is_searched() -> None:
    matches = overside.match(table(), "on I-", column="text")
    assert na.Array(matches).to_pylist() == [True, False, False, True]
    for column, message in [
        (None, "there are: number, text"),
        ("texts", "there are: number, text"),
        ("number", "Int32"),
    ]:
        with pytest.raises(ValueError, match=message):
            overside.match(table(), "on", column=column)
    with pytest.raises(ValueError, match="needs no name"):
        overside.match(strings(["a"]), "a", column="text")
    with pytest.raises(TypeError, match="Arrow"):
        overside.match(TEXT, "a", column="text")


def test_streams_of_arrays_are_searched_as_one() -> None:
    parts = [strings(["on I-1", None]), strings([]), strings(["off", "on I-2", "on I-3"])]
    stream = na.ArrayStream(na.c_array_stream(na.Array.from_chunks(parts)))
    matches = overside.match(stream, "on")
    assert matches.indices is not None
    assert matches.indices.tolist() == [0, 3, 4]
    assert na.Array(matches).to_pylist() == [True, False, False, True, True]


def test_masks_are_of_arrow_data_only() -> None:
    for matches in [overside.match(TEXT, "a"), overside.match(strings(["a"]), "a", answer="count")]:
        with pytest.raises(ValueError, match="mask"):
            matches.__arrow_c_array__()


def test_it_runs_where_it_is_told_to() -> None:
    matches = overside.match(TEXT, PATTERN, device="emulated:bf2", placement="split:50", chunk=8192)
    targets = {place["target"]: place for place in matches.applied}
    assert targets["device"]["device"] == "emulated:bf2"
    assert targets["cpu"]["chunks"] > 1
    assert matches.indices is not None
    assert matches.indices.tolist() == EXPECTED


def test_other_threads_run_meanwhile() -> None:
    text = TEXT * 40
    working = threading.Thread(
        target=lambda: overside.match(text, r"([a-z]+ ){2}[0-9]{7,}", answer="count", threads=1)
    )
    working.start()
    turns = 0
    while working.is_alive():
        turns += 1
        working.join(0.0005)
    assert turns > 3


def test_what_cannot_be_searched_is_said() -> None:
    with pytest.raises(overside.PatternError, match="does not compile"):
        overside.match(TEXT, "a(b")
    for patterns in ([], [""] * 0):
        with pytest.raises(ValueError, match="at least one pattern"):
            overside.match(TEXT, patterns)
    with pytest.raises(TypeError, match="encode"):
        overside.match("text", "a")
    with pytest.raises(TypeError, match="bytes-like"):
        overside.match(3, "a")
    for keywords, message in [
        ({"answer": "lines"}, "records, count and any"),
        ({"engine": "perl"}, "perl"),
        ({"chunk": 1}, "not 1"),
        ({"placement": "device"}, "needs a device"),
    ]:
        with pytest.raises(ValueError, match=message):
            overside.match(TEXT, "a", **keywords)  # type: ignore[arg-type]
