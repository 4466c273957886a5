"""The page as a document: structure, safety, and contrast, without a browser."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from make_run import Scenario, around, make, summary_of, view
from overside import report
from overside.bench.statistics import load_run
from overside.report import charts, groups, test_table, view_model

PAGE = Path(report.__file__).parent / "page"
#: Elements without an end.
VOID = {"meta", "link", "input", "br", "img"}


class Document(HTMLParser):
    """The elements of a page with their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.inside: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        assert not self.inside, self.inside

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag, f"</{tag}> after {self.inside}"

    def handle_data(self, data: str) -> None:
        self.texts.append((self.inside[-1] if self.inside else "", data))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page(tmp_path: Path, scenario: Scenario) -> str:
    return report.render(load_run(make(tmp_path / "run", scenario)), "html")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page(tmp_path_factory.mktemp("page"), Scenario())


@pytest.fixture(scope="module")
def markup(text: str) -> str:
    """The page without its scripts, which contain markup as text."""
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def document(text: str) -> Document:
    return Document(text)


def test_it_is_one_file_that_loads_nothing(document: Document) -> None:
    for tag, attributes in document.elements:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            target = attributes.get(name, "#")
            assert target.startswith("#") or target == "data:,", (tag, attributes)
    policy = document.all("meta")[1]
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy["content"]


def test_the_policy_names_each_script_and_style_by_its_digest(text: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    bodies = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", text, re.DOTALL)
    assert len(bodies) == 3
    for body in bodies:
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed


def test_nothing_is_inline_that_the_policy_forbids(document: Document) -> None:
    for tag, attributes in document.elements:
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag


def test_the_size_stays_near_a_megabyte(text: str) -> None:
    assert len(text.encode()) < 1_500_000


def test_headings_go_down_one_level_at_a_time(document: Document) -> None:
    levels = [int(tag[1]) for tag, _ in document.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_there_are_landmarks_a_language_and_a_title(document: Document, text: str) -> None:
    assert document.all("html")[0]["lang"] == "en"
    for tag in ("main", "header", "footer", "nav", "title"):
        assert document.all(tag), tag
    assert "<title>quick · Overside report</title>" in text
    for section in document.all("section"):
        assert "aria-labelledby" in section or "aria-label" in section


def test_identifiers_are_unique_and_references_lead_somewhere(document: Document) -> None:
    ids = Counter(a["id"] for _, a in document.elements if "id" in a)
    assert [name for name, count in ids.items() if count > 1] == []
    for _, attributes in document.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attributes.get(name, "").split()) <= ids.keys(), attributes
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids


def test_every_chart_has_a_name_and_a_table(text: str, document: Document) -> None:
    specs = re.search(r'<script type="application/json" id="specs">(.*?)</script>', text)
    assert specs is not None
    names = json.loads(specs[1]).keys()
    plots = [a for a in document.all("div") if a.get("class") == "plot"]
    assert [plot["id"] for plot in plots] == list(names)
    assert all(p["role"] == "img" and p["aria-labelledby"] == f"{p['id']}-title" for p in plots)
    figures = re.findall(r'<figure class="chart">(.*?)</figure>', text, re.DOTALL)
    assert len(figures) == len(plots)
    assert all(re.search(r"<tbody>\s*<tr><th scope", figure) for figure in figures)
    kinds = Counter(re.sub(r"chart-\d+-", "", name) for name in names)
    assert kinds["throughput-measured"] == 6
    assert kinds["throughput-emulated"] == 4
    assert {"latency-measured-depth-16", "cpu-cost-measured"} <= kinds.keys()


def test_tables_have_names_and_heads_and_controls_have_labels(
    markup: str, document: Document
) -> None:
    for table in re.findall(r"<table.*?</table>", markup, re.DOTALL):
        assert "<caption" in table or "aria-labelledby=" in table
        assert '<th scope="col"' in table
        assert '<th scope="row"' in table
    labels = "".join(re.findall(r"<label>.*?</label>", markup, re.DOTALL))
    for kind in ("input", "select"):
        for control in document.all(kind):
            assert f'id="{control["id"]}"' in labels
    for attributes in document.all("div"):
        if attributes.get("class") == "scroller":
            assert attributes["tabindex"] == "0"
            assert attributes["aria-label"]


def test_provenances_stand_in_panels_of_their_own(markup: str) -> None:
    found = re.findall(r'<div class="charts is-(\w+)">(.*?)</figure>\s*</div>', markup, re.S)
    assert len(found) == 10
    for panel in found:
        other = {"measured": "emulated", "emulated": "measured"}[panel[0]]
        assert f"badge {panel[0]}" in panel[1]
        assert f"badge {other}" not in panel[1]
    fastest = markup[markup.index('id="sizes-title"') : markup.index('id="emulated-title"')]
    assert "BlueField" not in fastest
    assert "badge emulated" not in fastest


def test_the_sections_come_in_the_order_of_what_is_asked_first(document: Document) -> None:
    order = ["verdict", "operations", "where", "sizes", "tests", "published", "method", "machine"]
    found = [a["id"] for a in document.all("section") if a.get("id") in order]
    assert found == order


def test_the_verdict_says_what_was_modelled_and_what_a_card_cannot_do(markup: str) -> None:
    start = markup.index('id="verdict-title"')
    panel = " ".join(markup[start : markup.index('id="operations-title"')].split())
    assert "badge modelled" in panel
    assert "badge measured" not in panel
    assert "Low confidence" in panel
    assert "BlueField-3 cannot do: Compress to DEFLATE" in panel


def test_text_from_outside_is_never_markup(tmp_path: Path) -> None:
    attack = "</script></style><img src=x onerror=alert(1)>'\"&{{ 7*7 }}<!--"
    text = page(tmp_path, Scenario(hostile=attack, sizes=(4096,)))
    document = Document(text)
    assert document.all("img") == []
    assert len(document.all("script")) == 3
    assert any("{{ 7*7 }}" in data for _, data in document.texts)


def test_a_variants_name_cannot_leave_a_chart_specification(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(sizes=(4096,), tasks=("copy",), emulated=False))
    samples = (path / "samples.jsonl").read_text()
    (path / "samples.jsonl").write_text(samples.replace('"memcpy"', '"</script><i>"'))
    text = report.render(load_run(path), "html")
    specs = re.search(r'<script type="application/json" id="specs">(.*?)</script>', text, re.S)
    assert specs is not None
    assert "</script><i>" in json.dumps(json.loads(specs[1]))
    assert Document(text).all("i") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_have_enough_contrast(theme: str) -> None:
    colours = palette()[theme]
    plain = [
        ("ink", "paper"), ("ink", "surface"), ("ink", "soft"), ("muted", "paper"),
        ("muted", "surface"), ("link", "paper"), ("link", "surface"), ("bad", "paper"),
        ("bad", "bad-soft"), ("ink", "bad-soft"), ("measured", "measured-soft"),
        ("emulated", "emulated-soft"), ("modelled", "modelled-soft"), ("ink", "modelled-soft"),
        ("muted", "modelled-soft"), ("link", "modelled-soft"),
        *(("on-stage", f"stage-{index}") for index in (1, 2, 3)),
    ]  # fmt: skip
    for front, back in plain:
        assert contrast(colours[front], colours[back]) >= 4.5, (front, back)
    # Marks of charts: WCAG 2.1, 1.4.11.
    for index in range(1, 9):
        assert contrast(colours[f"series-{index}"], colours["paper"]) >= 3, index


def test_both_themes_have_all_colours() -> None:
    light, dark = palette()["light"], palette()["dark"]
    assert light.keys() == dark.keys()
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", (PAGE / "page.css").read_text()))
    assert used - {"mono"} <= light.keys()


def palette() -> dict[str, dict[str, str]]:
    """The colours of the style sheet, by theme."""
    css = (PAGE / "page.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    found = {}
    for name, block in (("light", light), ("dark", dark)):
        found[name] = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))
    return found


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, WCAG 2.1."""

    def luminance(colour: str) -> float:
        parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dim = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_figures_with_invalid_timing_are_not_shown(text: str) -> None:
    rows = re.findall(r"<tr data-operation.*?</tr>", text, re.DOTALL)
    late = [row for row in rows if "of completions late" in row]
    assert len(late) == 5
    for row in late:
        assert row.count("timing invalid</small>") == 2


def heads(tmp_path: Path, scenario: Scenario) -> list[str]:
    """Column headings of the table of all tests."""
    view = load_run(make(tmp_path / "run", scenario))
    columns = test_table.table(view, list(view_model.rows(view)))["columns"]
    return [name for name, _ in columns]


def test_the_table_of_all_tests_has_the_columns_that_have_figures(tmp_path: Path) -> None:
    few = heads(tmp_path / "few", Scenario(tasks=("hash",), extra=False))
    assert "MB/s" in few
    assert "Ratio" not in few
    assert few[-2:] == ["Notes", "Test"]
    assert "Ratio" in heads(tmp_path / "many", Scenario(extra=False))


def test_each_other_figure_has_a_column(text: str) -> None:
    table = re.search(r'<table id="all-tests".*?</table>', text, re.DOTALL)
    assert table is not None
    columns = len(re.findall(r"<th scope=\"col\"", table[0]))
    for row in re.findall(r"<tr data-operation.*?</tr>", table[0], re.DOTALL):
        assert len(re.findall(r"<t[dh][ >]", row)) == columns


def test_a_run_can_be_repeated_by_what_stands_in_it(tmp_path: Path) -> None:
    path = make(tmp_path / "run", Scenario(sizes=(4096,), tasks=("copy",)))
    run = load_run(path)
    text = report.render(run, "html")
    again = text[text.index("How to run this again") :]
    assert f"--seed {run.manifest['seed']}" in again
    assert "# Overside" in again
    assert "overside run quick.json" in again


def test_nothing_is_found_in_the_waiting_of_a_full_queue(text: str) -> None:
    specs = re.search(r'<script type="application/json" id="specs">(.*?)</script>', text)
    assert specs is not None
    stages = {
        point["stage"]
        for name, spec in json.loads(specs[1]).items()
        if "-stages-" in name
        for point in spec["data"]["values"]
    }
    assert "Queueing" not in stages
    assert "Latency at depth 16, 64 KiB buffers" in text


@pytest.mark.parametrize(("setting", "counts"), [("reconfiguration", True), ("static", False)])
def test_what_a_context_takes_is_a_part_of_a_jobs_time_if_each_has_its_own(
    setting: str, *, counts: bool
) -> None:
    figures = {
        "stage_engine": around(20.0),
        "stage_transfer": around(5.0),
        "stage_init": around(75.0),
        "latency_p50": around(100.0),
    }
    parameters = {"device": "cpu", "format": "deflate", "depth": 1, "setting": setting}
    tests = view(summary_of("compress", {**parameters, "buffer_size": 65536}, figures))
    (group,) = groups.groups(tests)
    (chart,) = [c for c in charts.charts(group, "measured") if c.id.startswith("stages-")]
    titles = ["Transfer, µs", "Engine, µs"]
    assert list(chart.columns[2:]) == (["Setting up the context, µs"] if counts else []) + titles
    assert len(chart.rows[0]) == len(chart.columns)
