"""Fetching the corpus from a server that behaves, and from servers that do not."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from overside import data
from overside.__main__ import main
from overside.data import cache, fetch, silesia
from overside.errors import UserError

FILES = {"xml": b"<xml/>" * 50_000, "mr": bytes(range(256)) * 400, "x-ray": b"x" * 1000}


def packed(files: dict[str, bytes]) -> bytes:
    """An archive; not compressed, so that it has some length."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@dataclass
class Site:
    """Content of a server, and its misbehavior."""

    body: bytes
    #: The `ETag` header; none if empty.
    etag: str = '"one"'
    ranges: bool = True
    #: Bytes after which a connection is closed, one for each request; then none is.
    cuts: list[int] = field(default_factory=list)
    #: Statuses that requests are refused with, one for each; then none is.
    refusals: list[int] = field(default_factory=list)
    #: Target of a redirect.
    location: str = ""
    length: bool = True
    #: Answer ranges with another range than asked for, once.
    shift: bool = False
    #: `Range` headers as they came.
    asked: list[str | None] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/silesia.zip"


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site = self.site
        asked = self.headers.get("Range")
        site.asked.append(asked)
        if site.location:
            self.send_response(302)
            self.send_header("Location", site.location)
            self.end_headers()
            return
        if site.refusals and (status := site.refusals.pop(0)) != 200:
            self.send_error(status)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        condition = self.headers.get("If-Range")
        if not site.ranges or (condition and condition != site.etag):
            start, asked = 0, None
        if asked and start >= len(site.body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(site.body)}")
            self.end_headers()
            return
        if asked and site.shift:
            site.shift, start = False, start + 1
        self.send_response(206 if asked else 200)
        if asked:
            end, total = len(site.body) - 1, len(site.body)
            self.send_header("Content-Range", f"bytes {start}-{end}/{total}")
        if site.etag:
            self.send_header("ETag", site.etag)
        if site.length:
            self.send_header("Content-Length", str(len(site.body) - start))
        self.end_headers()
        content = site.body[start:]
        self.wfile.write(content[: site.cuts.pop(0)] if site.cuts else content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[Site], Site]]:
    servers = []

    def start(site: Site) -> Site:
        handler = type("SiteHandler", (Handler,), {"site": site})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        site.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return site

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and a corpus of three files in place of the real one."""
    monkeypatch.setenv("OVERSIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OVERSIDE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    members = {
        name: silesia.Member(len(content), hashlib.sha256(content).hexdigest())
        for name, content in FILES.items()
    }
    monkeypatch.setattr(silesia, "MEMBERS", members)
    return tmp_path / "cache" / "data"


def get(site: Site) -> None:
    silesia.fetch_corpus(site.url, pause_s=0.001)


def left_over(own: Path) -> list[str]:
    """Files in the cache other than data sets and locks."""
    return [
        path.name for path in own.glob(".*") if not path.name.startswith(".lock-") and path.is_dir()
    ]


def test_the_corpus_is_fetched_checked_and_unpacked(
    serve: Callable[[Site], Site], own: Path
) -> None:
    site = serve(Site(packed(FILES)))
    assert data.absent("silesia") is not None
    get(site)
    found = data.resolve("silesia")
    assert {entry.name: entry.path.read_bytes() for entry in found.entries} == FILES
    assert found.note == ""
    assert site.asked == [None]
    assert left_over(own) == []


def test_a_connection_that_breaks_is_taken_up_where_it_broke(serve: Callable[[Site], Site]) -> None:
    body = packed(FILES)
    # Far more breaks than attempts are made in vain: each brings something.
    cuts = [10_000] * 12
    site = serve(Site(body, cuts=list(cuts)))
    get(site)
    assert data.resolve("silesia").size_bytes == sum(map(len, FILES.values()))
    assert site.asked == [None] + [f"bytes={10_000 * n}-" for n in range(1, 13)]


def test_another_call_goes_on_where_the_last_stopped(
    serve: Callable[[Site], Site], own: Path
) -> None:
    body = packed(FILES)
    site = serve(Site(body, cuts=[10_000], refusals=[200, 503, 503, 503, 503, 503, 503]))
    with pytest.raises(UserError, match=r"Service Unavailable \(10000 bytes are here and kept\)"):
        get(site)
    assert left_over(own) == [".fetch-silesia"]
    assert [entry.size_bytes > 10_000 for entry in cache.cached()] == [True], "clean finds it"
    site.refusals.clear()
    get(site)
    assert site.asked[-1] == "bytes=10000-"
    assert data.absent("silesia") is None
    assert left_over(own) == []


def test_a_server_without_ranges_is_asked_for_everything_again(
    serve: Callable[[Site], Site],
) -> None:
    site = serve(Site(packed(FILES), ranges=False, cuts=[10_000, 20_000]))
    get(site)
    assert data.resolve("silesia/mr").files[0].read_bytes() == FILES["mr"]
    assert site.asked == [None, "bytes=10000-", "bytes=20000-"]


def test_parts_of_different_versions_are_never_joined(
    serve: Callable[[Site], Site], own: Path
) -> None:
    refusals = [200] + [503] * 9
    site = serve(Site(packed({"xml": b"old" * 9000}), cuts=[10_000], refusals=refusals))
    with pytest.raises(UserError):
        get(site)
    site.body, site.etag = packed(FILES), '"two"'
    site.refusals.clear()
    get(site)
    assert data.resolve("silesia/xml").files[0].read_bytes() == FILES["xml"]


def test_a_part_of_another_address_is_not_gone_on_with(serve: Callable[[Site], Site]) -> None:
    first = serve(Site(packed(FILES), cuts=[10_000], refusals=[200] + [503] * 9))
    with pytest.raises(UserError):
        get(first)
    second = serve(Site(packed(FILES)))
    get(second)
    assert second.asked == [None]


def test_a_server_that_sends_another_part_is_not_believed(serve: Callable[[Site], Site]) -> None:
    site = serve(Site(packed(FILES), cuts=[10_000], shift=True))
    get(site)
    assert data.resolve("silesia/xml").files[0].read_bytes() == FILES["xml"]
    assert site.asked == [None, "bytes=10000-", None]


def test_a_complete_part_is_recognised(serve: Callable[[Site], Site], own: Path) -> None:
    body = packed(FILES)
    site = serve(Site(body, length=False))
    own.mkdir(parents=True)
    part = own / "part"
    part.write_bytes(body)
    part.with_name("part.json").write_text(json.dumps({"url": site.url, "validator": None}))
    fetch.download(site.url, part, limit_bytes=len(body))
    assert site.asked == [f"bytes={len(body)}-"]
    part.write_bytes(body + b"too much")
    fetch.download(site.url, part, limit_bytes=len(body), pause_s=0.001)
    assert part.read_bytes() == body


@pytest.mark.parametrize(
    "files",
    [
        FILES | {"mr": b"wrong"},
        FILES | {"mr": FILES["mr"][:-1] + b"!"},
        {"xml": FILES["xml"]},
    ],
)
def test_wrong_bytes_are_refused_and_removed(
    serve: Callable[[Site], Site], own: Path, files: dict[str, bytes]
) -> None:
    site = serve(Site(packed(files)))
    with pytest.raises(UserError, match=r"is not the Silesia corpus: .*; it was removed"):
        get(site)
    assert left_over(own) == []
    assert data.absent("silesia/mr") is not None
    site.body = packed(FILES)
    get(site)
    assert data.absent("silesia/mr") is None


@pytest.mark.parametrize(
    "body", [b"", b"<html>not here any more</html>", b"PK\x03\x04" + b"?" * 99]
)
def test_what_is_no_archive_is_refused(
    serve: Callable[[Site], Site], own: Path, body: bytes
) -> None:
    with pytest.raises(UserError, match="is not the Silesia corpus"):
        get(serve(Site(body)))
    assert cache.cached() == []


@pytest.mark.parametrize("length", [True, False])
def test_what_is_too_long_is_not_taken(
    serve: Callable[[Site], Site], tmp_path: Path, length: bool
) -> None:
    site = serve(Site(b"x" * 100_000, length=length))
    part = tmp_path / "part"
    with pytest.raises(UserError, match="longer than 50000 bytes"):
        fetch.download(site.url, part, limit_bytes=50_000)
    assert part.stat().st_size <= 50_000 + (1 << 18)


def test_a_refusal_is_told_at_once(serve: Callable[[Site], Site]) -> None:
    site = serve(Site(b"", refusals=[404]))
    with pytest.raises(UserError, match="the server answers 404 Not Found") as told:
        get(site)
    assert "--url" in told.value.remedy
    assert len(site.asked) == 1


def test_a_server_that_is_not_there_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Connection refused"):
        fetch.download("http://127.0.0.1:9/x", tmp_path / "p", limit_bytes=1, pause_s=0.001)


def test_redirections_stay_on_the_web(serve: Callable[[Site], Site], tmp_path: Path) -> None:
    good = serve(Site(packed(FILES)))
    get(serve(Site(b"", location=good.url)))
    assert data.absent("silesia") is None
    bad = serve(Site(b"", location="ftp://127.0.0.1/silesia.zip"))
    with pytest.raises(UserError, match="redirected to ftp"):
        fetch.download(bad.url, tmp_path / "part", limit_bytes=10, pause_s=0.001)


def test_progress_is_told_and_goes_on_after_a_break(
    serve: Callable[[Site], Site], tmp_path: Path
) -> None:
    body = b"x" * 1_000_000
    site = serve(Site(body, cuts=[600_000]))
    told: list[tuple[int, int | None]] = []
    fetch.download(
        site.url,
        tmp_path / "part",
        limit_bytes=len(body),
        progress=lambda have, total: told.append((have, total)),
        pause_s=0.001,
    )
    assert told == sorted(told)
    assert told[-1] == (len(body), len(body))


def test_the_command_fetches_and_shows_no_progress_where_nobody_looks(
    serve: Callable[[Site], Site], capsys: pytest.CaptureFixture[str]
) -> None:
    site = serve(Site(packed(FILES)))
    assert main(["data", "fetch", "silesia", "--url", site.url, "--json"]) == 0
    out, err = capsys.readouterr()
    (corpus,) = json.loads(out)["data"]
    assert [file["name"] for file in corpus["files"]] == list(FILES)
    assert err == ""


def test_progress_is_shown_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[[Site], Site], tmp_path: Path
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    site = serve(Site(b"x" * 1_000_000))
    with fetch.terminal_progress("silesia") as progress:
        assert progress
        fetch.download(site.url, tmp_path / "part", limit_bytes=1 << 20, progress=progress)
    assert "1.00M/1.00M" in terminal.getvalue()
