"""The Silesia corpus: twelve files of many kinds, the usual measure of compressors.

S. Deorowicz, "Universal lossless data compression algorithms", 2003.
"""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from overside.data import cache, fetch
from overside.data.dataset import DataFile, DataSet, digest, sha256
from overside.errors import Exit, UserError

URL = "http://sun.aei.polsl.pl/~sdeor/corpus/silesia.zip"
LICENCE = "research use; its files have licences of their own"
ORIGIN = f"the Silesia corpus, {URL}"

#: The archive is about 68 MB long.
_LIMIT_BYTES = 256 << 20
_CHUNK = 1 << 20
_VERSION = 1


@dataclass(frozen=True)
class Member:
    """One file of the corpus."""

    size_bytes: int
    #: SHA-256, in hex.
    digest: str


#: Length in bytes and SHA-256 digest of each file, whatever archive it comes in.
MEMBERS = {
    "dickens": Member(10192446, "b24c37886142e11d0ee687db6ab06f936207aa7f2ea1fd1d9a36763c7a507e6a"),
    "mozilla": Member(51220480, "657fc3764b0c75ac9de9623125705831ebbfbe08fed248df73bc2dc66e2a963b"),
    "mr": Member(9970564, "68637ed52e3e4860174ed2dc0840ac77d5f1a60abbcb13770d5754e3774d53e6"),
    "nci": Member(33553445, "fc63a31770947b8c2062d3b19ca94c00485a232bb91b502021948fee983e1635"),
    "ooffice": Member(6152192, "e7ee013880d34dd5208283d0d3d91b07f442e067454276095ded14f322a656eb"),
    "osdb": Member(10085684, "60f027179302ca3ad87c58ac90b6be72ec23588aaa7a3b7fe8ecc0f11def3fa3"),
    "reymont": Member(6627202, "0eac0114a3dfe6e2ee1f345a0f79d653cb26c3bc9f0ed79238af4933422b7578"),
    "samba": Member(21606400, "93ba07bc44d8267789c1d911992f40b089ffa2140b4a160fac11ccae9a40e7b2"),
    "sao": Member(7251944, "c2d0ea2cc59d4c21b7fe43a71499342a00cbe530a1d5548770e91ecd6214adcc"),
    "webster": Member(41458703, "6a68f69b26daf09f9dd84f7470368553194a0b294fcfa80f1604efb11143a383"),
    "x-ray": Member(8474240, "7de9fce1405dc44ae5e6813ed21cd5751e761bd4265655a005d39b9685d1c9ad"),
    "xml": Member(5345280, "0e82e54e695c1938e4193448022543845b33020c8be6bf3bf3ead2224903e08c"),
}


class WrongFileError(Exception):
    """A file is not the one of the corpus; the text has the reason."""


def places() -> list[Path]:
    """Returns the directories in which the corpus is searched for before the cache.

    They are `$OVERSIDE_DATA`, then `../shared/data`; in each first a directory `silesia`.
    """
    own = os.environ.get("OVERSIDE_DATA")
    tops = [Path(own).absolute()] if own else []
    tops.append(Path("../shared/data").absolute())
    return [place for top in tops for place in (top / "silesia", top)]


def at_hand() -> list[str]:
    """The members that are here, in the corpus's order. Nothing is read."""
    # Asked for each test of a plan: what is no directory is not looked into for each member.
    there = [place for place in places() if place.is_dir()]
    return [name for name in MEMBERS if _lying(name, there) or cache.peek(_key(name), name)]


def found(name: str) -> Path | None:
    """The directory that a member lies in, packed or not."""
    path = _lying(name)
    if path is None and (kept := cache.peek(_key(name), name)):
        path = kept.files[0]
    return path.parent if path else None


def resolve(name: str, wanted: str | None) -> DataSet:
    """The corpus, or of it the one file `wanted`, every byte checked.

    Without `wanted` the files that are at hand make the set, and a note lists the missing ones.
    Raises `UserError` if none is at hand, or one is damaged.
    """
    members = [wanted] if wanted else at_hand()
    entries = [entry for member in members if (entry := _member(member))]
    if not entries:
        raise UserError(
            f"the data set {name} is not at hand",
            "overside data fetch silesia    (or set OVERSIDE_DATA to a directory that has it)",
            Exit.ABSENT,
        )
    there = {entry.name for entry in entries}
    missing = [member for member in MEMBERS if member not in there]
    note = "" if wanted or not missing else f"without {', '.join(missing)}, which are not at hand"
    return DataSet(name, tuple(entries), digest(entries), ORIGIN, LICENCE, note)


def fetch_corpus(url: str, progress: fetch.Progress | None = None, pause_s: float = 0.5) -> None:
    """Downloads the archive, checks it and unpacks it into the cache. An attempt that was broken
    off goes on where it stopped.

    Raises `UserError` if it cannot be had or is not the corpus.
    """
    with cache.downloads("silesia") as directory:
        _need_room(directory, _LIMIT_BYTES + sum(member.size_bytes for member in MEMBERS.values()))
        archive = directory / "silesia.zip"
        fetch.download(url, archive, limit_bytes=_LIMIT_BYTES, progress=progress, pause_s=pause_s)
        try:
            for name in MEMBERS:
                _unpack(name, archive)
        except WrongFileError as error:
            shutil.rmtree(directory)
            raise UserError(
                f"what {url} sent is not the Silesia corpus: {error}; it was removed",
                "fetch it again, or name another address with --url",
                Exit.ABSENT,
            ) from error
        shutil.rmtree(directory)


def _member(name: str) -> DataFile | None:
    """One file of the corpus from where it lies, unpacked if need be; `None`: nowhere."""
    size, right = MEMBERS[name].size_bytes, MEMBERS[name].digest
    path = _lying(name)
    if path is None or path.suffix == ".zip":
        try:
            kept = cache.load(_key(name), name)
        except cache.BrokenError:
            kept = None
        if kept is None and path:
            try:
                kept = _unpack(name, path)
            except WrongFileError as error:
                raise _wrong(path, name, str(error)) from error
        if kept is None:
            return None
        path = kept.entries[0].path
    try:
        if path.stat().st_size != size or sha256(path) != right:
            raise _wrong(path, name, "its bytes are others")
    except OSError as error:
        raise _wrong(path, name, error.strerror or str(error)) from error
    return DataFile(name, path, size)


def _lying(name: str, among: list[Path] | None = None) -> Path | None:
    for place in places() if among is None else among:
        for path in (place / name, place / f"{name}.zip", place / "silesia.zip"):
            if path.is_file():
                return path
    return None


def _key(name: str) -> str:
    return f"silesia-{name}-{_VERSION}"


def _unpack(name: str, archive: Path) -> DataSet:
    """Puts one member of an archive into the cache."""

    def write(directory: Path) -> None:
        with (directory / name).open("wb") as file:
            for chunk in _chunks(name, archive):
                file.write(chunk)
        if sha256(directory / name) != MEMBERS[name].digest:
            raise WrongFileError(f"the SHA-256 of {name} is not {MEMBERS[name].digest}")

    return cache.store(_key(name), DataSet(name, (), "", ORIGIN, LICENCE), write)


def _chunks(name: str, archive: Path) -> Iterator[bytes]:
    """The bytes of one member, never more than the file has."""
    left = MEMBERS[name].size_bytes
    try:
        with zipfile.ZipFile(archive) as packed:
            member = next((m for m in packed.infolist() if Path(m.filename).name == name), None)
            if member is None:
                raise WrongFileError(f"there is no {name} in it")
            with packed.open(member) as file:
                while chunk := file.read(_CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        break
                    yield chunk
    # What zipfile raises for bytes that are no archive, or use what it does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise WrongFileError(f"it cannot be unpacked: {error}") from error
    if left:
        raise WrongFileError(f"{name} is not {MEMBERS[name].size_bytes} bytes long")


def _wrong(path: Path, name: str, why: str) -> UserError:
    return UserError(
        f"{path} is not the file {name} of the Silesia corpus: {why}",
        "remove it or put the right one there; `overside data fetch silesia` gets it",
    )


def _need_room(directory: Path, size_bytes: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < size_bytes:
        raise UserError(
            f"{directory.parent} has {free >> 20} MiB left; the corpus takes {size_bytes >> 20}",
            "make room or give the cache another place: OVERSIDE_CACHE=DIR",
        )
