"""Overside tells you whether offloading to a DPU pays, and runs the offload if it does.

In programs: `compress`, `decompress` and `match` for data in memory, `Compressor`, `Decompressor`
and `open` for streams, `dataset` for tables of a server. docs/python.md tells more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overside._core import (
        MAX_SIZE,
        Compressor,
        DataError,
        Decompressor,
        DeviceError,
        Error,
        LimitError,
        Matches,
        PatternError,
        Result,
        TruncatedError,
        compress,
        decompress,
        match,
    )
    from overside.files import open  # noqa: A004
    from overside.flow.dataset import dataset

__all__ = [
    "MAX_SIZE",
    "Compressor",
    "DataError",
    "Decompressor",
    "DeviceError",
    "Error",
    "LimitError",
    "Matches",
    "PatternError",
    "Result",
    "TruncatedError",
    "compress",
    "dataset",
    "decompress",
    "match",
    "open",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Loads what is used when it is first used: the command line never needs all of it."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "open":
            from overside.files import open as value  # noqa: PLC0415
        elif name == "dataset":
            value = _dataset()
        else:
            from overside import _core  # noqa: PLC0415

            value = getattr(_core, name)
        globals()[name] = value
        return value

    def _dataset() -> object:
        try:
            from overside.flow.dataset import dataset  # noqa: PLC0415
        except ImportError as error:
            # `hasattr` and the like would take an `AttributeError` for an answer.
            remedy = "pip install 'overside[flow]'"
            raise ImportError(f"overside.dataset needs {error.name}: {remedy}") from error
        return dataset

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
