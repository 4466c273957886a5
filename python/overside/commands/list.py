"""List tasks, variants, boxes, profiles or data sets."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overside import _core, strict_json, tasks
from overside.bench import box, plan
from overside.commands import Arguments, data, output, table
from overside.commands.profile import read_profiles
from overside.errors import unknown
from overside.tasks.common import Json, Parameter, Task

#: The widest list of values that stands in a table, and what stands there instead of a wider one.
_CHOICES_CHARACTERS = 60
_BELOW = "as below"


def main(args: Arguments) -> int:
    """Runs the verb."""
    lists = {
        "tasks": _tasks,
        "variants": _variants,
        "boxes": _boxes,
        "profiles": _profiles,
        "data": _data,
    }
    return lists[args.what](args)


def _tasks(args: Arguments) -> int:
    if args.name is not None:
        _known("built-in task", args.name, tasks.NAMES)
    chosen = [task for name in tasks.NAMES if (task := tasks.find(name)) is not None]
    if args.name is not None:
        chosen = [task for task in chosen if task.name == args.name]
    if args.json:
        output.document("tasks/1", tasks=[_task_json(task) for task in chosen])
    elif args.name is not None:
        _print_task(chosen[0])
    else:
        print(table.text(["task", ""], [[task.name, task.description] for task in chosen]))
        print("\n`overside list tasks NAME` shows parameters and metrics.")
    return 0


def _variants(args: Arguments) -> int:
    operations: list[Json] = json.loads(_core.variants())
    if args.name is not None:
        _known("operation", args.name, [one["operation"] for one in operations])
        operations = [one for one in operations if one["operation"] == args.name]
    if args.json:
        output.document("variants/1", operations=operations)
        return 0
    rows = [
        [
            one["operation"] if place == 0 else "",
            variant["name"],
            f"{variant['library']} {variant['version']}",
            _levels(variant),
        ]
        for one in operations
        for place, variant in enumerate(one["variants"])
    ]
    print(table.text(["operation", "variant", "library", "levels"], rows))
    return 0


def _levels(variant: Json) -> str:
    if variant["levels"] is None:
        return ""
    low, high = variant["levels"]
    return f"{low} to {high}, {variant['default_level']} unasked"


def _known(kind: str, name: str, names: Sequence[str]) -> None:
    """Raises `UserError` if there is none of that name."""
    if name not in names:
        raise unknown(kind, name, names)


def _task_json(task: Task) -> Json:
    return {
        "name": task.name,
        "description": task.description,
        "parameters": {name: _parameter_json(p) for name, p in task.parameters.items()},
        "metrics": {name: metric.json() for name, metric in task.metrics.items()},
    }


def _parameter_json(parameter: Parameter) -> Json:
    entry: Json = {"kind": parameter.kind, "doc": parameter.doc, "default": parameter.default}
    for key in ("unit", "minimum", "maximum"):
        value = getattr(parameter, key)
        if value not in ("", None):
            entry[key] = value
    if parameter.choices:
        entry["choices"] = list(parameter.choices)
    return entry


def _print_task(task: Task) -> None:
    print(f"{task.name}: {task.description}\n")
    rows = [
        [
            name,
            plan.text(p.default),
            _choices(p) or _bounds(p),
            f"{p.doc}{f', {p.unit}' if p.unit else ''}",
        ]
        for name, p in task.parameters.items()
    ]
    print(table.text(["parameter", "default", "values", ""], rows))
    for name, p in task.parameters.items():
        if p.choices and _choices(p) == _BELOW:
            words = f"{name}: {', '.join(p.choices)}"
            print("\n" + textwrap.fill(words, 100, subsequent_indent="  ", break_on_hyphens=False))
    print()
    metrics = [[name, m.unit, m.better, m.description] for name, m in task.metrics.items()]
    print(table.text(["metric", "unit", "better", ""], metrics))


def _choices(parameter: Parameter) -> str:
    """The values of a parameter that has few; many stand below the table."""
    text = "|".join(parameter.choices)
    return text if len(text) <= _CHOICES_CHARACTERS else _BELOW


def _bounds(parameter: Parameter) -> str:
    if parameter.minimum is None or parameter.maximum is None:
        return parameter.kind
    return f"{parameter.minimum:.0f}..{parameter.maximum:.0f}"


def _boxes(args: Arguments) -> int:
    if args.name is not None:
        print(box.find(args.name).read_text(encoding="utf-8"), end="")
        return 0
    entries = [_box_entry(name, path) for name, path in box.ready_made().items()]
    if args.json:
        output.document("boxes/1", boxes=entries)
    else:
        print(table.text(["box", ""], [[e["name"], e["description"]] for e in entries]))
        print("\n`overside studies` lists the boxes of published figures.")
    return 0


def _box_entry(name: str, path: Path) -> Json:
    """A box that is there but broken is listed with what it says of itself, if anything."""
    try:
        content: Any = strict_json.loads(path.read_bytes())
    except (OSError, ValueError):
        content = None
    description = content.get("description", "") if isinstance(content, dict) else "not readable"
    return {"name": name, "path": str(path), "description": description}


def _profiles(args: Arguments) -> int:
    profiles = read_profiles()
    if args.name is not None:
        _known("profile", args.name, [profile["name"] for profile in profiles])
        profiles = [profile for profile in profiles if profile["name"] == args.name]
    if args.json:
        output.document("profiles/1", profiles=profiles)
    elif args.name is not None:
        print(json.dumps(profiles, ensure_ascii=False, indent=1))
    else:
        rows = [[p["name"], p.get("title") or p.get("card", "")] for p in profiles]
        print(table.text(["profile", ""], rows))
    return 0


def _data(args: Arguments) -> int:
    data.show(name=args.name, as_json=args.json)
    return 0
