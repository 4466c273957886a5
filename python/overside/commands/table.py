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
    in the last column are wrapped to it; where the other columns alone are too wide, each row
    becomes a paragraph."""
    if width is None and sys.stdout.isatty():
        width = columns()
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    right = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(head))]
    styles = styles or [""] * len(rows)
    if width is not None and _is_too_wide(widths, len(indent), width, is_whole=right[-1]):
        return "\n".join(
            styled(line, style, colour=colour)
            for row, style in zip(rows, styles, strict=True)
            for line in _paragraph(head, row, indent, width)
        )
    lines = []
    for row, style in zip((head, *rows), (BOLD, *styles), strict=True):
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        line = (indent + "  ".join(cells)).rstrip()
        for part in _wrapped(line, len(line) - len(row[-1]), width, right[-1]):
            lines.append(styled(part, style, colour=colour))
    return "\n".join(lines)


def width(head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Returns the width of the table that `text` makes of these rows, in characters."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def _is_too_wide(widths: Sequence[int], indent: int, width: int, *, is_whole: bool) -> bool:
    """Returns `True` if the table does not fit into `width` columns.

    Unless `is_whole`, the last column does not count: it can be wrapped.
    """
    before = indent + sum(widths[:-1]) + 2 * (len(widths) - 1)
    return before + (widths[-1] if is_whole else 0) > width


def _paragraph(head: Sequence[str], row: Sequence[str], indent: str, width: int) -> list[str]:
    """A row as `first: name value unit, name value`, wrapped to the width."""
    names = [name.partition(", ") for name in head[1:]]
    cells = [
        " ".join(filter(None, (name, cell, unit)))
        for (name, _, unit), cell in zip(names, row[1:], strict=True)
        if cell not in ("", "-")
    ]
    text = f"{row[0]}: {', '.join(cells)}" if cells else row[0]
    return textwrap.wrap(
        text,
        max(width, _LAST_MIN),
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_on_hyphens=False,
    )


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
