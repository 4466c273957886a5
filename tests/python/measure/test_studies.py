"""Figures of the studies: each has a box or a reason, and published values stand beside a run's."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import chromium
import pytest
from command import Json, overside
from make_run import view
from overside import tasks
from overside.bench import box, plan, studies
from overside.bench.statistics import RunView, TestSummary
from overside.bench.studies import Figure
from overside.report import export, markdown, published, study_charts, terminal
from overside.report.page import page
from overside.report.published import Reproduction
from test_report_published_loops import measured

ROOT = Path(__file__).parents[3]

#: Figures and tables of each study that are about a measurement.
WANTED = {
    "S0": ["3", *map(str, range(6, 16))],
    "S1": [*map(str, range(4, 16))],
    "S2": [*map(str, range(3, 12)), "T3", "T4"],
    "S3": ["2", "4", "5", "6", *map(str, range(8, 14))],
    "S4": [*map(str, range(3, 10)), "T1", "T2"],
}
FIGURES = studies.figures()
WITH_BOX = [one for one in FIGURES.values() if one.box]


@cache
def listed() -> Json:
    """All figures as `overside studies` lists them."""
    answer: Json = json.loads(overside("studies", "--json", cwd=ROOT, code=0).stdout)
    return answer


def test_each_figure_has_a_box_or_a_reason() -> None:
    names = [f"{study}.{number}" for study, some in WANTED.items() for number in some]
    assert list(FIGURES) == names
    for figure in FIGURES.values():
        assert bool(figure.box) != bool(figure.reason), figure.id
        assert bool(figure.caption) or "not among the published figures" in figure.reason, figure.id


def test_figures_name_facts_boxes_and_forms_that_there_are() -> None:
    known = [fact["id"] for fact in published.core()]
    for figure in FIGURES.values():
        for pattern in figure.facts:
            assert any(fnmatchcase(name, pattern) for name in known), f"{figure.id}: {pattern}"
        for series in figure.series:
            assert set(series.facts) <= set(known), figure.id
        for near in figure.see:
            assert box.find(near).is_file(), figure.id


def test_the_first_page_tells_how_many_a_plain_machine_runs() -> None:
    count = studies.counts(list(FIGURES.values()))
    assert listed()["counts"] == count
    told = re.search(
        r"(\d+) figures and tables, (\d+) with a box, (\d+) of them for a plain machine",
        (ROOT / "README.md").read_text(),
    )
    assert told
    assert [int(number) for number in told.groups()] == list(count.values())


def test_the_document_lists_all_figures() -> None:
    text = (ROOT / "docs/measure/studies.md").read_text()
    for one in FIGURES.values():
        box_or_reason = f"box `{one.box}`" if one.box else f"none: {one.reason}"
        assert f"| {one.id} | {one.caption or 'unknown'} | {box_or_reason} |\n" in text


@pytest.mark.parametrize("figure", WITH_BOX, ids=lambda figure: figure.id)
def test_a_plain_machine_runs_what_it_is_said_to(figure: Figure) -> None:
    (entry,) = [one for one in listed()["figures"] if one["id"] == figure.id]
    here = entry["here"]
    if figure.plain and not here["can_run"]:
        lacks = [one["reason"] for one in here["skipped"]]
        named = {need.partition(":")[0] for need in figure.needs}
        assert named & {"package", "data"}, f"{figure.id}: {lacks}"
    assert (here["seconds"] is None) == (here["can_run"] == 0)


def test_a_study_and_one_figure_are_shown() -> None:
    shown = overside("studies", "S1", cwd=ROOT, code=0).stdout
    assert "\nS1.4 " in shown
    assert "cold and hot; no box: there is no task that runs a database" in shown
    assert "6 of 12 figures and tables have a box" in shown
    shown = overside("studies", "figure:s1.8", cwd=ROOT, code=0).stdout
    assert shown.startswith("figure:S1.8, Fig. 8: Random reads")
    for line in ("Study: sysbench", "overside run figure:S1.8", "Facts: dpbento.mem.scale"):
        assert line in shown


def test_a_figure_without_a_box_says_why() -> None:
    done = overside("plan", "figure:S1.9", cwd=ROOT, code=3)
    assert "figure:S1.9 has no box: there is no task that measures storage" in done.stderr
    done = overside("validate", "figure:S2.4", cwd=ROOT, code=3)
    assert "near to it: rdma" in done.stderr
    for name, text in {"S9.1": "there is no figure", "S1": "figures: figure:S1.6"}.items():
        assert text in overside("plan", f"figure:{name}", cwd=ROOT, code=2).stderr


@cache
def metrics() -> Json:
    """The metrics of all tasks, in the form of a manifest."""
    known = [task for name in tasks.NAMES if (task := tasks.find(name))]
    return {f"{task.name}.{key}": one.json() for task in known for key, one in task.metrics.items()}


def run(name: str, *tests: TestSummary) -> RunView:
    """A run of the box of that name."""
    return view(*tests, box={"name": name}, metrics=metrics())


def run_of(figure: Figure) -> RunView:
    """A run of the figure's box as it is planned here; each metric is 2."""
    here = box.machine()
    tests = []
    for test in plan.plan(box.load(figure.name, (), here), here):
        names = [key.partition(".")[2] for key in metrics() if key.startswith(f"{test.task}.")]
        tests.append(measured(test.task, dict.fromkeys(names, 2.0), **test.parameters))
    return run(figure.box, *tests)


@pytest.mark.parametrize(
    "figure", [one for one in WITH_BOX if one.series], ids=lambda figure: figure.id
)
def test_each_series_of_a_figure_has_tests_beside_it(figure: Figure) -> None:
    found = published.reproductions(run_of(figure), published.core())
    (mine,) = [one for one in found if one.figure == figure]
    beside = {pair.fact for pair in mine.pairs}
    assert beside == {fact for series in figure.series for fact in series.facts}


def accessed(rate: float, **given: object) -> TestSummary:
    usual = {"pattern": "access", "access": "read", "order": "random", "threads": 1}
    return measured("memory", {"access_rate": rate}, **usual | {"buffer_size": 16384} | given)


def ratios(found: Reproduction) -> dict[tuple[str, str], float]:
    """Our figures over published ones, by fact and machine."""
    return {(pair.fact, pair.machine): round(pair.ratio.value, 3) for pair in found.pairs}


def test_published_values_stand_beside_ours_with_their_ratio() -> None:
    many = run("S1.7", accessed(345.42), accessed(20.13, buffer_size=1 << 30))
    (found,) = published.reproductions(many, published.core())
    told = ratios(found)
    assert told["dpbento.mem.rnd.read.16KB", "BF-2"] == pytest.approx(2.0, rel=0.02)
    assert told["dpbento.mem.rnd.read.1GB", "BF-3"] == pytest.approx(1.0, rel=0.02)
    assert len(told) == 8, "four machines beside each of two figures"
    assert found.alone == 40
    assert found.citation.startswith("J. Hu")


def test_values_by_an_amount_stand_beside_tests_with_it_in_our_unit() -> None:
    scaled = run("S1.8", *(accessed(100.0 * many, threads=many) for many in (1, 3, 8)))
    (found,) = published.reproductions(scaled, published.core())
    assert {pair.what.rpartition(", ")[2] for pair in found.pairs} == {"threads 1", "threads 8"}
    assert ratios(found)["dpbento.mem.scale", "BF-2"] == pytest.approx(800 / 1330.5, rel=0.02)
    given = {"pattern": "stream", "kernel": "copy", "threads": 1}
    copied = run("S2.T4", measured("memory", {"best_bandwidth": 8700.0}, **given))
    (found,) = published.reproductions(copied, published.core())
    assert ratios(found)["idio.stream.copy", "host"] == pytest.approx(1.0, rel=0.02), "8.7 GB/s"


def test_both_sides_of_a_ratio_are_of_this_run() -> None:
    tests = [
        measured("kv", {"latency_p50": latency * factor}, design=design, workload=workload)
        for workload, factor in {"a": 1, "b": 10}.items()
        for design, latency in {"lat": 80.0, "dpu-only": 100.0}.items()
    ]
    (found,) = published.reproductions(run("S3.11", *tests), published.core())
    (pair,) = found.pairs
    assert pair.ours.value == pytest.approx(0.8, rel=0.02), "mean of both mixes, not of all times"
    assert (pair.published.low, pair.published.high) == pytest.approx((0.84, 0.89))
    assert (pair.unit, pair.printed) == ("times", "11 to 16 % = 0.840–0.890 times")


def test_emulated_figures_have_a_chart_of_their_own() -> None:
    engine = {"patterns": ["q4"], "batch": 128, "buffer_size": 1024, "device": "emulated:bf2"}
    both = run(
        "study-regex",
        measured("match", {"throughput": 3000.0}, provenance="emulated", **engine),
        measured("match", {"throughput": 100.0}, device="cpu", variant="re2", kind="count"),
    )
    drawn = study_charts.charts(*published.reproductions(both, published.core()))
    assert [chart.provenance for chart in drawn] == ["measured", "emulated"]


def test_the_report_draws_the_figure_and_lists_its_points() -> None:
    measured_here = run("S1.7", accessed(345.42))
    html = page(measured_here)
    assert "The study’s figure" in html
    assert "figure:S1.7, Fig. 7" in html
    assert "Here a loop of Overside’s own" in html
    (chart,) = study_charts.charts(*published.reproductions(measured_here, published.core()))
    names = [layer["data"]["values"] for layer in chart.spec["layer"]][-1]
    assert "BF-2 2.0×" in names[0]["ratios"]
    told = " ".join(terminal.summary(measured_here, 100, colour=False).split())
    assert "figure:S1.7: this run, and its ratio to each published value" in told
    # Ours is an interval.
    assert "BF-2 2.0×, BF-3 1.2–1.3×" in told
    beside = json.loads(export.json_text(measured_here))["studies"]["S1.7"]
    assert {pair["machine"] for pair in beside} == {"OCTEON TX2", "BF-2", "BF-3", "host"}
    assert beside[0]["ratio"]["value"] == pytest.approx(345.42 / 115.44, rel=0.02)
    text = markdown.markdown(measured_here)
    assert "| Here / published |" in text
    assert "The study’s figure" not in page(run("mine", accessed(345.42)))


def test_a_run_of_a_figure_is_resumed_by_its_name() -> None:
    path = box.find("figure:S1.8")
    assert box.box_name(str(path)) == "figure:S1.8"
    assert box.find(box.box_name(str(path))) == path


@pytest.mark.skipif(chromium.unavailable() is not None, reason=f"{chromium.unavailable()}")
@pytest.mark.parametrize("width", [390, 1400])
def test_the_figure_is_drawn_within_the_page(
    tab: chromium.Page, tmp_path: Path, width: int
) -> None:
    many = [accessed(300.0 + threads, threads=threads) for threads in (1, 2, 4, 8)]
    (tmp_path / "page.html").write_text(page(run("S1.8", *many)))
    tab.show(tmp_path / "page.html", width)
    assert tab.console == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    drawn = tab.evaluate("document.querySelector('#study svg').textContent")
    assert "threads 8" in drawn
    assert "BF-2" in drawn
