"""Finds the plug-in that a box means by a name.

There are two kinds: a program that answers `describe`, `prepare`, `run`, `report` and `clean`
(program.py; plugins.md), and a directory of dpBento with `prepare.py`, `run.py`, `report.py`
and `clean.py` (scripts.py; docs/measure/dpbento.md).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from overside.plugins.program import ProgramPlugin
from overside.plugins.scripts import SCRIPTS, ScriptsPlugin
from overside.plugins.task import PluginTask

#: A list of folders like PATH, where plug-ins are looked for after those beside the box.
PATH_VARIABLE = "OVERSIDE_PLUGINS"
#: The program in the directory of a new plug-in.
PROGRAM = "plugin"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_PARENTS_MAX = 4


def search_paths(box: Path | None = None) -> list[Path]:
    """Returns the folders in which plug-ins are searched for, in order.

    They are beside the box, the folders of `OVERSIDE_PLUGINS`, and the tree of dpBento that has
    the box.
    """
    paths: list[Path] = []
    if box is not None:
        here = box.resolve().parent
        paths += [here / "plugins", here]
    for word in os.environ.get(PATH_VARIABLE, "").split(os.pathsep):
        if word:
            folder = Path(word).expanduser().resolve()
            paths += [folder, folder / "benchmarks"]
    if box is not None:
        parents = [here, *here.parents][:_PARENTS_MAX]
        paths += [parent / "benchmarks" for parent in parents]
    return list(dict.fromkeys(paths))


def find(name: str, box: Path | None = None) -> PluginTask | None:
    """The first plug-in of that name for a box, or `None`.

    One that is there but broken is found too: its tests fail with the reason.
    """
    # A name from a box must not lead out of the folders that are looked in.
    if not _NAME.fullmatch(name):
        return None
    beside = box.resolve().parent if box is not None else None
    for path in search_paths(box):
        found = at(path / name, name)
        if found is None and path != beside and path.name != "benchmarks":
            found = program_at(path / name, name)
        if found is None and path.name == name:
            # A box inside its own plug-in, as `overside plugin new` makes one.
            found = at(path, name)
        if found is not None:
            return found
    return None


def at(folder: Path, name: str) -> PluginTask | None:
    """The plug-in in this folder, under the name that a box calls it."""
    try:
        if (folder / PROGRAM).is_file():
            return ProgramPlugin(folder / PROGRAM, name)
        if all((folder / script).is_file() for script in SCRIPTS):
            return ScriptsPlugin(folder, name)
    except OSError:
        return None
    return None


def program_at(path: Path, name: str) -> PluginTask | None:
    """The plug-in that is a single executable file. Not looked for beside a box: a program there
    that happens to have a task's name must not be started."""
    return ProgramPlugin(path, name) if path.is_file() and os.access(path, os.X_OK) else None
