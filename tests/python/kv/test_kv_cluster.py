"""Clusters of key-value servers, by the client library."""

from __future__ import annotations

import base64
import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from command import PATIENCE_S, agents, server_keys, wait_for
from kv_etcd import EtcdServer, etcd_server
from kv_server import KvServer, kv, kv_server
from overside.kv import (
    Cluster,
    ClusterError,
    DirectoryError,
    RefusedError,
    Ring,
    UnreachableError,
    UnsupportedError,
)

KEYS = [f"key:{number}" for number in range(300)]
GOLDEN = Path(__file__).parents[2] / "kv-ring.json"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with etcd_server(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture
def url(etcd: EtcdServer, request: pytest.FixtureRequest) -> str:
    """A directory for each test."""
    return f"{etcd.url}/{request.node.name.partition('[')[0]}"


def member(name: str, url: str, *options: str | Path) -> Any:
    """A server of this name."""
    return kv_server("--directory", url, "--name", name, *options)


def listed(url: str) -> list[str]:
    """Names of the servers that are registered."""
    found = json.loads(kv("endpoints", "--directory", url, "--json"))
    return [one["server"] for one in found["endpoints"]]


def keys_of(server: KvServer) -> int:
    with redis.Redis(port=server.port) as client:
        return int(client.dbsize())


def test_keys_belong_where_other_languages_find_them() -> None:
    golden = json.loads(GOLDEN.read_text())
    for ring in golden["rings"]:
        found = Ring(ring["members"])
        for key, owner in ring["owners"]:
            assert found.owner(base64.b64decode(key)) == owner
    assert Ring([]).owner(b"x") is None


def test_keys_are_divided_and_found_again(url: str, tmp_path: Path) -> None:
    with pytest.raises(DirectoryError, match="kv cluster"):
        Cluster(url)
    assert kv("cluster", "--directory", url, "a", "b") == "a, b\n"
    kept = ("--sync", "always", "--dir")
    with ExitStack() as stack:
        a = stack.enter_context(member("a", url, *kept, tmp_path / "a"))
        b = stack.enter_context(member("b", url, "--cores", "2"))
        wait_for(lambda: listed(url) == ["a", "b"])
        cluster = stack.enter_context(Cluster(url))
        assert cluster.servers == ["a", "b"]
        cluster.set_many({key: key.upper() for key in KEYS})
        assert cluster.get_many(KEYS) == [key.upper().encode() for key in KEYS]
        ring = Ring(["a", "b"])
        of_a = [key for key in KEYS if ring.owner(key.encode()) == "a"]
        assert (keys_of(a), keys_of(b)) == (len(of_a), len(KEYS) - len(of_a))
        assert cluster.get("none") is None
        assert cluster.execute("n", "INCRBY", "n", 7) == 7
        assert cluster.execute("{x}1", "MSET", "{x}1", "1", "{x}2", b"2") == "OK"
        assert cluster.get_many(["{x}1", b"{x}2"]) == [b"1", b"2"]
        with pytest.raises(RefusedError, match="WRONGTYPE"):
            cluster.execute("n", "HGET", "n", "field")
        cluster.set("short", 1, expiry_s=50)
        assert 0 < cluster.execute("short", "TTL", "short") <= 50
        assert cluster.delete("n", "short", "none") == 2

        # A server is killed: its keys are errors, never misses, and nobody else's.
        a.process.kill()
        a.process.wait(PATIENCE_S)
        with pytest.raises(UnreachableError) as failed:
            cluster.get_many(KEYS)
        (failure,) = failed.value.servers
        assert (failure.server, failure.requests) == ("a", len(of_a))
        wait_for(lambda: listed(url) == ["b"])
        wait_for(lambda: "not registered" in error_of(lambda: cluster.set(of_a[0], "lost")))
        for key in KEYS:
            if key in of_a:
                with pytest.raises(UnreachableError):
                    cluster.get(key)
            else:
                assert cluster.get(key) == key.upper().encode()
        assert "not registered: a" in kv("endpoints", "--directory", url)

        # It comes back at another port, with its keys.
        stack.enter_context(member("a", url, *kept, tmp_path / "a"))
        wait_for(lambda: not error_of(lambda: cluster.get_many(KEYS)))
        assert cluster.get_many(KEYS) == [key.upper().encode() for key in KEYS]


def error_of(work: Callable[[], object]) -> str:
    try:
        work()
    except ClusterError as error:
        return str(error)
    return ""


def test_servers_by_tls(url: str, tmp_path: Path) -> None:
    keys, others = server_keys(tmp_path / "keys"), server_keys(tmp_path / "others")
    anonymous = tmp_path / "anonymous"
    anonymous.mkdir()
    shutil.copy(keys / "ca.pem", anonymous)
    (password := tmp_path / "password").write_text("secret\n")
    password.chmod(0o600)
    tls = ("--tls-listen", "127.0.0.1:0", "--password-file", password, "--tls-keys")
    required = (*tls, keys, "--tls-clients", "required")
    kv("cluster", "--directory", url, "a", "b")
    with member("a", url, *required) as a, member("b", url, *tls, keys):
        wait_for(lambda: sorted(set(listed(url))) == ["a", "b"])
        with Cluster(url, password="secret", tls_keys=keys, timeout_s=PATIENCE_S) as cluster:
            values = {key: key * 10_000 for key in KEYS}
            cluster.set_many(values)
            assert cluster.get_many(KEYS) == [value.encode() for value in values.values()]
            # What is said behind the handshake does not make a connection look lost.
            assert cluster.execute("n", "INCR", "n") == 1
        for wrong in (
            {"tls_keys": others},
            {"tls_keys": keys, "tls_name": "other.example"},
            {"tls_keys": anonymous},
        ):
            with Cluster(url, password="secret", timeout_s=PATIENCE_S, **wrong) as cluster:
                text = error_of(lambda cluster=cluster: cluster.get_many(KEYS))
                assert "a cannot be reached" in text
                assert "certificate" in text.lower()
        server = f"rediss://127.0.0.1:{a.ports['tls']}"
        few = ("--records", "500", "--seconds", "0.3", "--warm-up", "0s", "--windows", "1")
        load = ("-c", "4", "-P", "64", "--value-size", "4KiB", *few)
        told = kv("bench", server, "--tls-keys", str(keys), "--password-file", str(password), *load)
        assert "p99" in told
        assert "ca.pem" in kv("bench", server, *few, code=2)
        wrong_name = ("--tls-keys", str(keys), "--tls-name", "other.example")
        told = kv("bench", server, *wrong_name, "--password-file", str(password), *few, code=3)
        assert "certificate" in told.lower()


def test_a_server_is_reached_as_its_entry_says(url: str, tmp_path: Path) -> None:
    kv("cluster", "--directory", url, "a")
    with member("a", url):
        wait_for(lambda: listed(url) == ["a"])
        with Cluster(url, tls_keys=server_keys(tmp_path / "keys")) as cluster:
            assert "no endpoint of protocol rediss, only of redis" in error_of(
                lambda: cluster.get("key")
            )


def test_a_signal_ends_the_wait_for_a_server(url: str) -> None:
    class AlarmError(Exception):
        pass

    def ring(*_: object) -> None:
        raise AlarmError

    kv("cluster", "--directory", url, "a")
    with member("a", url) as a:
        wait_for(lambda: listed(url) == ["a"])
        with Cluster(url, timeout_s=100 * PATIENCE_S) as cluster:
            cluster.set("key", "value")
            a.process.send_signal(signal.SIGSTOP)
            before = signal.signal(signal.SIGALRM, ring)
            # Again and again: the first may come before it waits.
            signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
            try:
                with pytest.raises(AlarmError):
                    cluster.get("key")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
                a.process.send_signal(signal.SIGCONT)
            assert cluster.get("key") == b"value"


def test_registered_caches_stand_in_for_each_other(url: str) -> None:
    kv("cluster", "--directory", url, "--registered", "60")
    cache = ("--semantics", "cache")
    with Cluster(url) as cluster, member("b", url, *cache) as b:
        wait_for(lambda: cluster.servers == ["b"])
        with member("a", url, *cache) as a:
            wait_for(lambda: cluster.servers == ["a", "b"])
            cluster.set_many(dict.fromkeys(KEYS, "1"))
            cluster.set_many(dict.fromkeys(KEYS, "1"), expiry_s=1000)
            assert keys_of(a) + keys_of(b) == len(KEYS)
            with redis.Redis(port=a.port) as client:
                assert all(50 < client.ttl(key) <= 60 for key in client.scan_iter())
            with pytest.raises(UnsupportedError):
                cluster.execute("n", "INCR", "n")
        wait_for(lambda: cluster.servers == ["b"])
        found = cluster.get_many(KEYS)
        assert None in found
        assert found.count(b"1") == keys_of(b)
        with member("c", url):
            wait_for(lambda: "is a store" in error_of(lambda: cluster.get("x")))


@pytest.mark.parametrize(
    "design", [("lat",), ("dual", "--cores", "2", "--dpu-listen", "127.0.0.1:0")]
)
def test_a_dpu_is_a_member_like_any_other(
    url: str, tmp_path: Path, design: tuple[str, ...]
) -> None:
    kv("cluster", "--directory", url, "a")
    offloaded = ("--dpu", "dpu0", "--design", *design)
    with agents(tmp_path, dpu0=("--insecure",)), member("a", url, *offloaded):
        wait_for(lambda: set(listed(url)) == {"a"})
        wait_for(lambda: "dpu" in kv("endpoints", "--directory", url))
        with Cluster(url) as cluster:
            cluster.set_many(dict.fromkeys(KEYS, "1"))
            assert cluster.get_many(KEYS) == [b"1"] * len(KEYS)
    kv("cluster", "--directory", url, "--remove")


def test_clients_go_on_without_the_directory(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.touch(0o600)
    secret.write_text("secret\n")
    with etcd_server(tmp_path / "etcd") as etcd:
        kv("cluster", "--directory", etcd.url, "a")
        with member("a", etcd.url, "--password-file", secret):
            wait_for(lambda: listed(etcd.url) == ["a"])
            with pytest.raises(RefusedError, match="NOAUTH"), Cluster(etcd.url) as stranger:
                stranger.get("x")
            with Cluster(etcd.url, password="secret") as cluster:
                etcd.kill()
                wait_for(lambda: cluster.directory_error)
                cluster.set("key", "value")
                assert cluster.get("key") == b"value"
                etcd.start()
                wait_for(lambda: not cluster.directory_error)
                kv("cluster", "--directory", etcd.url, "--remove")
                wait_for(lambda: "has no cluster" in error_of(lambda: cluster.get("key")))


def test_clusters_are_made_once(url: str) -> None:
    at = ("cluster", "--directory", url)
    assert kv(*at) == "no cluster\n"
    assert "no cluster" in kv(*at, "--remove", code=2)
    made = json.loads(kv(*at, "b", "a", "--json"))
    assert made == {"schema": "kv-cluster/1", "cluster": {"members": ["b", "a"]}}
    assert "already" in kv(*at, "--registered", "5", code=2)
    assert kv(*at) == "b, a\n"
    assert kv(*at, "--remove") == "no cluster\n"
    assert "60 s" in kv(*at, "--registered", "60")
    assert "twice" in kv(*at, "a", "a", code=2)
    assert "no server is called" in kv(*at, "a/b", code=2)
    kv(*at, "a", "--remove", code=2)
    kv("cluster", "--directory", "etcd://127.0.0.1:1", code=3)
    assert "cannot be reached" in kv("endpoints", "--directory", "etcd://127.0.0.1:1", code=3)
    assert "no server is registered" in kv("endpoints", "--directory", url)


def test_garbage_in_the_directory_is_no_server(etcd: EtcdServer, url: str) -> None:
    prefix = "/" + url.rpartition("/")[2]

    def put(key: str, value: str) -> None:
        encode = base64.b64encode
        text = {"key": encode(key.encode()).decode(), "value": encode(value.encode()).decode()}
        etcd.ask("kv/put", **text)

    entry: dict[str, Any] = {
        "format": 1,
        "server": "a",
        "instance": "1",
        "protocol": "redis",
        "address": "127.0.0.1:1",
        "design": "lat",
        "side": "dpu",
        "partitions": 1,
        "semantics": "store",
    }
    wrong = [("format", 2), ("partitions", True), ("address", "127.0.0.1"), ("server", "b")]
    for number, (name, value) in enumerate(wrong):
        key = f"{prefix}/endpoints/a/redis/127.0.0.1:1{'' if number else '2'}"
        put(key, json.dumps(entry | {name: value}))
    put(f"{prefix}/endpoints/a/redis/127.0.0.1:3", "\0")
    for text in ["{}", '{"format":1,"members":[[]]}', '{"format":1,"expiry_s":true}']:
        put(f"{prefix}/cluster", text)
        with pytest.raises(DirectoryError):
            Cluster(url)
        kv("cluster", "--directory", url, code=3)
    put(f"{prefix}/cluster", '{"format":1,"members":["a"]}')
    with Cluster(url) as cluster, pytest.raises(UnreachableError, match="not registered"):
        cluster.get("x")
    assert "no entry of a server" in kv("endpoints", "--directory", url)
    for location in ["", "http://a", "etcd://", "etcd://a//b", "etcd://a:0", "etcd://a b"]:
        with pytest.raises(ValueError, match="not the location of a directory"):
            Cluster(location)
