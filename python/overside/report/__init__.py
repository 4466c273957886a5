"""The report of a run: what it says, as a page, Markdown, CSV, JSON, or a terminal's summary."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overside.bench.statistics import RunView

#: The formats and the files they are written to in a run's directory.
FILES = {"html": "report.html", "md": "report.md", "csv": "samples.csv", "json": "report.json"}


def write(run_dir: Path, formats: Iterable[str] = ("html",)) -> list[Path]:
    """Writes the report of a run into its directory and returns the files.

    Raises `UserError` if `run_dir` is no run or cannot be written to.
    """
    from overside.bench import statistics, store  # noqa: PLC0415 (start-up of other verbs)
    from overside.errors import UserError  # noqa: PLC0415

    view = statistics.load_run(run_dir)
    written = []
    for name in formats:
        path = run_dir / FILES[name]
        try:
            store.write_atomically(path, render(view, name))
        except OSError as error:
            raise UserError(
                f"cannot write {path}: {error.strerror}",
                "give another place with `overside report RUN --out FILE`",
            ) from error
        written.append(path)
    return written


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
    """What the report's first screen says, for a terminal of `width` columns."""
    from overside.report import terminal  # noqa: PLC0415

    return terminal.summary(view, width=width, colour=colour)
