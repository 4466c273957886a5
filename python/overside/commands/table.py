"""Plain tables for terminals."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence

from overside.screen import BOLD, columns, styled

#: The fewest columns that the last cells are wrapped to.
_LAST_MIN = 24


def text(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    indent: str = "",
    *,
    styles: Sequence[str] = (),
    colour: bool = False,
    width: int | None = None,
) -> str:
    """Columns as wide as they need to be; numbers to the right, words to the left. `styles` are
    those of the rows, used if there is `colour`. On a terminal, or where a `width` is given, words
    in the last column are wrapped to it."""
    if width is None and sys.stdout.isatty():
        width = columns()
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    right = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(head))]
    lines = []
    for row, style in zip((head, *rows), (BOLD, *(styles or [""] * len(rows))), strict=True):
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        line = (indent + "  ".join(cells)).rstrip()
        for part in _wrapped(line, len(line) - len(row[-1]), width, right[-1]):
            lines.append(styled(part, style, colour=colour))
    return "\n".join(lines)


def _wrapped(line: str, before: int, width: int | None, last_is_number: bool) -> list[str]:
    """A line whose last cell, which has `before` columns in front of it, is wrapped to the width:
    below itself, or below the line where there is no room."""
    if width is None or len(line) <= width or last_is_number:
        return [line]
    if width - before >= _LAST_MIN:
        rest = textwrap.wrap(line[before:], width - before, break_on_hyphens=False)
        return [line[:before] + rest[0], *(" " * before + part for part in rest[1:])]
    below = textwrap.wrap(
        line[before:], max(width, _LAST_MIN), initial_indent="    ", subsequent_indent="    "
    )
    return [line[:before].rstrip(), *below]


def _is_number(cell: str) -> bool:
    return (
        cell in ("", "-") or cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()
    )
