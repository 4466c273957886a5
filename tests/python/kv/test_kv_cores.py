"""The key-value server with two cores, each with a part of the keys."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from command import PATIENCE_S
from kv_server import KvServer, kv, kv_server
from pymemcache.client.base import Client as Memcached


@pytest.fixture(scope="module")
def server() -> Iterator[KvServer]:
    with kv_server("--cores", "2") as running:
        yield running


@pytest.fixture
def client(server: KvServer) -> Iterator[redis.Redis]:
    with redis.Redis(port=server.port, decode_responses=True) as connected:
        connected.flushall()
        yield connected


def partition(key: str) -> int:
    return zlib.crc32(key.encode()) * 2 >> 32


def of_both() -> tuple[str, str]:
    """A key of each partition."""
    keys = [f"key:{number}" for number in range(64)]
    return next(k for k in keys if partition(k) == 0), next(k for k in keys if partition(k) == 1)


def test_pipelines_and_scans_reach_both_partitions(client: redis.Redis) -> None:
    keys = [f"key:{number}" for number in range(1000)]
    with client.pipeline(transaction=False) as pipeline:
        for number, key in enumerate(keys):
            pipeline.set(key, number)
            pipeline.get(key)
        assert pipeline.execute() == [one for n in range(1000) for one in (True, str(n))]
    assert client.mget(keys) == [str(number) for number in range(1000)]
    assert set(client.scan_iter("key:*", count=7)) == set(keys)
    assert set(client.keys("key:*")) == set(keys)
    assert client.dbsize() == 1000
    assert client.info("keyspace")["db0"]["keys"] == 1000
    assert client.exists(*keys) == client.delete(*keys[:500]) + 500
    client.flushall()
    assert client.dbsize() == 0
    assert list(client.scan_iter()) == []


def test_partitions_are_those_that_clients_compute(client: redis.Redis) -> None:
    both = of_both()
    for keys, together in [(both, False), (("{x}1", "{x}2"), True), (both[:1] * 2, True)]:
        with client.pipeline(transaction=True) as pipeline:
            for key in keys:
                pipeline.incr(key)
            if together:
                assert len(pipeline.execute()) == 2
            else:
                with pytest.raises(redis.exceptions.ClusterCrossSlotError):
                    pipeline.execute()


def test_transactions_within_a_tag_are_tried_again(client: redis.Redis) -> None:
    for tag in of_both():
        name = f"{{{tag}}}balance"
        client.set(name, 10)
        attempts = []

        def double(
            pipeline: redis.client.Pipeline, name: str = name, attempts: list[int] = attempts
        ) -> None:
            balance = int(pipeline.get(name))
            if not attempts:
                client.incr(name)
            attempts.append(balance)
            pipeline.multi()
            pipeline.set(name, 2 * balance)

        assert client.transaction(double, name) == [True]
        assert attempts == [10, 11]
        assert client.get(name) == "22"


def test_another_number_of_cores_is_refused(tmp_path: Path) -> None:
    with kv_server("--cores", "2", "--dir", tmp_path / "state"):
        pass
    said = kv("serve", "--listen", "127.0.0.1:0", "--dir", tmp_path / "state", code=3)
    assert "holds 2 partitions" in said
    assert "--cores 2" in said


def test_clients_of_memcached_reach_both_partitions() -> None:
    with kv_server("--cores", "2", "--memcached", "127.0.0.1:0") as server:
        # Without a reply, a client's value may be stored after another client asked for it.
        clients = [
            Memcached(
                ("127.0.0.1", server.ports["memcached"]), timeout=PATIENCE_S, default_noreply=False
            )
            for _ in range(8)
        ]
        for number, client in enumerate(clients):
            assert client.set_many({f"{number}:{key}": str(key) for key in range(20)}) == []
        for client in clients:
            for number in range(8):
                found = client.get_many([f"{number}:{key}" for key in range(20)])
                assert found == {f"{number}:{key}": str(key).encode() for key in range(20)}
        assert clients[0].stats()[b"curr_items"] == 160
        clients[0].flush_all()
        assert clients[7].get("7:7") is None
        for client in clients:
            client.close()


def test_bench_finds_every_value(server: KvServer) -> None:
    address = f"redis://127.0.0.1:{server.port}"
    quick = ["--records", "1000", "-c", "8", "--seconds", "0.3", "--warm-up", "0.1", "--json"]
    assert json.loads(kv("bench", address, *quick))
