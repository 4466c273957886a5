"""Tables of particles and ships, and files that are enlarged, as Arrow IPC: made once, by
`overside flow generate` and `overside flow enlarge` of the native command that callers name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from overside import processes
from overside.data import cache
from overside.data.dataset import DataSet, sha256
from overside.errors import Exit, as_user_error

_TIMEOUT_S = 3600
#: Counts up when other bytes come out.
_VERSION = 2
#: Data sets that can be made, and for each the column that identifies its objects.
KEYS = {"particles": "id", "ships": "MMSI"}
#: Default number of rows of a made table.
ROWS = 1_000_000


def made(native: str, name: str, rows: int) -> DataSet:
    """Snapshots of particles or ships. Raises `UserError`."""
    about = DataSet(
        f"{name}, {rows} rows",
        (),
        "",
        "made by Overside: overside flow generate",
        "Apache-2.0, as Overside",
    )
    command = [native, "flow", "generate", name]
    return _stored(f"flow-{name}-{rows}-{_VERSION}", about, command, rows)


def enlarged(native: str, sample: Path, rows: int, key: str, time: str | None) -> DataSet:
    """A file with `rows` rows, none of them repeated. Raises `UserError`."""
    with as_user_error(str(sample), OSError, remedy="name a file", code=Exit.ABSENT):
        digest = sha256(sample)
    about = DataSet(
        f"{sample.name}, enlarged to {rows} rows",
        (),
        "",
        f"{sample.name} with SHA-256 {digest}, enlarged by overside flow enlarge",
        "that of the sample",
    )
    options = ["--id", key, *(["--time", time] if time else [])]
    command = [native, "flow", "enlarge", *options, "--", str(sample.absolute())]
    which = hashlib.sha256("\0".join((digest, key, time or "")).encode()).hexdigest()[:16]
    return _stored(f"flow-{which}-{rows}-{_VERSION}", about, command, rows)


def _stored(key: str, about: DataSet, command: Sequence[str], rows: int) -> DataSet:
    def write(directory: Path) -> None:
        whole = [*command[:3], "--rows", str(rows), *command[3:], str(directory / "table.arrow")]
        what, remedy = f"{about.name} could not be made", "see overside flow --help"
        with as_user_error(what, processes.ProcessError, remedy=remedy, code=Exit.ABSENT):
            processes.output(whole, _TIMEOUT_S)

    return cache.store(key, about, write)
