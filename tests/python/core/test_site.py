"""The site of the documents: it builds without a warning, needs no network, and can be searched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import chromium
import pytest

pytest.importorskip("mkdocs", reason="docs/requirements.txt is not installed")

ROOT = Path(__file__).resolve().parents[3]

#: References that a browser fetches by itself: all except the targets of links.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*?\bsrc=[\"']?(?:https?:)?//[^\s>]*"
    r"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|preload|preconnect|icon))[^>]*?href=[\"']?(?:https?:)?//[^\s>]*"
)
_IN_STYLE = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^\s)]*")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", directory],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def test_every_document_is_a_page_of_the_site(site: Path) -> None:
    for document in (ROOT / "docs").rglob("*.md"):
        page = site / document.relative_to(ROOT / "docs").with_suffix(".html")
        assert page.exists(), document


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not _FETCHED.findall(page.read_text()), page
    for sheet in site.rglob("*.css"):
        assert not _IN_STYLE.findall(sheet.read_text()), sheet


def test_commands_and_python_are_described(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text()
    for words in ("overside run", "overside agent keys", "overside data fetch"):
        assert f">{words}<" in commands
    assert 'id="overside.compress"' in (site / "reference" / "python.html").read_text()


@pytest.mark.skipif(chromium.unavailable() is not None, reason=str(chromium.unavailable()))
def test_the_search_works_in_files_without_a_network(site: Path, tab: chromium.Page) -> None:
    tab.visit((site / "index.html").as_uri())
    found = tab.evaluate("""new Promise(resolve => {
      const field = document.querySelector("[data-md-component=search-query]");
      document.getElementById("__search").click();
      field.value = "tmfifo_net0";
      field.dispatchEvent(new Event("keyup", {bubbles: true}));
      field.dispatchEvent(new Event("input"));
      const list = document.querySelector("[data-md-component=search-result] ol");
      const look = () => {
        const links = [...list.querySelectorAll("a")].map(a => a.href);
        if (links.length) resolve(links); else setTimeout(look, 50);
      };
      look();
    })""")
    assert any("tutorials/bluefield.html" in link for link in found), found
    assert all(request.startswith(("file:", "data:")) for request in tab.requests), tab.requests
