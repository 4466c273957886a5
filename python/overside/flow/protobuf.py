"""Reads and writes Protocol Buffers' wire format (protobuf.dev/programming-guides/encoding).

Flight SQL's messages are a few texts, bytes and flags; Substrait's expressions nest them. Names and
types of fields stand where messages are used. Values are never larger than the message they are in.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
#: Fields of one message; repeated ones count each time.
_FIELDS_MAX = 65_536
_MASK = (1 << 64) - 1

Value = int | bytes


class ProtobufError(ValueError):
    """Bytes that are no message, or not the one that was expected."""


class Message:
    """The fields of a message, by their numbers. Unknown ones are kept and ignored."""

    def __init__(self, data: bytes) -> None:
        """Raises `ProtobufError`."""
        self._values: dict[int, list[Value]] = {}
        for count, (number, value) in enumerate(_fields(data)):
            if count >= _FIELDS_MAX:
                raise ProtobufError(f"a message has more than {_FIELDS_MAX} fields")
            self._values.setdefault(number, []).append(value)

    def has(self, number: int) -> bool:
        """Returns `True` if the message has the field."""
        return number in self._values

    def numbers(self) -> list[int]:
        """The fields that are there."""
        return list(self._values)

    def integer(self, number: int) -> int:
        """A signed number of up to 64 bits; 0 if absent."""
        value = self._last(number, 0)
        if not isinstance(value, int):
            raise ProtobufError(f"field {number} is no number")
        return value - (1 << 64) if value >> 63 else value

    def flag(self, number: int) -> bool:
        """A boolean; false if absent."""
        return self.integer(number) != 0

    def bytes(self, number: int) -> bytes:
        """Bytes, or a number of fixed width, little-endian; empty if absent."""
        return _bytes(number, self._last(number, b""))

    def text(self, number: int) -> str:
        """A text; empty if absent."""
        return _text(number, self._last(number, b""))

    def texts(self, number: int) -> list[str]:
        """A repeated text."""
        return [_text(number, value) for value in self._values.get(number, ())]

    def message(self, number: int) -> Message:
        """A message inside; an empty one if absent."""
        return Message(self.bytes(number))

    def messages(self, number: int) -> list[Message]:
        """Repeated messages inside."""
        return [Message(_bytes(number, value)) for value in self._values.get(number, ())]

    def integers(self, number: int) -> list[int]:
        """Repeated unsigned numbers, packed or not."""
        found: list[int] = []
        for value in self._values.get(number, ()):
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                item, at = _varint(value, at)
                found.append(item)
        return found

    def _last(self, number: int, default: Value) -> Value:
        return self._values[number][-1] if number in self._values else default


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise ProtobufError("a field has the number 0")
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ProtobufError(f"field {number} has wire type {kind}, which is not in use")
        if size > len(data) - at:
            raise ProtobufError(f"field {number} ends behind its message")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to 64 bits, and where the next thing begins."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtobufError("a number ends behind its message")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
    raise ProtobufError("a number has more than 10 bytes")


def _bytes(number: int, value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError(f"field {number} is a number")
    return value


def _text(number: int, value: Value) -> str:
    try:
        return _bytes(number, value).decode()
    except UnicodeDecodeError:
        raise ProtobufError(f"field {number} is not UTF-8") from None


def encode(*fields: tuple[int, str | bytes | int]) -> bytes:
    """A message of these fields, whose numbers have at most 64 bits."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += _encode_varint(number << 3 | _VARINT) + _encode_varint(value % (1 << 64))
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _encode_varint(number << 3 | _BYTES) + _encode_varint(len(data)) + data
    return bytes(out)


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
