"""Numbers, units and names as a reader meets them."""

from __future__ import annotations

import math
import random

import pytest
from overside.report import formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.041234, "0.0412"),
        (0.0999951, "0.100"),
        (4.8, "4.80"),
        (9.996, "10.0"),
        (412.3, "412"),
        (999.6, "1,000"),
        (1237, "1,240"),
        (21345.6, "21,300"),
        (-3.14159, "-3.14"),
        (3e-9, "3.00e-09"),
        (math.nan, "–"),
        (math.inf, "–"),
        (None, "–"),
    ],
)
def test_numbers_have_three_significant_digits(value: float | None, text: str) -> None:
    assert formatting.number(value) == text


def test_numbers_read_back_within_their_digits() -> None:
    draw = random.Random(5)
    for _ in range(2_000):
        value = 10 ** draw.uniform(-8, 13) * draw.choice((1, -1))
        assert float(formatting.number(value).replace(",", "")) == pytest.approx(value, rel=5.1e-3)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(401, 420, "401–420"), (412.1, 412.4, "412.1–412.4"), (5, 5, "5.0000–5.0000")],
)
def test_bounds_have_the_digits_that_tell_them_apart(low: float, high: float, text: str) -> None:
    assert formatting.span(low, high) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1, "1 B"),
        (1023, "1,023 B"),
        (4096, "4 KiB"),
        (16383, "16 KiB − 1 B"),
        (1 << 20, "1 MiB"),
        (3 << 19, "1.50 MiB"),
        (128 << 20, "128 MiB"),
        (8 << 30, "8 GiB"),
    ],
)
def test_sizes_have_binary_units(size: int, text: str) -> None:
    assert formatting.size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3.2e-8, "32.0 ns"),
        (4.5e-5, "45.0 µs"),
        (0.85, "850 ms"),
        (1.5, "1.50 s"),
        (78, "78 s"),
        (125, "2 min 5 s"),
        (600, "10 min"),
        (7_500, "2 h 5 min"),
        (-1, "–"),
    ],
)
def test_durations_have_fitting_units(seconds: float, text: str) -> None:
    assert formatting.duration(seconds) == text


def test_text_from_outside_cannot_steer_a_terminal_or_turn_a_line() -> None:
    hostile = "a\x1b[31mred\x07\r\n\u202eevil\u2028\x9b2J\ud800\x00b"
    cleaned = formatting.clean(hostile)
    assert cleaned == "a [31mred evil 2J b"
    assert len(formatting.clean("x" * 10**6)) == formatting.TEXT_MAX + 1


@pytest.mark.parametrize(
    ("items", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (list("abc"), "a, b and c")],
)
def test_lists_read_as_sentences(items: list[str], text: str) -> None:
    assert formatting.listing(items) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [("bf2", "BlueField-2"), ("bf3-x16", "BlueField-3 (x16)"), ("mine", "mine")],
)
def test_cards_go_by_their_names(name: str, text: str) -> None:
    assert formatting.card(name) == text
