"""Filters of `overside flow` keep the rows that DuckDB keeps."""

from __future__ import annotations

import datetime
import math
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.ipc
import pytest
from command import partitioned

ROWS = 600

#: Conditions with the same meaning in both systems; docs/flow/flow.md lists differences.
CONDITIONS = """
n > 0
n >= -3 AND n <= 3
NOT (n > 0)
n > 0 OR x < 0
n > 0 AND x < 0
NOT (n > 0 AND x < 0) OR flag
n = x
n <> m
n = NULL
n IS NULL
n IS NOT NULL AND t IS NULL
n IS DISTINCT FROM m
n IS NOT DISTINCT FROM m
n IN (1, 2, 3)
n NOT IN (1, 2, 3)
n IN (1, NULL)
n NOT IN (1, NULL)
n BETWEEN -2 AND 2
n NOT BETWEEN -2 AND 2
n BETWEEN m AND m + 2
n + m > 4
n - m * 2 < -3
-n > 2
n / 2 = 1.5
n % 3 = 1
(n + m) * 1.5 = 3
price + 0.5 = 4
price * 2 = 6
1 + 2 * 3 = 7 AND n = 1
NOT (n > 1 AND FALSE)
(flag AND NULL) IS UNKNOWN
n % 3 = -1
m % 2 = 0
n / m > 1
x > 0.5
x >= 'NaN'::DOUBLE
x < 'inf'::DOUBLE
x = 0
x * 2 > n
x / 0 > 0
flag
NOT flag
flag = TRUE
flag IS TRUE
flag IS NOT TRUE
flag IS FALSE
flag IS UNKNOWN
(n > 0) IS NOT FALSE
(n > 0) = flag
t = 'ab'
t > 'a'
t <= 'B'
t IN ('ab', '', 'x')
t LIKE 'a%'
t LIKE '%b'
t LIKE '_b%'
t NOT LIKE 'a%'
t LIKE ''
t LIKE '%!%%' ESCAPE '!'
t ILIKE 'AB%'
t NOT ILIKE '%B'
t LIKE '_'
t LIKE 'a_b'
t LIKE '%_é%'
t LIKE '__%'
t NOT LIKE '___'
t ILIKE 'É'
t ILIKE 'ΣΑΣ_'
t ILIKE '_ривет'
t ILIKE 'straße%'
t LIKE 'a__b' ESCAPE '_'
t LIKE '100%%' ESCAPE '%'
TRY_CAST(x AS BIGINT) = 2
TRY_CAST(x AS INTEGER) = 0
TRY_CAST(x AS TINYINT) > 1
CAST(price / 8 AS INTEGER) = 2
CAST(price AS INTEGER) = 3
x = 0.1234567890123457
x <= 1e300 AND x > -0.30000000000000004
z = '2024-02-28 12:00:00+00'
z < TIMESTAMPTZ '2024-02-29 12:00:00+00'
z >= '2024-02-29 00:00:00'
p >= TIMESTAMPTZ '2024-02-29 00:00:00+00'
regexp_matches(t, 'a.*b')
regexp_matches(t, '^a')
regexp_full_match(t, '[ab]+')
d > DATE '2024-02-29'
d BETWEEN DATE '2024-02-28' AND DATE '2024-03-01'
d = '2024-02-29'
w < TIMESTAMP '2024-02-29 12:00:00'
w >= '2024-02-29 00:00:00'
CAST(n AS DOUBLE) > x
CAST(n AS VARCHAR) = '3'
n::VARCHAR LIKE '-%'
TRY_CAST(t AS BIGINT) > 5
TRY_CAST(t AS BIGINT) IS NULL
CAST(d AS TIMESTAMP) = w
CAST(flag AS INTEGER) = 1
price > 10
price = 12.50
price BETWEEN 0 AND 99.99
TRUE
FALSE
NULL
NOT NULL
1 = 1 AND n > 0
(n > 0 AND (m > 0 OR (x > 0 AND NOT flag)))
""".strip().splitlines()


def table() -> pa.Table:
    """Rows with a number, and values with nulls, edges and ties."""
    draw = random.Random(3)
    texts = ["É", "é", "a", "日", "ΣΑΣς", "σασσ", "ПРИВЕТ", "STRASSE", "Straße", "a_b", "aé"]
    texts += ["", "ab", "abb", "a\u00e9b", "AB", "B", "ba", "100%", "7", " 8", "-3", "12345678901"]
    doubles = [
        0.1234567890123457,
        1.5,
        2.5,
        -0.5,
        0.0,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        0.5,
        1e300,
        3.0,
    ]
    day, when = datetime.date(2024, 2, 27), datetime.datetime(2024, 2, 28)

    def column(kind: pa.DataType, value: Any) -> pa.Array:
        return pa.array([None if draw.random() < 0.15 else value() for _ in range(ROWS)], kind)

    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "n": column(pa.int64(), lambda: draw.randint(-5, 5)),
            "m": column(pa.int32(), lambda: draw.randint(-3, 3)),
            "x": column(
                pa.float64(),
                lambda: draw.choice(doubles) if draw.random() < 0.5 else draw.gauss(0, 2),
            ),
            "flag": column(pa.bool_(), lambda: draw.random() < 0.5),
            "t": column(pa.string(), lambda: draw.choice(texts)),
            "d": column(pa.date32(), lambda: day + datetime.timedelta(draw.randrange(5))),
            "w": column(
                pa.timestamp("us"), lambda: when + datetime.timedelta(hours=12 * draw.randrange(6))
            ),
            "z": column(
                pa.timestamp("us", "UTC"),
                lambda: when + datetime.timedelta(hours=12 * draw.randrange(6)),
            ),
            "p": column(
                pa.timestamp("ms", "Europe/Paris"),
                lambda: when + datetime.timedelta(hours=12 * draw.randrange(6)),
            ),
            "price": column(pa.decimal128(8, 2), lambda: pa.scalar(draw.randrange(40)).as_py()),
        }
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    made, path = table(), tmp_path_factory.mktemp("sql") / "rows.arrow"
    with pa.ipc.new_file(path, made.schema) as writer:
        writer.write_table(made)
    return path, made


def kept(path: Path, condition: str, out: Path) -> list[int]:
    """The rows that are kept here."""
    words = ("--key", "id", "--bits", "1", "--select", "id", "--filter", condition)
    found: list[int] = []
    for file in partitioned(path, *words, "--out", out):
        with pa.OSFile(file["file"]) as opened:
            found += pa.ipc.open_file(opened).read_all()["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_same_rows_are_kept(
    rows: tuple[Path, pa.Table], condition: str, tmp_path: Path
) -> None:
    path, rows_table = rows
    with duckdb.connect() as connection:
        connection.register("rows_table", rows_table)
        connection.execute("SET TimeZone = 'UTC'")
        statement = f"SELECT id FROM rows_table WHERE {condition} ORDER BY id"
        wanted = [row[0] for row in connection.execute(statement).fetchall()]
    assert kept(path, condition, tmp_path / "out") == wanted
