"""Errors that users see, and the exit codes that stand for them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

from overside import _core


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
    """An error that the user can fix: the event, its subject, and the remedy."""

    def __init__(self, message: str, remedy: str = "", code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code
        #: Further fields for programs, which `--json` prints with the error; `None` without any.
        self.details: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "schema": "error/1",
            "message": self.message,
            "remedy": self.remedy or None,
            "exit_code": int(self.code),
        } | (self.details or {})


@contextlib.contextmanager
def as_user_error(
    what: str, *kinds: type[Exception], remedy: str = "", code: Exit = Exit.USAGE
) -> Iterator[None]:
    """Raises `UserError` for exceptions of these kinds: what failed, and the reason behind it."""
    try:
        yield
    except kinds as error:
        reason = str(getattr(error, "strerror", None) or error)
        raise UserError(f"{what}: {reason}" if what else reason, remedy, code) from error


def require_utf8(name: object) -> None:
    """Raises `UserError` for a name that is not UTF-8: a run's files are text, and could not hold
    such a name of a file."""
    try:
        str(name).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(str(name)).decode("utf-8", "backslashreplace")
        raise UserError(f"the name {shown} is not UTF-8", "rename it, or give another") from None


def unknown(kind: str, name: str, known: Sequence[str], also: Sequence[str] = ()) -> UserError:
    """Returns the error for an unknown name of a `kind`, with a suggestion if there is one."""
    hint = _core.suggest(name, [*known, *also])
    remedy = f"did you mean {hint}?" if hint else f"there are {', '.join(known)}"
    return UserError(f"there is no {kind} {name}", remedy)


def printable(text: str) -> str:
    """The text with control sequences and unprintable characters escaped. Its lines stay lines."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
