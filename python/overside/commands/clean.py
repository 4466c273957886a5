"""Remove what runs and data sets left behind."""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from overside import _core
from overside.bench import store
from overside.commands import prompt
from overside.data import cache
from overside.errors import Exit, UserError


@dataclass(frozen=True)
class _Leftover:
    kind: str
    path: Path
    size_bytes: int


def main(args: argparse.Namespace) -> int:
    """Runs the verb. Only directories that Overside wrote are touched: runs are known by their
    manifest, data by lying in the cache."""
    both = args.runs == args.data
    before = time.time() - args.older_than * 86400
    found: list[_Leftover] = []
    if both or args.runs:
        found += _runs(args.out, before)
    if both or args.data:
        found += _data(before)
    removed = bool(found) and _agreed(args, found)
    if removed:
        for leftover in found:
            try:
                shutil.rmtree(leftover.path)
            except OSError as error:
                raise UserError(f"cannot remove {leftover.path}: {error.strerror}") from None
    if args.json:
        entries = [{"kind": x.kind, "path": str(x.path), "size_bytes": x.size_bytes} for x in found]
        print(json.dumps({"removed": removed, "found": entries}))
    elif not found:
        print("there is nothing to remove")
    elif removed:
        print(f"removed {len(found)} directories, {_total(found)}")
    return Exit.OK


def _agreed(args: argparse.Namespace, found: list[_Leftover]) -> bool:
    if args.yes:
        return True
    for leftover in found:
        print(
            f"{leftover.kind:4}  {_core.size(leftover.size_bytes):>9}  {leftover.path}",
            file=sys.stderr,
        )
    agreed = prompt.confirmed(f"Remove {_total(found)}?")
    if not agreed:
        print("nothing was removed; --yes removes this", file=sys.stderr)
    return agreed


def _total(found: list[_Leftover]) -> str:
    return _core.size(sum(leftover.size_bytes for leftover in found))


def _size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if not path.is_dir())


def _runs(out: Path, before: float) -> Iterator[_Leftover]:
    """Runs that are not being written."""
    for manifest in sorted(out.glob(f"*/{store.MANIFEST}")):
        path = manifest.parent
        try:
            store.read_manifest(path)
        except UserError:
            continue
        if manifest.stat().st_mtime <= before and not path.is_symlink() and not _busy(path):
            yield _Leftover("run", path, _size(path))


def _busy(path: Path) -> bool:
    try:
        with (path / store.SAMPLES).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _data(before: float) -> Iterator[_Leftover]:
    for entry in cache.cached():
        if entry.path.stat().st_mtime <= before and not entry.path.is_symlink():
            yield _Leftover("data", entry.path, entry.size_bytes)
