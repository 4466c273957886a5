"""The page with the tracks."""

import html
import itertools
import math
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any

WIDTH, HEIGHT, MARGIN = 1000, 700, 10
COLORS = 8
# Longer than so many of an object's usual steps: it was not seen in between.
GAP_STEPS = 20
PAGE = Path(__file__).with_name("page.html")


def page(
    *,
    columns: Any,
    rows: int,
    objects: int,
    snapshots: int,
    added: list[dict[str, Any]],
    tree: dict[str, Any],
    found: dict[str, list[Any]],
    query_s: float,
    source: str,
) -> str:
    """HTML that needs nothing else."""
    tracks = split(*(found[name] for name in columns[:4]))
    paths, height = drawn(tracks, columns.is_map)
    levels = tree["levels"]
    above = sum(level["rows"] for level in levels[:-1])
    wall_s = sum(one["wall_ns"] for one in added) / 1e9
    title = f"{snapshots} snapshots of {objects:,} {columns.objects} became {objects:,} tracks"
    lead = (
        f"{rows:,} rows ({source}), absorbed in the order of time. The tracks below were found in "
        f"{query_s * 1000:.0f} ms, start of the program included, while "
        f"{100 * above / max(rows, 1):.0f} % of all rows were still above the leaves."
    )
    what = "by longitude and latitude" if columns.is_map else f"by {columns.x} and {columns.y}"
    count = len(set(found[columns.object]))
    caption = (
        f"{count} {columns.objects} that went far, {what}. A dot is where one was last; "
        "gaps in time are not drawn."
    )
    names = ["root", *(str(number) for number in range(1, len(levels) - 1)), "leaves"]
    cells = "".join(
        f"<tr><td>{name}<td>{level['nodes']:,}<td>{level['files']:,}<td>{level['rows']:,}"
        f"<td>{level['values_bytes'] / 1e6:.1f} MB</tr>"
        for name, level in zip(names, levels, strict=True)
    )
    cost = (
        f"Measured on this machine: {wall_s:.2f} s in {snapshots} commands, one a snapshot, "
        "until each was on the disk; "
        f"each byte was written {tree['write_amplification']:.1f} times."
    )
    return Template(PAGE.read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        lead=html.escape(lead),
        width=WIDTH,
        height=height,
        label=html.escape(caption),
        paths=paths,
        caption=html.escape(caption),
        levels=cells,
        cost=html.escape(cost),
    )


def split(ids: list[Any], times: list[Any], xs: list[Any], ys: list[Any]) -> list[list[Any]]:
    """The tracks of each object, whose rows stand together and by time, in parts around gaps."""
    objects: list[list[Any]] = []
    for number, (one, *point) in enumerate(zip(ids, times, xs, ys, strict=True)):
        if number == 0 or one != ids[number - 1]:
            objects.append([])
        if None not in point:
            objects[-1].append((seconds(point[0]), point[1], point[2]))
    return [parts(points) for points in objects if points]


def parts(points: list[Any]) -> list[Any]:
    """An object's points, in a list for each time that it was there without a gap."""
    steps = sorted(after[0] - before[0] for before, after in itertools.pairwise(points))
    gap = GAP_STEPS * steps[len(steps) // 2] if steps else 0
    found = [[points[0][1:]]]
    for before, after in itertools.pairwise(points):
        if after[0] - before[0] > max(gap, 1e-9):
            found.append([])
        found[-1].append(after[1:])
    return found


def seconds(time: Any) -> float:
    """A time of any column."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return time.timestamp() if isinstance(time, datetime) else float(time)


def drawn(tracks: list[list[Any]], is_map: bool) -> tuple[str, int]:
    """Paths, and the height of the picture. Leaps through the sides of a box are not drawn."""
    points = [point for track in tracks for part in track for point in part] or [(0.0, 0.0)]
    (x_min, x_max), (y_min, y_max) = ((min(one), max(one)) for one in zip(*points, strict=True))
    # Meridians draw together towards the poles.
    squeeze = math.cos(math.radians((y_min + y_max) / 2)) if is_map else 1.0
    wide, high = (x_max - x_min) * squeeze or 1.0, y_max - y_min or 1.0
    scale = min((WIDTH - 2 * MARGIN) / wide, HEIGHT / high)
    left = (WIDTH - wide * scale) / 2
    height = round(high * scale) + 2 * MARGIN
    leap = max(wide, high) * scale / 4

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (x - x_min) * squeeze * scale, height - MARGIN - (y - y_min) * scale

    shapes = []
    for number, track in enumerate(tracks):
        text, last = "", (0.0, 0.0)
        for part in track:
            for index, (x, y) in enumerate(place(*point) for point in part):
                far = math.hypot(x - last[0], y - last[1])
                if index > 0 and far < 0.3:
                    continue
                text += f"{'M' if index == 0 or far > leap else 'L'}{x:.1f} {y:.1f}"
                last = (x, y)
        color = f"var(--t{number % COLORS})"
        shapes.append(f'<path d="{text}" stroke="{color}"/>')
        shapes.append(f'<circle cx="{last[0]:.1f}" cy="{last[1]:.1f}" r="2.6" fill="{color}"/>')
    return "".join(shapes), height
