"""Answers to Flight SQL's catalogue calls, from the names and columns of the tables.

Schemas of the answers and numbers of `SqlInfo` are those of format/FlightSql.proto.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import duckdb
import pyarrow as pa

from overside.flow.protobuf import Message

#: Names of the catalog, the schema and the table type in SQL.
CATALOG, SCHEMA, TABLE_TYPE = "memory", "main", "TABLE"

Tables = Mapping[str, pa.Schema]

_TYPES_OF = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "uint8": pa.uint8(),
    "list": pa.list_(pa.field("item", pa.utf8(), nullable=False)),
}


def _schema(columns: str) -> pa.Schema:
    """Columns of an answer, each `NAME TYPE`, or `NAME` if it is text; `!` behind the name of one
    that is never null."""
    fields = []
    for column in columns.split(","):
        name, _, kind = column.strip().partition(" ")
        form = _TYPES_OF[kind] if kind else pa.utf8()
        fields.append(pa.field(name.removesuffix("!"), form, nullable=not name.endswith("!")))
    return pa.schema(fields)


_TABLES = _schema("catalog_name, db_schema_name, table_name!, table_type!")
_PRIMARY_KEYS = _schema(
    "catalog_name, db_schema_name, table_name!, column_name!, key_sequence! int32, key_name"
)
_FOREIGN_KEYS = _schema(
    "pk_catalog_name, pk_db_schema_name, pk_table_name!, pk_column_name!, fk_catalog_name,"
    " fk_db_schema_name, fk_table_name!, fk_column_name!, key_sequence! int32, fk_key_name,"
    " pk_key_name, update_rule! uint8, delete_rule! uint8"
)


def _matches(pattern: str, name: str) -> bool:
    """Returns `True` if a name matches a pattern of SQL's LIKE."""
    escaped = (".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(escaped), name, re.DOTALL) is not None


def _empty(schema: pa.Schema) -> Callable[[Tables, Message], pa.Table]:
    return lambda _tables, _command: schema.empty_table()


def _catalogs(tables: Tables, command: Message) -> pa.Table:
    del tables, command
    return pa.Table.from_pydict({"catalog_name": [CATALOG]}, _schema("catalog_name!"))


def _is_ours(command: Message) -> bool:
    """Returns `True` if the catalog and the schema pattern of a call, if given, match ours."""
    is_catalog = not command.has(1) or command.text(1) == CATALOG
    return is_catalog and (not command.has(2) or _matches(command.text(2), SCHEMA))


def _schemas(tables: Tables, command: Message) -> pa.Table:
    del tables
    rows = [{"catalog_name": CATALOG, "db_schema_name": SCHEMA}] if _is_ours(command) else []
    return pa.Table.from_pylist(rows, _schema("catalog_name, db_schema_name!"))


def _tables(tables: Tables, command: Message) -> pa.Table:
    kinds, has_schema = command.texts(4), command.flag(5)
    is_wanted = _is_ours(command) and (not kinds or TABLE_TYPE in kinds)
    rows = [
        {
            "catalog_name": CATALOG,
            "db_schema_name": SCHEMA,
            "table_name": name,
            "table_type": TABLE_TYPE,
            "table_schema": columns.serialize().to_pybytes(),
        }
        for name, columns in sorted(tables.items())
        if is_wanted and (not command.has(3) or _matches(command.text(3), name))
    ]
    schema = _TABLES
    if has_schema:
        schema = schema.append(pa.field("table_schema", pa.binary(), nullable=False))
    return pa.Table.from_pylist(rows, schema)


def _table_types(tables: Tables, command: Message) -> pa.Table:
    del tables, command
    return pa.Table.from_pydict({"table_type": [TABLE_TYPE]}, _schema("table_type!"))


#: `SqlInfo` by number: of the server 0.., of its SQL 500...
_INFO: Mapping[int, str | bool | int] = {
    0: "overside",
    1: duckdb.__version__,
    2: pa.__version__,
    3: True,  # read-only
    4: True,  # SQL
    5: False,  # Substrait plans
    8: 0,  # transactions: none
    9: False,  # cancellation by an action
    10: False,  # bulk ingestion
    500: False,  # DDL of catalogs
    501: False,  # of schemas
    502: False,  # of tables
    504: '"',
    506: True,  # all tables can be selected from
}
_VALUES = {
    "string_value": pa.utf8(),
    "bool_value": pa.bool_(),
    "bigint_value": pa.int64(),
    "int32_bitmask": pa.int32(),
    "string_list": pa.list_(pa.utf8()),
    "int32_to_int32_list_map": pa.map_(pa.int32(), pa.list_(pa.int32())),
}
_VALUE_OF = {str: 0, bool: 1, int: 3}


def _sql_info(tables: Tables, command: Message) -> pa.Table:
    del tables
    wanted = command.integers(1) or list(_INFO)
    known = [number for number in wanted if number in _INFO]
    children: list[list[str | bool | int]] = [[] for _ in _VALUES]
    kinds, offsets = [], []
    for number in known:
        kind = _VALUE_OF[type(_INFO[number])]
        kinds.append(kind)
        offsets.append(len(children[kind]))
        children[kind].append(_INFO[number])
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(items, form) for items, form in zip(children, _VALUES.values(), strict=True)],
        list(_VALUES),
    )
    schema = pa.schema(
        [
            pa.field("info_name", pa.uint32(), nullable=False),
            pa.field("value", values.type, nullable=False),
        ]
    )
    return pa.Table.from_arrays([pa.array(known, pa.uint32()), values], schema=schema)


_TYPE_INFO = _schema(
    "type_name!, data_type! int32, column_size int32, literal_prefix, literal_suffix,"
    " create_params list, nullable! int32, case_sensitive! bool, searchable! int32,"
    " unsigned_attribute bool, fixed_prec_scale! bool, auto_increment bool, local_type_name,"
    " minimum_scale int32, maximum_scale int32, sql_data_type! int32, datetime_subcode int32,"
    " num_prec_radix int32, interval_precision int32"
)
#: DuckDB's types as those of ODBC: number (XdbcDataType), digits or characters, the quotes around
#: a literal.
_TYPES = {
    "BOOLEAN": (-7, 1, None),
    "TINYINT": (-6, 3, None),
    "SMALLINT": (5, 5, None),
    "INTEGER": (4, 10, None),
    "BIGINT": (-5, 19, None),
    "FLOAT": (7, 7, None),
    "DOUBLE": (8, 15, None),
    "DECIMAL": (3, 38, None),
    "VARCHAR": (12, None, "'"),
    "BLOB": (-3, None, "'"),
    "DATE": (91, 10, "'"),
    "TIME": (92, 15, "'"),
    "TIMESTAMP": (93, 26, "'"),
}
#: All may be null, and stand in any condition.
_NULLABLE, _SEARCHABLE = 1, 3
_DATETIME = 9
_FIRST_OF_DATES = 90


def _type_info(tables: Tables, command: Message) -> pa.Table:
    del tables
    asked = command.integer(1) if command.has(1) else None
    rows = []
    for name, (number, size, quote) in _TYPES.items():
        is_date = number > _FIRST_OF_DATES
        is_number = quote is None and name != "BOOLEAN"
        if asked in (None, number):
            rows.append(
                {
                    "type_name": name,
                    "data_type": number,
                    "column_size": size,
                    "literal_prefix": quote,
                    "literal_suffix": quote,
                    "create_params": ["precision", "scale"] if name == "DECIMAL" else None,
                    "nullable": _NULLABLE,
                    "case_sensitive": name == "VARCHAR",
                    "searchable": _SEARCHABLE,
                    "unsigned_attribute": False if is_number else None,
                    "fixed_prec_scale": False,
                    "auto_increment": False if is_number else None,
                    "local_type_name": name,
                    "minimum_scale": 0 if name == "DECIMAL" else None,
                    "maximum_scale": 38 if name == "DECIMAL" else None,
                    "sql_data_type": _DATETIME if is_date else number,
                    "datetime_subcode": number - _FIRST_OF_DATES if is_date else None,
                    "num_prec_radix": 10 if is_number else None,
                }
            )
    return pa.Table.from_pylist(rows, _TYPE_INFO).sort_by("data_type")


#: Functions that answer commands, by the command's name.
ANSWERS: Mapping[str, Callable[[Tables, Message], pa.Table]] = {
    "CommandGetCatalogs": _catalogs,
    "CommandGetDbSchemas": _schemas,
    "CommandGetTables": _tables,
    "CommandGetTableTypes": _table_types,
    "CommandGetSqlInfo": _sql_info,
    "CommandGetXdbcTypeInfo": _type_info,
    "CommandGetPrimaryKeys": _empty(_PRIMARY_KEYS),
    "CommandGetExportedKeys": _empty(_FOREIGN_KEYS),
    "CommandGetImportedKeys": _empty(_FOREIGN_KEYS),
    "CommandGetCrossReference": _empty(_FOREIGN_KEYS),
}
