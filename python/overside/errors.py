"""Errors that users see, and the exit codes that stand for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """Exit codes of the command line; docs/exit-codes.md explains them."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    ABSENT = 3
    NOTHING_SELECTED = 4
    INCOMPLETE = 5
    TEST_FAILED = 100
    VERIFICATION_FAILED = 101
    REGRESSION = 102
    AMBIGUOUS = 103
    INVALID_TIMING = 104
    INTERRUPTED = 130


class UserError(Exception):
    """Something the user can fix: what happened, to what, and the remedy."""

    def __init__(self, message: str, remedy: str = "", code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code
        #: What else there is to say to programs; printed with `--json`.
        self.details: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message

    def json(self) -> dict[str, Any]:
        """For programs."""
        return error_json(self.message, self.remedy, self.code) | (self.details or {})


def error_json(message: str, remedy: str, code: int) -> dict[str, Any]:
    """What `--json` prints of an error, whatever went wrong."""
    return {
        "schema": "error/1",
        "message": message,
        "remedy": remedy or None,
        "exit_code": int(code),
    }


def require_utf8(name: object) -> None:
    """Raises `UserError` for a name that is not UTF-8: what is kept of a run is text, and what
    names a file would be lost in it."""
    try:
        str(name).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(str(name)).decode("utf-8", "backslashreplace")
        raise UserError(f"the name {shown} is not UTF-8", "rename it, or give another") from None


def unknown(kind: str, name: str, known: Sequence[str], also: Sequence[str] = ()) -> UserError:
    """That there is no `kind` of that name, and which may have been meant."""
    from overside import _core  # noqa: PLC0415 (help needs no native code)

    hint = _core.suggest(name, [*known, *also])
    remedy = f"did you mean {hint}?" if hint else f"there are {', '.join(known)}"
    return UserError(f"there is no {kind} {name}", remedy)


def printable(text: str) -> str:
    """The text with what steers a terminal, or cannot be printed, escaped. Its lines stay lines."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
