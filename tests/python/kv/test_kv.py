"""The key-value server, with clients that others have written."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
import redis
from command import PATIENCE_S, server_keys, told
from kv_server import KvServer, kv, kv_design, kv_server
from pymemcache.client.base import Client as Memcached


@pytest.fixture(scope="module", params=["cpu-only", "sav"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KvServer]:
    directory = tmp_path_factory.mktemp("agents")
    with kv_design(request.param, directory, "--memcached", "127.0.0.1:0") as running:
        yield running


@pytest.fixture(params=[2, 3])
def client(server: KvServer, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """redis-py, by RESP2 and RESP3."""
    with redis.Redis(port=server.port, protocol=request.param, decode_responses=True) as connected:
        connected.flushall()
        yield connected


#: Shares of the operations of YCSB's workloads.
_OPERATIONS = ("read", "update", "insert", "scan", "readmodifywrite")
_MIXES = {
    "a": {"read": 0.5, "update": 0.5},
    "b": {"read": 0.95, "update": 0.05},
    "c": {"read": 1},
    "d": {"read": 0.95, "insert": 0.05},
    "f": {"read": 0.5, "readmodifywrite": 0.5},
}
_YCSB = {
    letter: {f"{name}proportion": shares.get(name, 0) for name in _OPERATIONS}
    | {"requestdistribution": "latest" if letter == "d" else "uniform"}
    for letter, shares in _MIXES.items()
}


def test_redis_py_stores_every_kind(client: redis.Redis) -> None:
    assert client.set("greeting", "hellö", ex=100) is True
    assert client.get("greeting") == "hellö"
    assert 0 < client.ttl("greeting") <= 100
    assert client.incrby("count", 7) == 7
    assert client.hset("hash", mapping={"a": "1", "b": "2"}) == 2
    assert client.hgetall("hash") == {"a": "1", "b": "2"}
    client.zadd("sorted", {"one": 1, "two": 2.5})
    found = client.zrange("sorted", 0, -1, withscores=True)
    assert [tuple(pair) for pair in found] == [("one", 1.0), ("two", 2.5)]
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.incr("hash")
    assert client.type("hash") == "hash"


def test_redis_py_pipelines_and_scans(client: redis.Redis) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.set(f"key:{number}", number)
        assert pipeline.execute() == [True] * 1000
    assert set(client.scan_iter("key:*")) == {f"key:{number}" for number in range(1000)}
    assert client.dbsize() == 1000
    assert client.delete(*[f"key:{number}" for number in range(1000)]) == 1000


def test_redis_py_transactions_are_tried_again(client: redis.Redis) -> None:
    client.set("balance", 10)
    attempts = []

    def double(pipeline: redis.client.Pipeline) -> None:
        balance = int(pipeline.get("balance"))
        if not attempts:
            client.incr("balance")
        attempts.append(balance)
        pipeline.multi()
        pipeline.set("balance", 2 * balance)

    assert client.transaction(double, "balance") == [True]
    assert attempts == [10, 11]
    assert client.get("balance") == "22"


def test_redis_cli_and_its_benchmark(server: KvServer) -> None:
    cli = ["redis-cli", "-p", str(server.port)]
    assert told(*cli, "set", "cli", "value") == "OK\n"
    assert told(*cli, "-3", "get", "cli") == "value\n"
    assert "overside_version:" in told(*cli, "info", "server")
    load = ["-q", "-n", "20000", "-t", "set,get,incr,mset", "-P", "16"]
    figures = told("redis-benchmark", "-p", str(server.port), *load)
    assert figures.count("requests per second") == 4, figures


def test_redis_cli_by_tls(tmp_path: Path) -> None:
    if "--tls" not in told("redis-cli", "--help"):
        pytest.skip("redis-cli was built without TLS")
    keys = server_keys(tmp_path / "keys")
    words = ["--tls-listen", "127.0.0.1:0", "--tls-keys", keys, "--tls-clients", "required"]
    with kv_server(*words) as running:
        cli = ["redis-cli", "--tls", "-p", str(running.ports["tls"]), "--cacert", keys / "ca.pem"]
        mine = ["--cert", keys / "host.pem", "--key", keys / "host.key"]
        assert told(*cli, *mine, "ping") == "PONG\n"


def test_bench_trusts_its_authority_only(tmp_path: Path) -> None:
    keys = server_keys(tmp_path / "keys")
    load = ("-c", "4", "-P", "64", "--value-size", "4KiB", "--records", "500", "--windows", "1")
    few = (*load, "--seconds", "0.3", "--warm-up", "0s")
    with kv_server("--tls-listen", "127.0.0.1:0", "--tls-keys", keys) as running:
        at = f"rediss://127.0.0.1:{running.ports['tls']}"
        assert "p99" in kv("bench", at, "--tls-keys", keys, *few)
        assert "ca.pem" in kv("bench", at, *few, code=2)
        wrong = kv("bench", at, "--tls-keys", keys, "--tls-name", "other.example", *few, code=3)
        assert "certificate" in wrong.lower()


def test_clients_of_memcached(server: KvServer) -> None:
    client = Memcached(("127.0.0.1", server.ports["memcached"]), timeout=PATIENCE_S)
    assert client.set("key", b"value", noreply=False)
    assert client.get("key") == b"value"
    _value, version = client.gets("key")
    assert client.cas("key", b"other", version, noreply=False)
    assert client.cas("key", b"late", version, noreply=False) is False
    client.set_many({"a": b"1", "b": b"2"}, noreply=False)
    assert client.get_many(["a", "b", "none"]) == {"a": b"1", "b": b"2"}
    assert client.incr("a", 4) == 5
    assert client.delete("a", noreply=False)
    assert client.raw_command(b"mg key v", end_tokens=b"other\r\n").startswith(b"VA 5")
    with redis.Redis(port=server.port) as of_redis:
        assert of_redis.get("key") == b"other"
    client.close()


def test_memccapable_finds_what_it_expects(server: KvServer) -> None:
    port = str(server.ports["memcached"])
    said = told("memccapable", "-h", "127.0.0.1", "-p", port, "-a")
    assert "All tests passed" in said, said


def test_memcslap_loads_it(server: KvServer) -> None:
    at = f"--servers=127.0.0.1:{server.ports['memcached']}"
    said = told("memcslap", at, "--concurrency=4", "--execute-number=1000", "--test=get")
    assert "Time" in said or "seconds" in said, said


@pytest.mark.skipif(shutil.which("go-ycsb") is None, reason="go-ycsb is not on the PATH")
@pytest.mark.parametrize("kind", ["hash", "string"])
@pytest.mark.parametrize("workload", ["a", "b", "c", "d", "f"])
def test_go_ycsb_reads_what_it_wrote(server: KvServer, workload: str, kind: str) -> None:
    """The binding to Redis has no scans, which workload e needs; memcached has no binding."""
    given = {
        "redis.addr": f"127.0.0.1:{server.port}",
        "redis.datatype": kind,
        "recordcount": 500,
        "operationcount": 2000,
        "threadcount": 4,
        "dataintegrity": "true",
        **_YCSB[workload],
    }
    words = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    told("go-ycsb", "load", "redis", *words, "-p", "dropdata=true")
    text = told("go-ycsb", "run", "redis", *words, "-p", "dropdata=false")
    finished = text.partition("Run finished")[2]
    assert "ERROR" not in finished
    counts = dict(re.findall(r"^(\w+) .*Count: (\d+)", finished, re.MULTILINE))
    assert int(counts["READ"]) > 500, text


@pytest.mark.parametrize("cores", ["1", "2"])
def test_a_signal_under_load_ends_it_in_order(tmp_path: Path, cores: str) -> None:
    options = ("--dir", tmp_path / "state", "--cores", cores)
    with kv_server(*options) as running:
        stop = Event()
        acknowledged = [0] * 4

        def load(number: int) -> None:
            client = redis.Redis(port=running.port, retry=None)
            try:
                while not stop.is_set():
                    acknowledged[number] = client.incr(f"count:{number}")
            except redis.RedisError:
                pass

        threads = [Thread(target=load, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        while min(acknowledged) < 50:
            time.sleep(0.01)
        running.process.terminate()
        assert running.process.wait(PATIENCE_S) == 0
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    with kv_server(*options) as running, redis.Redis(port=running.port) as again:
        for number, count in enumerate(acknowledged):
            # One more may have been executed whose reply nobody took.
            assert int(again.get(f"count:{number}")) in (count, count + 1)


@contextmanager
def listening(command: list[str], port: int) -> Iterator[None]:
    """Another's server, once it accepts connections."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + PATIENCE_S
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    assert time.monotonic() < end
                    assert process.poll() is None
                    time.sleep(0.02)
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def measured(server: str) -> dict[str, object]:
    quick = ["--records", "1000", "-c", "4", "--seconds", "0.3", "--warm-up", "0.1", "--json"]
    found: dict[str, object] = json.loads(kv("bench", server, *quick))
    return found


def test_bench_measures_ours_and_others(server: KvServer) -> None:
    servers = [
        f"redis://127.0.0.1:{server.port}",
        f"memcached://127.0.0.1:{server.ports['memcached']}",
        f"memcached-meta://127.0.0.1:{server.ports['memcached']}",
    ]
    redis_port, memcached_port = free_port(), free_port()
    other = ["redis-server", "--port", str(redis_port), "--save", "", "--bind", "127.0.0.1"]
    cache = ["memcached", "-l", "127.0.0.1", "-p", str(memcached_port), "-u", "nobody"]
    with listening(other, redis_port), listening(cache, memcached_port):
        servers += [f"redis://127.0.0.1:{redis_port}", f"memcached://127.0.0.1:{memcached_port}"]
        for of in servers:
            points = measured(of)["points"]
            assert isinstance(points, list)
            assert len(points) == 1
            assert points[0]["hits"] > 0, of
