"""The same tests on several nodes, side by side: a column a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overside.bench.statistics import RunView, TestSummary
from overside.report import formatting, groups, view_model
from overside.tasks.common import Json

#: The most rows of the table; the others are in samples.csv.
ROWS_MAX = 200


@dataclass(frozen=True)
class NodeRow:
    """One test on each node."""

    #: `Compress to DEFLATE, ISA-L, 64 KiB`.
    what: str
    #: `throughput, MB/s`.
    metric: str
    #: Figure of each node, in the order of the columns; empty if it had no such test.
    cells: tuple[str, ...]


@dataclass(frozen=True)
class NodeTable:
    """The table."""

    nodes: tuple[str, ...]
    rows: tuple[NodeRow, ...]
    #: Number of further rows that are not in the table.
    more: int


def table(view: RunView) -> NodeTable | None:
    """The figure that decides of each test, by node; `None` for a run on one node."""
    nodes = tuple(dict.fromkeys(test.node for test in view.tests))
    if len(nodes) < 2:
        return None
    asked = {test["id"]: test["parameters"] for test in view.manifest["tests"]}
    found: dict[str, dict[str, TestSummary]] = {}
    for test in view.tests:
        # As asked: `all` cores are as many as a node has.
        rest = {k: v for k, v in asked.get(test.id, test.parameters).items() if k != "node"}
        key = f"{test.task} {sorted((k, str(v)) for k, v in rest.items() if v is not None)}"
        found.setdefault(key, {})[test.node] = test
    same = view_model.constants(view)
    rows = [_row(view, nodes, tests, same) for tests in found.values()]
    return NodeTable(nodes, tuple(rows[:ROWS_MAX]), max(0, len(rows) - ROWS_MAX))


def _row(view: RunView, nodes: Sequence[str], tests: dict[str, TestSummary], same: Json) -> NodeRow:
    one = next(iter(tests.values()))
    hidden = {*view_model.SHOWN_ELSEWHERE, *formatting.named(), *same, "node"}
    size = groups.size_bytes(one)
    rest = {name: v for name, v in one.parameters.items() if name not in hidden}
    parts = (
        formatting.operation(one.task, one.parameters),
        *groups.label_parts(one, [one]),
        formatting.size(size) if size else "",
        view_model.parameters(rest),
    )
    # The one that decides, unless tests of that kind have none of it.
    there = [name for test in tests.values() for name in (*test.asked, *test.metrics)]
    known = (name for name in there if any(name in test.metrics for test in tests.values()))
    metric = next(known, one.asked[0] if one.asked else "")
    unit = view_model.metric_unit(view, metric).strip()
    name = formatting.clean(metric.replace("_", " "), 60)
    return NodeRow(
        what=", ".join(part for part in parts if part),
        metric=f"{name}, {unit}" if unit else name,
        cells=tuple(_cell(tests.get(node), metric) for node in nodes),
    )


def _cell(test: TestSummary | None, metric: str) -> str:
    if test is None:
        return ""
    estimate = test.metrics.get(metric) if groups.timed(test) else None
    if estimate is None:
        return formatting.STATUS.get(test.status, formatting.clean(test.status, 40))
    text = formatting.number(estimate.median)
    if estimate.low != estimate.high:
        text += f" ({formatting.span(estimate.low, estimate.high)})"
    # Figures of different provenance are not alike, even in one row.
    return text if test.provenance == "measured" else f"{text}, {test.provenance}"
