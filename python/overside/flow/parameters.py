"""The types of a statement's parameters, for clients that bind only what fits (JDBC does).

DuckDB takes a parameter's type from its value. What it would be compared with is in DuckDB's own
syntax tree: the type of that expression is the parameter's.
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
#: What LIMIT and OFFSET take.
_COUNT: Node = {
    **_NULL,
    "class": "CAST",
    "type": "OPERATOR_CAST",
    "child": _NULL,
    "try_cast": False,
    "type_expr": {
        **_NULL,
        "class": "TYPE",
        "type": "TYPE",
        "catalog": "",
        "schema": "",
        "type_name": "BIGINT",
        "children": [],
        "qualified_name": {"path": ["BIGINT"]},
    },
}
#: All but the tables of a SELECT.
_BARE: Node = {
    "modifiers": [],
    "where_clause": None,
    "group_expressions": [],
    "group_sets": [],
    "having": None,
    "qualify": None,
}
_LIKE = ("~~", "!~~", "~~*", "!~~*")


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
                    found[name] = kind
    return found


def _type_of(
    connection: duckdb.DuckDBPyConnection, select: Node, expression: Node
) -> pa.DataType | None:
    """What an expression has among the tables of a SELECT; `None` if it depends on others."""
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
    """Parameters of a SELECT, and what each has to have the type of."""
    for node in _nodes(select):
        kind, children = node.get("class"), [*_children(node)]
        names = [child["identifier"] for child in children if child.get("class") == "PARAMETER"]
        others = [child for child in children if not _has_parameter(child)]
        if node.get("type") == "LIMIT_MODIFIER":
            yield from ((name, _COUNT) for name in names)
        elif kind == "CAST":
            yield from ((name, node) for name in names)
        elif others and (
            kind in ("COMPARISON", "BETWEEN")
            or node.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN")
            or node.get("function_name") in _LIKE
        ):
            yield from ((name, others[0]) for name in names)


def _children(node: Node) -> Iterator[Node]:
    for value in node.values():
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, dict):
                yield child


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
    """The same with nulls in their places."""
    if isinstance(tree, list):
        return [_without_parameters(node) for node in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("class") == "PARAMETER":
        return _NULL
    return {key: _without_parameters(value) for key, value in tree.items()}


def _has_parameter(tree: Node) -> bool:
    return any(node.get("class") == "PARAMETER" for node in _nodes(tree))
