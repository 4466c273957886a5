"""Overside tells you whether offloading to a DPU pays, and runs the offload if it does.

In programs: `compress`, `decompress` and `match` for data in memory (`compress_async` and
`decompress_async` to be awaited), `Compressor`, `Decompressor` and `open` for streams, `dataset`
for tables of a server, `subscribe` for outputs of a pipeline; `run` to measure, and `load` for
what was measured. docs/core/python.md shows how they are used.
"""

from __future__ import annotations

from importlib import import_module
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
    from overside.asynchronous import compress_async, decompress_async
    from overside.drawing import Chart
    from overside.errors import UserError
    from overside.files import open  # noqa: A004
    from overside.flow.dataset import dataset
    from overside.flow.subscriber import subscribe
    from overside.results import Run, load, run

    __version__: str
    """The version of Overside, as `overside --version` says it."""

__all__ = [
    "MAX_SIZE",
    "Chart",
    "Compressor",
    "DataError",
    "Decompressor",
    "DeviceError",
    "Error",
    "LimitError",
    "Matches",
    "PatternError",
    "Result",
    "Run",
    "TruncatedError",
    "UserError",
    "__version__",
    "compress",
    "compress_async",
    "dataset",
    "decompress",
    "decompress_async",
    "load",
    "match",
    "open",
    "run",
    "subscribe",
]

#: Modules of the public names that are not in the native module.
_MODULES = {
    "Chart": "drawing",
    "compress_async": "asynchronous",
    "decompress_async": "asynchronous",
    "Run": "results",
    "UserError": "errors",
    "load": "results",
    "open": "files",
    "run": "results",
}

#: Modules of the public names that need the extra `overside[flow]`.
_FLOW_MODULES = {"dataset": "dataset", "subscribe": "subscriber"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Loads modules when they are first used: the command line never needs all of them."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in _MODULES:
            value = getattr(import_module(f"overside.{_MODULES[name]}"), name)
        elif name in _FLOW_MODULES:
            value = _of_flow(name)
        elif name == "__version__":
            from overside import _core  # noqa: PLC0415

            value = _core.version()
        else:
            from overside import _core  # noqa: PLC0415

            value = getattr(_core, name)
        globals()[name] = value
        return value

    def _of_flow(name: str) -> object:
        try:
            return getattr(import_module(f"overside.flow.{_FLOW_MODULES[name]}"), name)
        except ImportError as error:
            # `hasattr` and the like would take an `AttributeError` for an answer.
            remedy = "pip install 'overside[flow]'"
            raise ImportError(f"overside.{name} needs {error.name}: {remedy}") from error

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
