"""The key-value store by datagrams, with the client of this package."""

from __future__ import annotations

import socket
import time
import zlib
from collections.abc import Iterator

import pytest
import redis
from kv_server import KvServer, kv_design
from overside.kv.datagram import (
    DatagramClient,
    DatagramError,
    Outcome,
    delete,
    get,
    increment,
    partition_of,
    store,
)


@pytest.fixture(scope="module", params=["cpu-only", "2 cores", "sav"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KvServer]:
    directory = tmp_path_factory.mktemp("agents")
    with kv_design(request.param, directory, "--datagram", "127.0.0.1:0") as running:
        yield running


@pytest.fixture
def client(server: KvServer) -> Iterator[DatagramClient]:
    with DatagramClient("127.0.0.1", server.ports["datagram"]) as connected:
        yield connected


def test_what_was_stored_is_read_by_every_protocol(
    server: KvServer, client: DatagramClient
) -> None:
    items = {f"key:{number}".encode(): f"value {number}".encode() for number in range(3000)}
    client.set(items)
    assert client.get([*items, b"missing"]) == [*items.values(), None]
    with redis.Redis(port=server.port) as other:
        assert other.mget([*items]) == [*items.values()]
        other.set("sum", 5)
    assert client.increment(b"sum", -7) == -2
    client.delete([b"sum", b"missing"])
    assert client.get([b"sum"]) == [None]
    client.set({b"short": b"life"}, expires_at_ms=int(time.time() * 1000) - 1)
    assert client.get([b"short"]) == [None]


def test_requests_of_all_kinds_are_answered_in_their_order(client: DatagramClient) -> None:
    client.delete([b"n"])
    client.set({b"text": b"no number"})
    requests = [get(b"nothing"), increment(b"text"), delete(b"text"), store(b"{a}1", b"")]
    outcomes = [reply.outcome for reply in client.execute(requests)]
    assert outcomes == [Outcome.MISSING, Outcome.REFUSED, Outcome.DONE, Outcome.STORED]
    client.set({b"text": b"no number"})
    with pytest.raises(DatagramError, match=r"b'text': refused"):
        client.increment(b"text")
    client.set({b"big": b"v" * 30_000})
    with pytest.raises(DatagramError, match="too long"):
        client.get([b"big"])
    with pytest.raises(ValueError, match="longer than a datagram"):
        client.set({b"huge": b"v" * 70_000})


def test_a_server_that_says_nothing_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with (
            DatagramClient("127.0.0.1", silent.getsockname()[1], tries=1) as client,
            pytest.raises(DatagramError, match="no answer"),
        ):
            client.get([b"a"])
        # It was sent twice, with the same sequence number.
        first, second = silent.recv(2000), silent.recv(2000)
        assert first[:24] == second[:24]


def test_partitions_are_those_of_the_server() -> None:
    assert partition_of(b"123456789", 1 << 16) == 0xCBF4
    assert partition_of(b"x{123456789}y", 1 << 16) == 0xCBF4
    assert partition_of(b"a{}", 1 << 32) == zlib.crc32(b"a{}")
