"""From snapshots to tracks.

The rows of a table, by time, go through a log-structured tree, and come out by object:

    python examples/tracks/tracks.py                       # particles, made from a seed
    python examples/tracks/tracks.py ships                 # ships, made from a seed
    python examples/tracks/tracks.py positions.parquet     # aircraft of OpenSky, or ships of AIS
    python examples/tracks/tracks.py FILE --columns ID,TIME,X,Y

It needs `overside` on the path and pyarrow (`pip install 'overside[flow]'`), and writes
tracks.html.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet
from picture import page

OBJECTS = 2_000
DRAWN = 60


class Columns(NamedTuple):
    """Columns of a track."""

    object: str
    time: str
    x: str
    y: str
    objects: str = "objects"
    is_map: bool = False


KNOWN = (
    Columns("icao24", "timestamp", "longitude", "latitude", "aircraft", is_map=True),
    Columns("MMSI", "BaseDateTime", "LON", "LAT", "ships", is_map=True),
    Columns("id", "t", "x", "y", "particles"),
)


def main() -> None:
    """Reads the options and does it all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", default="particles", help="particles, ships or a file")
    parser.add_argument("--columns", help="object, time, x and y: ID,TIME,X,Y")
    parser.add_argument("--rows", type=int, default=400_000, help="rows that are made [400000]")
    parser.add_argument("--snapshots", type=int, default=50, help="parts of the time [50]")
    parser.add_argument("--capacity", default="2MiB", help="what a node absorbs [2MiB]")
    parser.add_argument("--out", type=Path, default=Path("tracks.html"), help="the page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracks-") as place:
        options.out.write_text(tracks(options, Path(place)), encoding="utf-8")
    print(options.out)


def tracks(options: argparse.Namespace, place: Path) -> str:
    """Snapshots, tree, tracks, page."""
    source = Path(options.what)
    if options.what in ("particles", "ships"):
        source = place / "made.parquet"
        made = ("--format", "parquet", "--rows", options.rows, "--objects", OBJECTS)
        overside("generate", options.what, source, *made)
    table = pyarrow.parquet.read_table(source)
    columns = columns_of(table, options.columns)
    table = table.sort_by(columns.time)
    tree, added = place / "tree", []
    shape = ("--id", columns.object, "--time", columns.time, "--capacity", options.capacity)
    rows = -(-table.num_rows // options.snapshots)
    for begin in range(0, table.num_rows, rows):
        snapshot = place / "snapshot.arrow"
        with pyarrow.ipc.new_file(snapshot, table.schema) as writer:
            writer.write_table(table.slice(begin, rows))
        added.append(overside("tree", "add", tree, snapshot, *shape, "--json"))
        if sys.stderr.isatty():
            print(f"\rsnapshot {len(added)} of {options.snapshots}", end="", file=sys.stderr)
    objects, ids = travellers(table, columns)
    names = ", ".join(f'"{name}"' for name in columns[:4])
    begin_s = time.monotonic()
    found = query(tree, "--id", ",".join(ids), "--select", names)
    query_s = time.monotonic() - begin_s
    return page(
        columns=columns,
        rows=table.num_rows,
        objects=objects,
        snapshots=len(added),
        added=[json.loads(one) for one in added],
        tree=json.loads(overside("tree", "show", tree, "--json")),
        found=found.to_pydict(),
        query_s=query_s,
        source="made from a seed" if source.parent == place else source.name,
    )


def travellers(table: pyarrow.Table, columns: Columns) -> tuple[int, list[str]]:
    """Number of objects, and the objects to draw: those that went farthest.

    If each stays in a small part of the area, objects that are close to each other are drawn.
    """
    sides = [(name, side) for name in (columns.x, columns.y) for side in ("min", "max")]
    boxes = table.group_by(columns.object).aggregate(sides).to_pylist()
    boxes = [box for box in boxes if None not in box.values()]

    def length(box: dict[str, Any], name: str) -> float:
        return float(box[f"{name}_max"] - box[f"{name}_min"])

    def is_near(box: dict[str, Any], center: dict[str, Any], part: float) -> bool:
        return all(
            abs(box[f"{name}_{side}"] - center[f"{name}_{side}"]) <= part * area[name]
            for name in (columns.x, columns.y)
            for side in ("min", "max")
        )

    boxes.sort(key=lambda box: -length(box, columns.x) - length(box, columns.y))
    area = {
        name: max(box[f"{name}_max"] for box in boxes) - min(box[f"{name}_min"] for box in boxes)
        for name in (columns.x, columns.y)
    }
    far = boxes[: 5 * DRAWN]
    if far and length(far[len(far) // 2], columns.x) < area[columns.x] / 20:
        crowds = ([box for box in far if is_near(box, center, 0.01)] for center in far)
        far = max(crowds, key=len)
    return len(boxes), [str(box[columns.object]) for box in far[:DRAWN]]


def columns_of(table: pyarrow.Table, named: str | None) -> Columns:
    """The named columns, or known ones."""
    if named is not None:
        names = named.split(",")
        if len(names) != 4:
            sys.exit("--columns takes four names: ID,TIME,X,Y")
        return Columns(*names)
    for known in KNOWN:
        if set(known[:4]) <= set(table.column_names):
            return known
    sys.exit(f"which of {', '.join(table.column_names)}? say --columns ID,TIME,X,Y")


def overside(*arguments: object) -> str:
    """Output of a command, which prints its own errors."""
    done = subprocess.run(
        ["overside", "flow", *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def query(tree: Path, *arguments: str) -> Any:
    """Rows that a query finds."""
    command = ["overside", "flow", "tree", "query", str(tree), "--format", "arrow-stream"]
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return pyarrow.ipc.open_stream(done.stdout).read_all()


if __name__ == "__main__":
    main()
