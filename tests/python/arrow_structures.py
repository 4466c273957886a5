"""Arrays of the Arrow C data interface, as right or wrong as a test wants them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import nanoarrow as na  # type: ignore[import-untyped]


class Structure(ctypes.Structure):
    """`struct ArrowArray`."""


_Release = ctypes.CFUNCTYPE(None, ctypes.POINTER(Structure))
Structure._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.c_void_p),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", _Release),
    ("private_data", ctypes.c_void_p),
]


@_Release
def _release(array: Any) -> None:
    array.contents.release = _Release()


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Offer:
    """An array that can be had by the PyCapsule interface. It has to outlive whoever takes it."""

    def __init__(
        self,
        kind: Any,
        length: int,
        buffers: Sequence[bytes | bytearray | None],
        *,
        children: Sequence[Offer] = (),
        dictionary: Offer | None = None,
        offset: int = 0,
    ) -> None:
        self.kind = kind
        self._held = [
            None if data is None else (ctypes.c_char * len(data)).from_buffer(_writable(data))
            for data in buffers
        ]
        self._buffers = (ctypes.c_void_p * len(buffers))(
            *(None if data is None else ctypes.addressof(data) for data in self._held)
        )
        self._children = (ctypes.c_void_p * len(children))(
            *(ctypes.addressof(child.array) for child in children)
        )
        self._others = [*children, dictionary]
        self.array = Structure(
            length,
            -1,
            offset,
            len(buffers),
            len(children),
            ctypes.addressof(self._buffers),
            ctypes.addressof(self._children) if children else None,
            ctypes.addressof(dictionary.array) if dictionary else None,
            _release,
        )

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        del requested_schema
        array = _capsule(ctypes.addressof(self.array), b"arrow_array", None)
        return na.c_schema(self.kind).__arrow_c_schema__(), array


def _writable(data: bytes | bytearray) -> bytearray:
    return data if isinstance(data, bytearray) else bytearray(data or b"\0")


def texts(values: Sequence[bytes], kind: Any = None) -> Offer:
    """An array of text."""
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value))
    return Offer(kind or na.string(), len(values), [None, int32(*ends), b"".join(values)])


def int32(*numbers: int) -> bytes:
    """Numbers as they lie in memory."""
    return b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)


def int64(*numbers: int) -> bytes:
    """The same with eight bytes."""
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
