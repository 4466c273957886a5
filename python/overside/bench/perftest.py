"""Reads the output of perftest's programs: one table of one row.

The programs print addresses and settings before the table, in a form that changes between their
versions; the table's head has been the same since version 4. Output without exactly that head, or
without a row that fits it, is refused.
"""

from __future__ import annotations

import math
import re

#: Column heads of `ib_*_lat` in the order of their figures, and the figures' names.
_LATENCY = {
    "#bytes": "message_size",
    "#iterations": "iterations",
    "t_min[usec]": "min",
    "t_max[usec]": "max",
    "t_typical[usec]": "p50",
    "t_avg[usec]": "mean",
    "t_stdev[usec]": "deviation",
    "99% percentile[usec]": "p99",
    "99.9% percentile[usec]": "p999",
}
#: Columns of `ib_*_bw --report_gbits`.
_BANDWIDTH = {
    "#bytes": "message_size",
    "#iterations": "iterations",
    "BW peak[Gb/sec]": "peak_gbit_per_s",
    "BW average[Gb/sec]": "mean_gbit_per_s",
    "MsgRate[Mpps]": "mega_messages_per_s",
}
_TEXT_MAX = 1 << 20


class PerftestError(ValueError):
    """Output that has not the expected table; the text quotes it."""


def latency(said: str) -> dict[str, float]:
    """Figures of `ib_send_lat`, `ib_write_lat` or `ib_read_lat`, in microseconds.

    Raises `PerftestError`.
    """
    return _table(said, _LATENCY)


def bandwidth(said: str) -> dict[str, float]:
    """Figures of `ib_send_bw`, `ib_write_bw` or `ib_read_bw` with `--report_gbits`.

    Raises `PerftestError`.
    """
    return _table(said, _BANDWIDTH)


def inline_bytes(said: str) -> int:
    """Returns the longest inline payload in bytes, as a program prints it above the table.

    Raises `PerftestError`.
    """
    found = re.findall(r"^ Max inline data : (\d{1,9})\[B\]\s*$", said[:_TEXT_MAX], re.MULTILINE)
    if len(found) != 1:
        raise PerftestError(f"{len(found)} times how much goes inline")
    return int(found[0])


def _table(said: str, columns: dict[str, str]) -> dict[str, float]:
    lines = [line.strip() for line in said[:_TEXT_MAX].splitlines()]
    head = r"\s+".join(re.escape(name) for name in columns)
    places = [place for place, line in enumerate(lines) if re.fullmatch(head, line)]
    if len(places) != 1:
        raise PerftestError(f"{len(places)} tables of {', '.join(columns)} instead of one")
    row = lines[places[0] + 1].split() if places[0] + 1 < len(lines) else []
    if len(row) != len(columns):
        raise PerftestError(f"a row of {len(row)} values below {len(columns)} heads")
    try:
        values = [float(value) for value in row]
    except ValueError as error:
        raise PerftestError(f"in the row: {error}") from None
    table = dict(zip(columns.values(), values, strict=True))
    # A root of what rounding made negative, where there are few iterations.
    deviation = table.pop("deviation", 0.0)
    if not all(math.isfinite(value) and value >= 0 for value in table.values()) or deviation < 0:
        raise PerftestError(f"a value below 0 or not finite in {' '.join(row)}")
    return table
