"""Boxes of dpBento, unmodified: read into the same form as our own.

A class name stands for a plug-in's directory if there is one, then for a built-in task
(dpbento_tasks.py); tests of a class that nothing implements exist and are skipped with that
reason. docs/measure/dpbento.md lists what each class becomes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overside.bench.dpbento_tasks import CLASSES, DpBentoEntry, built_in
from overside.bench.problems import InvalidBoxError, Problem
from overside.plugins import discovery
from overside.plugins.scripts import ITEMS
from overside.plugins.task import PluginTask
from overside.tasks.common import Json

#: Other names of a class: of one machine's variant of a plug-in, or misspelled in boxes that
#: are in use. A directory of the exact name goes before.
ALIASES = {
    "KVS_BF3": "KVS",
    "KVS_Host": "KVS",
    "KVS_Farnet": "KVS",
    "KVS_Octeon": "KVS",
    "ML": "ml",
    "hasing": "hashing",
    "compresion": "compression",
    "graph": "GraphDB",
    "duckdb": "RDB",
    "rdbms": "RDB",
    "memory_test": "memory",
    "storage_test": "storage",
}
#: Misspelled or varying names of benchmark items.
ITEM_ALIASES = {
    "img_classificaiton": "img_classification",
    "threded-single": "threaded-single",
    "openssl speed": "openssl_speed",
}

ENTRIES_MAX = 1000
PARAMETERS_MAX = 64
VALUES_MAX = 10_000
TESTS_MAX = 100_000
TEXT_CHARS_MAX = 10_000
DEPTH_MAX = 8

#: Keys that dpBento knows; those with `False` mean nothing to a run of Overside.
_BOX_KEYS = {
    "benchmarks": True,
    "tasks": True,
    "name": True,
    "description": True,
    "notes": True,
    "output_dir": False,
    "output_folder": False,
    "dpbento_root": False,
    "user_benchmarks_dir": False,
}
_ENTRY_KEYS = {
    "benchmark_class",
    "task_name",
    "benchmark_items",
    "parameters",
    "metrics",
    "description",
    "notes",
    "report_hints",
}
#: Settings for dpBento's boxes: as many rounds as our own boxes have, so that figures get an
#: interval. Each call of a dpBento plug-in repeats by itself and may take minutes, so plug-ins get
#: one round, as in dpBento.
_MEASURE = {
    "rounds": 6,
    "warmup_s": 0.1,
    "sample_s": 0.2,
    "max_s": 600.0,
    "target_interval": 0.05,
    "threshold": None,
}
_MEASURE_PLUGINS = {**_MEASURE, "rounds": 1, "max_s": 86_400.0}


@dataclass
class _Reader:
    """Problems and warnings found so far in a box, and its number of tests."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[Json] = field(default_factory=list)
    tests: int = 0

    def problem(self, pointer: str, message: str) -> None:
        if len(self.problems) < 100:
            self.problems.append((pointer, message))

    def warn(self, pointer: str, message: str, suggestion: str | None = None) -> None:
        if len(self.warnings) < 100:
            self.warnings.append({"pointer": pointer, "message": message, "suggestion": suggestion})


def is_dpbento(value: Json) -> bool:
    """Returns `True` if a JSON object is a box of dpBento.

    It may have the form of dpBento's repository (`benchmarks`) or of its paper (`tasks` with
    `task_name`).
    """
    if "schema" in value:
        return False
    if "benchmarks" in value:
        return True
    tasks = value.get("tasks")
    return isinstance(tasks, list) and any(isinstance(t, dict) and "task_name" in t for t in tasks)


def load(value: Json, path: Path | None) -> Json:
    """The parsed form of a dpBento box, as `_core.parse_box` gives it for our own, with
    `warnings`; entries have a `pointer`, and `skip` where nothing can run them.

    Raises `InvalidBoxError` with all that is wrong.
    """
    reader = _Reader()
    key = "benchmarks" if "benchmarks" in value else "tasks"
    for name in value:
        if not _BOX_KEYS.get(name, False):
            known = name in _BOX_KEYS
            why = "means nothing here: --out says where a run is written"
            reader.warn(f"/{_escape(name)}", why if known else f"unknown key {name!r}, not used")
    entries = value[key]
    if not isinstance(entries, list) or not 1 <= len(entries) <= ENTRIES_MAX:
        reader.problem(f"/{key}", f"must be a list of 1 to {ENTRIES_MAX} entries")
        entries = []
    tasks: list[Json] = []
    uses_plugins = False
    for index, entry in enumerate(entries):
        found, is_plugin = _entry(entry, f"/{key}/{index}", path, reader)
        tasks += found
        uses_plugins = uses_plugins or is_plugin
    if reader.problems:
        raise InvalidBoxError(
            str(path or "box"), [Problem(where, message) for where, message in reader.problems]
        )
    measure = _MEASURE_PLUGINS if uses_plugins else _MEASURE
    return {
        "schema": "box/1",
        "name": _name(value, path),
        "description": _text(value.get("description")),
        "seed": 0,
        "tasks": tasks,
        "nodes": ["local"],
        "measure": {name: amount for name, amount in measure.items() if amount is not None},
        "warnings": reader.warnings,
    }


def _entry(entry: Any, pointer: str, path: Path | None, reader: _Reader) -> tuple[list[Json], bool]:
    """The task entries that one of dpBento's becomes, and whether they run a plug-in."""
    if not isinstance(entry, dict):
        reader.problem(pointer, "must be an object")
        return [], False
    class_key = "benchmark_class" if "benchmark_class" in entry else "task_name"
    class_name = entry.get(class_key)
    if not isinstance(class_name, str) or not class_name or len(class_name) > 100:
        reader.problem(
            f"{pointer}/{class_key}", "the name of a benchmark class is missing, or is no text"
        )
        return [], False
    for name in entry:
        if name not in _ENTRY_KEYS and not name.endswith("_description"):
            reader.warn(f"{pointer}/{_escape(name)}", f"unknown key {name!r}, not used")
    axes, described = _axes(entry.get("parameters", {}), f"{pointer}/parameters", reader)
    items = _items(entry.get("benchmark_items", []), f"{pointer}/benchmark_items", reader)
    metrics = _names(entry.get("metrics", []), f"{pointer}/metrics", reader)
    reader.tests += math.prod(len(values) for values in axes.values()) * max(1, len(items))
    if reader.tests > TESTS_MAX:
        reader.problem(pointer, f"more than {TESTS_MAX} tests")
    if reader.problems:
        return [], False
    common = {"pointer": pointer, "description": _text(entry.get("description")), "exclude": []}
    plugin = _plugin(class_name, path)
    if plugin is not None:
        parameters = {ITEMS: [plugin_items(items, plugin)], **axes, **described}
        order = [ITEMS, *entry.get("parameters", {})]
        return [
            {
                "task": plugin.name,
                "parameters": {name: parameters[name] for name in order},
                "metrics": metrics,
                **common,
            }
        ], True
    source = DpBentoEntry(
        _known_class(class_name),
        [ITEM_ALIASES.get(item, item) for item in items],
        axes,
        metrics,
        pointer,
    )
    made = built_in(source, reader.warn)
    if source.name not in CLASSES:
        reader.warn(
            f"{pointer}/{class_key}",
            f"neither a plug-in directory nor a built-in task stands for {class_name!r}: "
            "its tests are skipped",
        )
    return [{"task": class_name, **common, **one} for one in made], False


def plugin_items(items: Sequence[str], plugin: PluginTask) -> list[str]:
    """The items of an entry; where it has none, dpBento takes the folders of the class."""
    if items:
        return list(items)
    try:
        below = sorted(path.name for path in plugin.folder.iterdir() if path.is_dir())
    except OSError:
        return []
    return [name for name in below if not name.endswith("env") and not name.startswith((".", "__"))]


def _plugin(class_name: str, path: Path | None) -> PluginTask | None:
    """The directory of the exact name, then of the name it is an alias of."""
    found = discovery.find(class_name, path)
    alias = ALIASES.get(class_name)
    return discovery.find(alias, path) if found is None and alias else found


def _known_class(class_name: str) -> str:
    name = ALIASES.get(class_name, class_name)
    return next((known for known in CLASSES if known.lower() == name.lower()), name)


def _axes(
    parameters: Any, pointer: str, reader: _Reader
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Parameters with their values in lists, and apart from them the descriptions of parameters,
    which dpBento hands to its plug-ins as well."""
    if not isinstance(parameters, dict) or len(parameters) > PARAMETERS_MAX:
        reader.problem(pointer, f"must be an object of at most {PARAMETERS_MAX} parameters")
        return {}, {}
    axes: dict[str, list[Any]] = {}
    described: dict[str, list[Any]] = {}
    for name, value in parameters.items():
        where = f"{pointer}/{_escape(name)}"
        values = value if isinstance(value, list) else [value]
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,63}", name):
            reader.problem(where, "a parameter's name has letters, digits, _, -, . and spaces")
        elif not values:
            reader.problem(where, "has no values, so there is nothing to test")
        elif len(values) > VALUES_MAX:
            reader.problem(where, f"has more than {VALUES_MAX} values")
        elif strange := next(_strange(values, 0), None):
            reader.problem(where, strange)
        elif name.endswith("_description") and name.removesuffix("_description") in parameters:
            described[name] = values[:1]
        else:
            axes[name] = _without_repeats(values, where, reader)
    return axes, described


def _strange(value: Any, depth: int) -> Iterator[str]:
    """Yields the reasons why a parameter's value is refused."""
    if isinstance(value, list):
        if depth > DEPTH_MAX:
            yield f"is nested more than {DEPTH_MAX} deep"
            return
        if len(value) > VALUES_MAX:
            yield f"has more than {VALUES_MAX} values"
            return
        for item in value:
            yield from _strange(item, depth + 1)
    elif isinstance(value, str):
        if len(value) > TEXT_CHARS_MAX or "\0" in value:
            yield f"is a text of more than {TEXT_CHARS_MAX} characters, or with a NUL"
    elif value is None or isinstance(value, dict):
        yield "must be a number, a text, true or false, or a list of these"
    elif isinstance(value, float) and not math.isfinite(value):
        yield "must be a finite number"


def _without_repeats(values: Sequence[Any], where: str, reader: _Reader) -> list[Any]:
    kept: dict[str, Any] = {}
    for value in values:
        kept.setdefault(repr(value), value)
    if len(kept) < len(values):
        reader.warn(where, "has a value more than once; it is tested once a round")
    return list(kept.values())


def _items(value: Any, pointer: str, reader: _Reader) -> list[str]:
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(item, dict) and set(item) - {"name"}:
            reader.warn(f"{pointer}/{index}", "only the item's name is used")
    return _names(value, pointer, reader)


def _names(value: Any, pointer: str, reader: _Reader) -> list[str]:
    """Names of benchmark items or metrics: texts, or objects that have one."""
    entries = value if isinstance(value, list) else [value]
    names = [entry.get("name") if isinstance(entry, dict) else entry for entry in entries]
    if len(names) > 100 or not all(isinstance(n, str) and 0 < len(n) <= 200 for n in names):
        reader.problem(pointer, "must be a list of at most 100 names")
        return []
    return list(dict.fromkeys(str(name) for name in names))


def _name(value: Json, path: Path | None) -> str:
    given = value.get("name")
    text = given if isinstance(given, str) and given else path.stem if path else "dpbento"
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.")[:64]
    return name or "dpbento"


def _text(value: Any) -> str:
    return value[:TEXT_CHARS_MAX] if isinstance(value, str) else ""


def _escape(name: str) -> str:
    """A key as it stands in a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")[:200]
