"""Single charts as pictures: SVG or PNG files that need no browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from overside.bench.statistics import RunView
from overside.report import charts, formatting, groups, sweep_charts, sweeps, vega
from overside.report.charts import Chart

#: The most charts of a run.
CHARTS_MAX = 200
#: The width of a picture in pixels, and how many of a PNG's stand for one of them.
WIDTH = 640
SCALE = 2


@dataclass(frozen=True)
class Picture:
    """One chart of a run, ready to be drawn."""

    #: `compress-to-deflate-throughput-measured`, which is its file's name as well.
    name: str
    #: What it is about: `Compress to DEFLATE`.
    about: str
    chart: Chart

    def svg(self) -> str:
        """The picture as SVG."""
        import vl_convert  # noqa: PLC0415 (start-up of other verbs)

        return str(vl_convert.vegalite_to_svg(self._spec()))

    def png(self) -> bytes:
        """The picture as PNG."""
        import vl_convert  # noqa: PLC0415

        return bytes(vl_convert.vegalite_to_png(self._spec(), scale=SCALE))

    def _spec(self) -> vega.Spec:
        """The chart with its title, its provenance and the colours of the light theme."""
        title = {
            "text": f"{self.about}: {self.chart.title}",
            "subtitle": f"{formatting.PROVENANCE[self.chart.provenance]}. {self.chart.caption}",
            "anchor": "start",
            "limit": WIDTH + 120,
            "subtitleLineHeight": 15,
        }
        title["subtitle"] = _lines(str(title["subtitle"]))
        look = {"config": vega.CONFIG | {"background": "var(--paper)", "font": "sans-serif"}}
        spec = {"title": title, "width": WIDTH, "padding": 12, **look, **self.chart.spec}
        coloured = _with_colours(spec)
        assert isinstance(coloured, dict)
        return coloured


def of_run(view: RunView) -> list[Picture]:
    """The pictures of a run, in the page's order."""
    found: dict[str, Picture] = {}
    for about, chart in _charts(view):
        base = re.sub(r"[^a-z0-9]+", "-", f"{about} {chart.id}".lower()).strip("-")[:120]
        name, count = base, 1
        while name in found:
            count += 1
            name = f"{base}-{count}"
        found[name] = Picture(name, about, chart)
        if len(found) == CHARTS_MAX:
            break
    return list(found.values())


def _charts(view: RunView) -> Iterator[tuple[str, Chart]]:
    for group in groups.groups(view):
        about = group.title + (f" ({group.detail})" if group.detail else "")
        for provenance in ("measured", "emulated"):
            for chart in charts.charts(group, provenance):
                yield about, chart
    for sweep in sweeps.sweeps(view):
        for chart in sweep_charts.charts(sweep):
            yield f"{sweep.title} with {sweep.label}", chart


def _lines(text: str) -> list[str]:
    """A subtitle in lines that fit the picture."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > WIDTH // 6:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


@cache
def _colours() -> dict[str, str]:
    """The variables of the page's style sheet in its light theme."""
    css = (Path(__file__).parent / "page" / "page.css").read_text("utf-8")
    light = css[css.index(":root {") : css.index("}")]
    return dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6});", light))


def _with_colours(part: object) -> object:
    """The same with the variables' values: a file outside the page has no variables."""
    if isinstance(part, dict):
        return {name: _with_colours(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_with_colours(value) for value in part]
    if isinstance(part, str) and "var(--" in part:
        return re.sub(r"var\((--[a-z0-9-]+)\)", lambda found: _colours()[found[1]], part)
    return part
