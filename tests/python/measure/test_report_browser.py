"""The page in a real browser: it draws, adapts, and is usable from the keyboard."""

from __future__ import annotations

import base64
from pathlib import Path

import chromium
import pytest
from make_run import Scenario, make, view
from overside import report
from overside.report import page
from test_report_published_loops import moved

pytestmark = pytest.mark.skipif(
    chromium.unavailable() is not None, reason=f"needs a browser: {chromium.unavailable()}"
)

SCENARIOS = {
    "full": Scenario(),
    "sweep": Scenario(sizes=tuple(2**power for power in range(12, 21)), tasks=("decompress",)),
    "one": Scenario(only_first=True, emulated=False),
    "failed": Scenario(all_fail=True, sizes=(4096,)),
    "hostile": Scenario(hostile="</script><img src=x onerror=alert(1)>", sizes=(4096,)),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("pages")
    return {
        name: report.write(make(home / name, scenario))[0] for name, scenario in SCENARIOS.items()
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_draws_every_chart_without_a_word_and_asks_for_nothing(
    tab: chromium.Page, pages: dict[str, Path], name: str
) -> None:
    tab.show(pages[name])
    assert tab.console == []
    assert tab.requests == [pages[name].as_uri()]
    plots = tab.evaluate("document.querySelectorAll('.plot').length")
    assert tab.evaluate("document.querySelectorAll('.plot > svg, .plot svg.marks').length") == plots
    assert tab.evaluate("Number(document.documentElement.dataset.charts)") == plots
    assert (plots == 0) == (name == "failed")
    marks = "[...document.querySelectorAll('.plot')].filter(p => !p.querySelector("
    marks += "'.mark-symbol path, .mark-rect path')).map(p => p.id)"
    assert tab.evaluate(marks) == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
def test_no_width_makes_the_page_scroll_sideways(
    tab: chromium.Page, pages: dict[str, Path], width: int
) -> None:
    tab.show(pages["full"], width, 844)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('.plot svg')].filter(s => "
    wide += "s.getBoundingClientRect().right > innerWidth).length"
    assert tab.evaluate(wide) == 0


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_names_in_legends_are_whole_and_inside_the_chart(
    tab: chromium.Page, tmp_path: Path, width: int
) -> None:
    tests = [
        moved(
            {"latency_p50": 1.0 + size / 1000},
            device=device,
            variant=variant,
            initiator=initiator,
            completion=completion,
            buffer_size=size,
            measure="latency",
        )
        for device, variant in (("shm", "engine"), ("ucx", None), ("ucx", "tcp"))
        for initiator in ("host", "dpu")
        for completion in ("poll", "event")
        for size in (64, 4096, 65536)
    ]
    path = tmp_path / "links.html"
    path.write_text(page.page(view(*tests)), encoding="utf-8")
    tab.show(path, width, 844)
    labels = "[...document.querySelectorAll('.plot .role-legend-label text')]"
    assert tab.evaluate(f"{labels}.length") > 6
    if width >= 390:
        assert tab.evaluate(f"{labels}.filter(t => t.textContent.includes('…')).length") == 0
    outside = (
        f"{labels}.filter(t => t.getBoundingClientRect().right > "
        "t.closest('svg').getBoundingClientRect().right + 1).map(t => t.textContent)"
    )
    assert tab.evaluate(outside) == []


def test_dark_and_light_differ_also_inside_the_charts(
    tab: chromium.Page, pages: dict[str, Path]
) -> None:
    tab.show(pages["full"])
    colours = (
        "[getComputedStyle(document.body).backgroundColor, "
        "getComputedStyle(document.querySelector('.plot .mark-symbol path')).fill, "
        "getComputedStyle(document.querySelector('.plot .role-axis-label text')).fill]"
    )
    light = tab.evaluate(colours)
    tab.theme(dark=True)
    dark = tab.evaluate(colours)
    assert all(a != b for a, b in zip(light, dark, strict=True)), (light, dark)
    tab.theme(dark=True, media="print")
    assert tab.evaluate(colours) == light
    tab.theme(dark=False)


def test_it_prints(tab: chromium.Page, pages: dict[str, Path]) -> None:
    tab.show(pages["one"])
    pdf = base64.b64decode(tab.call("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert b"/Type /Page" in pdf or b"/Type/Page" in pdf


def test_the_table_is_filtered_and_sorted_from_the_keyboard(
    tab: chromium.Page, pages: dict[str, Path]
) -> None:
    tab.show(pages["full"])
    rows = "[...document.querySelectorAll('#all-tests tbody tr')].filter(r => !r.hidden)"
    all_rows = tab.evaluate(f"{rows}.length")
    tab.evaluate("document.getElementById('filter-text').focus()")
    for letter in "zlib":
        tab.key(letter, letter)
    some = tab.evaluate(f"{rows}.length")
    assert 0 < some < all_rows
    assert tab.evaluate(f"{rows}.every(r => r.textContent.includes('zlib'))")
    said = tab.evaluate("document.getElementById('filter-count').textContent")
    assert said == f"{some} of {all_rows} tests"

    head = "document.querySelectorAll('#all-tests thead th')[5]"
    tab.evaluate(f"{head}.querySelector('button').focus()")
    tab.key("Enter", "\r")
    assert tab.evaluate(f"{head}.getAttribute('aria-sort')") == "ascending"
    figures = f"{rows}.map(r => r.cells[5].dataset.value).filter(Boolean).map(Number)"
    upward = tab.evaluate(figures)
    assert len(upward) > 5
    assert upward == sorted(upward)
    tab.key("Enter", "\r")
    assert tab.evaluate(f"{head}.getAttribute('aria-sort')") == "descending"
    assert tab.evaluate(figures) == upward[::-1]


def test_failed_and_skipped_tests_are_found_with_their_reasons(
    tab: chromium.Page, pages: dict[str, Path]
) -> None:
    tab.show(pages["full"])
    tab.evaluate(
        "(s => { s.value = 'skipped'; s.dispatchEvent(new Event('input', {bubbles: true})) })"
        "(document.getElementById('filter-status'))"
    )
    visible = "document.querySelector('#all-tests tbody').innerText"
    assert "cannot compress DEFLATE" in tab.evaluate(visible)
    assert "shorter than one buffer" in tab.evaluate(visible)


def test_a_chart_is_saved_with_its_colours(tab: chromium.Page, pages: dict[str, Path]) -> None:
    tab.show(pages["one"])
    tab.evaluate(
        "URL.createObjectURL = blob => { window.saved = blob.text(); return 'blob:x' };"
        "HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download }"
    )
    tab.evaluate("document.querySelector('button.save').click()")
    svg = tab.evaluate("new Promise(r => setTimeout(r, 50)).then(() => window.saved)")
    assert svg.startswith("<svg")
    assert "var(" not in svg
    assert "#0b67b2" in svg
    assert tab.evaluate("window.savedAs").endswith(".svg")
    assert tab.console == []
