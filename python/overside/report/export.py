"""The figures for other programs: CSV, one line a test and metric, and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from overside import verdict
from overside.bench.statistics import RunView, TestSummary
from overside.report import formatting, published, sweeps

#: Parameters with a column of their own; the others stand together in `parameters`.
PARAMETERS = ("device", "variant", "threads", "buffer_size")

COLUMNS = (
    "test",
    "task",
    *(f"{name}_bytes" if name == "buffer_size" else name for name in PARAMETERS),
    "parameters",
    "status",
    "reason",
    "provenance",
    "timing",
    "verified",
    "applied_device",
    "applied_variant",
    "applied_library",
    "late_share",
    "metric",
    "unit",
    "better",
    "median",
    "low",
    "high",
    "interval",
    "mad",
    "minimum",
    "maximum",
    "rounds",
)


def csv_text(view: RunView) -> str:
    """The table; a test without figures has one line with an empty metric."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for test in view.tests:
        writer.writerows(_lines(view, test))
    return out.getvalue()


def _lines(view: RunView, test: TestSummary) -> Iterator[Sequence[object]]:
    applied = test.applied or {}
    others = {name: v for name, v in test.parameters.items() if name not in PARAMETERS}
    head = [
        _text(test.id),
        _text(test.task),
        *(_cell(test.parameters.get(name)) for name in PARAMETERS),
        _text(json.dumps(others, sort_keys=True)),
        test.status,
        _text(test.reason or ""),
        test.provenance or "",
        test.timing or "",
        "yes" if test.verified else "no",
        *(_text(applied.get(key) or "") for key in ("device", "variant", "library")),
        "" if test.late_share is None else test.late_share,
    ]
    if not test.metrics:
        yield [*head, *[""] * 11]
    metrics = view.manifest.get("metrics")
    for name, e in test.metrics.items():
        about = metrics.get(name) if isinstance(metrics, dict) else None
        about = about if isinstance(about, dict) else {}
        what = [_text(text or "") for text in (name, about.get("unit"), about.get("better"))]
        figures = [e.median, e.low, e.high, e.kind, e.mad, e.minimum, e.maximum, e.n]
        yield [*head, *what, *figures]


def _cell(value: object) -> object:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return value if plain else "" if value is None else _text(value)


def _text(value: object) -> str:
    """Text that no spreadsheet takes for a formula."""
    text = formatting.clean(value)
    return f"'{text}" if text[:1] in {"=", "+", "-", "@"} and text != "-" else text


def json_text(view: RunView) -> str:
    """The run with its estimates, as `overside.bench.statistics.RunView.json` gives it, the
    verdict, the results of its placements, and values that studies published beside its own."""
    content = view.json() | {"verdict": verdict.of_run(view).json()}
    found = [sweeps.as_json(one) for one in sweeps.sweeps(view)]
    if found:
        content["sweeps"] = found
    figures = published.reproductions(view, published.core()) if view.tests else []
    if figures:
        content["studies"] = {
            one.figure.id: [asdict(pair) | {"ratio": asdict(pair.ratio)} for pair in one.pairs]
            for one in figures
        }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"
