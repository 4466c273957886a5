"""Output on a terminal: its width, whether it has colors, and lines wrapped to it."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TextIO

#: Escape sequences (ECMA-48, select graphic rendition).
BOLD, FAINT, GREEN, YELLOW, RED, PLAIN = (f"\x1b[{code}m" for code in (1, 2, 32, 33, 31, 0))

#: Columns that text is wrapped to; longer lines are hard to read.
WIDTH_MIN, WIDTH_MAX = 40, 100


def columns(stream: TextIO | None = None) -> int:
    """The width of the terminal behind a stream (default: stdout), or the value of `COLUMNS`; 80
    where there is no terminal."""
    if stream is not None and stream.isatty() and not os.environ.get("COLUMNS"):
        return os.get_terminal_size(stream.fileno()).columns
    return shutil.get_terminal_size().columns


def has_colour(stream: TextIO) -> bool:
    """Returns `True` if text for people on `stream` is colored.

    That takes a terminal with colors, and `NO_COLOR` that is unset or empty (no-color.org).
    """
    is_capable = stream.isatty() and os.environ.get("TERM") != "dumb"
    return is_capable and not os.environ.get("NO_COLOR")


def styled(text: str, style: str, *, colour: bool) -> str:
    """The text in a style, if there are colours and there is a style."""
    return f"{style}{text}{PLAIN}" if style and colour else text


def wrapped(text: str, indent: str = "") -> str:
    """Text on stdout in lines of the terminal's width, those after the first behind `indent`; as
    it is where there is no terminal, for programs."""
    if not sys.stdout.isatty():
        return text
    width = max(WIDTH_MIN, min(columns(), WIDTH_MAX))
    return textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False)


class Page:
    """Lines that are wrapped and, on request, coloured."""

    def __init__(self, width: int, *, colour: bool) -> None:
        self.width = max(WIDTH_MIN, min(width, WIDTH_MAX))
        self.colour = colour
        self.lines: list[str] = []

    def like(self) -> Page:
        """An empty one of the same form."""
        return Page(self.width, colour=self.colour)

    def heading(self, text: str, label: str, style: str) -> None:
        """An empty line and a heading. Upper case marks the label for those who see no colours."""
        self.lines.append("")
        self.line(f"{text} [{label.upper()}]" if label else text, style)

    def line(self, text: str, style: str = "", indent: str = "") -> None:
        """Text in as many lines as it takes; those after the first begin with `indent`."""
        wrapped = textwrap.wrap(
            text, self.width, subsequent_indent=indent, break_on_hyphens=False
        ) or [""]
        self.lines += [styled(part, style, colour=self.colour) for part in wrapped]

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines) + "\n"
