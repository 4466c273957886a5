"""Single charts as pictures: SVG or PNG files that need no browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from overside.bench.statistics import RunView
from overside.drawing import complete
from overside.report import charts, formatting, groups, sample_charts, sweep_charts, sweeps, vega
from overside.report.charts import Chart
from overside.report.groups import Group
from overside.report.published import core, reproductions
from overside.report.study_charts import charts as study_charts

#: The most charts of a run.
CHARTS_MAX = 200
#: Provenances of the tests; those of one share a chart.
PROVENANCES = ("measured", "emulated")
#: Pixels of a PNG for each of the drawing.
SCALE = 2


@dataclass(frozen=True)
class Picture:
    """A chart of a run, ready to be drawn."""

    #: `compress-to-deflate-throughput-measured`, which is its file's name as well.
    name: str
    #: Operation that the chart is about: `Compress to DEFLATE`.
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
        """The chart with its title and its provenance, which stands alone."""
        provenance = formatting.PROVENANCE[self.chart.provenance]
        subtitle = f"{provenance}. {self.chart.caption}".strip()
        return complete(self.chart.spec, f"{self.about}: {self.chart.title}", subtitle)


def of_run(view: RunView) -> list[Picture]:
    """The pictures of a run, in the page's order."""
    return _pictures(_charts(view))


def on_demand(view: RunView) -> list[Picture]:
    """Returns the pictures of single samples, which are drawn only on request."""
    return _pictures(_sample_charts(view))


def _pictures(drawn: Iterator[tuple[str, Chart]]) -> list[Picture]:
    found: dict[str, Picture] = {}
    for about, chart in drawn:
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
        for provenance in PROVENANCES:
            for chart in charts.charts(group, provenance):
                yield _about(group), chart
    for sweep in sweeps.sweeps(view):
        for chart in sweep_charts.charts(sweep):
            yield f"{sweep.title} with {sweep.label}", chart
    for found in reproductions(view, core()):
        for chart in study_charts(found):
            yield found.figure.name, chart


def _sample_charts(view: RunView) -> Iterator[tuple[str, Chart]]:
    for group in groups.groups(view):
        for provenance in PROVENANCES:
            for chart in sample_charts.charts(group, provenance):
                yield _about(group), chart


def _about(group: Group) -> str:
    return group.title + (f" ({group.detail})" if group.detail else "")
