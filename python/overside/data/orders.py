"""The comments of TPC-H orders, one a line, from the generator tpchgen-cli."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from overside.errors import Exit, UserError
from overside.processes import PIPE, Process, ProcessError, cited, ending

#: The table `orders` has 1,500,000 rows at scale factor 1. One of this many parts of it is made,
#: by the seed.
PARTS = 8
#: The large one begins like the table at scale factor 8, and is cut off after `LARGE_BYTES`.
LARGE_SCALE = 8
LARGE_BYTES = 512 << 20
_COMMENT = 8
_TIMEOUT_S = 300


def write(directory: Path, seed: int) -> None:
    """Writes one file. Raises `UserError` without the generator, or if it fails."""
    part = ["--scale-factor", "1", "--parts", str(PARTS), "--part", str(seed % PARTS + 1)]
    _write(directory / "orders-comments.txt", "orders", part, None)


def write_large(directory: Path, seed: int) -> None:
    """Writes one file of 512 MiB, the same for every seed. Raises as `write`."""
    del seed
    scale = ["--scale-factor", str(LARGE_SCALE)]
    _write(directory / "orders-comments.txt", "orders-large", scale, LARGE_BYTES)


def _write(path: Path, name: str, which: list[str], bytes_max: int | None) -> None:
    """Writes comments as the rows come, no more than `bytes_max` bytes."""
    argv = [
        generator(), "tbl", *which, "--tables", "orders",
        "--num-threads", "1", "--quiet", "--stdout",
    ]  # fmt: skip
    left = sys.maxsize if bytes_max is None else bytes_max
    is_short = False
    with tempfile.TemporaryFile() as said, path.open("wb") as comments:
        try:
            process = Process(argv, stdout=PIPE, stderr=said, bufsize=-1)
        except ProcessError as error:
            raise failed(name, str(error)) from error
        timer = threading.Timer(_TIMEOUT_S, process.kill)
        timer.start()
        with process:
            assert process.stdout is not None
            try:
                for row in process.stdout:
                    columns = row.split(b"|")
                    if len(columns) <= _COMMENT:
                        # Why it did may come yet.
                        is_short = True
                        continue
                    left -= comments.write((columns[_COMMENT] + b"\n")[:left])
                    if left == 0:
                        return
                status = process.wait()
            finally:
                timer.cancel()
        if status != 0:
            said.seek(0)
            raise failed(name, ending(status) + cited(said.read()))
    if is_short:
        raise failed(name, "it wrote a row without a comment")
    if bytes_max is not None:
        raise failed(name, f"it wrote {left} bytes too few")


def generator() -> str:
    """The generator's path. Raises `UserError` without it."""
    # Where pip puts it: beside the Python that runs this, which need not be on the path.
    beside = os.path.dirname(sys.executable)
    path = shutil.which("tpchgen-cli", path=beside) or shutil.which("tpchgen-cli")
    if path is None:
        raise UserError(
            "TPC-H data need the generator tpchgen-cli, which is not installed",
            f"{sys.executable} -m pip install 'tpchgen-cli>=4,<5'",
            Exit.ABSENT,
        )
    return path


def failed(name: str, why: str) -> UserError:
    """Returns the error for a data set that could not be made."""
    return UserError(
        f"the data set {name} could not be made: tpchgen-cli failed: {why}",
        "run `tpchgen-cli --version` to see whether it works; version 4 is needed",
        Exit.ABSENT,
    )
