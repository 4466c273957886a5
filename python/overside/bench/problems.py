"""Finds all errors of a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overside.errors import UserError
from overside.tasks.common import Json


@dataclass(frozen=True)
class Problem:
    """An error in a box, or an unlikely value."""

    #: JSON pointer to the place in the box; `""` for the whole box.
    pointer: str
    message: str
    suggestion: str | None = None
    #: Line and column in the file, from 1, if that is known.
    position: tuple[int, int] | None = None

    def __str__(self) -> str:
        hint = f"; did you mean {self.suggestion!r}?" if self.suggestion else ""
        place = "line {}, column {}: ".format(*self.position) if self.position else ""
        return f"{place}{self.pointer or '/'}: {self.message}{hint}"

    def json(self) -> Json:
        """For programs."""
        line, column = self.position or (None, None)
        return {
            "pointer": self.pointer,
            "line": line,
            "column": column,
            "message": self.message,
            "suggestion": self.suggestion,
        }


class InvalidBoxError(UserError):
    """A box that cannot be run, with all that is wrong with it."""

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        many = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{path}: {many}\n{lines}", "docs/measure/boxes.md describes the format")
        self.problems = list(problems)
        shown = [problem.json() for problem in problems]
        self.details = {"valid": False, "path": path, "problems": shown}
