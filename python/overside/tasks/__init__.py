"""The built-in tasks. Their declarations are in Rust (`common.declarations`); a module here has the
parts of one that only Python does, apart from jobs on a device."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import TYPE_CHECKING

from overside.tasks.common import MeasuredTask, declarations

if TYPE_CHECKING:
    from overside.tasks.common import Task

#: The built-in tasks, in the order in which they are listed.
NAMES = tuple(declarations())


@functools.cache
def find(name: str) -> Task | None:
    """The built-in task of that name."""
    if name not in NAMES:
        return None
    module = f"{__name__}.{name}"
    if importlib.util.find_spec(module) is not None:
        task: Task = importlib.import_module(module).TASK
        return task
    if declarations()[name]["operation"] is None:
        return MeasuredTask(name)
    from overside.tasks.offload import OffloadTask  # noqa: PLC0415 (it reads what is here)

    return OffloadTask(name)
