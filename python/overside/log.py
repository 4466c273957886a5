"""The log of a Python process: the standard `logging`, through the native command's log.

Python's events go to `logging.getLogger("overside....")` and from there to the native code, so that
one writer writes all events, in one format, filtered by one switch (logging.md). In a filter
Python is the part `python`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from overside import _core
from overside.errors import as_user_error

#: Numbers of the levels in `logging`.
_NUMBERS = {"off": 60, "error": 40, "warn": 30, "info": 20, "debug": 10, "trace": 5}
#: Unless something else is asked for.
DEFAULT = "warn"
_FILTER_ENV = "OVERSIDE_LOG"
_FORMAT_ENV = "OVERSIDE_LOG_FORMAT"
FILE_ENV = "OVERSIDE_LOG_FILE"


@contextmanager
def started(args: SimpleNamespace) -> Iterator[None]:
    """Starts the log as the command line and the environment say, for this process and those that
    it starts meanwhile; afterwards the environment is as before.

    Raises `UserError` if either is not valid.
    """
    asked = {_FILTER_ENV: args.log, _FORMAT_ENV: args.log_format}
    before = {name: os.environ.get(name) for name in asked}
    try:
        os.environ.update({name: value for name, value in asked.items() if value is not None})
        begin(args.log_file)
        yield
    finally:
        for name in asked:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def begin(file: Path | None = None) -> None:
    """Starts the log as the environment says. Raises `UserError` if it is not valid."""
    with as_user_error("", ValueError):
        level = _core.start_log(DEFAULT, file=file)
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
