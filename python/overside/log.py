"""The log of a Python process: the standard `logging`, through the native command's log.

Python's events go to `logging.getLogger("overside....")` and from there to the native code, so that
one writer writes all events, in one format, filtered by one switch (docs/logging.md). In a filter
Python is the part `python`.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from overside.errors import UserError

_LEVELS = ("off", "error", "warn", "info", "debug", "trace")
#: As `logging` numbers them.
_NUMBERS = {"off": 60, "error": 40, "warn": 30, "info": 20, "debug": 10, "trace": 5}
#: Unless something else is asked for.
DEFAULT = "warn"
_FILTER_ENV = "OVERSIDE_LOG"
_FORMAT_ENV = "OVERSIDE_LOG_FORMAT"
FILE_ENV = "OVERSIDE_LOG_FILE"


def arguments(parser: argparse.ArgumentParser, nested: bool = False) -> None:
    """Adds the options of the log to a verb and to its own verbs."""
    group = parser.add_argument_group("logging")

    def option(*names: str, default: int | None, **rest: Any) -> None:
        # What stands before a nested verb is not to be forgotten because nothing stands behind it.
        group.add_argument(*names, default=argparse.SUPPRESS if nested else default, **rest)

    option("-v", "--verbose", action="count", default=0, help="log more; twice for even more")
    text = "log less, and print nothing but errors and results"
    option("-q", "--quiet", action="count", default=0, help=text)
    text = "off, error, warn, info or debug; also per part, as in info,link=debug"
    option("--log", metavar="LEVEL", default=None, help=f"{text} (default: $OVERSIDE_LOG)")
    text = "text or json (default: $OVERSIDE_LOG_FORMAT, otherwise text)"
    option("--log-format", metavar="FORMAT", default=None, help=text)
    text = "append the log to FILE (default: $OVERSIDE_LOG_FILE, otherwise stderr)"
    option("--log-file", metavar="FILE", type=Path, default=None, help=text)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                arguments(verb, nested=True)


def start(args: argparse.Namespace) -> None:
    """Starts the log as the command line and the environment say, for this process and those that
    it starts.

    Raises `UserError` if either is not valid.
    """
    level = args.log
    steps = args.verbose - args.quiet
    if level is None and steps:
        at = _LEVELS.index(DEFAULT) + steps
        level = _LEVELS[min(max(at, 0), len(_LEVELS) - 1)]
    for name, value in ((_FILTER_ENV, level), (_FORMAT_ENV, args.log_format)):
        if value is not None:
            os.environ[name] = value
    begin(args.log_file)


def begin(file: Path | None = None) -> None:
    """Starts the log as the environment says. Raises `UserError` if it is not valid."""
    from overside import _core  # noqa: PLC0415 (help needs no native code)

    try:
        level = _core.start_log(DEFAULT, file=file)
    except ValueError as error:
        raise UserError(str(error)) from None
    logger = logging.getLogger("overside")
    logger.setLevel(_NUMBERS[level])
    logger.propagate = False
    logger.handlers = [_Native(_core.log_event)]


class _Native(logging.Handler):
    """Hands events to the native code."""

    def __init__(self, log_event: Callable[[int, str, str], None]) -> None:
        super().__init__()
        self._log_event = log_event

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        self._log_event(record.levelno, record.name, message)
