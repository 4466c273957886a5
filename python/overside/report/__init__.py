"""The report of a run: a page, Markdown, CSV, JSON, or a terminal's summary."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overside.bench.statistics import RunView
    from overside.report.images import Picture

#: The formats and the files they are written to in a run's directory.
FILES = {"html": "report.html", "md": "report.md", "csv": "samples.csv", "json": "report.json"}
#: The formats of single charts, which are written to the directory `CHARTS` of a run.
PICTURES = ("svg", "png")
CHARTS = "charts"
#: The most pictures in a Markdown report.
_SHOWN_MAX = 12


def write(run_dir: Path, formats: Iterable[str] = ("html",), chart: str = "") -> list[Path]:
    """Writes the report of a run into its directory and returns the files; of single charts, all
    or the one called `chart`.

    Raises `UserError` if `run_dir` is no run or cannot be written to.
    """
    from overside.bench import statistics, store  # noqa: PLC0415 (start-up of other verbs)
    from overside.errors import UserError  # noqa: PLC0415

    view = statistics.load_run(run_dir)
    written = []
    path = run_dir
    try:
        for name in formats:
            if name in PICTURES:
                written += _pictures(view, name, chart)
                continue
            path = run_dir / FILES[name]
            text = _illustrated(view) if name == "md" else render(view, name)
            store.write_atomically(path, text)
            written.append(path)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}",
            "give another place with `overside report RUN --out FILE`",
        ) from error
    return written


def picture(view: RunView, name: str, chart: str) -> bytes:
    """One chart as a picture. Raises `UserError` if there is none of that name."""
    found = _chosen(view, chart)[0]
    return found.png() if name == "png" else found.svg().encode()


def _pictures(view: RunView, name: str, chart: str) -> list[Path]:
    from overside.bench import store  # noqa: PLC0415

    directory = view.path / CHARTS
    directory.mkdir(exist_ok=True)
    out = []
    for one in _chosen(view, chart):
        path = directory / f"{one.name}.{name}"
        store.write_atomically(path, one.png() if name == "png" else one.svg())
        out.append(path)
    return out


def _chosen(view: RunView, chart: str) -> list[Picture]:
    from overside.errors import UserError, unknown  # noqa: PLC0415
    from overside.report import images  # noqa: PLC0415

    found = images.of_run(view)
    if not found:
        raise UserError(f"{view.path} has nothing to draw", "a test must have passed")
    if not chart:
        return found
    named = [one for one in found if one.name == chart]
    if named:
        return named
    more = images.on_demand(view)
    if chart in ("rounds", "histogram"):
        named = [one for one in more if one.chart.id.startswith(f"{chart}-")]
        if not named:
            raise UserError(f"{view.path} has no samples for that", "it takes tests that passed")
    else:
        named = [one for one in more if one.name == chart]
    if not named:
        known = ["rounds", "histogram", *(one.name for one in found)]
        raise unknown("chart", chart, known, also=[one.name for one in more])
    return named


def _illustrated(view: RunView) -> str:
    """Markdown with the first chart of each operation as a picture."""
    from overside.bench import store  # noqa: PLC0415
    from overside.report import images  # noqa: PLC0415
    from overside.report.markdown import markdown  # noqa: PLC0415

    first = {one.about: one for one in reversed(images.of_run(view))}
    shown = list(reversed(first.values()))[:_SHOWN_MAX]
    if shown:
        (view.path / CHARTS).mkdir(exist_ok=True)
    for one in shown:
        store.write_atomically(view.path / CHARTS / f"{one.name}.svg", one.svg())
    pictures = [(f"{one.about}: {one.chart.title}", f"{CHARTS}/{one.name}.svg") for one in shown]
    return markdown(view, pictures)


def render(view: RunView, name: str) -> str:
    """The report in one of the `FILES` formats."""
    from overside.report import export  # noqa: PLC0415

    match name:
        case "csv":
            return export.csv_text(view)
        case "json":
            return export.json_text(view)
        case "md":
            from overside.report.markdown import markdown  # noqa: PLC0415

            return markdown(view)
        case "html":
            from overside.report.page import page  # noqa: PLC0415

            return page(view)
    raise ValueError(f"no format {name!r}; known: {', '.join(FILES)}")


def summary(view: RunView, width: int = 80, colour: bool = False) -> str:
    """Returns the first screen of the report, for a terminal of `width` columns."""
    from overside.report import terminal  # noqa: PLC0415

    return terminal.summary(view, width=width, colour=colour)
