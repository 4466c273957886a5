"""Plain tables for terminals."""

from __future__ import annotations

from collections.abc import Sequence


def text(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Columns as wide as they need to be; numbers to the right, words to the left."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    right = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _is_number(cell: str) -> bool:
    return (
        cell in ("", "-") or cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()
    )
