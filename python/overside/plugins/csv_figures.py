"""Reads the figures of plug-ins that do not report them: from the new lines of the CSV files that
they leave behind after each run.
"""

from __future__ import annotations

import csv
import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILES_MAX = 20_000
CSV_BYTES_MAX = 4 << 20
ROWS_MAX = 20_000
FIGURES_MAX = 200
NAME_CHARS_MAX = 100
#: Folders that hold no results.
_NOT_RESULTS = re.compile(r"(\.git|\.hg|__pycache__|node_modules|.*env|\..*)$")
_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z/%µ]{0,12})\s*")
_UNIT = re.compile(r"(.*?)\s*[\(\[]([^()\[\]]{1,20})[\)\]]\s*")

Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A CSV file: its columns and how often each row stands in it."""

    columns: Row
    rows: Counter[Row]


@dataclass(frozen=True)
class CsvFigure:
    """One number that a plug-in gave."""

    value: float
    unit: str


@dataclass
class ResultFiles:
    """The result files below some folders at one moment."""

    stamps: dict[Path, tuple[int, int]] = field(default_factory=dict)
    tables: dict[Path, Table] = field(default_factory=dict)

    @classmethod
    def of(cls, folders: Sequence[Path]) -> ResultFiles:
        """Looks at all files below `folders`, and reads those that are CSV."""
        state = cls()
        for path in _files(folders):
            try:
                status = path.stat()
            except OSError:
                continue
            state.stamps[path] = (status.st_mtime_ns, status.st_size)
            if path.suffix.lower() == ".csv" and status.st_size <= CSV_BYTES_MAX:
                table = _table(path)
                if table is not None:
                    state.tables[path] = table
        return state

    def changed(self, before: ResultFiles) -> list[Path]:
        """Files that are new or were written since."""
        return [path for path, stamp in self.stamps.items() if before.stamps.get(path) != stamp]

    def new_rows(self, before: ResultFiles) -> Iterator[tuple[Row, Row]]:
        """Columns and row, for every row of a CSV file that was not there before."""
        for path, table in self.tables.items():
            old = before.tables.get(path)
            rows = table.rows
            if old is not None and old.columns == table.columns:
                rows = rows - old.rows
            for row in rows.elements():
                yield table.columns, row


def figures(
    rows: Sequence[tuple[Row, Row]], parameters: Mapping[str, Any], asked: Sequence[str]
) -> dict[str, CsvFigure]:
    """The numbers in new rows, by column; texts in the row distinguish its figures.

    Columns that only repeat a parameter are no figures.
    """
    known = {_plain(name) for name in parameters}
    texts = {_plain(text) for value in parameters.values() for text in _texts(value)}
    numbers = {float(m[1]) for text in texts if (m := _NUMBER.fullmatch(text))}
    wanted = {_plain(name) for name in asked}
    collected: dict[str, list[CsvFigure]] = {}
    for columns, row in rows:
        labels, found = [], []
        for column, cell in zip(columns, row, strict=False):
            name, unit = _name_and_unit(column)
            number = _NUMBER.fullmatch(cell)
            is_wanted = _plain(name) in wanted
            if _plain(name) in known and not is_wanted:
                continue
            if number is None:
                if cell.strip() and _plain(cell) not in texts:
                    labels.append(cell.strip())
                continue
            value = float(number[1])
            if not math.isfinite(value) or (value in numbers and not is_wanted):
                continue
            found.append((name, CsvFigure(value, unit or number[2])))
        suffix = f"[{','.join(labels)}]" if labels else ""
        for name, figure in found:
            key = f"{name}{suffix}"[:NAME_CHARS_MAX]
            if key in collected or len(collected) < FIGURES_MAX:
                collected.setdefault(key, []).append(figure)
    return {
        key: CsvFigure(statistics.median(figure.value for figure in many), many[-1].unit)
        for key, many in collected.items()
    }


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    count = 0
    for folder in dict.fromkeys(folders):
        for here, below, names in os.walk(folder):
            below[:] = sorted(name for name in below if not _NOT_RESULTS.fullmatch(name))
            for name in sorted(names):
                count += 1
                if count > FILES_MAX:
                    return
                yield Path(here, name)


def _table(path: Path) -> Table | None:
    rows: list[Row] = []
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            for row in csv.reader(file):
                if row:
                    rows.append(tuple(row))
                if len(rows) > ROWS_MAX:
                    break
    except (OSError, csv.Error):
        return None
    return Table(rows[0], Counter(rows[1:])) if rows else None


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [part for part in str(value).split(",") if part] + [str(value)]


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", "", text).lower()


def _name_and_unit(column: str) -> tuple[str, str]:
    match = _UNIT.fullmatch(column.strip())
    return (match[1].strip(), match[2].strip()) if match and match[1] else (column.strip(), "")
