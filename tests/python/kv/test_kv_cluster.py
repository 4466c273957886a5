"""A Redis Cluster of key-value servers, by clients of Redis as they are."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import redis
from command import PATIENCE_S, completed, native, server_keys, told, wait_for
from kv_etcd import EtcdServer, etcd_server
from kv_server import KvServer, kv, kv_server
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.crc import key_slot
from redis.retry import Retry

KEYS = [f"key:{number}" for number in range(300)]
PARTS = {"a": "0-5460", "b": "5461-10922", "c": "10923-16383"}


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with etcd_server(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture
def url(etcd: EtcdServer, request: pytest.FixtureRequest) -> str:
    """A directory for each test."""
    return f"{etcd.url}/{request.node.name.partition('[')[0]}"


class Servers:
    """The servers of a cluster by their names; they can be killed and started again."""

    def __init__(self, stack: ExitStack, url: str, *options: str | Path) -> None:
        self._stack = stack
        self._options = ("--directory", url, "--cluster", *options, "--name")
        self.running: dict[str, KvServer] = {}

    def start(self, name: str, *options: str | Path) -> None:
        """Starts a server: at any port, or where it was."""
        before = self.running.get(name)
        again = ("--listen", f"127.0.0.1:{before.port}") if before else ()
        server = kv_server(*self._options, name, *options, *again)
        self.running[name] = self._stack.enter_context(server)

    def kill(self, name: str) -> None:
        """Kills a server, as a crash would."""
        self.running[name].process.kill()
        self.running[name].process.wait(PATIENCE_S)

    def client(self, protocol: str = "listen", **options: Any) -> RedisCluster:
        """A client that knows all servers."""
        ports = [one.ports[protocol] for one in self.running.values()]
        nodes = [ClusterNode("127.0.0.1", port) for port in ports]
        quick = Retry(NoBackoff(), 2)
        return RedisCluster(startup_nodes=nodes, retry=quick, socket_timeout=PATIENCE_S, **options)

    def wait_until_ok(self, **options: Any) -> None:
        """Waits until each server knows that all slots are served."""
        for one in self.running.values():
            with redis.Redis(port=one.port, **options) as client:
                ask = client.execute_command
                wait_for(lambda ask=ask: ask("CLUSTER INFO")["cluster_state"] == "ok")


@pytest.fixture
def three(url: str, tmp_path: Path) -> Iterator[Servers]:
    """Three servers with two cores each, which keep what they acknowledge."""
    with ExitStack() as stack:
        servers = Servers(stack, url, "--cores", "2")
        for name, slots in PARTS.items():
            servers.start(name, "--slots", slots, "--dir", tmp_path / name)
        servers.wait_until_ok()
        yield servers


def test_redis_py_finds_keys_and_servers(three: Servers) -> None:
    with three.client() as client:
        for key in KEYS:
            assert client.set(key, key.upper())
        assert [client.get(key) for key in KEYS] == [key.upper().encode() for key in KEYS]
        sizes = [client.dbsize(target_nodes=node) for node in client.get_primaries()]
        assert len(sizes) == 3
        assert min(sizes) > 50
        assert sum(sizes) == len(KEYS)
        assert client.mset({"{x}1": 1, "{x}2": 2})
        assert client.mget("{x}1", "{x}2") == [b"1", b"2"]
        assert client.mget_nonatomic(*KEYS) == [key.upper().encode() for key in KEYS]
        with client.pipeline() as pipeline:
            for key in KEYS:
                pipeline.hset(f"hash:{key}", "field", key)
            assert pipeline.execute() == [1] * len(KEYS)
        with client.pipeline(transaction=True) as pipeline:
            pipeline.incr("{n}1").incr("{n}1").zadd("{n}2", {"a": 1})
            assert pipeline.execute() == [1, 2, 1]
        assert client.cluster_keyslot("foo") == 12182
        assert client.cluster_countkeysinslot(client.keyslot("{x}1")) == 2
        assert len(client.cluster_nodes()) == len(client.cluster_shards()) == 3
        assert client.cluster_info()["cluster_slots_assigned"] == "16384"
        assert sorted(client.scan_iter("key:*")) == sorted(key.encode() for key in KEYS)


def check_by_redis_cli(servers: Servers) -> None:
    """Checks that all servers agree about all slots."""
    if shutil.which("redis-cli"):
        at = f"127.0.0.1:{servers.running['b'].port}"
        checked = told("redis-cli", "--cluster", "check", at)
        assert "[OK] All nodes agree about slots configuration." in checked
        assert "[OK] All 16384 slots covered." in checked


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed")
def test_programs_of_redis_use_the_cluster(three: Servers) -> None:
    port = str(three.running["a"].port)
    for key in ("a", "b", "foo"):
        assert told("redis-cli", "-c", "-p", port, "SET", key, key).strip() == "OK"
        assert told("redis-cli", "-c", "-p", port, "GET", key).strip() == key
    check_by_redis_cli(three)
    few = ("-t", "set,get", "-n", "3000", "-c", "6", "-P", "4", "-r", "1000", "--csv")
    for threads in ((), ("--threads", "2")):
        loaded = completed("redis-benchmark", "-p", port, "--cluster", *few, *threads)
        assert '"SET"' in loaded.stdout
        assert '"GET"' in loaded.stdout
        assert "rror" not in loaded.stdout + loaded.stderr
    with three.client() as client:
        sizes = [client.dbsize(target_nodes=node) for node in client.get_primaries()]
        assert min(sizes) > 50


def moved(url: str, slots: str, to: str) -> None:
    """Moves slots. A busy machine may make etcd late."""
    words = [*native(), "kv", "cluster", "move", slots, "--to", to, "--directory", url]
    wait_for(lambda: subprocess.run(words, capture_output=True, check=False).returncode == 0)


class Counting:
    """Increments counters until it is over; notes what the servers answered."""

    def __init__(self, servers: Servers, number: int) -> None:
        #: For each key how often it was incremented, at least and at most.
        keys = [f"counter:{number}:{one}" for one in range(5000)]
        low = [key for key in keys if key_slot(key.encode()) < 300][:40]
        self.bounds = dict.fromkeys(low + keys[:20], (0, 0))
        self.wrong: list[str] = []
        self.failed: set[str] = set()
        self.is_over = Event()
        self._servers = servers
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._servers.client() as client:
            while not self.is_over.is_set():
                for key, (least, most) in self.bounds.items():
                    try:
                        found = int(client.incr(key))
                    except (redis.RedisError, OSError, AttributeError):
                        # The last is redis-py's, for `ASK` to a server that it does not know.
                        self.failed.add(key)
                        self.bounds[key] = (least, most + 1)
                        continue
                    if not least < found <= most + 1:
                        self.wrong.append(f"{key}: {found} after {least} to {most}")
                    self.bounds[key] = (found, found)

    def end(self) -> None:
        """Ends it."""
        assert self._thread.is_alive()
        self.is_over.set()
        self._thread.join(PATIENCE_S)

    def check(self, client: RedisCluster) -> None:
        """Compares the counters with what was answered."""
        assert self.wrong == []
        for key, (least, most) in self.bounds.items():
            assert least <= int(client.get(key) or 0) <= most


def test_a_killed_server_fails_its_own_slots_only(three: Servers, tmp_path: Path) -> None:
    with three.client() as client:
        counting = Counting(three, 0)
        try:
            others = [k for k in counting.bounds if not 5461 <= client.keyslot(k) <= 10922]
            wait_for(lambda: all(least > 0 for least, _ in counting.bounds.values()))
            three.kill("b")
            wait_for(lambda: counting.failed)
            before = dict(counting.bounds)
            wait_for(lambda: all(counting.bounds[key][0] > before[key][0] for key in others))
            assert counting.failed.isdisjoint(others)
            three.start("b", "--dir", tmp_path / "b")
            wait_for(lambda: all(now > before[key] for key, now in counting.bounds.items()))
        finally:
            counting.end()
    three.wait_until_ok()
    with three.client() as client:
        counting.check(client)


def test_slots_move_although_everybody_is_killed(three: Servers, url: str, tmp_path: Path) -> None:
    """Source, target and command are killed again and again; no increment is lost or repeated."""
    counting = [Counting(three, number) for number in range(2)]
    moving = ("cluster", "move", "0-299", "--to", "b", "--directory", url)
    try:
        for number, victim in enumerate(("a", "b", "a", "b")):
            command = subprocess.Popen([*native(), "kv", *moving], stdout=subprocess.DEVNULL)
            # Somewhere in the middle.
            time.sleep(0.2 * (number + 1))
            three.kill(victim)
            command.kill()
            command.wait(PATIENCE_S)
            three.start(victim, "--dir", tmp_path / victim)
            three.wait_until_ok()
        moved(url, "0-299", "b")
        # And back again, some of them.
        moved(url, "0-99", "a")
    finally:
        for one in counting:
            one.end()
    shown = json.loads(kv("cluster", "status", "--directory", url, "--json"))["slots"]
    assert [(one["first"], one["last"], one["owner"]) for one in shown] == [
        (0, 99, "a"),
        (100, 299, "b"),
        (300, 5460, "a"),
        (5461, 10922, "b"),
        (10923, 16383, "c"),
    ]
    assert all(one["to"] is None and one["from"] is None for one in shown)
    three.wait_until_ok()
    with three.client() as client:
        for one in counting:
            one.check(client)
        # Each key is at one server only.
        assert sum(client.dbsize(target_nodes=node) for node in client.get_primaries()) == sum(
            len(one.bounds) for one in counting
        )
    check_by_redis_cli(three)


def test_slots_are_claimed_shared_and_moved_by_servers_with_keys(url: str, tmp_path: Path) -> None:
    at = ("--directory", url)
    keys = server_keys(tmp_path / "keys")
    (secret := tmp_path / "password").write_text("secret\n")
    secret.chmod(0o600)
    by_tls = ("--tls-listen", "127.0.0.1:0", "--tls-keys", keys, "--password-file", secret)
    assert "16384 slots have no owner" in kv("cluster", "status", *at)
    assert "registered" in kv("cluster", "share", *at, code=2)
    with ExitStack() as stack:
        servers = Servers(stack, url, *by_tls)
        servers.start("a", "--slots", "0-99,200")
        servers.start("b")
        wait_for(lambda: kv("cluster", "status", *at).count("rediss") == 2)
        assert "16283 slots have no owner" in kv("cluster", "status", *at)
        claim = ("--name", "x", "--cluster", "--slots", "99-100", "--listen", "127.0.0.1:0")
        assert "slot 99 belongs to a" in kv("serve", *at, *claim, code=3)
        kv("cluster", "share", *at)
        servers.wait_until_ok(password="secret")
        shown = json.loads(kv("cluster", "status", *at, "--json"))["slots"]
        counts = {"a": 0, "b": 0}
        for one in shown:
            counts[one["owner"]] += one["last"] - one["first"] + 1
        assert counts == {"a": 101 + 8142, "b": 8141}
        tls = {"ssl": True, "ssl_ca_certs": str(keys / "ca.pem"), "ssl_check_hostname": False}
        with servers.client("tls", password="secret", **tls) as client:
            ports = {one.ports["tls"] for one in servers.running.values()}
            assert {node.port for node in client.get_primaries()} == ports
            assert all(client.set(key, key) for key in KEYS)
            kv("cluster", "move", "0-20,16000", "--to", "b", *at)
            assert [client.get(key) for key in KEYS] == [key.encode() for key in KEYS]
        assert "registered as x" in kv("cluster", "move", "0", "--to", "x", *at, code=2)
        last = ("cluster", "move", "99", "--to", "b", "--without-keys", *at)
        assert "a, the owner of 99, is registered" in kv(*last, code=2)
        servers.kill("a")
        wait_for(lambda: "a, not registered" in kv("cluster", "status", *at))
        kv(*last)
        with redis.Redis(port=servers.running["b"].port, password="secret") as client:
            wait_for(lambda: "['99']" in str(client.execute_command("CLUSTER NODES")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cluster",), "--directory"),
        (("--directory", "etcd://a", "--slots", "1"), "--cluster"),
        (("--directory", "etcd://a", "--cluster", "--slots", "16384"), "16384"),
        (("--directory", "etcd://a", "--cluster", "--memcached", "127.0.0.1:1"), "--memcached"),
        (("--directory", "etcd://a", "--cluster", "--dpu", "dpu0"), "--dpu"),
    ],
)
def test_what_knows_no_slots_is_refused(options: tuple[str, ...], said: str) -> None:
    assert said in kv("serve", *options, code=2)
