"""Show a box's tests and the time they take; run nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from overside import _core, screen
from overside.bench import box, plan, statistics
from overside.bench.box import Box
from overside.commands import Arguments, output, table
from overside.errors import Exit
from overside.report import formatting
from overside.tasks.common import Test


def main(args: Arguments) -> int:
    """Runs the verb."""
    here = box.machine()
    chosen = box.load(args.box, args.set, here, args.node or ())
    tests = plan.plan(chosen, here, args.filter)
    if not tests:
        raise box.nothing_selected(args.filter)
    seconds = plan.estimated_s(tests, chosen.measure)
    if args.json:
        output.document(
            "plan/1",
            box=chosen.form,
            tests=[_json(test) for test in tests],
            rounds=chosen.measure.rounds,
            estimated_s=round(seconds, 1),
            warnings=[warning.json() for warning in chosen.warnings],
        )
    else:
        _print(chosen, tests, seconds)
    return Exit.OK


def _json(test: Test) -> dict[str, Any]:
    """Returns the test in the form of a manifest, and the reason why it may be skipped, if any."""
    return test.json() | ({"doubt": test.doubt} if test.doubt else {})


def _print(chosen: Box, tests: Sequence[Test], seconds: float) -> None:
    for warning in chosen.warnings:
        print(screen.wrapped(f"warning: {warning}", "  "))
    for name in dict.fromkeys(test.task for test in tests):
        mine = [test for test in tests if test.task == name]
        varying = [
            key
            for key in mine[0].parameters
            if len({plan.text(test.parameters.get(key)) for test in mine}) > 1
        ]
        fixed = [
            f"{key}={_value(mine[0], key)}"
            for key, value in mine[0].parameters.items()
            if key not in varying and value is not None
        ]
        lead = f"{name}: {len(mine)} tests; all with {', '.join(fixed) or 'the same parameters'}"
        print(screen.wrapped(lead))
        rows = [
            [str(tests.index(test) + 1), str(test.block)]
            + [_value(test, key) for key in varying]
            + [_remark(test)]
            for test in mine
        ]
        print(table.text(["order", "block", *varying, ""], rows, indent="  "))
    planned = sum(test.status == "planned" for test in tests)
    doubtful = sum(test.doubt is not None for test in tests)
    measure = chosen.measure
    time, limit = _core.duration(seconds), _core.duration(measure.max_s)
    fits = seconds <= measure.max_s
    adds = fits and measure.rounds >= statistics.ROUNDS_FOR_INTERVAL
    most = f", at most {limit} with further rounds" if adds else ""
    lines = [f"{planned} of {len(tests)} tests in {measure.rounds} rounds: about {time}{most}."]
    if doubtful:
        lines.append(f"{doubtful} of these may be skipped: their data decide.")
    if not fits:
        lines.append(
            f"The planned rounds do not fit into {limit} (max_s): the run will be incomplete."
        )
    elif adds:
        lines.append(
            f"Rounds are added for intervals wider than {measure.target_interval:.0%} of the "
            "median."
        )
    if measure.rounds < statistics.ROUNDS_FOR_INTERVAL:
        lines.append(
            f"With fewer than {statistics.ROUNDS_FOR_INTERVAL} rounds there are ranges only, "
            "no intervals."
        )
    for line in lines:
        print(screen.wrapped(line, "  "))


def _value(test: Test, key: str) -> str:
    return formatting.parameter(test.task, key, test.parameters.get(key))


def _remark(test: Test) -> str:
    if test.reason:
        return f"skipped: {test.reason}"
    return f"may be skipped: {test.doubt}" if test.doubt else ""
