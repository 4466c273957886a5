"""Cache of data sets that were made or fetched, so that each is made only once.

Each has a directory of its own with a manifest. A directory appears at once, by renaming, when
all that is in it is complete; whatever else is found there is not trusted, and made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overside import strict_json
from overside.data.dataset import DataFile, DataSet, digest
from overside.errors import as_user_error

_MANIFEST = "manifest.json"
_SCHEMA = "data/1"
_MAX_MANIFEST_BYTES = 1 << 20
_FETCHING = ".fetch-"


class BrokenError(Exception):
    """A directory of the cache does not match its manifest; the text names the difference."""


@dataclass(frozen=True)
class CacheEntry:
    """A directory of the cache."""

    key: str
    path: Path
    size_bytes: int


def directory() -> Path:
    """Returns the directory of the cache: all its content can be made again.

    It is `$OVERSIDE_CACHE`, or `overside` in the user's cache directory (`$XDG_CACHE_HOME` or
    `~/.cache`).
    """
    own = os.environ.get("OVERSIDE_CACHE")
    if own:
        return Path(own).absolute()
    home = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    return base / "overside"


def root() -> Path:
    """The directory that all data sets are kept below."""
    return directory() / "data"


def cached() -> list[CacheEntry]:
    """Returns the entries of the cache by name: data sets, and unfinished downloads.

    Sizes are those of the files on disk, whatever the manifests say.
    """
    found = []
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(root().iterdir()):
            # Other names with a point are of what is being made just now.
            if path.is_dir() and (path.name[0] != "." or path.name.startswith(_FETCHING)):
                size = sum(file.lstat().st_size for file in path.rglob("*"))
                found.append(CacheEntry(path.name, path, size))
    return found


def load(key: str, name: str) -> DataSet | None:
    """The data set of a directory, checked byte by byte; `None` if there is no such directory.

    Raises `BrokenError` if it does not match its manifest.
    """
    directory = root() / key
    if not directory.is_dir():
        return None
    try:
        data = _read(directory, name)
        found = digest(data.entries)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BrokenError(str(error) or type(error).__name__) from error
    if found != data.digest:
        raise BrokenError(f"its digest is {found}, it was made with {data.digest}")
    return data


def exists(key: str) -> bool:
    """Returns `True` if the cache has a directory for `key`, complete or not."""
    return (root() / key).is_dir()


def peek(key: str, name: str) -> DataSet | None:
    """Like `load` without reading the files: `None` also for an incomplete data set."""
    try:
        return _read(root() / key, name)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(
    key: str, about: DataSet, write: Callable[[Path], None], *, again: bool = False
) -> DataSet:
    """The data set that is kept under `key`; if there is none, or it is broken, or it is to be
    made again, has `write` fill a new directory for it.

    Of `about` the name, the origin, the licence and the note are used. Raises the errors of
    `write`, and `UserError` if the cache cannot be written.
    """
    with _failing_usefully(), _locked(key) as parent:
        with contextlib.suppress(BrokenError):
            if not again and (there := load(key, about.name)):
                return there
        for left_over in parent.glob(f".{key}.*"):
            shutil.rmtree(left_over)
        with tempfile.TemporaryDirectory(prefix=f".{key}.", dir=parent) as temporary:
            new = Path(temporary, "new")
            new.mkdir(mode=0o700)
            write(new)
            data = _finish(new, about)
            old = parent / key
            if old.exists():
                old.rename(Path(temporary, "old"))
            new.rename(old)
    entries = tuple(
        DataFile(entry.name, root() / key / entry.name, entry.size_bytes) for entry in data.entries
    )
    return DataSet(data.name, entries, data.digest, data.origin, data.licence, data.note)


@contextlib.contextmanager
def downloads(name: str) -> Iterator[Path]:
    """A directory of the cache for a download that is not complete yet; for one process at a
    time."""
    with _failing_usefully(), _locked(f"fetch-{name}") as parent:
        directory = parent / f"{_FETCHING}{name}"
        directory.mkdir(mode=0o700, exist_ok=True)
        yield directory


def _finish(directory: Path, about: DataSet) -> DataSet:
    """Writes the manifest of the files in `directory`, with all that makes them last."""
    entries = tuple(
        DataFile(path.name, path, path.stat().st_size) for path in sorted(directory.iterdir())
    )
    data = DataSet(about.name, entries, digest(entries), about.origin, about.licence, about.note)
    manifest = directory / _MANIFEST
    manifest.write_text(json.dumps({"schema": _SCHEMA, **data.json()}, indent=1) + "\n")
    for path in (*data.files, manifest):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return data


def _read(directory: Path, name: str) -> DataSet:
    path = directory / _MANIFEST
    if path.stat().st_size > _MAX_MANIFEST_BYTES:
        raise ValueError(f"{path} is longer than {_MAX_MANIFEST_BYTES} bytes")
    manifest: dict[str, Any] = strict_json.loads(path.read_bytes())
    if not isinstance(manifest, dict) or manifest.get("schema") != _SCHEMA:
        raise ValueError(f"{path} is no manifest of a data set")
    entries = []
    for file in manifest["files"]:
        inside = directory / str(file["name"])
        if inside.parent != directory:
            raise ValueError(f"{path} names a file elsewhere")
        if inside.is_symlink() or inside.stat().st_size != file["size_bytes"]:
            raise ValueError(f"{inside} is not {file['size_bytes']} bytes long")
        entries.append(DataFile(file["name"], inside, file["size_bytes"]))
    if not entries:
        raise ValueError(f"{path} names no files")
    return DataSet(
        name,
        tuple(entries),
        digest=str(manifest["digest"]),
        origin=str(manifest["origin"]),
        licence=str(manifest["licence"]),
        note=str(manifest.get("note", "")),
    )


@contextlib.contextmanager
def _locked(key: str) -> Iterator[Path]:
    """Waits until no other process makes the same data set."""
    parent = root()
    parent.mkdir(parents=True, exist_ok=True)
    with (parent / f".lock-{key}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield parent


def _failing_usefully() -> contextlib.AbstractContextManager[None]:
    remedy = "make room or give it another place: OVERSIDE_CACHE=DIR"
    return as_user_error(f"the data cache {root()} cannot be written", OSError, remedy=remedy)
