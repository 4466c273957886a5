"""Substrait's extended expressions as SQL, as far as Arrow's scanners make them.

A scanner's columns and filter arrive as `ExtendedExpression` (substrait/extended_expression.proto)
as `pyarrow.substrait.serialize_expressions` writes it: references to columns, literals,
comparisons, AND, OR, NOT, tests for null and NaN, IN, IF, arithmetic, and a few functions of texts.
Anything else is refused by name; the other side then filters itself.

Values compare as in Arrow: NaN is equal to nothing, neither below nor above, where DuckDB has it
above all numbers.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from overside.flow.engine import StatementError, UnsupportedError, literal, quoted
from overside.flow.protobuf import Message

#: Deepest nesting of expressions.
_DEPTH_MAX = 200
#: Most characters of the SQL of one expression.
_SQL_CHARS_MAX = 1 << 19


@dataclass(frozen=True)
class Sql:
    """An expression in SQL."""

    text: str
    #: `True` if its type is floating-point, so that it can be NaN.
    is_floating: bool = False
    #: `True` if it is a literal; a floating-point literal is not NaN.
    is_literal: bool = False
    #: The expression where null counts as false, as in a filter, in a form that DuckDB can skip
    #: row groups by; empty if it is no other.
    as_filter: str = ""


def columns(data: bytes, schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """The projection, each with its name. Raises `StatementError`, `ProtobufError`."""
    parsed = _Parsed(data, schema)
    if len(parsed.expressions) != len(names):
        raise StatementError(f"{len(parsed.expressions)} columns have {len(names)} names")
    pairs = zip(parsed.expressions, names, strict=True)
    return [f"{parsed.sql(one).text} AS {quoted(name)}" for one, name in pairs]


def predicate(data: bytes, schema: pa.Schema) -> str:
    """The filter. Raises `StatementError`, `ProtobufError`."""
    parsed = _Parsed(data, schema)
    if len(parsed.expressions) != 1:
        raise StatementError(f"a filter is one expression, not {len(parsed.expressions)}")
    found = parsed.sql(parsed.expressions[0])
    return found.as_filter or found.text


class _Parsed:
    """An `ExtendedExpression`: 2 declarations of functions, 3 expressions, 4 the base schema."""

    def __init__(self, data: bytes, schema: pa.Schema) -> None:
        message = Message(data)
        self._schema = schema
        self._names = message.message(4).texts(1)
        self._functions: dict[int, str] = {}
        for declaration in message.messages(2):
            function = declaration.message(3)
            name = function.text(3).partition(":")[0]
            self._functions[function.integer(2)] = name
        self.expressions = [one.message(1) for one in message.messages(3)]

    def sql(self, expression: Message, depth: int = 0) -> Sql:
        """An `Expression`: its field decides its kind."""
        if depth > _DEPTH_MAX:
            raise StatementError(f"an expression is nested more than {_DEPTH_MAX} deep")
        kinds: dict[int, Callable[[Message, int], Sql]] = {
            1: lambda one, _: _literal(one),
            2: lambda one, _: self._reference(one),
            3: self._function,
            6: self._if,
            8: self._in_list,
        }
        for number, read in kinds.items():
            if expression.has(number):
                found = read(expression.message(number), depth + 1)
                if len(found.text) > _SQL_CHARS_MAX:
                    raise StatementError("an expression is too long")
                return found
        raise UnsupportedError(f"expressions of kind {expression.numbers()} are not supported")

    def _reference(self, reference: Message) -> Sql:
        """A `FieldReference` of the row: 1 a path, whose steps are fields of structs."""
        if not reference.has(1) or not reference.has(4):
            raise UnsupportedError("only columns of the table can be referred to")
        step = reference.message(1)
        position = step.message(2).integer(1)
        # Names of fields inside of structs stand behind their column's, depth first.
        names, at = self._names, 0
        for field in self._schema:
            if at >= len(names) or field.name != names[at]:
                break
            if position == 0:
                return _path(field, step.message(2))
            position -= 1
            at += _count_names(field.type)
        raise StatementError("the columns are not those of the table")

    def _function(self, call: Message, depth: int) -> Sql:
        """A `ScalarFunction`: 1 which one, 4 its arguments, each 3 a value or 1 a word."""
        number = call.integer(1)
        if number not in self._functions:
            raise StatementError(f"function {number} is not declared")
        name = self._functions[number]
        arguments = [self.sql(one.message(3), depth) for one in call.messages(4) if one.has(3)]
        return _call(name, arguments)

    def _if(self, clauses: Message, depth: int) -> Sql:
        """`IfThen`: 1 clauses, each 1 a condition and 2 a value, and 2 what is otherwise. Of a
        condition that is null Arrow makes null and Substrait the latter: it must not be null."""
        if len(clauses.messages(1)) != 1 or not clauses.has(2):
            raise UnsupportedError("if_else with several conditions is not supported")
        (clause,) = clauses.messages(1)
        condition = self.sql(clause.message(1), depth).text
        value, otherwise = (self.sql(one.message(2), depth) for one in (clause, clauses))
        if not condition.endswith((" IS NULL)", " IS NOT NULL)")):
            raise UnsupportedError("if_else with such a condition is not supported")
        # DuckDB writes its IN as IF x IS NOT NULL THEN is_in(x, ...) ELSE NULL.
        tested = condition.removesuffix(" IS NOT NULL)")
        if value.as_filter.startswith(f"{tested} IN (") and otherwise.text == "NULL":
            return Sql(value.as_filter)
        text = f"(CASE WHEN {condition} THEN {value.text} ELSE {otherwise.text} END)"
        return Sql(text, value.is_floating or otherwise.is_floating)

    def _in_list(self, choice: Message, depth: int) -> Sql:
        """`SingularOrList`: 1 a value, 2 the allowed ones. Arrow's `is_in` finds null in a list
        that has it, and is never null."""
        value = self.sql(choice.message(1), depth)
        options = [self.sql(one, depth) for one in choice.messages(2)]
        if not all(one.is_literal for one in options):
            raise UnsupportedError("is_in with something else than literals is not supported")
        if any(one.text.startswith(("CAST('0.0' ", "CAST('-0.0' ")) for one in options):
            raise UnsupportedError("is_in with a zero, whose sign counts, is not supported")
        known = ", ".join(one.text for one in options if one.text != "NULL")
        if not known:
            return Sql(f"({value.text} IS NULL)" if options else "false")
        found = f"({value.text} IN ({known}))"
        if any(one.text == "NULL" for one in options):
            return Sql(f"(coalesce({found}, false) OR {value.text} IS NULL)")
        return Sql(f"coalesce({found}, false)", as_filter=found)


def _path(field: pa.Field, step: Message) -> Sql:
    """A column, or a field of a struct in it."""
    text, kind = quoted(field.name), field.type
    while step.has(2):
        step = step.message(2).message(2)
        position = step.integer(1)
        if not pa.types.is_struct(kind) or not 0 <= position < kind.num_fields:
            raise StatementError("the fields of a column are not those of the table")
        inner = kind.field(position)
        text, kind = f"{text}.{quoted(inner.name)}", inner.type
    return Sql(text, is_floating=pa.types.is_floating(kind))


def _count_names(kind: pa.DataType) -> int:
    """Returns the number of names of a column in a `NamedStruct`.

    It counts the column's own name and those of the fields inside.
    """
    if pa.types.is_struct(kind):
        return 1 + sum(_count_names(kind.field(at).type) for at in range(kind.num_fields))
    if pa.types.is_nested(kind):
        return 1 + sum(_count_names(kind.field(at).type) - 1 for at in range(kind.num_fields))
    return 1


_COMPARISONS = {"equal": "=", "not_equal": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*"}
_TEXT = {
    "starts_with": "starts_with({}, {})",
    "ends_with": "suffix({}, {})",
    "contains": "contains({}, {})",
}
_UNARY = {
    "not": "(NOT {})",
    "is_null": "({} IS NULL)",
    "is_not_null": "({} IS NOT NULL)",
}


def _call(name: str, arguments: Sequence[Sql]) -> Sql:
    texts = [argument.text for argument in arguments]
    if name in ("and", "or") and texts:
        parts = [argument.as_filter or argument.text for argument in arguments]
        word = f" {name.upper()} "
        return Sql(f"({word.join(texts)})", as_filter=f"({word.join(parts)})")
    if name in _UNARY and len(texts) == 1:
        return Sql(_UNARY[name].format(*texts))
    if name == "is_nan" and len(texts) == 1:
        return Sql(_is_nan(texts[0]))
    if name in _COMPARISONS and len(texts) == 2:
        return _comparison(_COMPARISONS[name], *arguments)
    is_floating = any(argument.is_floating for argument in arguments)
    if name in _ARITHMETIC and len(texts) == 2:
        return Sql(f"({texts[0]} {_ARITHMETIC[name]} {texts[1]})", is_floating)
    if name in _TEXT and len(texts) == 2:
        return Sql(_TEXT[name].format(*texts))
    raise UnsupportedError(f"the function {name} of {len(texts)} arguments is not supported")


def _comparison(operator: str, left: Sql, right: Sql) -> Sql:
    if "NULL" in (left.text, right.text):
        return Sql("CAST(NULL AS BOOLEAN)")
    plain = f"({left.text} {operator} {right.text})"
    unsure = [one.text for one in (left, right) if one.is_floating and not one.is_literal]
    if not unsure:
        return Sql(plain)
    is_nan = " OR ".join(map(_is_nan, unsure))
    is_unequal = operator == "<>"
    if len(unsure) == 1 and (left.is_literal or right.is_literal):
        return Sql(f"({plain} OR {is_nan})" if is_unequal else f"({plain} AND NOT {is_nan})")
    known = f"WHEN {is_nan} THEN {'true' if is_unequal else 'false'} ELSE {plain}"
    return Sql(f"(CASE WHEN {left.text} IS NULL OR {right.text} IS NULL THEN NULL {known} END)")


def _is_nan(text: str) -> str:
    """DuckDB 2 decides `isnan(x)`, also of a monotonic function of x, by a Parquet file's minimum
    and maximum, which leave NaN out. Not so of the cosine; atan keeps infinity away from it."""
    return f"isnan(cos(atan({text})))"


_EPOCH = datetime.datetime(1970, 1, 1)


def _literal(value: Message) -> Sql:
    """A `Literal`: its field decides its type."""
    for number, read in _LITERALS.items():
        if value.has(number):
            return read(value, number)
    raise UnsupportedError(f"literals of kind {value.numbers()} are not supported")


def _constant(text: str) -> Sql:
    return Sql(text, is_literal=True)


def _typed(text: str, kind: str) -> Sql:
    return _constant(f"CAST({literal(text)} AS {kind})")


def _floating(value: Message, number: int) -> Sql:
    size, kind, form = (8, "DOUBLE", "<d") if number == 11 else (4, "FLOAT", "<f")
    data = value.bytes(number)
    if len(data) != size:
        raise StatementError("a number has the wrong size")
    (found,) = struct.unpack(form, data)
    text = _typed(repr(found), kind).text
    return Sql(text, is_floating=True, is_literal=not math.isnan(found))


def _string(value: Message, number: int) -> Sql:
    text = value.message(number).text(1) if number == 22 else value.text(number)
    return _constant(f"decode({_blob(text.encode())})" if "\0" in text else literal(text))


def _blob(data: bytes) -> str:
    return f"unhex('{data.hex()}')"


def _time(value: Message, number: int) -> Sql:
    micros = value.integer(number)
    if not 0 <= micros < 86_400_000_000:
        raise StatementError("a time of day is out of range")
    moment = (_EPOCH + datetime.timedelta(microseconds=micros)).time()
    return _typed(moment.isoformat("microseconds"), "TIME")


def _decimal(value: Message, number: int) -> Sql:
    """16 bytes, little-endian; 2 the precision, 3 the scale."""
    form = value.message(number)
    data, precision, scale = form.bytes(1), form.integer(2), form.integer(3)
    if len(data) != 16 or not 0 <= scale <= precision <= 38 or precision == 0:
        raise StatementError("a decimal has a wrong size, precision or scale")
    digits = int.from_bytes(data, "little", signed=True)
    exact = Decimal(digits).as_tuple()
    text = format(Decimal((exact.sign, exact.digits, -scale)), "f")
    return _typed(text, f"DECIMAL({precision}, {scale})")


def _wrapped(value: Message, number: int) -> Sql:
    """Arrow's types that Substrait does not have, as `Any` of the wrappers of Protocol Buffers."""
    wrapper = value.message(number).message(2)
    name, content = wrapper.text(1).rpartition(".")[2], wrapper.message(2)
    if name in ("UInt32Value", "UInt64Value"):
        return _typed(str(content.integer(1) & 0xFFFF_FFFF_FFFF_FFFF), "UBIGINT")
    if name == "StringValue":
        return _string(content, 1)
    raise UnsupportedError(f"literals of type {name} are not supported")


def _of_integer(form: str) -> Callable[[Message, int], Sql]:
    return lambda value, number: _constant(form.format(value.integer(number)))


def _binary(value: Message, number: int) -> Sql:
    return _constant(_blob(value.bytes(number)))


#: By the field of the literal that has it.
_LITERALS: dict[int, Callable[[Message, int], Sql]] = {
    1: lambda value, number: _constant("true" if value.flag(number) else "false"),
    2: _of_integer("CAST('{}' AS TINYINT)"),
    3: _of_integer("CAST('{}' AS SMALLINT)"),
    5: _of_integer("CAST('{}' AS INTEGER)"),
    7: _of_integer("CAST('{}' AS BIGINT)"),
    10: _floating,
    11: _floating,
    12: _string,
    13: _binary,
    14: _of_integer("make_timestamp({})"),
    16: _of_integer("(DATE '1970-01-01' + CAST({} AS INTEGER))"),
    17: _time,
    21: _string,
    22: _string,
    23: _binary,
    24: _decimal,
    27: _of_integer("make_timestamptz({})"),
    29: lambda *_: _constant("NULL"),
    33: _wrapped,
}
