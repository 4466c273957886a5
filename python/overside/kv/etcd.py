"""etcd's JSON gateway, version 3, as far as readers of a directory need it."""

from __future__ import annotations

import base64
import http.client
import json
import re
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overside import strict_json
from overside.kv.errors import DirectoryError
from overside.kv.tls import client_context

if TYPE_CHECKING:
    from collections.abc import Iterator

_PORT = 2379
_PREFIX = "/overside/kv"
#: Longest time in seconds for a request.
_TIMEOUT_S = 2.0
#: Most keys that are read at once, and longest answer in bytes.
_KEYS_MAX = 4096
_ANSWER_MAX_BYTES = 16 << 20
_HOST = r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])"
_LOCATION = re.compile(
    rf"(etcds?)://({_HOST}(?::\d+)?(?:,{_HOST}(?::\d+)?)*)((?:/[A-Za-z0-9._-]+)*)/?"
)


@dataclass(frozen=True)
class KeyRange:
    """Keys as they were at one time."""

    entries: dict[bytes, bytes]
    revision: int


class Etcd:
    """A client of etcd; it connects when it asks."""

    def __init__(self, location: str, tls_keys: Path | None = None) -> None:
        found = _LOCATION.fullmatch(location)
        if found is None:
            raise ValueError(f"{location!r} is no directory: write it as etcd://HOST:{_PORT}")
        if (found[1] == "etcds") != (tls_keys is not None):
            raise ValueError("etcds:// needs a directory with keys, and etcd:// has none")
        self._tls = None if tls_keys is None else client_context(tls_keys)
        self.members = [_member(text) for text in found[2].split(",")]
        #: Prefix of all keys.
        self.prefix = found[3] or _PREFIX
        self._preferred = 0

    def range(self, prefix: str) -> KeyRange:
        """All keys that begin with `prefix`."""
        question = {**_keys(prefix), "limit": str(_KEYS_MAX)}
        try:
            with self._asked("kv/range", question, _TIMEOUT_S) as (member, response):
                text = _read(response, time.monotonic() + _TIMEOUT_S)
        except TimeoutError:
            raise DirectoryError("the directory does not answer in time") from None
        with _checked(member):
            answer = strict_json.loads(text)
            if answer.get("more"):
                raise ValueError(f"more than {_KEYS_MAX} keys begin with {prefix}")
            decode = base64.b64decode
            entries = {
                decode(one["key"], validate=True): decode(one.get("value", ""), validate=True)
                for one in answer.get("kvs", [])
            }
            return KeyRange(entries, int(answer["header"]["revision"]))

    def wait_for_change(self, prefix: str, revision: int, most_s: float) -> bool:
        """Waits until a key that begins with `prefix` changes after `revision`. Whether one did, or
        may have."""
        question = {"create_request": {**_keys(prefix), "start_revision": str(revision + 1)}}
        end = time.monotonic() + most_s
        try:
            with self._asked("watch", question, most_s) as (member, response):
                while time.monotonic() < end:
                    line = response.readline(_ANSWER_MAX_BYTES)
                    if not line:
                        # It ended before its time.
                        return True
                    with _checked(member):
                        result = strict_json.loads(line)["result"]
                        if result.get("events") or result.get("canceled"):
                            return True
        except TimeoutError:
            pass
        return False

    def _connection(self, member: str) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(member, timeout=_TIMEOUT_S)
        return http.client.HTTPSConnection(member, timeout=_TIMEOUT_S, context=self._tls)

    @contextmanager
    def _asked(
        self, method: str, question: dict[str, Any], timeout_s: float
    ) -> Iterator[tuple[str, http.client.HTTPResponse]]:
        """The answer of the first member that gives one, beginning with the last that did."""
        failure = DirectoryError("no member of etcd")
        for turn in range(len(self.members)):
            number = (self._preferred + turn) % len(self.members)
            member = self.members[number]
            connection = self._connection(member)
            with closing(connection):
                try:
                    response = _send(connection, method, question)
                except (OSError, http.client.HTTPException) as error:
                    failure = DirectoryError(f"the directory {member} cannot be reached: {error}")
                    continue
                if connection.sock is not None:
                    connection.sock.settimeout(timeout_s)
                if response.status != http.client.OK:
                    status = f"{response.status} {response.reason}"
                    failure = DirectoryError(
                        f"the directory {member} refuses: HTTP status {status}"
                    )
                    continue
                self._preferred = number
                try:
                    yield member, response
                except TimeoutError:
                    raise
                except (OSError, http.client.HTTPException) as error:
                    text = f"the directory {member} cannot be reached: {error}"
                    raise DirectoryError(text) from error
                return
        raise failure


def _send(
    connection: http.client.HTTPConnection, method: str, question: dict[str, Any]
) -> http.client.HTTPResponse:
    headers = {"Content-Type": "application/json", "Connection": "close"}
    connection.request("POST", f"/v3/{method}", json.dumps(question), headers)
    return connection.getresponse()


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    text = b""
    while part := response.read1(1 << 16):
        text += part
        if len(text) > _ANSWER_MAX_BYTES or time.monotonic() > deadline:
            raise DirectoryError("the directory answers what etcd does not: it is too long")
    return text


@contextmanager
def _checked(member: str) -> Iterator[None]:
    """Raises `DirectoryError` if the answer of the directory has an unexpected form."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        text = f"the directory {member} answers what etcd does not: {error!r:.300}"
        raise DirectoryError(text) from error


def _member(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return f"{text}:{_PORT}"
    if not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} has an impossible port")
    return f"{host}:{int(port)}"


def _keys(prefix: str) -> dict[str, str]:
    """Returns the range of the keys that begin with `prefix`, which is ASCII."""
    begin = prefix.encode()
    end = begin[:-1] + bytes([begin[-1] + 1])
    encode = base64.b64encode
    return {"key": encode(begin).decode(), "range_end": encode(end).decode()}
