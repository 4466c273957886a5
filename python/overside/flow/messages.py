"""The messages of Arrow Flight SQL (format/FlightSql.proto of Apache Arrow), and one of ours.

A command or ticket is a `google.protobuf.Any`: the name of a message and its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from overside.flow.protobuf import Message, ProtobufError, encode

_PREFIX = "type.googleapis.com/"
_PROTOCOL = "arrow.flight.protocol.sql."
#: Prefix of the names of Overside's own messages.
_OURS = "overside.flow."
#: A command longer than this is refused.
COMMAND_BYTES_MAX = 4 << 20


def pack(name: str, *fields: tuple[int, str | bytes | int]) -> bytes:
    """A message of Flight SQL as `Any`."""
    return _any(_PROTOCOL + name, encode(*fields))


def unpack(data: bytes) -> tuple[str, Message]:
    """Name and fields of a message in `Any`; of those that are not Flight SQL's, the name begins
    with its package.

    Raises `ProtobufError`.
    """
    if len(data) > COMMAND_BYTES_MAX:
        raise ProtobufError(f"a command has {len(data)} bytes; {COMMAND_BYTES_MAX} is the most")
    outer = Message(data)
    url = outer.text(1)
    if not url.startswith(_PREFIX):
        raise ProtobufError("this is no command of Flight SQL")
    return url.removeprefix(_PREFIX).removeprefix(_PROTOCOL), Message(outer.bytes(2))


def _any(name: str, value: bytes) -> bytes:
    return encode((1, _PREFIX + name), (2, value))


#: The name of a `Scan`.
SCAN = _OURS + "Scan"


def scan(
    table: str,
    projection: bytes | None = None,
    names: Sequence[str] = (),
    predicate: bytes | None = None,
    limit: int | None = None,
    *,
    count: bool = False,
) -> bytes:
    """Rows of a table, as `Any`: field 1 the table; 2 the columns and 3 the filter, each as
    Substrait's `ExtendedExpression`, all columns or rows without; 4 one more than the most rows;
    5 whether only their number is asked for; 6 the columns' names."""
    fields: list[tuple[int, str | bytes | int]] = [(1, table)]
    if projection is not None:
        fields += [(2, projection), *((6, name) for name in names)]
    if predicate is not None:
        fields.append((3, predicate))
    if limit is not None:
        fields.append((4, limit + 1))
    if count:
        fields.append((5, 1))
    return _any(SCAN, encode(*fields))
