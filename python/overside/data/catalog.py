"""Finds, makes and lists data sets by name."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overside.data import accidents, cache, logs, noise, orders, paths, silesia, system
from overside.data.dataset import DataSet
from overside.errors import Exit, UserError, as_user_error

_OURS = "Apache-2.0, as Overside"
#: Seeds are part of directory names and of JSON.
_MAX_SEED = (1 << 53) - 1


@dataclass(frozen=True)
class Recipe:
    """A data set that is made here."""

    description: str
    origin: str
    licence: str
    #: Counts up when other bytes come out.
    version: int
    #: Fills a directory with the files, for a seed.
    write: Callable[[Path, int], None]


RECIPES = {
    "accidents": Recipe(
        "road accidents in a sentence each; answers the four published queries",
        "made by Overside",
        _OURS,
        1,
        accidents.write,
    ),
    "logs": Recipe(
        "lines as web servers, login daemons and kernels log them",
        "made by Overside",
        _OURS,
        1,
        logs.write,
    ),
    "noise": Recipe(
        "incompressible bytes", "made by Overside with SHAKE-256", _OURS, 1, noise.write
    ),
    "orders": Recipe(
        "the comments of TPC-H orders, scale factor 1, one part of eight",
        "made by tpchgen-cli 4 after the TPC-H specification",
        "output of tpchgen-cli (Apache-2.0); no TPC benchmark result",
        1,
        orders.write,
    ),
    "orders-large": Recipe(
        "the comments of TPC-H orders, scale factor 8, the first 512 MiB",
        "made by tpchgen-cli 4 after the TPC-H specification",
        "output of tpchgen-cli (Apache-2.0); no TPC benchmark result",
        1,
        orders.write_large,
    ),
    "system": Recipe(
        "a sample of this machine's own files: Python, documentation, libraries, logs",
        "this machine; other machines have other bytes",
        "those of the files",
        1,
        system.write,
    ),
}
_SILESIA = "the Silesia corpus, the usual measure of compressors; silesia/NAME is one of its files"
#: Stands for the best data set at hand; see `corpus`.
CORPUS = "corpus"
_MAKE = "overside data make {}"
_FETCH = "overside data fetch silesia"


def names() -> list[str]:
    """All names, those of single files of the corpus too."""
    return [CORPUS, *RECIPES, "silesia", *(f"silesia/{member}" for member in silesia.MEMBERS)]


def corpus() -> str:
    """Returns the data set for `corpus`: `silesia` if it is at hand, otherwise `system`.

    It is at hand if at least one of its files is.
    """
    return "silesia" if silesia.at_hand() else "system"


def resolve(
    name_or_path: str | Path, *, seed: int = 0, make: bool = True, again: bool = False
) -> DataSet:
    """The data set of that name, or the file or directory at that path, every byte of it read and
    its digest known.

    A data set that is not made yet is made, for the seed, if `make`; a broken one in the cache is
    made again, in any case if `again`. Nothing is fetched. Raises `UserError` if it cannot be had.
    """
    name = str(name_or_path)
    if name == CORPUS:
        name = corpus()
    if not 0 <= seed <= _MAX_SEED:
        raise UserError(f"{seed} is no seed", f"take a whole number from 0 to {_MAX_SEED}")
    if name in RECIPES:
        recipe, key = RECIPES[name], _key(name, seed)
        about = DataSet(name, (), "", recipe.origin, recipe.licence)
        if not make:
            return _made(key, name)
        return cache.store(key, about, lambda path: recipe.write(path, seed), again=again)
    if name == "silesia":
        return silesia.resolve(name, None)
    if name in names():
        return silesia.resolve(name, name.partition("/")[2])
    if (os.sep not in name or name.startswith("silesia/")) and not Path(name).exists():
        raise UserError(
            f"there is no data set or file {name!r}{_meant(name)}", "overside data list"
        )
    return paths.resolve(name)


def absent(name_or_path: str | Path) -> str | None:
    """Returns the reason why a data set is not available here; `None` if it is.

    No data set is made or read.
    """
    name = str(name_or_path)
    if name == CORPUS or name in RECIPES:
        return None
    if name == "silesia" or name in names():
        wanted = name.partition("/")[2]
        there = silesia.at_hand()
        if wanted in there or (there and not wanted):
            return None
        return f"the data set {name} is not at hand; `{_FETCH}` gets it"
    if Path(name).expanduser().exists():
        return None
    return f"there is no data set or file {name!r}{_meant(name)}"


def table(seed: int = 0) -> list[dict[str, Any]]:
    """All data sets with a description of each, for `overside data list`: `name`, `description`,
    `state` (`made`, `not made`, `broken`, `at hand`, `in part`, `not at hand`), `size_bytes`,
    `where`, `digest` (as its manifest says; each `null` where unknown), `licence`, `origin`,
    `get`. The files are not read: `broken` says that some are missing or of another size."""
    rows = [_row(name, recipe, seed) for name, recipe in RECIPES.items()]
    there = silesia.at_hand()
    states = {0: "not at hand", len(silesia.MEMBERS): "at hand"}
    rows.append(
        {
            "name": "silesia",
            "description": _SILESIA,
            "state": states.get(len(there), "in part"),
            "size_bytes": sum(silesia.MEMBERS[member].size_bytes for member in there) or None,
            "where": str(silesia.found(there[0])) if there else None,
            "files": there,
            "digest": None,
            "licence": silesia.LICENCE,
            "origin": silesia.ORIGIN,
            "get": _FETCH,
        }
    )
    return rows


def _row(name: str, recipe: Recipe, seed: int) -> dict[str, Any]:
    made = cache.peek(_key(name, seed), name)
    broken = made is None and cache.exists(_key(name, seed))
    return {
        "name": name,
        "description": recipe.description,
        "state": "made" if made else "broken" if broken else "not made",
        "size_bytes": made.size_bytes if made else None,
        "where": str(made.files[0].parent) if made else None,
        "digest": made.digest if made else None,
        "licence": recipe.licence,
        "origin": recipe.origin,
        "get": _MAKE.format(name),
    }


def verify(name: str, seed: int) -> tuple[DataSet | None, str]:
    """Reads a data set again: the set and "", or `None` and its error. Makes and mends nothing."""
    try:
        return resolve(name, seed=seed, make=False), ""
    except UserError as error:
        return None, error.message


def _made(key: str, name: str) -> DataSet:
    what, remedy = f"the data set {name} is broken", f"overside data make {name}"
    with as_user_error(what, cache.BrokenError, remedy=remedy, code=Exit.ABSENT):
        data = cache.load(key, name)
    if data is None:
        raise UserError(
            f"the data set {name} is not made yet", f"overside data make {name}", Exit.ABSENT
        )
    return data


def _key(name: str, seed: int) -> str:
    return f"{name}-{seed}-{RECIPES[name].version}"


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name, names(), n=1)
    return f"; did you mean {close[0]}?" if close else ""
