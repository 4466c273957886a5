"""Random choices that come out the same on every machine and with every Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Choices drawn from a seed.

    Of `random.Random` only `random()` is used, the one method whose sequence Python promises to
    keep for a given seed.
    """

    def __init__(self, seed: int) -> None:
        # Not for secrets.
        self._random = random.Random(seed).random  # noqa: S311

    def share(self) -> float:
        """A number from 0 to less than 1."""
        return self._random()

    def below(self, end: int) -> int:
        """A whole number from 0 to less than `end`."""
        return int(self._random() * end)

    def pick(self, items: Sequence[T]) -> T:
        """Any item, all as likely."""
        return items[int(self._random() * len(items))]

    def favourite(self, items: Sequence[T]) -> T:
        """Any item, the first ones by far the likeliest, as with names in real data."""
        return items[int(self._random() ** 3 * len(items))]
