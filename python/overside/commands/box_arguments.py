"""Arguments that several verbs share."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

Consent = Callable[[str], bool]


def confirmed(question: str) -> bool:
    """Asks on the terminal; no is the default, and the answer where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def selection(parser: argparse.ArgumentParser) -> None:
    """`--set` and `--filter`."""
    parser.add_argument(
        "--set",
        metavar="TASK.KEY=V,V",
        action="append",
        default=[],
        help="give a task's parameter other values; measure.rounds=3 and the like work too",
    )
    parser.add_argument(
        "--filter",
        metavar="KEY=GLOB",
        action="append",
        default=[],
        type=pair,
        help="keep only tests that match; KEY is task, id or a parameter; all must match",
    )


def pair(text: str) -> tuple[str, str]:
    """`key=glob`."""
    key, equals, glob = text.partition("=")
    if not (key and equals and glob):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=GLOB")
    return key, glob


def seed(text: str) -> int:
    """A whole number from 0 to 2^53-1."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 53:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^53-1")
    return value


def number(what: str, low: float, high: float) -> Callable[[str], float]:
    """Reads a number above `low` and at most `high`; `what` names it in messages."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low < value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return read


#: A positive number of seconds, at most a week.
seconds = number("a number of seconds, above 0 and at most 604800", 0, 604_800)
