"""Boxes: finding, reading and checking them.

The format is parsed by `overside._core.parse_box` (box/1) or `overside.bench.dpbento.load`
(boxes of dpBento), which give the same form:

    {"schema", "name", "description", "seed", "nodes": [..], "measure": {..}, "warnings": [..],
     "tasks": [{"task", "description", "parameters": {name: [values]},
                "exclude": [{name: [values]}], "metrics": [names]}]}

An entry of another harness may also have `skip`, why nothing can run it, and `pointer`, where it
stands in its file. A warning is `{"pointer", "line", "column", "message", "suggestion"}`, like a
problem; line and column may be absent. Here the names in it get their meaning: tasks, parameters,
values, metrics, devices, variants, data sets.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overside import _core, amounts, strict_json, tasks
from overside.bench import check, studies
from overside.bench.problems import InvalidBoxError, Problem
from overside.errors import Exit, UserError, as_user_error
from overside.tasks.common import LOCAL, Json, Machine, Task

MAX_BYTES = 4 << 20


@dataclass(frozen=True)
class Measure:
    """Settings of a box for measuring: rounds, durations, and the wanted precision."""

    #: The fewest rounds.
    rounds: int
    warmup_s: float
    sample_s: float
    #: Measuring ends after this many seconds.
    max_s: float
    #: Rounds are added until intervals are at most this share of the median wide.
    target_interval: float
    #: The relative difference that `compare` takes for a change.
    threshold: float | None = None


@dataclass
class BoxTask:
    """One task entry of a box."""

    name: str
    task: Task
    #: Each parameter's values.
    axes: Mapping[str, Sequence[Any]]
    exclude: Sequence[Mapping[str, Sequence[Any]]]
    #: The metrics asked for; never empty, the deciding one first.
    metrics: Sequence[str]
    #: Reason why none of its tests can run; `None` if they can.
    skip: str | None = None


@dataclass
class Box:
    """A box ready to be planned."""

    name: str
    seed: int
    tasks: list[BoxTask]
    measure: Measure
    path: str
    #: SHA-256 of the file's bytes.
    digest: str
    #: The parsed form, `--set` applied.
    form: Json
    warnings: list[Problem] = field(default_factory=list)


class _AbsentTask(Task):
    """A task of a box that nothing implements; its tests are skipped."""

    is_open = True
    verified = False
    parameters: Mapping[str, Any] = {}
    metrics: Mapping[str, Any] = {}

    def __init__(self, name: str) -> None:
        self.name = name
        self.description = "not implemented"


def directories() -> list[Path]:
    """Returns the directories in which boxes are looked up by name, in search order."""
    package = Path(__file__).resolve().parents[1]
    candidates = (Path("boxes"), package / "boxes", package.parents[1] / "boxes")
    found: dict[Path, None] = {}
    for candidate in candidates:
        if candidate.is_dir():
            found.setdefault(candidate.resolve())
    return list(found)


def ready_made() -> dict[str, Path]:
    """The boxes that can be run by name."""
    found: dict[str, Path] = {}
    for directory in directories():
        for path in sorted(directory.glob("*.json")):
            found.setdefault(path.stem, path)
    return found


def box_name(path: str) -> str:
    """Returns the argument by which `find` finds the box of a run again.

    It is the name of a ready-made box, also of another installation, and otherwise the path.
    """
    name = Path(path).stem
    if Path(path).parts[-3:-1] == ("boxes", studies.DIRECTORY) and name in studies.figures():
        return f"{studies.PREFIX}{name}"
    ready = ready_made().get(name)
    is_packaged = Path(path).parts[-3:] == ("overside", "boxes", f"{name}.json")
    return name if ready is not None and (is_packaged or str(ready) == path) else path


def find(name: str) -> Path:
    """The file of a box given as a path, or as the name of a ready-made one or of a figure of a
    study (`figure:S1.7`).

    Raises `UserError` if there is none.
    """
    path = Path(name)
    if name.startswith(studies.PREFIX) and not path.exists():
        return find(studies.box_of(name))
    if path.is_file():
        return path
    known = ready_made()
    if name.removesuffix(".json") in known:
        return known[name.removesuffix(".json")]
    if path.is_dir():
        raise UserError(f"{name} is a directory, not a box", "give the path of a JSON file")
    hint = _core.suggest(name, list(known))
    remedy = f"did you mean {hint!r}? " if hint else ""
    raise UserError(
        f"there is no box {name}",
        f"{remedy}`overside list boxes` shows the ready-made ones; a path works too",
    )


def read(path: Path) -> tuple[Json, str]:
    """The parsed form of a file, and the SHA-256 of its bytes.

    Raises `UserError` if it cannot be read, `InvalidBoxError` if it is no box.
    """
    with as_user_error(f"cannot read {path}", OSError), path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UserError(f"{path} is longer than {MAX_BYTES} bytes, which no box is")
    digest = hashlib.sha256(content).hexdigest()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidBoxError(
            str(path), [Problem("", f"not UTF-8 text: byte {error.start} is {error.reason}")]
        ) from None
    return parse(text, path), digest


def parse(text: str, path: Path) -> Json:
    """The parsed form of a box; `path` is where it stands, or would stand.

    Raises `InvalidBoxError` if it is no box.
    """
    foreign = _foreign(text)
    if foreign is not None:
        from overside.bench import dpbento  # noqa: PLC0415 (few boxes need it)

        return dict(dpbento.load(foreign, path))
    try:
        form: Json = json.loads(_core.parse_box(text))
    except _core.BoxError as error:
        raise InvalidBoxError(str(path), _problems(json.loads(str(error)))) from None
    return form


def _foreign(text: str) -> Json | None:
    """Returns the content of a dpBento box; `None` if the text is not one."""
    if '"benchmarks"' not in text and '"task_name"' not in text:
        return None
    try:
        value = strict_json.loads(text)
    except ValueError:
        return None
    from overside.bench import dpbento  # noqa: PLC0415

    return value if isinstance(value, dict) and dpbento.is_dpbento(value) else None


def _problems(entries: Iterable[Json]) -> list[Problem]:
    return [
        Problem(
            e["pointer"],
            e["message"],
            e.get("suggestion"),
            (e["line"], e["column"]) if e.get("line") else None,
        )
        for e in entries
    ]


def machine() -> Machine:
    """Returns the devices and library variants of this machine, by which tests are planned."""
    backends = json.loads(_core.backends())
    free = [backend["prefix"] for backend in backends if backend["cost"] is None]
    costly = [backend["prefix"] for backend in backends if backend["cost"] is not None]
    return Machine(
        [device for prefix in free for device in _devices(prefix)],
        json.loads(_core.variants()),
        # Asked once, when it matters: it takes a while.
        {prefix: functools.cache(functools.partial(_devices, prefix)) for prefix in costly},
    )


def _devices(prefix: str) -> Sequence[Json]:
    devices: list[Json] = json.loads(_core.devices(prefix))
    return devices


def load(name: str, overrides: Sequence[str], here: Machine, nodes: Sequence[str] = ()) -> Box:
    """Finds, reads and checks a box. `overrides` are texts `task.parameter=value,value`; `nodes`
    measure instead of those that the box names.

    Raises `UserError` or `InvalidBoxError`.
    """
    path = find(name)
    form, digest = read(path)
    for override in overrides:
        apply(form, override)
    if nodes:
        form["nodes"] = list(dict.fromkeys(nodes))
        for entry in form["tasks"]:
            entry["parameters"].pop("node", None)
    return build(form, path, digest, here)


def apply(form: Json, override: str) -> None:
    """Sets a parameter in every entry of a task; `measure.rounds=3` and the like set how closely
    is measured.

    Raises `UserError` if the text cannot be understood or names what is not there.
    """
    remedy = "write task.parameter=value or task.parameter=value,value"
    name, equals, value = override.partition("=")
    task, dot, parameter = name.strip().rpartition(".")
    if not (equals and dot and task and parameter and value):
        raise UserError(f"--set {override} is not understood", remedy)
    values = _values(value)
    if task == "measure":
        if parameter not in form["measure"] or len(values) != 1:
            hint = _core.suggest(parameter, list(form["measure"]))
            raise UserError(
                f"--set {override}: measure takes one value each for {', '.join(form['measure'])}",
                f"did you mean measure.{hint}?" if hint else "",
            )
        amount = amounts.read(values[0], "s" if parameter.endswith("_s") else "share")
        check.measure(parameter, amount)
        form["measure"][parameter] = amount
        return
    entries = [entry for entry in form["tasks"] if entry["task"] == task]
    if not entries:
        known = sorted({entry["task"] for entry in form["tasks"]})
        hint = _core.suggest(task, [*known, "measure"])
        raise UserError(
            f"--set {override}: the box has no task {task}",
            f"did you mean {hint}?" if hint else f"it has {', '.join(known)}",
        )
    for entry in entries:
        entry["parameters"][parameter] = values


def _values(value: str) -> list[Any]:
    """`a,b` as a list of values; a JSON list is a list of values as well."""
    try:
        whole = strict_json.loads(value)
    except ValueError:
        return [_scalar(part) for part in value.split(",")]
    return whole if isinstance(whole, list) and whole else [whole]


def _scalar(value: str) -> Any:
    try:
        scalar = strict_json.loads(value)
    except ValueError:
        return value
    return scalar if isinstance(scalar, int | float | bool) else value


def build(form: Json, path: Path, digest: str, here: Machine) -> Box:
    """Gives the names in a parsed box their meaning.

    Raises `InvalidBoxError` with everything that is wrong.
    """
    problems: list[Problem] = []
    entries: list[BoxTask] = []
    for index, node in enumerate(form["nodes"]):
        finding = check.node(node, here, LOCAL)
        if finding is not None:
            problems.append(Problem(f"/nodes/{index}", *finding))
    for index, entry in enumerate(form["tasks"]):
        place = entry.get("pointer", f"/tasks/{index}")
        task = resolve(entry, path)
        if task is None:
            known = list(tasks.NAMES)
            hint = _core.suggest(entry["task"], known)
            message = f"there is no task {entry['task']!r}"
            if not hint:
                message += f"; there are {', '.join(known)}, and plug-ins beside the box"
            problems.append(Problem(f"{place}/task", message, hint))
            continue
        _read_amounts(entry, task)
        problems += [
            Problem(place + where, message, hint)
            for where, message, hint in check.entry(entry, task, here)
        ]
        entries.append(
            BoxTask(
                name=entry["task"],
                task=task,
                axes=_on_nodes(entry["parameters"], task, form["nodes"]),
                exclude=entry["exclude"],
                metrics=entry["metrics"] or list(task.metrics)[:1],
                skip=entry.get("skip") or _not_here(task, form["nodes"]),
            )
        )
    if problems:
        raise InvalidBoxError(str(path), problems)
    return Box(
        name=form["name"],
        seed=form["seed"],
        tasks=entries,
        measure=Measure(**form["measure"]),
        path=str(path),
        digest=digest,
        form=form,
        warnings=_problems(form.get("warnings", ())),
    )


def _on_nodes(axes: Json, task: Task, nodes: Sequence[str]) -> Json:
    """An entry's axes, with the box's nodes as one where the entry has none of its own."""
    if not task.takes_node or nodes == [LOCAL]:
        return axes
    return {"node": nodes} | axes


def _not_here(task: Task, nodes: Sequence[str]) -> str | None:
    """Returns the reason to skip a task that runs programs, which it does on this machine only.

    `None` if it takes a node, or if the box is also for this machine.
    """
    if task.takes_node or LOCAL in nodes:
        return None
    why = f": {task.no_nodes}" if task.no_nodes else ""
    return (
        f"{task.name} runs programs, on this machine alone, and the box is for "
        f"{', '.join(nodes)}{why}"
    )


def _read_amounts(entry: Json, task: Task) -> None:
    """Values with units become figures in the unit of their parameter, those of exclusions too."""
    for axes in (entry["parameters"], *entry["exclude"]):
        for name, values in axes.items():
            parameter = task.parameters.get(name)
            if parameter is not None and parameter.kind in ("integer", "number"):
                axes[name] = [amounts.read(value, parameter.unit) for value in values]


def resolve(entry: Json, path: Path) -> Task | None:
    """Returns the task of an entry: a plug-in of that name, or otherwise a built-in task."""
    name: str = entry["task"]
    from overside.plugins import discovery  # noqa: PLC0415 (it is large)

    plugin: Task | None = discovery.find(name, path)
    if plugin is not None:
        return plugin
    return _AbsentTask(name) if entry.get("skip") else tasks.find(name)


def nothing_selected(filters: Sequence[tuple[str, str]]) -> UserError:
    """The error for filters that leave no test."""
    text = " ".join(f"--filter {key}={glob}" for key, glob in filters)
    return UserError(
        f"nothing is selected by {text}" if text else "the box excludes all its tests",
        "`overside plan BOX` shows the tests that there are",
        Exit.NOTHING_SELECTED,
    )
