"""The types of a statement's parameters, for clients that bind only values that fit (JDBC does).

DuckDB takes a parameter's type from its value. What it would be compared with is in DuckDB's own
syntax tree: the type of that expression is the parameter's. Times are in milliseconds: JDBC's
driver writes these, whatever unit is announced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

Node = dict[str, Any]
_NULL: Node = {
    "class": "CONSTANT",
    "type": "VALUE_CONSTANT",
    "alias": "",
    "query_location": 0,
    "query_location_length": 0,
    "literal": {"kind": "NULL_LITERAL", "text": ""},
}


def _of_type(name: str) -> Node:
    """Syntax tree of a null that is cast to a type."""
    kind = {"class": "TYPE", "type": "TYPE", "catalog": "", "schema": "", "type_name": name}
    return {
        **_NULL,
        "class": "CAST",
        "type": "OPERATOR_CAST",
        "child": _NULL,
        "try_cast": False,
        "type_expr": {**_NULL, **kind, "children": [], "qualified_name": {"path": [name]}},
    }


#: Syntax trees of an operand of LIMIT or OFFSET, and of one of a function of text.
_COUNT, _TEXT = _of_type("BIGINT"), _of_type("VARCHAR")
#: All but the tables of a SELECT.
_BARE: Node = {
    "modifiers": [],
    "where_clause": None,
    "group_expressions": [],
    "group_sets": [],
    "having": None,
    "qualify": None,
}
#: Functions all of whose operands are text.
_TEXT_FUNCTIONS = {
    *("~~", "!~~", "~~*", "!~~*", "~~~", "^@", "starts_with", "ends_with", "prefix", "suffix"),
    *("like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"),
    *("regexp_matches", "regexp_full_match"),
}


def types(connection: duckdb.DuckDBPyConnection, statement: str) -> dict[str, pa.DataType]:
    """The types that are known, by the names of the parameters, of a SELECT.

    Raises `duckdb.Error`.
    """
    tree = json.loads(_answer(connection, "SELECT json_serialize_sql($1)", statement))
    found: dict[str, pa.DataType] = {}
    for select in _nodes(tree):
        if select.get("type") != "SELECT_NODE":
            continue
        for name, expression in _beside(select):
            if name not in found:
                kind = _type_of(connection, select, expression)
                if kind is not None:
                    found[name] = _in_milliseconds(kind)
    return found


def _in_milliseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", kind.tz)
    return pa.time32("ms") if pa.types.is_time(kind) else kind


def _type_of(
    connection: duckdb.DuckDBPyConnection, select: Node, expression: Node
) -> pa.DataType | None:
    """Returns the type of an expression over the tables of a SELECT.

    `None` if it depends on other tables, such as those of an outer SELECT.
    """
    asked = _without_parameters({**select, **_BARE, "select_list": [expression]})
    tree = json.dumps({"error": False, "statements": [{"node": asked}]})
    try:
        text = _answer(connection, "SELECT json_deserialize_sql($1::JSON)", tree)
        return connection.sql(text).limit(0).to_arrow_table().schema.field(0).type
    except (duckdb.Error, pa.ArrowException):
        return None


def _answer(connection: duckdb.DuckDBPyConnection, question: str, text: str) -> str:
    return str(connection.sql(question, params=[text]).fetchall()[0][0])


def _beside(select: Node) -> Iterator[tuple[str, Node]]:
    """Parameters of a SELECT, each with the expression whose type it must have."""
    for node in _nodes(select):
        kind, children = node.get("class"), [*_children(node)]
        names = [child["identifier"] for child in children if child.get("class") == "PARAMETER"]
        others = [child for child in children if not _has_parameter(child)]
        if node.get("type") == "LIMIT_MODIFIER":
            yield from ((name, _COUNT) for name in names)
        elif kind == "CAST":
            yield from ((name, node) for name in names)
        elif node.get("function_name") in _TEXT_FUNCTIONS:
            yield from ((name, _TEXT) for name in names)
        elif others and (
            kind in ("COMPARISON", "BETWEEN")
            or node.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN")
        ):
            yield from ((name, others[0]) for name in names)


def _children(node: Node) -> Iterator[Node]:
    for value in node.values():
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, dict):
                # Operands of functions have a name around them.
                yield child["expression"] if child.keys() == {"name", "expression"} else child


def _nodes(tree: Any) -> Iterator[Node]:
    """All nodes of a tree, from its root on."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _without_parameters(tree: Any) -> Any:
    """Returns the tree with nulls in place of parameters."""
    if isinstance(tree, list):
        return [_without_parameters(node) for node in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("class") == "PARAMETER":
        return _NULL
    return {key: _without_parameters(value) for key, value in tree.items()}


def _has_parameter(tree: Node) -> bool:
    return any(node.get("class") == "PARAMETER" for node in _nodes(tree))
