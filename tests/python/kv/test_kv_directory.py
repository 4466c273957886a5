"""Key-value servers in a directory of endpoints."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from command import PATIENCE_S, agents, wait_for
from kv_etcd import EtcdServer, etcd_server, make_keys
from kv_server import kv, kv_server


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with etcd_server(tmp_path_factory.mktemp("etcd")) as running:
        yield running


def names(etcd: EtcdServer) -> list[str]:
    return [key.split("/")[4] for key in etcd.entries()]


def test_a_server_is_registered_while_it_serves(etcd: EtcdServer) -> None:
    ways = ("--datagram", "127.0.0.1:0", "--memcached", "127.0.0.1:0")
    both = (*ways, "--cores", "2", "--directory", etcd.url)
    with kv_server(*both, "--name", "a") as a, kv_server("--directory", etcd.url, "--name", "b"):
        wait_for(lambda: names(etcd) == ["a", "a", "a", "b"])
        at = f"127.0.0.1:{a.port}"
        entry = etcd.entries()[f"/overside/kv/endpoints/a/redis/{at}"]
        assert entry.pop("instance")
        assert entry == {
            "format": 1,
            "server": "a",
            "protocol": "redis",
            "address": at,
            "design": "cpu-only",
            "side": "host",
            "partitions": 2,
            "semantics": "store",
        }
        with redis.Redis(port=a.port) as client:
            wait_for(lambda: client.info("overside")["directory_registered"] == 3)
            assert client.info("overside")["server_name"] == "a"
        a.process.terminate()
        assert a.process.wait(PATIENCE_S) == 0
        # Not that of the other one.
        assert names(etcd) == ["b"]
    assert names(etcd) == []


def test_a_killed_server_disappears_with_its_lease(etcd: EtcdServer) -> None:
    with kv_server("--directory", etcd.url, "--name", "a") as server:
        wait_for(lambda: names(etcd) == ["a"])
        server.process.kill()
        server.process.wait(PATIENCE_S)
        assert names(etcd) == ["a"]
        wait_for(lambda: names(etcd) == [])


def test_a_server_serves_without_its_directory(tmp_path: Path) -> None:
    with etcd_server(tmp_path) as etcd:
        options = ("--directory", etcd.url, "--name", "a", "--metrics", "127.0.0.1:0")
        with kv_server(*options) as server, redis.Redis(port=server.port) as client:
            wait_for(lambda: client.info("overside")["directory_registered"])
            etcd.kill()
            wait_for(lambda: "cannot be reached" in client.info("overside")["directory_error"])
            assert client.set("key", "value")
            etcd.start()
            wait_for(lambda: not client.info("overside")["directory_error"])
            assert names(etcd) == ["a"]
            etcd.kill()
            # It ends in order without it, too.
            server.process.terminate()
            assert server.process.wait(PATIENCE_S) == 0


def test_a_registered_server_is_made_no_replica() -> None:
    """Clients that find it would write to it, and read what is behind."""
    options = ("--directory", "etcd://127.0.0.1:1", "--name", "a")
    with kv_server(*options) as server, redis.Redis(port=server.port) as client:
        with pytest.raises(redis.ResponseError, match="find this server in a directory"):
            client.replicaof("127.0.0.1", 6379)
        assert client.replicaof("NO", "ONE")
        assert client.role()[0] == b"master"


def test_a_dpu_is_registered_with_its_address(etcd: EtcdServer, tmp_path: Path) -> None:
    offloaded = ("--design", "lat", "--dpu", "dpu0", "--directory", etcd.url, "--name", "a")
    with (
        agents(tmp_path, dpu0=("--insecure",)),
        kv_server(*offloaded, "--advertise", "localhost") as server,
    ):
        wait_for(lambda: names(etcd) == ["a"])
        (entry,) = etcd.entries().values()
        assert entry["address"] == f"localhost:{server.port}"
        assert (entry["design"], entry["side"]) == ("lat", "dpu")
        with redis.Redis(port=server.port) as client:
            assert client.info("overside")["server_name"] == "a"
    assert names(etcd) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--directory", "http://a:1"), "etcd://HOST:2379"),
        (("--directory", "etcds://a"), "--directory-tls-keys"),
        (("--directory", "etcds://a", "--directory-tls-keys", "/nowhere"), "/nowhere/ca.pem"),
        (("--directory", "etcd://a", "--directory-tls-keys", "/nowhere"), "etcds://"),
        (("--directory", "etcd://a", "--name", "a/b"), "letters"),
        (("--directory", "etcd://a", "--advertise", "0.0.0.0"), "not a host name"),
        (("--directory", "etcd://a", "--unix", "/nowhere/socket"), "--listen"),
        (("--name", "a"), "--directory"),
    ],
)
def test_what_no_client_could_use_is_refused(options: tuple[str, ...], said: str) -> None:
    assert said in kv("serve", *options, code=2)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_directory_by_tls_knows_its_clients_by_their_certificates(tmp_path: Path) -> None:
    keys, others = make_keys(tmp_path / "keys"), make_keys(tmp_path / "others")
    anonymous = tmp_path / "anonymous"
    anonymous.mkdir()
    shutil.copy(keys / "ca.pem", anonymous)
    with etcd_server(tmp_path / "etcd", keys) as etcd:
        by_tls = ("--directory", etcd.url, "--directory-tls-keys", keys)
        assert etcd.url.startswith("etcds://")
        with kv_server(*by_tls, "--name", "a") as server:
            wait_for(lambda: names(etcd) == ["a"])
            assert f"127.0.0.1:{server.port}" in kv("endpoints", *by_tls)
            with redis.Redis(port=server.port) as client:
                # Killed and restarted, it is registered again.
                etcd.kill()
                wait_for(lambda: client.info("overside")["directory_error"])
                etcd.start()
                wait_for(lambda: not client.info("overside")["directory_error"])
            server.process.terminate()
            assert server.process.wait(PATIENCE_S) == 0
        assert names(etcd) == []
        for wrong in (others, anonymous):
            # It is another authority's, or shows no certificate.
            wrongly = ("--directory", etcd.url, "--directory-tls-keys", wrong)
            assert "certificate" in kv("endpoints", *wrongly, code=3).lower()
        plain = ("--directory", etcd.url.replace("etcds", "etcd"))
        kv("endpoints", *plain, code=3)
