"""Amounts with units, as people write them: `64KiB`, `1 MB`, `10s`, `50 ms`, `10%`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,3})?)\s*(%|[A-Za-zµ]+(?:/s)?)")

_BYTES: Mapping[str, float] = {
    "B": 1,
    **{f"{prefix}B": 1000.0**power for power, prefix in enumerate("kMGT", start=1)},
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
}
_SECONDS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
}
_BITS: Mapping[str, float] = {"b/s": 1, "kb/s": 1e3, "Mb/s": 1e6, "Gb/s": 1e9, "Tb/s": 1e12}
_SHARE: Mapping[str, float] = {"%": 0.01}

#: By a figure's unit: the units that its text may have, and the unit that the figure is counted in.
_SCALES: Mapping[str, tuple[Mapping[str, float], float]] = {
    "bytes": (_BYTES, 1.0),
    "s": (_SECONDS, 1.0),
    "ms": (_SECONDS, 1e-3),
    "us": (_SECONDS, 1e-6),
    "ns": (_SECONDS, 1e-9),
    "Gb/s": (_BITS, 1e9),
    "%": (_SHARE, 0.01),
    "share": (_SHARE, 1.0),
}


def number(text: str, unit: str) -> int | float | None:
    """Converts a text with a unit of the same kind into a figure in `unit`: `"64KiB"` in `bytes` is
    65536, `"50 ms"` in `s` 0.05, `"10%"` as a `share` 0.1. `None` if it is no such text."""
    match = _AMOUNT.fullmatch(text.strip())
    scales = _SCALES.get(unit)
    if match is None or scales is None or match[2] not in scales[0]:
        return None
    given, counted_in = scales
    # 15 digits are what people write; 0.1 + 0.2 would show more.
    value = float(f"{float(match[1]) * given[match[2]] / counted_in:.15g}")
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 1 << 53 else value


def read(value: Any, unit: str) -> Any:
    """A text with a unit as a figure in `unit`; anything else as it is."""
    found = number(value, unit) if isinstance(value, str) else None
    return value if found is None else found
