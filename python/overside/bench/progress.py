"""What a run says while it runs: a bar on a terminal, and a line for each failure."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overside.bench.plan import Test

#: The most characters of a value in a line.
VALUE_MAX = 60


def _short(text: str) -> str:
    return text if len(text) <= VALUE_MAX else text[: VALUE_MAX - 1] + "…"


class Progress:
    """Goes to stderr. No bar where that is not a terminal; nothing at all if `quiet`."""

    def __init__(self, total: int, done: int, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            from tqdm import tqdm  # noqa: PLC0415 (only where it is seen)

            self._bar = tqdm(
                total=total,
                initial=done,
                unit="sample",
                file=sys.stderr,
                dynamic_ncols=True,
                leave=False,
                bar_format="{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} "
                "[{elapsed}, {remaining} left]",
            )

    def round(self, number: int) -> None:
        """A round begins."""
        if self._bar is not None:
            self._bar.set_description(f"round {number + 1}")

    def step(self) -> None:
        """A sample was taken."""
        if self._bar is not None:
            self._bar.update()

    def more(self, samples: int) -> None:
        """Samples beyond what was planned."""
        if self._bar is not None:
            self._bar.total += samples

    def fewer(self, samples: int) -> None:
        """Planned samples that will not be taken."""
        if self._bar is not None:
            self._bar.total -= samples

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
        from overside.bench import plan  # noqa: PLC0415 (seldom needed)

        parameters = list(test.parameters.items())[:4]
        shown = " ".join(f"{key}={_short(plan.text(value))}" for key, value in parameters)
        self.say(f"failed: {test.task} {shown}: {message}")

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()
