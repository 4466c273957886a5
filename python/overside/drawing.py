"""Charts of a run as pictures: those of the report's page, as SVG, PNG or Vega-Lite."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from overside.errors import UserError, as_user_error

#: Pixels between the sides of a chart, without the axis.
WIDTH_PX = 560
#: Characters of a line below the title.
SUBTITLE_MAX = 96
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_STYLE = Path(__file__).parent / "report" / "page" / "page.css"


@dataclass(frozen=True)
class Chart:
    """One chart of a run. In a notebook it shows itself.

    Attributes:
        task: The task whose tests it shows: `compress`, `network`, ...
        metric: What it shows: `throughput`, `latency`, `cpu_cost`, `stages`, ...
        title: What it shows, in words.
        caption: How to read it, and what was left out.
        provenance: `measured` or `emulated`; a chart never shows both.
        spec: The Vega-Lite specification, data included, as a dict.
        columns: The titles of the columns of its table.
        rows: Its figures as text, a tuple for each row of the table.
    """

    task: str
    metric: str
    title: str
    caption: str
    provenance: str
    spec: Mapping[str, Any]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def svg(self) -> str:
        """The picture as SVG, on white.

        Returns:
            The text of the file.
        """
        import vl_convert  # noqa: PLC0415 (100 MB that only pictures need)

        return str(vl_convert.vegalite_to_svg(dict(self.spec)))

    def png(self, scale: float = 2.0) -> bytes:
        """The picture as PNG, on white.

        Args:
            scale: Pixels of the picture for each pixel of the drawing, which is about 640 wide.

        Returns:
            The bytes of the file.
        """
        import vl_convert  # noqa: PLC0415

        return bytes(vl_convert.vegalite_to_png(dict(self.spec), scale=scale))

    def save(self, path: str | Path) -> Path:
        """Writes the picture, or the specification, to a file.

        Args:
            path: The file; its suffix chooses the format: `.svg`, `.png`, or `.json` for
                Vega-Lite.

        Returns:
            The path.

        Raises:
            UserError: The suffix is another one, or the file cannot be written.
        """
        path = Path(path)
        match path.suffix:
            case ".svg":
                content = self.svg().encode()
            case ".png":
                content = self.png()
            case ".json":
                content = json.dumps(self.spec, indent=1).encode()
            case other:
                raise UserError(f"a chart cannot be saved as {other!r}", "use .svg, .png or .json")
        with as_user_error(f"cannot write {path}", OSError):
            path.write_bytes(content)
        return path

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"<Chart {self.task}: {self.title} ({self.provenance})>"


def complete(spec: Mapping[str, Any], title: str, subtitle: str) -> dict[str, Any]:
    """A specification of the report's page as one that stands alone: with a title, a width, and
    the page's colours in place of the names of its style's variables."""
    from overside.report import vega  # noqa: PLC0415 (not needed to import `overside`)

    whole = {
        "$schema": _SCHEMA,
        "title": {
            "text": title,
            "subtitle": textwrap.wrap(subtitle, SUBTITLE_MAX) or "",
            "anchor": "start",
            "offset": 12,
            "subtitleLineHeight": 15,
        },
        "width": WIDTH_PX,
        "padding": 12,
        "background": "white",
        "config": vega.CONFIG | {"background": "white", "font": "system-ui, sans-serif"},
        **spec,
    }
    text = re.sub(r"var\((--[a-z0-9-]+)\)", lambda v: _colours()[v[1]], json.dumps(whole))
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def _colours() -> dict[str, str]:
    """The variables of the page's style, as they are where it is light."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"(--[a-z0-9-]+):\s*([^;]+);", _STYLE.read_text()):
        found.setdefault(name, value.strip())
    return found
