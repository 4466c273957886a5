"""The built-in tasks, one module each."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overside.tasks.common import Task

#: The modules; each has a `TASK`.
NAMES = ("compress", "decompress", "match", "hash", "copy", "memory", "dma", "network", "rdma")


def find(name: str) -> Task | None:
    """The built-in task of that name."""
    if name not in NAMES:
        return None
    task: Task = importlib.import_module(f"overside.tasks.{name}").TASK
    return task
