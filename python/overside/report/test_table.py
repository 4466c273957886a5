"""The table of all tests in a page: a column for each figure that some test has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from overside.bench.statistics import Estimate, RunView
from overside.report import formatting, view_model
from overside.report.charts import name_of
from overside.tasks.common import Json

#: The most columns for figures in addition to the usual ones; more are joined in one.
FIGURES_MAX = 8

_FIRST = (
    ("Operation", "text"),
    ("With", "text"),
    ("Buffer", "figure"),
    ("Status", "text"),
    ("Provenance", "text"),
)
_LAST = (("Notes", "text"), ("Test", "text"))
_USUAL = {
    "throughput": "MB/s",
    "cpu_cost": "CPU s/GB",
    "latency_p99": "p99, µs",
    "ratio": "Ratio",
}


def table(view: RunView, rows: Sequence[view_model.Row]) -> Json:
    """Columns with their alignment, and rows with a cell for each figure."""
    usual = [name for name in _USUAL if any(getattr(row, name) is not None for row in rows)]
    others = list(dict.fromkeys(name for row in rows for name in row.figures))
    heads = [_USUAL[name] for name in usual]
    if len(others) <= FIGURES_MAX:
        heads += [_head(view, name) for name in others]
    else:
        heads.append("Other figures")
    columns = [*_FIRST, *((head, "figure") for head in heads), *_LAST]
    return {"columns": columns, "rows": [_row(row, usual, others) for row in rows]}


def _head(view: RunView, name: str) -> str:
    unit = view_model.metric_unit(view, name).strip()
    title = formatting.clean(name_of(name), 60)
    return f"{title}, {unit}" if unit else title


def _row(row: view_model.Row, usual: Sequence[str], others: Sequence[str]) -> Json:
    # What costs no time is right where the clock is not.
    cells = [
        figure(getattr(row, name), row.timed or name in ("cpu_cost", "ratio")) for name in usual
    ]
    if len(others) <= FIGURES_MAX:
        cells += [_other(row.figures, name) for name in others]
    else:
        cells.append({"value": "", "text": row.others, "sub": ""})
    return {
        **vars(row),
        "size": formatting.size(row.size_bytes) if row.size_bytes else "–",
        "size_value": row.size_bytes or "",
        "cells": cells,
    }


def _other(figures: Mapping[str, Estimate], name: str) -> Json:
    return figure(figures.get(name))


def figure(estimate: Estimate | None, timed: bool = True) -> Json:
    """A cell, and the value that it is sorted by."""
    if estimate is None:
        return {"value": "", "text": "", "sub": ""}
    if not timed:
        return {"value": "", "text": "–", "sub": "timing invalid"}
    spread = estimate.low != estimate.high
    return {
        "value": repr(estimate.median),
        "text": formatting.number(estimate.median),
        "sub": f"({formatting.span(estimate.low, estimate.high)})" if spread else "",
    }
