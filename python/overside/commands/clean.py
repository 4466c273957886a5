"""Remove what runs, data sets and killed compressors left behind."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from overside import _core
from overside.bench import store
from overside.commands import Arguments, output, prompt
from overside.data import cache
from overside.errors import Exit, UserError, as_user_error

#: Names of unfinished files of `compress` and `decompress` (crates/overside/src/files).
_UNFINISHED = re.compile(r"\.overside-[0-9a-f]{16}\.tmp")


@dataclass(frozen=True)
class _Leftover:
    kind: str
    path: Path
    size_bytes: int


def main(args: Arguments) -> int:
    """Runs the verb. Only what Overside wrote is touched: runs are known by their manifest, data by
    lying in the cache, unfinished files by their name and by nobody's writing them."""
    if not args.below.is_dir():
        raise UserError(
            f"--below: {args.below} is not a directory",
            "name the directory that holds the unfinished files",
        )
    every = not (args.runs or args.data or args.files)
    before = time.time() - args.older_than * 86400
    found: list[_Leftover] = []
    if every or args.runs:
        found += _runs(args.out, before)
    if every or args.data:
        found += _data(before)
    if every or args.files:
        found += _files(args.below, before)
    removed = bool(found) and _agreed(args, found)
    if removed:
        for leftover in found:
            with as_user_error(f"cannot remove {leftover.path}", OSError):
                _remove(leftover)
    if args.json:
        entries = [{"kind": x.kind, "path": str(x.path), "size_bytes": x.size_bytes} for x in found]
        output.document("clean/1", removed=removed, found=entries)
    elif not found:
        print("there is nothing to remove")
    elif removed:
        files = sum(leftover.kind == "file" for leftover in found)
        counts = (len(found) - files, "directory", "directories"), (files, "file", "files")
        what = [f"{n} {one if n == 1 else many}" for n, one, many in counts if n]
        print(f"removed {' and '.join(what)}, {_total(found)}")
    return Exit.OK


def _agreed(args: Arguments, found: list[_Leftover]) -> bool:
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


def _files(below: Path, before: float) -> Iterator[_Leftover]:
    """Unfinished files that nobody is writing."""
    for directory, _, names in os.walk(below):
        for name in sorted(filter(_UNFINISHED.fullmatch, names)):
            path = Path(directory, name)
            with _unlocked(path) as status:
                if status is not None and status.st_mtime <= before:
                    yield _Leftover("file", path, status.st_size)


def _opened(path: Path) -> int:
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDONLY | flags)
    except PermissionError:
        # It may be one to write to only.
        return os.open(path, os.O_WRONLY | flags)


@contextmanager
def _unlocked(path: Path) -> Iterator[os.stat_result | None]:
    """A file's state if nobody writes it, and nobody takes it for his own meanwhile."""
    try:
        file = _opened(path)
    except OSError:
        yield None
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(file)
        own = stat.S_ISREG(status.st_mode) and os.path.samestat(status, path.lstat())
        state = status if own else None
    except OSError:
        state = None
    try:
        yield state
    finally:
        os.close(file)


def _remove(leftover: _Leftover) -> None:
    if leftover.kind != "file":
        shutil.rmtree(leftover.path)
        return
    # Somebody may write it by now, under the same name.
    with _unlocked(leftover.path) as status:
        if status is not None:
            leftover.path.unlink()
