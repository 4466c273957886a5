"""Progress of a run: a bar on a terminal, and a line for each failure.

For programs, each event is one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overside.tasks.common import Json, Test

#: The most characters of a value in a line.
VALUE_MAX = 60
#: The most parameters that name a test, and the most characters of its name on the bar.
_PARAMETERS_MAX = 4
_NAME_MAX = 44


def _short(text: str, most: int = VALUE_MAX) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _named(test: Test) -> str:
    """The task and the first of its parameters."""
    from overside.bench import plan  # noqa: PLC0415 (only where it is seen)

    parameters = list(test.parameters.items())[:_PARAMETERS_MAX]
    shown = " ".join(f"{key}={_short(plan.text(value))}" for key, value in parameters)
    return f"{test.task} {shown}"


class Progress:
    """Counts the samples of the planned rounds; further rounds, and samples that are not needed any
    more, do not move the total. Goes to stderr; no bar where that is not a terminal; nothing at
    all if `quiet`. With `as_json_lines` events go to stdout."""

    def __init__(
        self, total: int, done: int, quiet: bool = False, *, as_json_lines: bool = False
    ) -> None:
        self._quiet = quiet
        self._as_json_lines = as_json_lines
        self._total, self._done, self._round = total, done, 0
        self._bar: Any = None
        if not quiet and not as_json_lines and sys.stderr.isatty():
            from tqdm import tqdm  # noqa: PLC0415 (only where it is seen)

            self._bar = tqdm(
                total=total,
                initial=done,
                unit="sample",
                file=sys.stderr,
                dynamic_ncols=True,
                leave=False,
                bar_format="{percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} "
                "[{elapsed}, {remaining} left] {desc}",
            )

    def event(self, name: str, **about: Any) -> None:
        """Prints an event, for programs."""
        if self._as_json_lines:
            line: Json = {"schema": "progress/1", "event": name, **about}
            print(json.dumps(line, ensure_ascii=False), flush=True)

    def round(self, number: int, tests: int) -> None:
        """Begins a round of `tests` tests."""
        self._round = number
        self.event("round", round=number, tests=tests, done=self._done, total=self._total)

    def begin(self, test: Test) -> None:
        """A test begins."""
        if self._bar is not None:
            self._bar.set_description_str(
                _short(f"round {self._round + 1}: {_named(test)}", _NAME_MAX)
            )

    def step(self, test: Test, sample: Json, not_repeated: int = 0) -> None:
        """Records a sample; `not_repeated` planned ones will not be taken."""
        before = self._done
        self._done = min(self._done + 1 + not_repeated, self._total)
        if self._bar is not None:
            self._bar.update(self._done - before)
        error = sample.get("error") or {}
        self.event(
            "sample",
            round=self._round,
            test=test.id,
            task=test.task,
            status=sample["status"],
            message=error.get("message"),
            done=self._done,
            total=self._total,
        )

    def say(self, text: str) -> None:
        """A line for people."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)

    def failed(self, test: Test, message: str) -> None:
        """A test failed."""
        self.say(f"failed: {_named(test)}: {message}")

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()
