"""Compare two runs test by test."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from overside import screen
from overside.bench import comparison, plan, statistics, store
from overside.bench.comparison import MetricComparison, RunComparison
from overside.bench.statistics import RunView
from overside.commands import output, table
from overside.errors import Exit, unknown
from overside.report import formatting

#: Parameters that are names by their values alone.
USUAL = ("device", "variant", "format", "level", "buffer_size")

_STYLES = {"faster": screen.GREEN, "slower": screen.RED, "ambiguous": screen.YELLOW}


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
    before, after = statistics.load_run(args.before), statistics.load_run(args.after)
    for view in (before, after):
        store.check_manifest(view.path, view.manifest, needed=False)
    _require_metrics(args.metric, before, after)
    threshold = args.threshold or _declared(before) or comparison.DEFAULT_THRESHOLD
    result = comparison.compare(before, after, threshold, metrics=args.metric, across=args.across)
    code = _exit_code(result, args.strict)
    if args.json:
        print(_json(result, threshold, code))
    else:
        _print(result, threshold, with_all=args.all)
    return code


def _require_metrics(names: Sequence[str], *runs: RunView) -> None:
    """Raises `UserError` for a metric that none of the runs has."""
    known = {name: None for run in runs for test in run.tests for name in test.values}
    for name in names:
        if name not in known:
            raise unknown("metric", name, list(known))


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


def _print(result: RunComparison, threshold: float, *, with_all: bool) -> None:
    """What changed, and one line of counts; with `with_all` every figure and test."""
    for condition in result.conditions:
        _say(f"no verdicts: {condition}")
    for note in result.notes:
        _say(f"note: {note}")
    names = _parameter_names(result.compared)
    shown = [one for one in result.compared if with_all or one.verdict in ("faster", "slower")]
    if shown:
        rows = [_row(one, names[one.task]) for one in shown]
        styles = [_STYLES.get(one.verdict, "") for one in shown]
        head = ["test", "metric", "A", "B", "change", "95 % interval", "limit", "verdict"]
        print(table.text(head, rows, styles=styles, colour=screen.has_colour(sys.stdout)))
    if with_all:
        for test in result.not_compared:
            told = list(test["parameters"].items())[:4]
            values = " ".join(f"{key}={plan.text(value)}" for key, value in told)
            _say(f"not compared: {test['task']} {values}: {test['reason']}")
    else:
        for reason, count in Counter(test["reason"] for test in result.not_compared).items():
            _say(f"not compared: {formatting.plural(count, 'test')}: {reason}")
    _print_counts(result, threshold, hides_some=len(shown) < len(result.compared))


def _say(line: str) -> None:
    print(screen.wrapped(line, "  "))


def _print_counts(result: RunComparison, threshold: float, *, hides_some: bool) -> None:
    verdicts = ("faster", "slower", "same", "ambiguous")
    counts = ", ".join(f"{result.count(verdict)} {verdict}" for verdict in verdicts)
    more = "; --all shows every figure" if hides_some else ""
    _say(
        f"{counts}; a change is more than {threshold:.0%}, or than the noise where that is "
        f"larger{more}"
    )
    many = sum(entry.doubt == "tests" for entry in result.compared)
    if many:
        _say(
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
            text = output.parameter(entry.task, key, value)
            parts.append(text if key in USUAL else f"{key}={text}")
    spread = "identical"
    if ratio.kind != "identical":
        kind = " (range)" if ratio.kind == "range" else ""
        spread = f"{_change(ratio.low)} to {_change(ratio.high)}{kind}"
    return [
        " ".join([entry.task, *parts]),
        entry.metric,
        _figure(entry.before, entry.unit),
        _figure(entry.after, entry.unit),
        _change(ratio.value),
        spread,
        f"{entry.threshold:.1%}",
        entry.verdict,
    ]


def _figure(value: float, unit: str) -> str:
    """A figure with its unit, sizes and times in the unit that fits them."""
    if unit == "bytes":
        return formatting.size(value)
    if unit == "s":
        return formatting.duration(value)
    return f"{formatting.number(value)} {unit if unit != '-' else ''}".rstrip()


def _change(ratio: float) -> str:
    """B against A: `-4.1%`, from twice as much on `2.3x`."""
    if not math.isfinite(ratio):
        return "any"
    return f"{formatting.times(ratio)}x" if ratio >= 2 else f"{ratio - 1:+.1%}"
