"""Plain tables for terminals."""

from __future__ import annotations

from collections.abc import Sequence

from overside.screen import BOLD, styled


def text(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    indent: str = "",
    *,
    styles: Sequence[str] = (),
    colour: bool = False,
) -> str:
    """Columns as wide as they need to be; numbers to the right, words to the left. `styles` are
    those of the rows, used if there is `colour`."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    right = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(head))]
    lines = []
    for row, style in zip((head, *rows), (BOLD, *(styles or [""] * len(rows))), strict=True):
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append(styled((indent + "  ".join(cells)).rstrip(), style, colour=colour))
    return "\n".join(lines)


def _is_number(cell: str) -> bool:
    return (
        cell in ("", "-") or cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()
    )
