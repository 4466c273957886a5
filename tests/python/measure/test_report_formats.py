"""Markdown, CSV, JSON and the terminal's summary, through the functions and the command."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from command import overside, tiny_box
from make_run import Scenario, make
from overside import report, screen, verdict
from overside.bench.statistics import RunView, load_run
from overside.errors import UserError
from overside.report import images
from syrupy.assertion import SnapshotAssertion

HOSTILE = "</script><b onclick=x>|*`=cmd\x1b[31m\n# head"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    return load_run(make(tmp_path_factory.mktemp("formats") / "run", Scenario()))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    scenario = Scenario(hostile=HOSTILE, sizes=(4096,))
    return load_run(make(tmp_path_factory.mktemp("hostile") / "run", scenario))


def test_the_summary_begins_with_the_verdict(run: RunView, snapshot: SnapshotAssertion) -> None:
    text = report.summary(run, width=80, colour=False)
    assert max(map(len, text.splitlines())) <= 80
    headline = " ".join(verdict.of_run(run).headline.split())
    assert " ".join(text.split()).startswith(headline)
    details, fastest = text.index("\n\n"), text.index("\nFastest here")
    assert "BlueField-2 [MODELLED]" in text[details:fastest]
    assert "BlueField" not in text[fastest:]
    # Without the verdict, whose figures are the model's.
    title = text.index("quick on ")
    assert text[title:details] + text[fastest:] == snapshot


def test_colour_changes_nothing_but_colour(run: RunView) -> None:
    coloured = report.summary(run, width=72, colour=True)
    assert re.sub(r"\x1b\[\d+m", "", coloured) == report.summary(run, width=72, colour=False)
    assert coloured.count("\x1b[") > 10


@pytest.mark.parametrize("width", [-1, 0, 20, 40, 200, 10**9])
def test_any_width_is_bounded(run: RunView, width: int) -> None:
    lines = report.summary(run, width=width).splitlines()
    assert max(map(len, lines)) <= max(40, min(width, 100))


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_the_summary_fits_one_screen(run: RunView, hostile: RunView, width: int) -> None:
    for view in (run, hostile):
        lines = report.summary(view, width=width).splitlines()
        assert len(lines) <= 48
        # Each verdict is there, in as much detail as fits.
        assert sum("[MODELLED]" in line for line in lines) >= (3 if width >= 80 else 1)


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert screen.has_colour(Terminal())
    assert not screen.has_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")
    assert screen.has_colour(Terminal())
    for name, value in {"NO_COLOR": "1", "TERM": "dumb"}.items():
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            assert not screen.has_colour(Terminal())


def test_text_from_outside_steers_no_terminal(hostile: RunView) -> None:
    assert "\x1b" not in report.summary(hostile, colour=False)
    assert "[31m\n" not in report.summary(hostile, colour=True)


def test_markdown_keeps_provenances_apart(run: RunView, snapshot: SnapshotAssertion) -> None:
    text = report.render(run, "md")
    places = [
        text.index(heading)
        for heading in ("## Verdict", "## Fastest option", "## How the emulated", "<details>")
    ]
    assert places == sorted(places)
    verdict, fastest, emulated, published = places
    assert "MODELLED" in text[verdict:fastest].replace("\\", "")
    assert "BlueField" not in text[fastest:emulated]
    # Without the verdict and what others published, which are other people's figures.
    rest = text.index("</details>")
    assert text[:verdict] + text[fastest:published] + text[rest:] == snapshot


def test_markdown_takes_text_from_outside_as_text(hostile: RunView) -> None:
    text = report.render(hostile, "md")
    for line in text.splitlines():
        unescaped = re.sub(r"\\.", "", re.sub(r"(`+).*?\1", "", line)).lstrip(">")
        unescaped = re.sub(r"^</?details>(<summary>[^<]*</summary>)?$", "", unescaped)
        assert "<" not in unescaped, line
        assert not line.startswith("# head")
        if line.startswith("| "):
            assert re.sub(r"\\.", "", line).count("|") in {5, 6, 7}, line


def test_csv_has_a_line_for_each_test_and_metric(run: RunView) -> None:
    rows = list(csv.DictReader(io.StringIO(report.render(run, "csv"))))
    assert {row["test"] for row in rows} == {test.id for test in run.tests}
    assert len(rows) == sum(max(1, len(test.metrics)) for test in run.tests)
    test = next(test for test in run.tests if test.task == "compress" and test.metrics)
    (row,) = (r for r in rows if r["test"] == test.id and r["metric"] == "throughput")
    assert row["unit"] == "MB/s"
    assert row["better"] == "higher"
    assert float(row["median"]) == test.metrics["throughput"].median
    assert int(row["buffer_size_bytes"]) == test.parameters["buffer_size"]
    assert row["provenance"] == "measured"


def test_csv_cells_are_no_formulas(tmp_path: Path) -> None:
    scenario = Scenario(sizes=(4096,), tasks=("copy",))
    path = make(tmp_path / "run", scenario)
    manifest = json.loads((path / "manifest.json").read_text())
    for test in manifest["tests"]:
        test["task"] = "=HYPERLINK(1)"
        test["parameters"]["variant"] = "@SUM(A1)"
    (path / "manifest.json").write_text(json.dumps(manifest))
    for row in csv.reader(io.StringIO(report.render(load_run(path), "csv"))):
        assert not [cell for cell in row if cell[:1] in {"=", "@", "+"}]


def test_json_is_the_run_with_its_estimates(run: RunView) -> None:
    data = json.loads(report.render(run, "json"))
    assert data["manifest"]["id"] == run.manifest["id"]
    assert len(data["tests"]) == len(run.tests)
    assert data["tests"][0]["metrics"]["throughput"]["kind"] == "interval"


@pytest.mark.parametrize("name", sorted(report.FILES))
@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(emulated=False, sizes=(4096,)),
        Scenario(only_first=True),
        Scenario(all_fail=True, sizes=(4096,)),
        Scenario(state="incomplete", sizes=(4096,)),
        Scenario(state="interrupted", rounds=2, sizes=(4096,)),
        Scenario(tasks=(), extra=False),
        Scenario(tasks=()),
        Scenario(sizes=(4096,), hostile=HOSTILE),
    ],
    ids=["cpu", "one", "failed", "incomplete", "interrupted", "empty", "skipped", "hostile"],
)
def test_any_run_has_a_report(tmp_path: Path, scenario: Scenario, name: str) -> None:
    path = make(tmp_path / "run", scenario)
    (file,) = report.write(path, (name,))
    assert file == path / report.FILES[name]
    assert file.stat().st_size > 100
    assert "quick" in report.summary(load_run(path))


def test_a_run_without_anything_but_tests_has_a_report(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    tests = [{"id": "copy/1", "task": "copy", "parameters": {}}]
    (path / "manifest.json").write_text(json.dumps({"schema": "run/1", "tests": tests}))
    (path / "samples.jsonl").write_text("")
    for name in report.FILES:
        assert report.write(path, (name,))[0].stat().st_size > 100


def test_the_command_writes_into_the_run(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(sizes=(4096,), tasks=("copy",)))
    done = overside("report", path, "--format", "md", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(path / "report.md"), str(path / "samples.csv")]
    assert (path / "report.md").read_text().startswith("# Overside report: quick")


def test_the_command_writes_elsewhere_or_to_standard_output(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(only_first=True))
    out = tmp_path / "here.csv"
    assert overside("report", path, "--format", "csv", "--out", out).returncode == 0
    printed = overside("report", path, "--format", "csv", "--out", "-")
    assert printed.stdout == out.read_text()
    assert json.loads(overside("report", path, "--json").stdout)["schema"] == "run-view/1"


def test_mistakes_are_told_with_their_remedy(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(only_first=True))
    for arguments, words in (
        ([tmp_path], "is no run"),
        ([tmp_path / "nowhere"], "is no run"),
        ([path, "--out", tmp_path / "no" / "file"], "cannot write"),
        ([path, "--format", "md", "--format", "csv", "--out", "x"], "--out takes one format"),
        ([path, "--format", "md", "--open"], "--open shows the page"),
        ([path, "--format", "pdf"], "possible values: csv, html"),
    ):
        done = overside("report", *arguments)
        assert done.returncode == 2, done
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_an_unwritable_run_is_said_not_raised(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(only_first=True))
    (path / "report.html").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        report.write(path)


def test_a_strange_manifest_or_machine_is_still_reported(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(sizes=(4096,), tasks=("copy",)))
    manifest = json.loads((path / "manifest.json").read_text())
    environment = json.loads((path / "nodes" / "local.json").read_text())
    strange = (None, 5, -1.5, "x", [], [None, 3], {}, {"a": {"b": None}}, True)
    for value in strange:
        for key in manifest.keys() - {"schema", "tests"}:
            (path / "manifest.json").write_text(json.dumps({**manifest, key: value}))
            view = load_run(path)
            assert report.render(view, "md").startswith("# Overside report")
            assert report.summary(view)
            assert report.render(view, "csv")
        (path / "manifest.json").write_text(json.dumps(manifest))
        for key in environment:
            (path / "nodes" / "local.json").write_text(json.dumps({**environment, key: value}))
            assert len(report.render(load_run(path), "html")) > 10_000


def test_charts_are_written_as_pictures(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(sizes=(4096, 65536), tasks=("copy",), emulated=False))
    done = overside("report", path, "--format", "svg")
    assert done.returncode == 0, done.stderr
    files = [Path(line) for line in done.stdout.split()]
    assert len(files) > 2
    for file in files:
        assert file.parent == path / "charts"
        text = file.read_text()
        assert text.startswith("<svg")
        assert "var(" not in text
        assert "Measured." in text
    one = tmp_path / "one.png"
    done = overside("report", path, "--format", "png", "--chart", files[0].stem, "--out", one)
    assert done.returncode == 0, done.stderr
    assert one.read_bytes().startswith(b"\x89PNG")
    for arguments, words in (
        (["--format", "svg", "--chart", "copi"], "no chart copi"),
        (["--format", "svg", "--out", "x.svg"], "--out takes one chart"),
        (["--chart", "copy"], "--chart names a chart"),
    ):
        done = overside("report", path, *arguments)
        assert done.returncode == 2
        assert words in done.stderr


def test_markdown_in_the_run_shows_a_picture_of_each_operation(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(sizes=(4096, 65536), tasks=("copy", "hash")))
    (file,) = report.write(path, ("md",))
    pictures = re.findall(r"!\[[^]]+\]\((charts/[a-z0-9-]+\.svg)\)", file.read_text())
    assert len(pictures) == 2
    assert all((path / name).read_text().startswith("<svg") for name in pictures)
    assert "![" not in report.render(load_run(path), "md")


def test_single_samples_are_drawn_for_who_asks(tmp_path: Path) -> None:
    overside(
        "run", tiny_box(tmp_path, rounds=2, sample_s=0.2), "--name", "tiny", cwd=tmp_path, code=0
    )
    path = tmp_path / "results" / "tiny"
    view = load_run(path)
    usual = {picture.name for picture in images.of_run(view)}
    for kind, title in (("rounds", "of each round"), ("histogram", "Latencies")):
        done = overside("report", path, "--format", "svg", "--chart", kind, code=0)
        files = [Path(line) for line in done.stdout.split()]
        assert files
        for file in files:
            assert file.stem not in usual
            assert f"-{kind}-measured" in file.stem
            assert title in file.read_text()
    for chart in (picture.chart for picture in images.on_demand(view)):
        points = chart.spec["data"]["values"]
        labels = {point["label"] for point in points}
        if chart.id == "rounds-measured":
            assert {row[1] for row in chart.rows} == {"1", "2"}
            assert len(chart.rows) == 2 * len(labels), "each test has one figure a round"
        else:
            shares = sum(point["value"] for point in points)
            assert 95 * len(labels) <= shares <= 100.001 * len(labels), "nearly all jobs are in it"


def test_a_run_without_latencies_has_no_histogram(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(sizes=(4096,), tasks=("copy",), emulated=False))
    done = overside("report", path, "--format", "svg", "--chart", "histogram", code=2)
    assert "has no samples for that" in done.stderr
