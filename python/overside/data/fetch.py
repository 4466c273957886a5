"""Downloads a file over HTTP, and goes on where an earlier attempt stopped."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from overside import strict_json
from overside.errors import Exit, UserError

#: Told with the bytes that are there and the bytes there will be (`None`: unknown).
Progress = Callable[[int, int | None], None]

#: Attempts in a row that bring nothing, after which it is given up.
ATTEMPTS = 5
_ATTEMPTS_IN_ALL = 100
_TIMEOUT_S = 30.0
_CHUNK = 1 << 18
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}


def download(
    url: str,
    part: Path,
    *,
    limit_bytes: int,
    progress: Progress | None = None,
    pause_s: float = 0.5,
) -> None:
    """Makes `part` the complete file at `url`, at most `limit_bytes` long. What `part` already
    holds of that address is kept. Whether the bytes are the right ones is for the caller to check.

    Raises `UserError` if the address is none, the server refuses, the file is too long, or the
    connection keeps failing; what has come is kept for the next call.
    """
    if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
        raise UserError(f"{url}: only http and https addresses can be fetched", "give another one")
    state = _State(url, part)
    failures = 0
    for _ in range(_ATTEMPTS_IN_ALL):
        before = state.have
        try:
            if _attempt(state, limit_bytes, progress):
                return
            why = "the connection ended too early"
        except (OSError, http.client.HTTPException) as error:
            # `HTTPError` and `URLError` are `OSError`s.
            _raise_if_final(url, error)
            why = str(getattr(error, "reason", "") or error or type(error).__name__)
        failures = 0 if state.have > before else failures + 1
        if failures >= ATTEMPTS:
            break
        time.sleep(min(pause_s * 2**failures, 10.0))
    raise UserError(
        f"{url} cannot be fetched: {why} ({state.have} bytes are here and kept)",
        "try again later, or name another address with --url",
        Exit.ABSENT,
    )


def terminal_progress(name: str) -> contextlib.AbstractContextManager[Progress | None]:
    """Shows progress on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        return contextlib.nullcontext(None)
    return _bar(name)


@contextlib.contextmanager
def _bar(name: str) -> Iterator[Progress]:
    # Only where it is shown: it takes longer to import than all the rest.
    from tqdm import tqdm  # noqa: PLC0415

    with tqdm(desc=name, unit="B", unit_scale=True, file=sys.stderr) as bar:

        def show(have: int, total: int | None) -> None:
            bar.total = total
            bar.update(have - bar.n)

        yield show


class _State:
    """State of a download: the bytes received so far, and the version of the file."""

    def __init__(self, url: str, part: Path) -> None:
        self.url = url
        self.part = part
        self.about = part.with_name(part.name + ".json")
        #: `ETag` or `Last-Modified`: asks the server for the rest of the same version only.
        self.validator: str | None = None
        try:
            about = strict_json.loads(self.about.read_bytes())
            same = about["url"] == url
            self.validator = about["validator"]
        except (OSError, ValueError, KeyError, TypeError):
            same = False
        if not same:
            part.unlink(missing_ok=True)

    @property
    def have(self) -> int:
        """Bytes that are here."""
        try:
            return self.part.stat().st_size
        except FileNotFoundError:
            return 0

    def begin(self, validator: str | None) -> None:
        """Starts from nothing, with this version."""
        self.validator = validator
        self.part.write_bytes(b"")
        self.about.write_text(json.dumps({"url": self.url, "validator": validator}))


class _HttpOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirections to web addresses only."""

    def redirect_request(  # noqa: PLR0917  the base class's
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme not in {"http", "https"}:
            raise urllib.error.URLError(f"redirected to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _attempt(state: _State, limit_bytes: int, progress: Progress | None) -> bool:
    """One connection. True: the file is complete."""
    have = state.have
    headers = {"User-Agent": "overside", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if state.validator:
            headers["If-Range"] = state.validator
    request = urllib.request.Request(state.url, headers=headers)  # noqa: S310  checked by download
    opener = urllib.request.build_opener(_HttpOnly)
    try:
        response = opener.open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise
        # Nothing is left to send, or the file is another one now.
        complete = error.headers.get("Content-Range", "") == f"bytes */{have}"
        if not complete:
            state.begin(None)
        return complete
    with response:
        have, total = _place(state, response)
        if total is not None and total > limit_bytes:
            raise _too_long(state.url, limit_bytes)
        with state.part.open("r+b") as file:
            file.seek(have)
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                have += len(chunk)
                if have > limit_bytes:
                    raise _too_long(state.url, limit_bytes)
                if progress:
                    progress(have, total)
            file.flush()
            os.fsync(file.fileno())
    return total is None or have == total


def _place(state: _State, response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Returns the offset at which the response begins, and the file's length, both in bytes.

    The length is `None` if the server does not send it.
    """
    have = state.have
    found = re.fullmatch(
        r"bytes (\d{1,15})-\d{1,15}/(\d{1,15}|\*)", response.headers.get("Content-Range", "")
    )
    if response.status == http.HTTPStatus.PARTIAL_CONTENT and found:
        if int(found[1]) != have:
            state.begin(None)
            raise http.client.HTTPException("the server sent another part than asked for")
        return have, None if found[2] == "*" else int(found[2])
    # The server sends everything: it knows no ranges, or the file has changed.
    strong = response.headers.get("ETag", "")
    validator = strong if strong.startswith('"') else response.headers.get("Last-Modified")
    state.begin(validator)
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if re.fullmatch(r"\d{1,15}", length) else None


def _raise_if_final(url: str, error: Exception) -> None:
    """Some answers will not change by asking again."""
    if isinstance(error, urllib.error.HTTPError) and error.code not in _TRY_AGAIN:
        raise UserError(
            f"{url} cannot be fetched: the server answers {error.code} {error.reason}",
            "name another address with --url",
            Exit.ABSENT,
        ) from error


def _too_long(url: str, limit_bytes: int) -> UserError:
    return UserError(
        f"{url} is longer than {limit_bytes} bytes, so it is not what was asked for",
        "name another address with --url",
        Exit.ABSENT,
    )
