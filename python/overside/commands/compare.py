"""Compare two runs test by test."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from overside.bench import comparison, plan, statistics, store
from overside.bench.comparison import MetricComparison, RunComparison
from overside.bench.statistics import RunView
from overside.commands import table
from overside.errors import Exit

#: Parameters that are names by their values alone.
USUAL = ("device", "variant", "format", "level", "buffer_size")


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
    before, after = statistics.load_run(args.before), statistics.load_run(args.after)
    for view in (before, after):
        store.check_manifest(view.path, view.manifest, needed=False)
    threshold = args.threshold or _declared(before) or comparison.DEFAULT_THRESHOLD
    result = comparison.compare(before, after, threshold, metrics=args.metric, across=args.across)
    code = _exit_code(result, args.strict)
    if args.json:
        print(_json(result, threshold, code))
    else:
        _print(result, threshold)
    return code


def _declared(view: RunView) -> float | None:
    measure = (view.manifest.get("box") or {}).get("measure") or {}
    threshold = measure.get("threshold")
    return float(threshold) if threshold else None


def _exit_code(result: RunComparison, strict: bool) -> Exit:
    if result.count("slower"):
        return Exit.REGRESSION
    if not result.compared:
        return Exit.NOTHING_SELECTED
    return Exit.AMBIGUOUS if strict and result.count("ambiguous") else Exit.OK


def _json(result: RunComparison, threshold: float, code: Exit) -> str:
    verdicts = ("same", "faster", "slower", "ambiguous")
    whole = {
        "schema": "comparison/1",
        "threshold": threshold,
        "counts": {verdict: result.count(verdict) for verdict in verdicts},
        "exit_code": int(code),
        **asdict(result),
    }
    # A ratio to zero is infinite, which JSON has no word for.
    return json.dumps(_finite(whole), ensure_ascii=False)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print(result: RunComparison, threshold: float) -> None:
    for condition in result.conditions:
        print(f"no verdicts: {condition}")
    for note in result.notes:
        print(f"note: {note}")
    names = _parameter_names(result.compared)
    rows = [_row(entry, names[entry.task]) for entry in result.compared]
    if rows:
        head = ["test", "metric", "A", "B", "", "B/A", "95 %", "beyond", "verdict"]
        print(table.text(head, rows))
    for entry in result.not_compared:
        values = " ".join(f"{k}={plan.text(v)}" for k, v in list(entry["parameters"].items())[:4])
        print(f"not compared: {entry['task']} {values}: {entry['reason']}")
    verdicts = ("faster", "slower", "same", "ambiguous")
    counts = ", ".join(f"{result.count(verdict)} {verdict}" for verdict in verdicts)
    print(
        f"{counts}; a change is more than {threshold:.0%}, or than the noise where that is larger"
    )
    many = sum(entry.doubt == "tests" for entry in result.compared)
    if many:
        print(
            f"{many} of the ambiguous changed, but that may be chance among so many: measure more "
            "rounds (--set measure.rounds=10), or compare fewer metrics (--metric)"
        )


def _parameter_names(entries: Sequence[MetricComparison]) -> dict[str, list[str]]:
    """By task: the parameters that a line tells, first the usual ones, then what else tells its
    tests apart."""
    names: dict[str, list[str]] = {}
    for task in {entry.task for entry in entries}:
        tests = [entry.parameters for entry in entries if entry.task == task]
        keys = dict.fromkeys(key for test in tests for key in test)
        differ = [key for key in keys if any(t.get(key) != tests[0].get(key) for t in tests)]
        names[task] = [key for key in keys if key in USUAL]
        names[task] += [key for key in differ if key not in USUAL]
    return names


def _row(entry: MetricComparison, names: Sequence[str]) -> list[str]:
    ratio = entry.ratio
    parts = []
    for key in names:
        value = entry.parameters.get(key)
        if value is not None:
            parts.append(plan.text(value) if key in USUAL else f"{key}={plan.text(value)}")
    kind = " (range)" if ratio.kind == "range" else ""
    return [
        " ".join([entry.task, *parts]),
        entry.metric,
        f"{entry.before:.4g}",
        f"{entry.after:.4g}",
        entry.unit,
        f"{ratio.value:.3f}",
        f"{ratio.low:.3f}..{ratio.high:.3f}{kind}",
        f"{entry.threshold:.1%}",
        entry.verdict,
    ]
