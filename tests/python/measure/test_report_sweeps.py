"""Placements in the report: shares and verdicts, in every format."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import chromium
import pytest
from make_run import Scenario
from make_sweep import Sweep, make
from overside import report
from overside.bench.statistics import RunView, load_run
from overside.report import best, sweeps
from syrupy.assertion import SnapshotAssertion
from test_report_page import Document

BROWSER = pytest.mark.skipif(
    chromium.unavailable() is not None, reason=f"needs a browser: {chromium.unavailable()}"
)


def view(tmp_path: Path, *some: Sweep, rounds: int = 6) -> RunView:
    return load_run(make(tmp_path / "run", *some, rounds=rounds))


def one(tmp_path: Path, sweep: Sweep, rounds: int = 6) -> sweeps.Sweep:
    (found,) = sweeps.sweeps(view(tmp_path, sweep, rounds=rounds))
    return found


def test_the_best_share_and_both_criteria_are_told_by_the_intervals(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    found = one(tmp_path, Sweep(cpu_rate=600, device_rate=3000))
    assert [series.setting for series in found.series] == ["static", "reconfiguration"]
    static, anew = found.series
    assert [point.asked for point in static.points] == [float(p) for p in range(0, 101, 10)]
    assert static.optimum is not None
    assert static.optimum.name == "90 %"
    assert [verdict.word for verdict in sweeps.verdicts(static)] == ["C1 holds", "C2 holds"]
    # Setting the card up for each stream takes longer than the CPU needs for all of it.
    assert anew.optimum is not None
    assert anew.optimum.name == "CPU alone"
    words = [verdict.word for verdict in sweeps.verdicts(anew)]
    assert words == ["C1 does not hold", "C2 does not hold"]
    assert [sweeps.sentences(series) for series in (static, anew)] == snapshot


def test_points_of_another_clock_are_not_compared(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Sweep(settings=("static",)))
    manifest = json.loads((path / "manifest.json").read_text())
    for test in manifest["tests"]:
        if test["parameters"]["placement"] == "cpu":
            test["parameters"]["timing"] = None
    (path / "manifest.json").write_text(json.dumps(manifest))
    (found,) = sweeps.sweeps(load_run(path))
    (series,) = found.series
    assert series.at(0.0) is None
    assert [one.holds for one in sweeps.verdicts(series)] == [None, None]
    texts = {text for word, text in sweeps.sentences(series) if word.startswith("C")}
    assert texts == {"the CPU alone has no result."}


def test_several_devices_are_judged_against_each_target_alone(tmp_path: Path) -> None:
    given = (("split:100+0", 900.0), ("split:0+100", 3000.0), ("split:10+90", 3300.0))
    devices = "emulated:bf2-cores+emulated:bf2"
    names = ("cpu", *(name for name, _ in given), "device")
    run = view(
        tmp_path,
        Sweep(device=devices, placements=names, given=given, settings=("static",)),
    )
    (found,) = sweeps.sweeps(run)
    (series,) = found.series
    assert {point.name: point.alone for point in series.points} == {
        "CPU alone": True,
        "emulated BlueField-2 (cores) alone": True,
        "emulated BlueField-2 alone": True,
        "10 + 90 %": False,
        "devices together": False,
    }
    c1, c2 = sweeps.verdicts(series)
    assert (c1.holds, c2.holds) == (True, True)
    assert c1.text.startswith("the emulated BlueField-2 alone does 3,")
    assert c2.text.startswith("the best split, 10 + 90 % of the bytes on the devices, does 3,")
    assert "the best target, the emulated BlueField-2 alone" in c2.text
    assert "Throughput by placement" in report.render(run, "html")


def test_what_overlaps_cannot_be_told(tmp_path: Path) -> None:
    found = one(tmp_path, Sweep(cpu_rate=300, device_rate=2700, settings=("static",)))
    # 90 % is equal finish, so it is faster than the device alone; 3 % apart would not be told.
    assert sweeps.verdicts(found.series[0])[1].holds is True
    (tmp_path / "other").mkdir()
    found = one(tmp_path / "other", Sweep(cpu_rate=210, device_rate=2100, settings=("static",)))
    c2 = sweeps.verdicts(found.series[0])[1]
    assert (c2.word, c2.holds) == ("C2 cannot be told", None)
    assert "the intervals overlap" in c2.text
    level = [point.name for point in found.series[0].level]
    assert level
    assert set(level) <= {"90 %", "device alone"}


def test_two_rounds_are_too_few_to_tell(tmp_path: Path) -> None:
    found = one(tmp_path, Sweep(), rounds=2)
    assert [v.holds for v in sweeps.verdicts(found.series[0])] == [None, None]
    assert "too few rounds" in sweeps.verdicts(found.series[0])[0].text


def test_a_side_that_is_missing_leaves_the_criteria_open(tmp_path: Path) -> None:
    found = one(tmp_path, Sweep(placements=("split:50", "device")))
    verdict = sweeps.verdicts(found.series[0])[0]
    assert verdict.holds is None
    assert verdict.text == "the CPU alone has no result."


def test_what_a_card_cannot_do_is_said_with_the_reason(tmp_path: Path) -> None:
    reason = "emulated:bf3 cannot do compress-deflate"
    found = sweeps.sweeps(
        view(
            tmp_path,
            Sweep(task="compress"),
            Sweep(task="compress", device="emulated:bf3", reason=reason),
        )
    )
    assert [sweep.reason for sweep in found] == ["", reason]
    # The CPU alone was measured once, and stands beside the card that can.
    assert found[0].series[0].at(0.0) is not None
    assert found[1].series == ()


def test_cards_cores_are_not_this_machines(tmp_path: Path) -> None:
    run = view(tmp_path, Sweep(device="emulated:bf2-soc", initiator="soc"))
    assert sweeps.sweeps(run)[0].is_stand_in
    assert "BlueField-2 (its own cores)" in sweeps.sweeps(run)[0].label
    for text in (
        report.render(run, "html"),
        report.render(run, "md"),
        report.summary(run),
    ):
        assert "Not representative" in text


def test_late_emulation_is_not_drawn(tmp_path: Path) -> None:
    run = view(tmp_path, Sweep(late=0.5, settings=("static",)))
    (found,) = sweeps.sweeps(run)
    assert [point.name for point in found.series[0].points] == ["CPU alone"]
    assert found.left_out == 11
    # One point alone is not the best of anything.
    assert "Best" not in dict(sweeps.sentences(found.series[0]))
    for text in (report.render(run, "html"), report.render(run, "md")):
        assert "11 points omitted: this machine is too slow" in text
    found = one(tmp_path / "fine", Sweep(late=0.005, settings=("static",)))
    assert found.left_out == 0


def test_only_what_one_side_did_alone_enters_the_advice(tmp_path: Path) -> None:
    advice = best.advise(view(tmp_path, Sweep(device="cpu", device_rate=9000)))
    placements = {
        candidate.test.parameters["placement"]
        for item in advice
        for size in item.best
        for candidate in size.level
    }
    assert placements == {"cpu"}


def test_every_format_tells_of_the_shares(tmp_path: Path) -> None:
    event = "0.012 s: emulated:bf2 failed at a chunk; its chunk is run again on the cpu"
    run = view(tmp_path, Sweep(events=(event,)))
    page, text, summary = (
        report.render(run, "html"),
        report.render(run, "md"),
        report.summary(run),
    )
    assert event in page
    assert 'id="sweep-1-shares-emulated"' in page
    assert 'id="sweep-1-stages-emulated"' in page
    assert "| static | 90 %, cDECOMP \\(best\\) |" in text
    assert "(emulated)" in text
    assert "C1 holds" in summary
    content = json.loads(report.render(run, "json"))
    settings = content["sweeps"][0]["settings"]
    assert settings[0]["optimum"] == "split:90"
    assert settings[0]["verdicts"]["C1"]["holds"] is True
    assert [point["placement"] for point in settings[0]["points"]][-1] == "adaptive"
    lines = report.render(run, "csv").splitlines()
    assert any("device_share" in line and "split:90" in line for line in lines)


def test_a_run_without_placements_says_nothing_of_them(tmp_path: Path) -> None:
    run = load_run(make(tmp_path / "run", scenario=Scenario(tasks=("copy",), extra=False)))
    assert sweeps.sweeps(run) == []
    assert "Sharing work" not in report.render(run, "html")
    assert "sweeps" not in json.loads(report.render(run, "json"))


@pytest.mark.parametrize("kind", ["emulated", "measured"])
def test_placements_have_no_place_among_the_other_charts(tmp_path: Path, kind: str) -> None:
    device = "emulated:bf2" if kind == "emulated" else "cpu"
    page = report.render(view(tmp_path, Sweep(device=device)), "html")
    assert 'id="chart-' not in page
    assert "How the emulated devices behaved" not in page


ALL = (
    Sweep(events=("0.012 s: emulated:bf2 failed at a chunk",)),
    Sweep(task="compress", cpu_rate=210),
    Sweep(task="compress", device="emulated:bf3", reason="emulated:bf3 cannot compress-deflate"),
    Sweep(device="emulated:bf2-soc", initiator="soc"),
    Sweep(device="cpu", settings=("static",)),
)


def test_the_page_stays_well_formed(written: Path) -> None:
    document = Document(written.read_text("utf-8"))
    levels = [int(tag[1]) for tag, _ in document.elements if re.fullmatch(r"h\d", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    ids = Counter(a["id"] for _, a in document.elements if "id" in a)
    assert [name for name, count in ids.items() if count > 1] == []
    anchors = {a["href"] for a in document.all("a")}
    assert "#coprocessing" in anchors


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with all of them."""
    return report.write(make(tmp_path_factory.mktemp("sweeps") / "run", *ALL))[0]


@BROWSER
def test_every_chart_is_drawn_with_both_panels(tab: chromium.Page, written: Path) -> None:
    tab.show(written)
    assert tab.console == []
    plots = tab.evaluate("document.querySelectorAll('#coprocessing .plot').length")
    assert plots == tab.evaluate("document.querySelectorAll('#coprocessing .plot svg').length")
    assert plots == 8
    titles = "[...document.querySelectorAll('#sweep-1-shares-emulated .role-axis-title text')]"
    said = tab.evaluate(f"{titles}.map(t => t.textContent)")
    assert said == ["Share of the bytes on the device, %", "MB/s", "Host CPU, % of a core"]
    # Large marks: the best share of each setting, in each panel.
    sizes = (
        "[...document.querySelectorAll('#sweep-1-shares-emulated .mark-symbol path')]"
        ".map(p => p.getBoundingClientRect().width).filter(w => w > 12).length"
    )
    assert tab.evaluate(sizes) >= 4


@BROWSER
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_width_makes_it_scroll_sideways(tab: chromium.Page, written: Path, width: int) -> None:
    tab.show(written, width, 844)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('.plot svg')].filter(s => "
    wide += "s.getBoundingClientRect().right > innerWidth).length"
    assert tab.evaluate(wide) == 0
