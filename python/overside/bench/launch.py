"""Preparation of a run: its directory, its data, and the description of its machine.

For a run that is resumed, the data and the machine must still be the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from overside import _core
from overside.bench import audit, diagnostics, environment, statistics, store
from overside.bench import box as boxes
from overside.bench.box import Box, Measure
from overside.bench.problems import Problem
from overside.bench.store import RunStore
from overside.errors import UserError, require_utf8
from overside.tasks.common import LOCAL, ExternalTask, Json, Machine, MeasuredTask, Task, Test


@dataclass
class Launch:
    """A run that is ready to be measured."""

    run: RunStore
    tasks: Mapping[str, Task]
    measure: Measure
    #: Name of a data set -> its files.
    data: Mapping[str, Sequence[Path]]
    #: For people, before the run starts.
    warnings: list[str]


def start(
    box: Box, tests: Sequence[Test], out: Path, command: Sequence[str], name: str | None = None
) -> Launch:
    """Makes a run's directory, its data sets, and its first manifest. `name` is the directory's,
    unless it gets one by the time and the box.

    Raises `UserError` if the directory cannot be written.
    """
    metrics: Json = {}
    for entry in box.tasks:
        store.add_metrics(metrics, entry.task)
    manifest: Json = {
        "schema": store.SCHEMA,
        "id": name or store.new_id(box.name),
        "version": _core.version(),
        "commit": _core.commit() or None,
        "command": list(command),
        "box": box.form,
        "box_path": box.path,
        "box_digest": box.digest,
        "seed": box.seed,
        "started": store.now(),
        "ended": None,
        "state": "running",
        "exit_code": None,
        "rounds": {"done": 0, "planned": box.measure.rounds, "most": 0, "reason": None},
        "data": [],
        "metrics": metrics,
        "tests": [test.json() for test in tests],
        "warnings": [],
        "late_limit": statistics.LATE_LIMIT,
    }
    # First of all, so that nothing is prepared for a run that cannot be written.
    run = RunStore.create(out, manifest)
    try:
        files, sets = _data(box, tests)
        manifest["data"] = sets
        manifest["tests"] = [test.json() for test in tests]
        machine, noise = _machine()
        noise += _nodes(run, tests)
        manifest["warnings"] = [_box_warning(problem) for problem in box.warnings] + noise
        manifest["audit"], doubts = audit.before_run()
        manifest["warnings"] += doubts
        run.write_environment(machine)
        run.write_manifest()
    except OSError as error:
        run.close()
        raise UserError(f"cannot write {run.path}: {error.strerror}") from None
    except BaseException:
        run.close()
        raise
    return Launch(run, _tasks(box), box.measure, files, [])


def resume(path: Path, box_name: str | None, here: Machine) -> Launch:
    """Opens a run to take its missing samples.

    Raises `UserError` if it is of another box or its data have changed since.
    """
    run = RunStore.reopen(path)
    try:
        return _resume(run, box_name, here)
    except BaseException:
        run.close()
        raise


def _resume(run: RunStore, box_name: str | None, here: Machine) -> Launch:
    manifest = run.manifest
    store.check_manifest(run.path, manifest, needed=True)
    if "fleet" in manifest:
        raise UserError(
            f"{run.path} was merged from runs of several machines",
            "run the box on them again: overside fleet run",
        )
    if box_name is not None:
        found = boxes.find(box_name)
        _, digest = boxes.read(found)
        if digest != manifest["box_digest"]:
            raise UserError(
                f"{found} is not the box of {run.path}: it has changed, or is another one",
                f"leave the box away (overside run --resume {run.path}), or start a new run",
            )
    box = boxes.build(manifest["box"], Path(manifest["box_path"]), manifest["box_digest"], here)
    tasks = _tasks(box)
    tests = [Test.from_json(entry) for entry in manifest["tests"]]
    for test in tests:
        if test.status == "skipped" and isinstance(tasks.get(test.task), ExternalTask):
            # Consent may be given this time.
            test.status, test.reason = "planned", None
    files, sets = _data(box, tests)
    manifest["data"] = _same_data(manifest["data"], sets)
    machine = store.read_environment(run.path)
    if machine:
        environment.resume(machine)
    else:
        # It was stopped while its data were being made.
        machine = _machine()[0]
    run.write_environment(machine)
    manifest["warnings"] += _nodes(run, tests)
    manifest["tests"] = [test.json() for test in tests]
    manifest["state"] = "running"
    warnings = []
    version = _core.version()
    if version != manifest["version"]:
        message = f"started by version {manifest['version']}, resumed by {version}"
        remedy = "start a new run where differences matter"
        manifest["warnings"].append({"kind": "version", "message": message, "remedy": remedy})
        warnings.append(f"{run.path} was {message}")
    run.write_manifest()
    return Launch(run, tasks, box.measure, files, warnings)


def _tasks(box: Box) -> dict[str, Task]:
    """The tasks that can run, by name."""
    return {entry.name: entry.task for entry in box.tasks if entry.skip is None}


def _same_data(before: Sequence[Json], now: Sequence[Json]) -> list[Json]:
    """The data sets of the run, all of them.

    Raises `UserError` if one has changed.
    """
    known = {entry["name"]: entry for entry in before}
    for entry in now:
        if known.setdefault(entry["name"], entry)["digest"] != entry["digest"]:
            raise UserError(
                f"the data set {entry['name']} has changed since the run began",
                "start a new run, or put the data back",
            )
    return list(known.values())


def _data(box: Box, tests: Sequence[Test]) -> tuple[dict[str, Sequence[Path]], list[Json]]:
    """Finds or makes the data sets. Tests whose data set is not available are skipped.

    Raises `UserError` for a file whose name is not UTF-8: workers get names as text.
    """
    measured = {e.name: e.task for e in box.tasks if isinstance(e.task, MeasuredTask)}
    files: dict[str, Sequence[Path]] = {}
    sets: list[Json] = []
    absent: dict[str, str] = {}
    for test in tests:
        task = measured.get(test.task)
        if task is None or test.status != "planned":
            continue
        name = task.data_name(test.parameters)
        if name is None:
            continue  # not every task works on data
        if name not in files and name not in absent:
            try:
                found = task.data_set(test.parameters, box.seed)
            except UserError as error:
                absent[name] = "; ".join(filter(None, (error.message, error.remedy)))
            else:
                for path in found.files:
                    require_utf8(path)
                files[name] = found.files
                sets.append(found.json())
        if name in absent:
            test.status, test.reason = "skipped", absent[name]
    return files, sets


def _machine() -> tuple[Json, list[Json]]:
    """The machine, and its causes of noise."""
    machine = environment.capture()
    before = environment.load()
    machine["load_before"] = before
    noise = [
        finding.warning()
        for finding in diagnostics.of_environment(machine, before)
        if finding.level == "noise"
    ]
    return machine, noise


def _nodes(run: RunStore, tests: Sequence[Test]) -> list[Json]:
    """Records the descriptions of the other nodes that measure; warns of nodes without one."""
    known, warnings = store.read_nodes(run.path), []
    planned = (test.node for test in tests if test.status == "planned")
    for node in sorted({*planned} - {LOCAL, *known}):
        try:
            run.write_node(node, json.loads(_core.node_environment(node)))
        except ValueError as error:
            message = f"{node} does not say what it is: {error}"
            remedy = f"`overside agents list` says whether {node} is there"
            warnings.append({"kind": "node", "message": message, "remedy": remedy})
    return warnings


def _box_warning(problem: Problem) -> Json:
    hint = f"did you mean {problem.suggestion!r}?" if problem.suggestion else ""
    return {
        "kind": "box",
        "message": f"{problem.pointer or '/'}: {problem.message}",
        "remedy": hint,
    }


def conclude(run: RunStore) -> None:
    """Writes the files that are complete only at the end. A full disk has been reported before, and
    is no reason to fail here."""
    machine = store.read_environment(run.path)
    machine["load_after"] = environment.load()
    try:
        run.write_environment(machine)
        run.write_manifest()
    except OSError:
        pass
