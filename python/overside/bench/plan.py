"""The tests that a box stands for, the order they run in, and how long that takes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

from overside import _core, amounts
from overside.errors import UserError
from overside.tasks import find
from overside.tasks.common import COMPARED, LOCAL, ExternalTask, Json, MeasuredTask, Test, test_id

if TYPE_CHECKING:
    from overside.bench.box import Box, BoxTask, Measure
    from overside.tasks.common import Machine, Task

#: Tests of one worker process, at most.
BLOCK_TESTS = 128
#: Bytes a second assumed for the untimed pass over all inputs that comes before each sample.
_VERIFY_RATE = 100e6
#: Seconds assumed for starting a worker process.
_WORKER_START_S = 0.15
#: Seconds assumed for the work before the first sample: the machine is described, data are found.
_START_S = 1.0


def plan(box: Box, machine: Machine, filters: Sequence[tuple[str, str]] = ()) -> list[Test]:
    """All tests of a box in the order of its first round, those that cannot run included.

    A test that two task entries ask for stands in the first of them. `filters` are pairs of a key
    (`task`, `id` or a parameter) and a glob pattern; a test stays if it matches all.

    Raises `UserError` for a key that no test of the box can have.
    """
    for key, glob in filters:
        _check_key(key, glob, box)
    tests: list[Test] = []
    seen: set[str] = set()
    block = 0
    for entry in box.tasks:
        chosen: list[Test] = []
        for test in _tests(entry, machine, box.measure):
            matches = all(_matches(test, entry.task, key, glob) for key, glob in filters)
            if matches and test.id not in seen:
                seen.add(test.id)
                chosen.append(test)
        block = _into_blocks(chosen, block)
        tests.extend(chosen)
    return tests


def _check_key(key: str, glob: str, box: Box) -> None:
    """Refuses a misspelt filter, which would silently leave no test."""
    known = {"task", "id"}
    for entry in box.tasks:
        known.update(entry.axes, entry.task.parameters)
    if key in known:
        return
    hint = _core.suggest(key, sorted(known))
    raise UserError(
        f"--filter {key}={glob}: no task of the box has a parameter {key}",
        f"did you mean {hint}?" if hint else f"filter by {', '.join(sorted(known))}",
    )


def _tests(entry: BoxTask, machine: Machine, measure: Measure) -> Iterator[Test]:
    """The product of an entry's axes; the compared axes vary fastest."""
    names = [name for name in entry.axes if name not in COMPARED]
    names += [name for name in COMPARED if name in entry.axes]
    for values in product(*(entry.axes[name] for name in names)):
        point = dict(zip(names, values, strict=True))
        if any(_excluded(point, rule) for rule in entry.exclude):
            continue
        parameters = {name: point[name] for name in entry.axes}
        takes_node, node = entry.task.takes_node, LOCAL
        if takes_node:
            node = parameters.pop("node", LOCAL)
        parameters = entry.task.normal(parameters)
        if takes_node:
            # A test here is the same with and without.
            parameters.pop("node", None)
        reason = entry.skip
        if isinstance(entry.task, MeasuredTask):
            times = {"warmup_s": measure.warmup_s, "sample_s": measure.sample_s}
            reason = reason or entry.task.out_of_bounds(parameters, times)
        if node != LOCAL:
            reason, doubt = reason or entry.task.no_node(parameters, node, machine), None
            parameters = {"node": node} | parameters
        else:
            reason = reason or entry.task.unavailable(parameters, machine)
            doubt = None if reason else entry.task.doubt(parameters, machine)
        yield Test(
            id=test_id(entry.name, parameters),
            node=node,
            task=entry.name,
            parameters=parameters,
            metrics=list(entry.metrics),
            status="skipped" if reason else "planned",
            reason=reason,
            verified=entry.task.verified,
            doubt=doubt,
        )


def _excluded(point: Json, rule: Mapping[str, Sequence[Any]]) -> bool:
    return all(name in point and point[name] in values for name, values in rule.items())


def text(value: object) -> str:
    """A parameter's value as people write it, which filters are also matched against."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(text(item) for item in value)
    return str(value)


def _matches(test: Test, task: Task, key: str, glob: str) -> bool:
    if key in ("task", "id"):
        return any(fnmatchcase(getattr(test, key), one) for one in glob.split(","))
    if key == "node" and task.takes_node:
        return any(fnmatchcase(test.node, one) for one in glob.split(","))
    if key not in test.parameters:
        return False
    value = test.parameters[key]
    parameter = task.parameters.get(key)
    unit = "" if parameter is None else parameter.unit
    return any(_is_like(value, unit, one) for one in glob.split(","))


def _is_like(value: object, unit: str, glob: str) -> bool:
    """Returns `True` if `glob` selects a parameter's value.

    `glob` is a pattern, an amount with a unit, or a range such as `4KiB..64KiB`. A range includes
    both ends, one of which may be absent.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        first, dots, last = glob.partition("..")
        low, high = _end(first, unit, -math.inf), _end(last, unit, math.inf)
        if dots and low is not None and high is not None:
            return low <= value <= high
        amount = amounts.number(glob, unit)
        if amount is not None:
            return value == amount
    return fnmatchcase(text(value), glob)


def _end(text: str, unit: str, absent: float) -> float | None:
    """An end of a range; `None` if the text is no figure."""
    if not text:
        return absent
    amount = amounts.number(text, unit)
    if amount is not None:
        return amount
    return float(text) if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) else None


def _into_blocks(tests: list[Test], block: int) -> int:
    """Numbers the blocks of one task entry, keeping tests that are compared together where they
    fit. Returns the next free number."""
    filled = 0
    for _, group in groupby(tests, key=lambda test: test.group):
        together = list(group)
        if filled + len(together) > BLOCK_TESTS and filled:
            block, filled = block + 1, 0
        for test in together:
            if filled == BLOCK_TESTS:
                block, filled = block + 1, 0
            test.block = block
            filled += 1
    return block + 1 if tests else block


def in_order(tests: Sequence[Test], round_number: int) -> list[Test]:
    """The order of a round: forwards, then backwards, then forwards again, so that a drift with
    time meets both sides of every comparison alike."""
    return list(tests) if round_number % 2 == 0 else list(reversed(tests))


def blocks(tests: Sequence[Test]) -> list[list[Test]]:
    """Tests that run in one process, in the order given."""
    return [list(block) for _, block in groupby(tests, key=lambda test: test.block)]


def estimated_s(tests: Sequence[Test], measure: Measure) -> float:
    """About how many seconds the planned tests take in the planned rounds, on a machine that is
    not loaded. Further rounds and the making of data are not in it."""
    planned = [test for test in tests if test.status == "planned"]
    one_round = _WORKER_START_S * len({test.block for test in planned})
    for test in planned:
        task = find(test.task)
        own_s = task.sample_s(test.parameters) if isinstance(task, ExternalTask) else None
        if own_s is not None:
            one_round += own_s
            continue
        sizes = (test.parameters.get(name) for name in ("sample_bytes", "buffer_size"))
        verify = max((size for size in sizes if isinstance(size, int)), default=0) / _VERIFY_RATE
        # A placement verifies what each of its targets makes.
        verify *= 2 if test.parameters.get("placement") else 1
        timed_s = measure.sample_s
        if isinstance(task, MeasuredTask):
            timed_s = task.timed_s(test.parameters, measure.sample_s) + task.extra_s
        one_round += measure.warmup_s + timed_s + verify
    return _START_S + one_round * measure.rounds
