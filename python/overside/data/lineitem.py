"""TPC-H's table `lineitem` as Parquet, from the generator tpchgen-cli."""

from __future__ import annotations

from pathlib import Path

from overside import processes
from overside.data import cache, orders
from overside.data.dataset import DataSet

_TIMEOUT_S = 3600


def resolve(scale_factor: float) -> DataSet:
    """The table at that scale factor, made once. Raises `UserError`."""
    about = DataSet(
        f"lineitem, scale factor {scale_factor:g}",
        (),
        "",
        "made by tpchgen-cli 4 after the TPC-H specification",
        "output of tpchgen-cli (Apache-2.0); no TPC benchmark result",
    )
    return cache.store(
        f"lineitem-{scale_factor:g}-1", about, lambda path: _write(path, scale_factor)
    )


def _write(directory: Path, scale_factor: float) -> None:
    argv = [
        orders.generator(), "parquet", "--scale-factor", f"{scale_factor:g}",
        "--tables", "lineitem", "--output-dir", str(directory), "--quiet",
    ]  # fmt: skip
    try:
        processes.output(argv, _TIMEOUT_S)
    except processes.ProcessError as error:
        raise orders.failed("lineitem", str(error)) from error
