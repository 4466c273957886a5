"""`compress_async` and `decompress_async`: `compress` and `decompress`, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from overside import _core

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["compress_async", "decompress_async"]


async def compress_async(data: Buffer, **options: Any) -> _core.Result:
    """Compresses data in memory while the event loop goes on.

    As many calls run at once as the machine has cores; the others wait for their turn. A call that
    is cancelled ends before its next chunk is done, and lets go of `data` then.

    Args:
        data: As `overside.compress` takes it. It must not change meanwhile.
        options: The keyword arguments of `overside.compress`.

    Returns:
        The compressed bytes, bytes-like, and where they were made.

    Raises:
        ValueError: An argument that cannot be.
        DeviceError: The device is not there, cannot do it, or was lost with no CPU to replace it.
    """
    return await _done(_core.start_compress, data, options)


async def decompress_async(data: Buffer, **options: Any) -> _core.Result:
    """Decompresses data in memory while the event loop goes on.

    Args:
        data: As `overside.decompress` takes it. It must not change meanwhile.
        options: The keyword arguments of `overside.decompress`.

    Returns:
        The plain bytes, bytes-like, and where they were made.

    Raises:
        DataError: The data are not what their format says; `output` of the error has what is whole.
        TruncatedError: They end in the middle; a `DataError`.
        LimitError: The output would be longer than `max_size`.
        ValueError: An argument that cannot be.
        DeviceError: The device is not there, cannot do it, or was lost with no CPU to replace it.
    """
    return await _done(_core.start_decompress, data, options)


async def _done(start: Callable[..., Any], data: Buffer, options: dict[str, Any]) -> _core.Result:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_core.Result] = loop.create_future()

    def settle(result: _core.Result | None, error: Exception | None) -> None:
        if future.done():
            return
        if result is not None:
            future.set_result(result)
        else:
            future.set_exception(error or RuntimeError("no result and no error"))

    def done(result: _core.Result | None, error: Exception | None) -> None:
        # In another thread, perhaps after the loop has ended.
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    call = start(data, done, **options)
    try:
        return await future
    except asyncio.CancelledError:
        call.cancel()
        raise
