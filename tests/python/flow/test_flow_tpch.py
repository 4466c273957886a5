"""TPC-H's queries to a server, against the answers that DuckDB publishes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
from flow_server import TableServer, table_server
from overside.data import orders

SHARED = Path(os.environ.get("OVERSIDE_SHARED", Path(__file__).parents[3] / "../shared")).resolve()
TPCH = SHARED / "data" / "tpch"
SCALE = 0.01

pytestmark = pytest.mark.skipif(
    not (TPCH / "answers.parquet").exists(), reason=f"no queries of TPC-H in {TPCH}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableServer]:
    directory = tmp_path_factory.mktemp("tpch")
    command = [orders.generator(), "parquet", "--scale-factor", str(SCALE), "--quiet"]
    subprocess.run([*command, "--output-dir", directory], check=True)
    with table_server(**{file.stem: file for file in directory.glob("*.parquet")}) as running:
        yield running


@pytest.fixture(scope="module")
def answers() -> dict[int, list[str]]:
    rows = pyarrow.parquet.read_table(TPCH / "answers.parquet").to_pylist()
    return {
        row["query_nr"]: row["answer"].splitlines() for row in rows if row["scale_factor"] == SCALE
    }


def numbers(values: list[object]) -> list[float]:
    found = []
    for value in values:
        try:
            found.append(float(str(value)))
        except ValueError:
            continue
    return found


# Query 13 counts orders by their comments, which are random.
@pytest.mark.parametrize("number", [*range(1, 13), *range(14, 23)])
def test_numbers_are_those_of_the_answer(
    server: TableServer, answers: dict[int, list[str]], number: int
) -> None:
    statement = (TPCH / "queries" / f"q{number:02}.sql").read_text()
    found = server.ask(statement)
    head, *rows = answers[number]
    assert found.num_columns == len(head.split("|"))
    assert found.num_rows == len(rows)
    for mine, theirs in zip(found.to_pylist(), rows, strict=True):
        # Texts are random, and other ones.
        pairs = list(zip(mine.values(), theirs.split("|"), strict=True))
        values = [value for value, given in pairs if numbers([given])]
        expected = numbers([given for _, given in pairs])
        assert numbers(values) == pytest.approx(expected, rel=1e-4)
