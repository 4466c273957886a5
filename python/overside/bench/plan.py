"""The tests that a box stands for, the order they run in, and how long that takes."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

from overside import _core, amounts
from overside.errors import UserError
from overside.tasks import find
from overside.tasks.common import LOCAL, ExternalTask, Json, MeasuredTask

if TYPE_CHECKING:
    from overside.bench.box import Box, BoxTask, Measure
    from overside.tasks.common import Machine, Task

#: Tests of one worker process, at most.
BLOCK_TESTS = 128
#: What is compared: tests that differ in nothing else stand side by side.
COMPARED = (
    *("device", "variant", "threads", "cores", "timing", "placement", "pages", "mode"),
    *("source", "destination", "node"),
    *("server", "protocol", "design", "load_from", "link_batch", "overlap", "send"),
)
#: Of placements, also what belongs to one target only.
_COMPARED_PLACEMENTS = (*COMPARED, "depth", "cpu_variant")
#: Bytes a second assumed for the untimed pass over all inputs that comes before each sample.
_VERIFY_RATE = 100e6
#: Seconds assumed for starting a worker process.
_WORKER_START_S = 0.15
#: Seconds assumed for what comes before the first sample: the machine is described, data are found.
_START_S = 1.0


@dataclass
class Test:
    """One point of a task's parameters."""

    __test__ = False  # not a test of pytest

    id: str
    task: str
    parameters: Json
    #: The metrics that the box asked for, the one that decides about further rounds first.
    metrics: list[str]
    block: int = 0
    #: `planned` or `skipped`.
    status: str = "planned"
    reason: str | None = None
    verified: bool = True
    #: The machine that measures it.
    node: str = LOCAL
    #: Why a planned test may be skipped after all, once its data are known; not in a manifest,
    #: because its samples say what came of it.
    doubt: str | None = None

    def json(self) -> Json:
        """As in a run's manifest."""
        left_out = {"doubt"} if self.reason is not None else {"doubt", "reason"}
        return {name: value for name, value in vars(self).items() if name not in left_out}

    @classmethod
    def from_json(cls, entry: Json) -> Test:
        """From a run's manifest."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in entry.items() if name in known})

    @property
    def group(self) -> str:
        """The same for tests that are compared with each other."""
        compared = _COMPARED_PLACEMENTS if self.parameters.get("placement") else COMPARED
        rest = {k: v for k, v in self.parameters.items() if k not in compared}
        return f"{self.task} {_canonical(rest)}"


def test_id(task: str, parameters: Json) -> str:
    """Names a test by what it measures: the same in every run on every machine.

    A parameter that is null is as good as absent.
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    digest = hashlib.sha256(f"{task}\n{_canonical(given)}".encode()).hexdigest()
    return f"{task}/{digest[:12]}"


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


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
    """Refuses a filter that is misspelt: it would leave nothing, and not say why."""
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
    """A parameter's value as people write it, also what filters are matched against."""
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
    """Whether a parameter's value is meant: by a pattern, by an amount with a unit, or by a range
    such as `4KiB..64KiB`, both ends included, one of which can be absent."""
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
    """Numbers the blocks of one task entry, keeping what is compared together where it fits.
    Returns the next free number."""
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
    """The order of a round: forwards, then backwards, then forwards again, so that what drifts
    with time meets both sides of every comparison alike."""
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
