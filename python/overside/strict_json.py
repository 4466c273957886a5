"""Reads JSON of other programs: only values that can be written again, and read by any parser (RFC
8259; RFC 7493, "I-JSON", but that of equal keys the last one counts)."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

#: A whole number with more digits is too large for a floating-point one, which figures become.
_DIGITS_MAX = 300


def loads(text: str | bytes) -> Any:
    """Parses a text in JSON; bytes must be UTF-8.

    Raises `ValueError` for what Python accepts but other parsers do not: numbers that are not
    finite (`NaN`, `1e309`) or as long as a line, halves of characters (`"\\ud800"`), and values
    nested too deep for Python.
    """
    if isinstance(text, bytes):
        text = text.decode()
    try:
        value = json.loads(
            text, parse_constant=_not_finite, parse_float=_number, parse_int=_whole_number
        )
        if "\\u" in text or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deep") from None
    except UnicodeEncodeError:
        raise ValueError("half of a character (a lone surrogate) stands in it") from None
    return value


def _number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _not_finite(text)


def _whole_number(text: str) -> int:
    return int(text) if len(text) <= _DIGITS_MAX else _not_finite(text)


def _not_finite(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is no finite number")
