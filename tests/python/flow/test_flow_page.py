"""The live page of a flow service, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
from command import wait_for
from flow_service import Producer, Service, definition, flow_service, take
from test_flow_service import STAGES

pytestmark = pytest.mark.skipif(
    chromium.unavailable() is not None, reason=chromium.unavailable() or ""
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    outputs = STAGES + '[outputs.all]\nto = "subscribers"\npartitions = "1"\n'
    pipeline = definition(tmp_path_factory.mktemp("page"), outputs)
    with flow_service(pipeline, "--metrics", "127.0.0.1:0") as running:
        yield running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    with chromium.browser(tmp_path_factory.mktemp("browser"), with_network=True) as tab:
        yield tab


def updates(page: chromium.Page) -> int:
    return int(page.evaluate("Number(document.documentElement.dataset.updates ?? 0)"))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_shows_what_goes_on(
    service: Service, page: chromium.Page, width: int, dark: bool
) -> None:
    url = f"http://{service.metrics}/"
    page.visit(url, width=width, dark=dark)
    wait_for(lambda: updates(page) >= 1)
    producer = Producer(service, f"p{width}{dark}")
    before = service.statistics()["counters"]["received_batches_total"]
    producer.send_all(range(20))
    # What comes after the outputs were emptied would stay there.
    counters = lambda: service.statistics()["counters"]  # noqa: E731
    wait_for(lambda: counters()["received_batches_total"] == before + 20)
    take(service, "near")
    seen = updates(page)
    # The next one may have been asked for before.
    wait_for(lambda: updates(page) > seen + 1)
    text = page.evaluate("document.body.innerText")
    for word in ("Rows in", "Lag", "Memory", "Stages", "Queues", "Partitions", "near"):
        assert word in text, text
    stages = "[...document.querySelectorAll('#stages tr')].map(r => r.cells[0].innerText)"
    assert page.evaluate(stages) == ["unpack", "filter", "partition", "repack"]
    assert "Serving" in text
    assert re.search(r"\b1 producer stream\b", text), text
    cells = "[...document.querySelectorAll('#partitions tr')].map(r => r.cells[CELL].innerText)"
    names, counts, outputs = (page.evaluate(cells.replace("CELL", n)) for n in "014")
    assert names == ["0", "1", "2", "3"]
    assert outputs == ["near", "all, near", "far", "far"]
    # A row that goes to two outputs counts once: as many as in the partition that has as many.
    assert (counts[0], counts[1]) == (counts[2], counts[3])
    # Two columns or four, and no card alone in its row.
    cards = "[...document.querySelectorAll('.card')].map(c => c.getBoundingClientRect().top)"
    tops = page.evaluate(cards)
    assert {tops.count(top) for top in tops} == {4 if width > 1000 else 2}
    take(service, "far")
    take(service, "all")
    producer.close()
    # Nothing sticks out of the window, and nothing is loaded from elsewhere.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert {request.startswith((url, "data:")) for request in page.requests} == {True}
    assert page.console == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(22, 22, 22)" if dark else "rgb(251, 251, 250)")


def test_the_page_says_when_the_service_is_gone(tmp_path: Path, page: chromium.Page) -> None:
    with flow_service(definition(tmp_path, STAGES), "--metrics", "127.0.0.1:0") as service:
        page.visit(f"http://{service.metrics}/")
        wait_for(lambda: updates(page) >= 1)
    wait_for(lambda: "does not answer" in page.evaluate("document.body.innerText"))
