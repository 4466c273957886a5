"""Compare two runs test by test."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from overside import screen
from overside.bench import comparison, plan, statistics, store
from overside.bench.comparison import RunComparison
from overside.bench.statistics import RunView
from overside.commands import Arguments, table
from overside.errors import Exit, UserError, unknown
from overside.report import changes

_STYLES = {"faster": screen.GREEN, "slower": screen.RED, "ambiguous": screen.YELLOW}


def main(args: Arguments) -> int:
    """Runs the verb."""
    if args.out is not None and not args.format:
        raise UserError("--out takes what --format writes", "add --format html or md")
    if args.json and args.format:
        raise UserError("--json and --format both say the form", "leave one of them out")
    before, after = statistics.load_run(args.before), statistics.load_run(args.after)
    for view in (before, after):
        store.check_manifest(view.path, view.manifest, needed=False)
    _require_metrics(args.metric, before, after)
    threshold = args.threshold or _declared(before) or comparison.DEFAULT_THRESHOLD
    result = comparison.compare(before, after, threshold, metrics=args.metric, across=args.across)
    code = _exit_code(result, args.strict)
    if args.json:
        print(_json(result, threshold, code))
    elif args.format:
        _write(args, (before, after), result, threshold)
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


def _write(
    args: Arguments,
    runs: tuple[RunView, RunView],
    result: RunComparison,
    threshold: float,
) -> None:
    text = changes.render(args.format, *runs, result, threshold)
    if args.out == Path("-"):
        sys.stdout.write(text)
        return
    path = args.out or runs[1].path / changes.FILES[args.format]
    store.write_output(path, text)
    print(path)


def _print(result: RunComparison, threshold: float, *, with_all: bool) -> None:
    """Prints the changed figures and a line of counts; with `with_all` all figures and tests."""
    for condition in result.conditions:
        _say(f"no verdicts: {condition}")
    for note in result.notes:
        _say(f"note: {note}")
    shown = [one for one in result.compared if with_all or one.verdict in ("faster", "slower")]
    if shown:
        styles = [_STYLES.get(one.verdict, "") for one in shown]
        colour = screen.has_colour(sys.stdout)
        print(table.text(changes.COLUMNS, changes.rows(shown), styles=styles, colour=colour))
    if with_all:
        for test in result.not_compared:
            told = list(test["parameters"].items())[:4]
            values = " ".join(f"{key}={plan.text(value)}" for key, value in told)
            _say(f"not compared: {test['task']} {values}: {test['reason']}")
    else:
        for reason in changes.left_out(result):
            _say(f"not compared: {reason}")
    more = "; --all shows every figure" if len(shown) < len(result.compared) else ""
    _say(changes.counts(result, threshold) + more)
    if doubts := changes.doubts(result):
        _say(doubts)


def _say(line: str) -> None:
    print(screen.wrapped(line, "  "))
