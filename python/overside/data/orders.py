"""The comments of TPC-H orders, one a line, from the generator tpchgen-cli."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from overside.errors import Exit, UserError

#: The table `orders` at scale factor 1 has 1,500,000 rows; one of this many parts is made, which
#: one the seed says.
PARTS = 8
_COMMENT = 8
_TIMEOUT_S = 300


def write(directory: Path, seed: int) -> None:
    """Writes one file. Raises `UserError` without the generator, or if it fails."""
    argv = [
        generator(), "tbl", "--scale-factor", "1", "--tables", "orders", "--parts", str(PARTS),
        "--part", str(seed % PARTS + 1), "--num-threads", "1", "--quiet", "--stdout",
    ]  # fmt: skip
    table = directory / "orders.tbl"
    with table.open("wb") as output:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise failed("orders", str(error)) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise failed("orders", said[-1] if said else f"exit status {done.returncode}")
    with table.open("rb") as rows, (directory / "orders-comments.txt").open("wb") as comments:
        for row in rows:
            columns = row.split(b"|")
            if len(columns) <= _COMMENT:
                raise failed("orders", "it wrote a row without a comment")
            comments.write(columns[_COMMENT] + b"\n")
    table.unlink()


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
    """That a data set could not be made."""
    return UserError(
        f"the data set {name} could not be made: tpchgen-cli failed: {why}",
        "run `tpchgen-cli --version` to see whether it works; version 4 is needed",
        Exit.ABSENT,
    )
