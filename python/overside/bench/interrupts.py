"""Ctrl-C and SIGTERM during a run: the first ends it in order, the second at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interrupts:
    """Context in which the first SIGINT or SIGTERM is recorded and makes `fd` readable.

    After that both signals have their default effect again, so a second one ends the process in
    any state. Only for the main thread.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self._write, False)
        #: The signal that came.
        self.received: signal.Signals | None = None
        self._raise = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in self._SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self.fd)
        os.close(self._write)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        for each in self._SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self.received = signal.Signals(number)
        os.write(self._write, b"x")
        with contextlib.suppress(OSError):
            # Not print: the interrupted code may be in the middle of one.
            os.write(
                sys.__stderr__.fileno() if sys.__stderr__ else 2,
                b"\nstopping after this test; Ctrl-C again to stop now\n",
            )
        if self._raise:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Inside, an interrupt also raises `KeyboardInterrupt`: for code that cannot look at
        `fd`."""
        if self.received is not None:
            raise KeyboardInterrupt
        self._raise = True
        try:
            yield
        finally:
            self._raise = False
