"""A sample of real files that every machine has; docs/measure/data.md lists them."""

from __future__ import annotations

import hashlib
import os
import stat
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from overside.errors import Exit, UserError

#: The sample is at most this long, and no shorter than the least.
SIZE_BYTES = 16 << 20
LEAST_BYTES = 1 << 20
MAX_FILES = 256
#: Most bytes that are taken of one file, from its beginning, so that no file dominates.
MAX_FILE_BYTES = 1 << 20
#: Names that are looked at in one place, and how deep.
_MAX_SEEN = 50_000
_MAX_DEPTH = 6
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst", ".zip", ".png", ".jpg", ".jpeg", ".gif", ".woff2")


@dataclass(frozen=True)
class Kind:
    """One kind of file, and where it is found."""

    name: str
    places: Sequence[str]
    #: A file's name contains one of these; none: any name will do.
    marks: tuple[str, ...] = ()
    #: Shorter files are left out.
    least_bytes: int = 1


def kinds() -> list[Kind]:
    """The four kinds; each gets a quarter of the sample."""
    paths = sysconfig.get_paths()
    triplet = sysconfig.get_config_var("MULTIARCH") or "no-such-directory"
    dynamic = str(sysconfig.get_config_var("DESTSHARED") or "")
    return [
        Kind("python", [paths["stdlib"]], (".py",), 16 << 10),
        Kind("documentation", ["/usr/share/doc"], (), 8 << 10),
        Kind("library", [f"/usr/lib/{triplet}", "/usr/lib64", dynamic], (".so",), 64 << 10),
        Kind("log", ["/var/log"], (), 512),
    ]


def write(directory: Path, seed: int) -> None:
    """Copies the sample. Raises `UserError` if there is too little to copy."""
    write_from(directory, seed, kinds())


def write_from(directory: Path, seed: int, sources: Sequence[Kind]) -> None:
    """Copies a sample of these kinds of files."""
    found = {kind.name: _ranked(kind, seed) for kind in sources}
    size, count = SIZE_BYTES // len(sources), MAX_FILES // len(sources)
    chosen = []
    for kind in sources:
        chosen += _take(kind.name, found[kind.name], size, count)
    # What one kind leaves free, the others fill, in order.
    for kind in sources:
        size_left = SIZE_BYTES - sum(length for _, _, length in chosen)
        count_left = MAX_FILES - len(chosen)
        chosen += _take(kind.name, found[kind.name], size_left, count_left)
    written = 0
    for number, (kind_name, path, length) in enumerate(chosen):
        name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in path.name)
        data = _read(path, length)
        if data:
            (directory / f"{number:03}-{kind_name}-{name[:80]}").write_bytes(data)
            written += len(data)
    if written < LEAST_BYTES:
        raise UserError(
            f"this machine has too few readable files for the data set system: {written} bytes",
            "name a file or directory of your own as the data, or take `logs` or `orders`",
            Exit.ABSENT,
        )


def _take(
    kind: str, ranked: list[tuple[Path, int]], size: int, count: int
) -> list[tuple[str, Path, int]]:
    """Takes the files from the front of `ranked` that fit `size` and `count`."""
    taken = []
    while ranked and size > 0 and count > 0:
        path, size_bytes = ranked.pop(0)
        length = min(size_bytes, MAX_FILE_BYTES, size)
        taken.append((kind, path, length))
        size -= length
        count -= 1
    return taken


def _ranked(kind: Kind, seed: int) -> list[tuple[Path, int]]:
    """The files of a kind with their sizes, in an order that depends only on their paths and the
    seed."""
    seen: dict[tuple[int, int], tuple[Path, int]] = {}
    for place in kind.places:
        if os.path.isabs(place):
            for path, status in sorted(_files(place, kind)):
                seen.setdefault((status.st_dev, status.st_ino), (path, status.st_size))

    def rank(file: tuple[Path, int]) -> bytes:
        return hashlib.sha256(f"{seed} {file[0]}".encode(errors="surrogateescape")).digest()

    return sorted(seen.values(), key=rank)


def _files(place: str, kind: Kind) -> Iterator[tuple[Path, os.stat_result]]:
    """Regular files that every user may read; links are not followed."""
    seen = 0
    top = place.rstrip("/").count("/")
    for parent, directories, names in os.walk(place):
        # Other people's packages are no part of Python's library.
        skip = {"site-packages", "dist-packages", "__pycache__", "test", "tests"}
        directories[:] = sorted(set(directories) - skip)
        if parent.count("/") - top >= _MAX_DEPTH:
            directories.clear()
        for name in sorted(names):
            seen += 1
            if seen > _MAX_SEEN:
                return
            if name.endswith(_COMPRESSED):
                continue
            if kind.marks and not any(mark in name for mark in kind.marks):
                continue
            path = Path(parent, name)
            try:
                status = path.lstat()
            except OSError:
                continue
            readable = status.st_mode & stat.S_IROTH and os.access(path, os.R_OK)
            if stat.S_ISREG(status.st_mode) and readable and status.st_size >= kind.least_bytes:
                yield path, status


def _read(path: Path, length: int) -> bytes:
    # A log may be rotated away in the meantime.
    try:
        with path.open("rb") as file:
            return file.read(length)
    except OSError:
        return b""
