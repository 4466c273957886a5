"""Tables of particles and ships, and files that are enlarged, as Arrow IPC: made once, by
`overside flow generate` and `overside flow enlarge` of the native command that callers name."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from overside.data import cache
from overside.data.dataset import DataSet, sha256
from overside.errors import Exit, UserError

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
    try:
        digest = sha256(sample)
    except OSError as error:
        raise UserError(f"{sample}: {error.strerror}", "name a file", Exit.ABSENT) from error
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
        file = str(directory / "table.arrow")
        _run([*command[:3], "--rows", str(rows), *command[3:], file], about.name)

    return cache.store(key, about, write)


def _run(argv: Sequence[str], name: str) -> None:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(name, str(error)) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise _failed(name, said[-1] if said else f"exit status {done.returncode}")


def _failed(name: str, why: str) -> UserError:
    return UserError(f"{name} could not be made: {why}", "see overside flow --help", Exit.ABSENT)
