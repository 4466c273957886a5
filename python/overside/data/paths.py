"""A file or a directory of the user's as a data set."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from overside.data.dataset import DataFile, DataSet, digest
from overside.errors import UserError, as_user_error

MAX_FILES = 10_000
MAX_BYTES = 64 << 30
_MAX_DEPTH = 32
_MAX_SEEN = 1_000_000
_SHOWN = 5


def resolve(name: str) -> DataSet:
    """The file, or all regular files below the directory, in the order of their names. Empty files
    are left out; links inside a directory are not followed.

    Raises `UserError` if there is nothing, too much, or something that cannot be read.
    """
    path = Path(name).expanduser().absolute()
    remedy = "name another file or directory"
    with as_user_error(f"the data {name} cannot be read", OSError, remedy=remedy):
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            entries = list(_below(path, name))
        elif stat.S_ISREG(status.st_mode):
            entries = [DataFile(path.name, path, status.st_size)]
        else:
            raise UserError(f"{name} is neither a file nor a directory", "name one as the data")
    entries = [entry for entry in entries if entry.size_bytes]
    _check(name, entries)
    what = f"the data {name} changed while they were read"
    with as_user_error(what, OSError, remedy="try again"):
        return DataSet(name, tuple(entries), digest(entries), "the user's own", "the user's own")


def _check(name: str, entries: list[DataFile]) -> None:
    if not entries:
        raise UserError(f"the data {name} are empty", "name a file or directory with content")
    size = sum(entry.size_bytes for entry in entries)
    if size > MAX_BYTES:
        raise UserError(
            f"the data {name} are {size} bytes, the most is {MAX_BYTES}",
            "name a smaller file or directory",
        )
    unreadable = [str(entry.path) for entry in entries if not os.access(entry.path, os.R_OK)]
    if unreadable:
        more = f" and {len(unreadable) - _SHOWN} more" if len(unreadable) > _SHOWN else ""
        raise UserError(
            f"of the data {name} these cannot be read: {', '.join(unreadable[:_SHOWN])}{more}",
            "make them readable, or name another file or directory",
        )


def _below(top: Path, name: str) -> Iterator[DataFile]:
    def fail(error: OSError) -> None:
        raise error

    count = seen = 0
    for parent, directories, names in os.walk(top, onerror=fail):
        directories.sort()
        # `relpath` of the top itself is ".": one part.
        if len(Path(os.path.relpath(parent, top)).parts) > _MAX_DEPTH:
            raise UserError(
                f"the data {name} are nested more than {_MAX_DEPTH} deep",
                "name a directory further down",
            )
        for file in sorted(names):
            seen += 1
            path = Path(parent, file)
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                continue
            count += 1
            if count > MAX_FILES or seen > _MAX_SEEN:
                raise UserError(
                    f"the data {name} are more than {MAX_FILES} files",
                    "name a directory with fewer, or pack them into one file",
                )
            yield DataFile(str(path.relative_to(top)), path, status.st_size)
