"""What a user is told when something cannot be done, and the exit codes that mean it."""

from __future__ import annotations

from enum import IntEnum


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
    """Something the user can mend: what happened, to what, and the remedy."""

    def __init__(self, message: str, remedy: str = "", code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message
