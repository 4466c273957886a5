"""A run's figures as Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from overside.bench import store
from overside.bench.statistics import RunView, TestSummary

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("Run.to_arrow needs pyarrow: pip install 'overside[flow]'") from error

Row = dict[str, Any]


def estimates(view: RunView) -> pa.Table:
    """A row for each test and metric; one of nulls for a test without any."""
    rows: list[Row] = []
    for test in view.tests:
        applied = test.applied or {}
        about = {
            "status": test.status,
            "reason": test.reason,
            "provenance": test.provenance,
            "timing": test.timing,
            "verified": test.verified,
            "applied_device": applied.get("device"),
            "applied_variant": applied.get("variant"),
            "applied_library": applied.get("library"),
            "late_share": test.late_share,
        }
        figures: list[Row] = [
            {
                "metric": name,
                "unit": view.metric(test.task, name)["unit"],
                "better": view.metric(test.task, name)["better"],
                "median": one.median,
                "low": one.low,
                "high": one.high,
                "interval": one.kind,
                "minimum": one.minimum,
                "maximum": one.maximum,
                "rounds": one.n,
            }
            for name, one in test.metrics.items()
        ]
        rows += [about | figure | _test(test) for figure in figures or [{}]]
    return _table(rows, {})


def samples(view: RunView) -> pa.Table:
    """A row for each sample, in the order they were taken."""
    tests = {test.id: test for test in view.tests}
    rows: list[Row] = []
    units: dict[str, str] = {}
    for sample in store.read_samples(view.path):
        test = tests.get(sample["test"])
        if test is None:
            continue
        metrics: Mapping[str, float] = sample.get("metrics", {})
        units |= {name: view.metric(test.task, name)["unit"] for name in metrics}
        about: Row = {name: sample.get(name) for name in ("round", "order", "started", "status")}
        about |= {name: sample.get(name) for name in ("provenance", "timing", "elapsed_ns")}
        cpu: Mapping[str, float] = sample.get("cpu", {})
        about |= {f"cpu_{name}": value for name, value in cpu.items()}
        error = sample.get("error") or {}
        about["error"] = error.get("message") or sample.get("reason")
        rows.append(about | {name: float(value) for name, value in metrics.items()} | _test(test))
    return _table(rows, units)


#: Key under which a row has its test's parameters until the columns are known.
_PARAMETERS = "\0parameters"


def _test(test: TestSummary) -> Row:
    return {"test": test.id, "task": test.task, "node": test.node, _PARAMETERS: test.parameters}


def _table(rows: Sequence[Row], units: Mapping[str, str]) -> pa.Table:
    """The rows as a table: the metric, its parameters, the figures."""
    own = list(dict.fromkeys(name for row in rows for name in row if name != _PARAMETERS))
    parameters = list(dict.fromkeys(name for row in rows for name in row[_PARAMETERS]))
    columns: dict[str, pa.Array] = {}
    first: list[str] = [name for name in ("test", "task", "node") if name in own]
    for name in first:
        columns[name] = pa.array([row.get(name) for row in rows])
    for name in parameters:
        shown = f"parameter_{name}" if name in own else name
        columns[shown] = _column([row[_PARAMETERS].get(name) for row in rows])
    for name in own:
        if name not in first:
            columns[name] = pa.array([row.get(name) for row in rows])
    fields = [
        pa.field(name, column.type, metadata={"unit": units[name]} if units.get(name) else None)
        for name, column in columns.items()
    ]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _column(values: Sequence[Any]) -> pa.Array:
    """Values of a parameter: numbers or truth values if all are, otherwise text."""
    given = [value for value in values if value is not None]
    for kinds, kind in (((bool,), pa.bool_()), ((int,), pa.int64()), ((int, float), pa.float64())):
        if given and all(type(value) in kinds for value in given):
            return pa.array(values, kind)
    texts = [
        value if value is None or isinstance(value, str) else json.dumps(value) for value in values
    ]
    return pa.array(texts, pa.string())
