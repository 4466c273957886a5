"""`overside fleet run`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from overside import _core, fleet, report
from overside.bench import box as boxes
from overside.bench import statistics
from overside.bench.statistics import RunView, TestSummary
from overside.commands import Arguments, table
from overside.errors import Exit, UserError, printable
from overside.fleet import merge
from overside.fleet.box_run import BoxRun, unpack
from overside.fleet.merge import RUNS, NodeResult
from overside.report import formatting, view_model

#: Seconds between two questions to the machines about their progress.
_LOOK_S = 1.0
#: Longest time in seconds that machines may take to end an interrupted box.
_INTERRUPT_S = 60.0
#: Lines of the table at the end; the report has all.
_ROWS_MAX = 40

Json = dict[str, Any]


def main(args: Arguments) -> int:
    """Runs the box on each machine, and merges the runs."""
    path = boxes.find(args.box)
    form, digest = boxes.read(path)
    seed = args.seed if args.seed is not None else form["seed"]
    ray = fleet.connect(args.ray_address)
    try:
        machines = _named(fleet.machines(ray), args.label)
        about = {
            "version": _core.version(),
            "command": ["overside", *sys.argv[1:]],
            "box": form,
            "box_path": str(path),
            "box_digest": digest,
            "seed": seed,
            "warnings": list(_shared(machines)),
        }
        with merge.begin(args.out, form["name"], about) as run:
            _say(args, f"results go to {run.path}")
            started = _start(ray, machines, path, _words(args, seed))
            results = _collect(ray, args, machines, started, run.path / RUNS)
            code = merge.merge(run, form, results)
    finally:
        ray.shutdown()
    _report(args, run.path, results)
    return code


def _named(found: Sequence[Json], label: str | None) -> dict[str, Json]:
    """The machines with a label, by the names that reports have for them: nothing in a run
    identifies a machine, so these are numbers. Raises `UserError` if there are none."""
    key, equals, value = (label or "").partition("=")
    chosen = [
        node
        for node in found
        if label is None
        or (equals and node.get("Labels", {}).get(key) == value)
        or fleet.resources(node).get(label, 0) > 0
    ]
    if not chosen:
        known = sorted({name for node in found for name in fleet.resources(node)})
        there = f"they have: {', '.join(known)}" if known else "none has a resource of its own"
        raise UserError(
            f"no machine of the Ray cluster has {label}; {there}",
            f"ray start --address=HEAD:6379 --resources='{json.dumps({label: 1})}'",
            Exit.NOTHING_SELECTED,
        )
    word = "".join(c if c.isalnum() else "-" for c in (value or label or "node"))[:40]
    return {f"{word}-{number}": node for number, node in enumerate(chosen, 1)}


def _shared(machines: Mapping[str, Json]) -> Iterator[Json]:
    """Warnings of machines that are one: Ray can have several nodes on one."""
    names: dict[str, list[str]] = {}
    for name, machine in machines.items():
        names.setdefault(str(machine.get("NodeManagerAddress")), []).append(name)
    for together in names.values():
        if len(together) > 1:
            yield {
                "kind": "node",
                "message": f"{', '.join(together)} have one address: they are one machine, and "
                "measured at the same time",
                "remedy": "start one Ray node on each machine",
            }


def _words(args: Arguments, seed: int) -> list[str]:
    """The part of the command line that machines get."""
    words = [f"--seed={seed}"]
    words += [f"--set={one}" for one in args.set]
    words += [f"--filter={key}={glob}" for key, glob in args.filter]
    if args.timeout is not None:
        words.append(f"--timeout={args.timeout}")
    if args.allow_scripts:
        words.append("--allow-scripts")
    return words


def _start(ray: Any, machines: Mapping[str, Json], box: Path, words: Sequence[str]) -> Json:
    """The box on each machine: what Ray calls its end -> the machine's name and actor."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    content, started = box.read_bytes(), {}
    for name, machine in machines.items():
        there = NodeAffinitySchedulingStrategy(machine["NodeID"], soft=False)
        options = {"num_cpus": 0, "max_concurrency": 3, "scheduling_strategy": there}
        actor = ray.remote(BoxRun).options(**options).remote()
        started[actor.run.remote(box.name, content, list(words))] = (name, actor)
    return started


def _collect(
    ray: Any, args: Arguments, machines: Mapping[str, Json], started: Json, runs: Path
) -> list[NodeResult]:
    """Waits for all machines and keeps their runs. An interrupt ends the box everywhere."""
    for name, machine in machines.items():
        where = machine.get("NodeManagerAddress")
        _say(args, f"{name} is {printable(str(machine.get('NodeName') or where))}")
    waiting, results = dict(started), {}
    progress = _Progress(ray, args)
    end = float("inf")
    while waiting:
        try:
            ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=_LOOK_S)
            for reference in ready:
                name, actor = waiting.pop(reference)
                results[name] = _result(ray, name, machines[name], reference, runs / name)
                _say(args, f"{name}: {results[name].problem or 'done'}")
                ray.kill(actor)
            progress.look(waiting.values())
        except KeyboardInterrupt:
            if end < float("inf"):
                raise
            end = time.monotonic() + _INTERRUPT_S
            _say(args, "interrupted; waiting for what was measured")
            for _, actor in waiting.values():
                actor.cancel.remote()
        if time.monotonic() > end:
            break
    for name, _ in waiting.values():
        resources = fleet.resources(machines[name])
        problem = "did not end when it was interrupted"
        results[name] = NodeResult(name, resources, Exit.INTERRUPTED, problem)
    return [results[name] for name in machines]


def _result(ray: Any, name: str, machine: Json, reference: Any, path: Path) -> NodeResult:
    from ray.exceptions import RayError  # noqa: PLC0415

    resources = fleet.resources(machine)
    try:
        answer = ray.get(reference)
        if answer["run"] is not None:
            unpack(answer["run"], path)
    except RayError as error:
        cause = getattr(error, "cause", None) or error
        first = str(cause).strip().partition("\n")[0]
        return NodeResult(name, resources, None, f"lost: {printable(first)[:300]}")
    except ValueError as error:
        return NodeResult(name, resources, None, printable(str(error)))
    problem = printable(answer["said"]) if answer["run"] is None else ""
    return NodeResult(name, resources, answer["code"], problem)


class _Progress:
    """Tells on stderr how far machines are, without waiting for their answers."""

    def __init__(self, ray: Any, args: Arguments) -> None:
        self._ray, self._args = ray, args
        self._asked: Json = {}
        self._told: dict[str, tuple[int, int]] = {}

    def look(self, running: Any) -> None:
        """Asks those that run, and says what those have answered that were asked before."""
        from ray.exceptions import RayError  # noqa: PLC0415

        for name, actor in running:
            asked = self._asked.setdefault(name, actor.progress.remote())
            if not self._ray.wait([asked], timeout=0)[0]:
                continue
            del self._asked[name]
            try:
                now = self._ray.get(asked)
            except RayError:
                continue
            if now != self._told.get(name) and now[1]:
                self._told[name] = now
                _say(self._args, f"{name}: {now[0]} of {now[1]} samples")


def _report(args: Arguments, path: Path, results: Sequence[NodeResult]) -> None:
    view = statistics.load_run(path)
    pages: Sequence[Path] = ()
    try:
        pages = report.write(path, ("html",)) if view.tests else ()
    except (OSError, UserError) as error:
        print(f"overside fleet: {error}", file=sys.stderr)
    if args.json:
        print(json.dumps(view.json() | {"path": str(path)}, ensure_ascii=False))
    elif not args.quiet:
        print("\n".join(_lines(view, [result.node for result in results])))
    for result in results:
        if result.problem:
            print(f"overside fleet: {result.node}: {result.problem}", file=sys.stderr)
    for page in pages:
        _say(args, f"report: {page}")


def _lines(view: RunView, nodes: Sequence[str]) -> Iterator[str]:
    """Each test with a column a machine: the metric that the box asks for first."""
    found: dict[str, dict[str, TestSummary]] = {}
    for test in view.tests:
        rest = {key: value for key, value in test.parameters.items() if key != "node"}
        key = json.dumps([test.task, rest], sort_keys=True)
        found.setdefault(key, {})[test.node] = test
    same = view_model.constants(view)
    rows = []
    for by_node in found.values():
        test = next(iter(by_node.values()))
        metric = test.asked[0] if test.asked else ""
        shown = {k: v for k, v in test.parameters.items() if k not in same and k != "node"}
        rows.append(
            [
                formatting.clean(test.task, 60),
                view_model.parameters(shown),
                f"{metric}{view_model.metric_unit(view, metric)}",
                *(_cell(by_node.get(node), metric) for node in nodes),
            ]
        )
    yield table.text(["task", "parameters", "metric", *nodes], rows[:_ROWS_MAX])
    if len(rows) > _ROWS_MAX:
        yield f"and {len(rows) - _ROWS_MAX} more in the report"


def _cell(test: TestSummary | None, metric: str) -> str:
    if test is None:
        return "–"
    estimate = test.metrics.get(metric)
    return formatting.number(estimate.median) if estimate is not None else test.status


def _say(args: Arguments, text: str) -> None:
    if not args.quiet:
        print(text, file=sys.stderr, flush=True)
