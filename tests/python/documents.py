"""Reads the commands out of documents.

Every block of `sh` or `python` in README.md and in the pages for newcomers is one that readers
type. A comment above it says what a test can do with it:

    <!-- not run: REASON -->    it needs a card, a network or a build: only verbs and options are
                                checked
    <!-- long -->               it takes a minute
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$",
    re.M | re.S,
)
_HEREDOC = re.compile(r"<<'(\w+)'\n.*?^\1$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block of code."""

    language: str
    text: str
    #: Reason why it cannot be run here; empty if it can.
    not_run: str
    is_long: bool


def pages() -> list[Path]:
    """The documents whose commands are tested."""
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs" / "start").glob("*.md")),
        *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    ]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are commands, or Python."""
    found = []
    for match in _BLOCK.finditer(page.read_text()):
        mark = match["mark"] or ""
        reason = mark.removeprefix("not run: ") if mark.startswith("not run: ") else ""
        assert reason or mark in ("", "long"), f"{page}: what does <!-- {mark} --> mean?"
        if match["language"] in ("sh", "python"):
            found.append(Block(match["language"], match["text"], reason, mark == "long"))
    return found


def commands(block: Block) -> Iterator[list[str]]:
    """The calls of `overside` in a block, each as its words behind `overside`."""
    if block.language != "sh":
        return
    text = _HEREDOC.sub("", block.text).replace("\\\n", " ")
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("|;&"):
                yield from _call(words)
                words = []
            else:
                words.append(word)


def _call(words: list[str]) -> Iterator[list[str]]:
    """The words behind `overside`, if that is what a simple command calls."""
    while words and (words[0] in ("sudo", "-E", "env") or "=" in words[0]):
        words = words[1:]
    if words[:1] == ["overside"]:
        yield words[1:]
