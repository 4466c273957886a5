"""The runs in a directory, and the short names for them: `@` is the newest, `@1` the one before it,
and a run's name by `overside run --name`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overside.errors import UserError

#: Names that `overside run --name` takes.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_SHORT = re.compile(r"@([0-9]{0,6})")


@dataclass(frozen=True)
class Entry:
    """A run, as its manifest has it."""

    path: Path
    box: str
    #: RFC 3339, UTC.
    started: str
    state: str
    #: Number of tests by outcome; empty while it runs.
    counts: Mapping[str, Any]
    #: One machine measured it and finished a round: its figures can be asked about. A run
    #: merged from several machines is not measured.
    is_measured: bool


def entries(results: Path) -> list[Entry]:
    """The runs in a directory, the newest first. What is no run is left out."""
    from overside.bench import store  # noqa: PLC0415 (it takes long to load)

    found = []
    for manifest in results.glob(f"*/{store.MANIFEST}"):
        try:
            about = store.read_manifest(manifest.parent)
        except UserError:
            continue
        form, rounds = about.get("box"), about.get("rounds")
        found.append(
            Entry(
                path=manifest.parent,
                box=str(form.get("name", "")) if isinstance(form, Mapping) else "",
                started=str(about.get("started", "")),
                state=str(about.get("state", "")),
                counts=about.get("counts") or {},
                is_measured="fleet" not in about
                and isinstance(rounds, Mapping)
                and bool(rounds.get("done")),
            )
        )
    return sorted(found, key=lambda entry: (entry.started, entry.path), reverse=True)


def find(text: str, results: Path) -> Path:
    """The run that `text` stands for: a path, a run's name in `results`, `@`, or `@N`.

    Raises `UserError` if there are fewer runs.
    """
    short = _SHORT.fullmatch(text)
    if short is None:
        named = results / text
        return named if not Path(text).exists() and named.is_dir() else Path(text)
    back = int(short[1] or 0)
    found = entries(results)
    if back < len(found):
        return found[back].path
    many = {0: "is no run", 1: "is one run"}.get(len(found), f"are {len(found)} runs")
    remedy = "`overside runs` lists them" if found else "make one: overside run quick"
    raise UserError(f"{text}: there {many} in {results}", remedy)
