"""`overside.match`: lines in memory, and Arrow data of whoever has them."""

import re
import threading
from collections.abc import Callable
from typing import Any

import nanoarrow as na  # type: ignore[import-untyped]
import overside
import pytest
from arrow_structures import Offer, int32, int64, texts

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


def view(length: int, buffer: int, offset: int) -> bytes:
    return int32(length) + b"abcd" + int32(buffer, offset)


def views(what: bytes) -> Offer:
    return Offer(na.string_view(), 1, [None, what, b"abcdefgh" * 2, int64(16)])


def keyed(keys: bytes, kind: Any = None) -> Offer:
    kind = na.dictionary(kind or na.int32(), na.string())
    return Offer(kind, 2, [None, keys], dictionary=texts([b"on", b"off"]))


def rows(text: Offer, length: int = 2) -> Offer:
    return Offer(na.struct({"text": na.string()}), length, [None], children=[text])


LONG = 1 << 60
DAMAGED: dict[str, Callable[[], Offer]] = {
    "a negative offset": lambda: Offer(na.string(), 2, [None, int32(-1, 1, 2), b"ab"]),
    "offsets that descend": lambda: Offer(na.string(), 3, [None, int32(0, 2, 1, 3), b"abc"]),
    "offsets far away": lambda: Offer(na.binary(), 2, [None, int32(0, 1 << 30, 3), b"abc"]),
    "a last offset below 0": lambda: Offer(na.string(), 2, [None, int32(0, 1, -5), b"ab"]),
    "long offsets": lambda: Offer(na.large_string(), 2, [None, int64(0, LONG, 3), b"abc"]),
    "a view out of its buffer": lambda: views(view(20, 0, 5)),
    "a view of no buffer": lambda: views(view(13, 7, 0)),
    "a view of negative length": lambda: views(view(-3, 0, 0)),
    "a view with another beginning": lambda: views(view(13, 0, 1)),
    "views without lengths": lambda: Offer(na.string_view(), 1, [None, view(3, 0, 0)]),
    "views of negative buffers": lambda: Offer(
        na.string_view(), 1, [None, view(13, 0, 0), b"abcdefgh" * 2, int64(-16)]
    ),
    "a key without a value": lambda: keyed(int32(0, 5)),
    "a key below 0": lambda: keyed(int32(-1, 0)),
    "a key far away": lambda: keyed(int64(0, -1), na.uint64()),
    "no dictionary": lambda: Offer(na.dictionary(na.int32(), na.string()), 1, [None, int32(0)]),
    "a negative length": lambda: Offer(na.string(), -1, [None, int32(0, 1), b"a"]),
    "a negative place": lambda: Offer(na.string(), 2, [None, int32(0, 1), b"a"], offset=-2),
    "more than memory has": lambda: Offer(na.string(), 1 << 50, [None, int32(0, 1), b"a"]),
    "no offsets": lambda: Offer(na.string(), 2, [None, None, b"a"]),
    "no bytes": lambda: Offer(na.string(), 1, [None, int32(0, 1), None]),
    "no buffers": lambda: Offer(na.string(), 1, []),
    "a short column": lambda: rows(texts([b"a"])),
    "no column": lambda: Offer(na.struct({"text": na.string()}), 2, [None]),
}


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case.replace(" ", "-"))
def test_a_damaged_array_is_an_exception(case: str) -> None:
    array = DAMAGED[case]()
    column = "text" if "column" in case else None
    with pytest.raises(ValueError, match="damaged"):
        overside.match(array, "b|o", column=column)


def test_a_schema_without_end_is_an_exception() -> None:
    kind = na.int32()
    for _ in range(40):
        kind = na.struct([kind])
    with pytest.raises(ValueError, match="no end"):
        overside.match(Offer(kind, 0, [None]), "a", column="text")


def test_sliced_and_wide_arrays_are_searched() -> None:
    def mask(array: Offer, column: str | None = None) -> Any:
        return na.Array(overside.match(array, "^on", column=column)).to_pylist()

    kind = na.dictionary(na.uint8(), na.string())
    values = texts([b"on", b"off"])
    keys = Offer(kind, 3, [bytes([0b0111]), bytes([9, 0, 1, 2])], dictionary=values, offset=1)
    assert mask(keys) == [True, False, False]
    assert mask(Offer(na.string(), 2, [None, int32(0, 2, 4, 6), b"ofonof"], offset=1)) == [
        True,
        False,
    ]
    assert mask(views(view(13, 0, 0))) == [False]
    assert mask(Offer(na.string_view(), 1, [None, int32(2) + b"on" + bytes(10), b""])) == [True]
    table = rows(texts([b"on", b"on", b"off", b"on", b"on"]))
    table.array.offset = 2
    assert mask(table, "text") == [False, True]
    assert mask(Offer(na.string(), 0, [None, None, None])) == []


def test_memory_that_is_written_to_meanwhile_gives_a_valid_result() -> None:
    """Through a read-only view, which keeps only its holder from writing."""
    text = bytearray(TEXT * 4)
    offsets = bytearray(int32(*range(0, 4_000_001, 4)))
    view = memoryview(text).toreadonly()
    is_over = threading.Event()

    def write() -> None:
        turn = 0
        while not is_over.is_set():
            turn += 1
            text[turn * 7919 % len(text)] = 10
            offsets[turn * 7919 % len(offsets)] = turn % 256

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            matches = overside.match(view, "[a-z]", threads=2, invert=True)
            assert matches.begins is not None
            assert all(0 <= begin <= len(text) for begin in matches.begins)
            assert overside.decompress(overside.compress(view)) is not None
            array = Offer(na.string(), 1_000_000, [None, offsets, b"a" * 4_000_000])
            try:
                overside.match(array, "[a-z]", threads=2)
            except ValueError as error:
                assert "damaged" in str(error)  # noqa: PT017 (it may also be whole)
    finally:
        is_over.set()
        writer.join()
