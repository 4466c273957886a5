"""A key-value server and its copies, each a process of its own."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import redis
from command import PATIENCE_S, server_keys, told, wait_for
from kv_server import KvServer, kv, kv_server

pytestmark = pytest.mark.begun_first


@pytest.fixture(params=[1, 2])
def cores(request: pytest.FixtureRequest) -> int:
    """Cores of the primary and of its replica; each core has a part of the keys."""
    return int(request.param)


def on(cores: int) -> tuple[str, str]:
    return "--cores", str(cores)


def of(server: KvServer) -> redis.Redis:
    return redis.Redis(port=server.port, decode_responses=True)


def replica_of(primary: KvServer) -> tuple[str, str]:
    return "--replica-of", f"127.0.0.1:{primary.port}"


# A replica without anything, of a server with one partition.
SYNC = b"OVERSIDE.SYNC 2 ? 0 7 0 1 id\r\n"


def kill(server: KvServer) -> None:
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(PATIENCE_S)


def stop(server: KvServer) -> None:
    """Stops its threads, which happens some time after the signal."""
    server.process.send_signal(signal.SIGSTOP)
    threads = Path(f"/proc/{server.process.pid}/task").glob("*/stat")
    stats = list(threads)
    wait_for(lambda: all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats))


def is_synced(client: redis.Redis) -> bool:
    return str(client.info("replication")["master_link_status"]) == "up"


def state(client: redis.Redis) -> dict[str, Any]:
    """Every key with its value."""
    found: dict[str, Any] = {}
    for key in client.scan_iter(count=1000):
        match client.type(key):
            case "hash":
                found[key] = client.hgetall(key)
            case "zset":
                found[key] = client.zrange(key, 0, -1, withscores=True)
            case _:
                found[key] = client.get(key)
    return found


def has_caught_up(primary: redis.Redis, replica: redis.Redis) -> bool:
    end = primary.info("replication")["master_repl_offset"]
    role = replica.info("replication")
    return is_synced(replica) and role["slave_repl_offset"] >= end


def change_all(client: redis.Redis) -> None:
    """Changes something in each part of the keys."""
    for tag in ("{a}", "{b}"):
        client.incr(f"{tag}other")


@contextmanager
def load(server: KvServer) -> Iterator[None]:
    """Clients that change keys of every kind meanwhile, some of which expire."""
    is_over = Event()
    are_under_way = [Event() for _ in range(2)]

    def change(writer: int) -> None:
        # A tag of each of two partitions: a transaction is in one of them.
        tag = ("{a}", "{b}")[writer]
        with of(server) as client:
            number = 0
            while not is_over.is_set():
                with client.pipeline(transaction=number % 3 == 0) as pipeline:
                    for _ in range(50):
                        number += 1
                        key = f"{tag}:{number * 7919 % 3000}"
                        pipeline.set(key, f"value {number}")
                        pipeline.incr(f"{tag}:count")
                        pipeline.hset(f"{tag}:hash", f"field {number % 100}", number)
                        pipeline.zadd(f"{tag}:sorted", {f"member {number % 100}": number})
                        pipeline.set(f"{key}:short", number, px=20 + number % 200)
                        pipeline.delete(f"{tag}:{number * 31 % 3000}")
                    pipeline.execute()
                if number >= 1000:
                    are_under_way[writer].set()

    writers = [Thread(target=change, args=(writer,)) for writer in range(2)]
    for writer in writers:
        writer.start()
    try:
        assert all(event.wait(PATIENCE_S) for event in are_under_way)
        yield
    finally:
        is_over.set()
        for writer in writers:
            writer.join(PATIENCE_S)


def assert_equal(primary: redis.Redis, replica: redis.Redis) -> None:
    wait_for(lambda: has_caught_up(primary, replica))
    # What expires is gone at the same time here, by the clock of one machine.
    time.sleep(0.3)
    expected = state(primary)
    assert len(expected) > 100
    assert state(replica) == expected


def test_a_replica_catches_up_under_load_and_equals_its_primary(tmp_path: Path, cores: int) -> None:
    with (
        kv_server("--dir", tmp_path / "primary", *on(cores)) as first,
        kv_server("--dir", tmp_path / "replica", *replica_of(first), *on(cores)) as second,
        of(first) as primary,
        of(second) as replica,
    ):
        with load(first):
            wait_for(lambda: is_synced(replica))
            with pytest.raises(redis.exceptions.ReadOnlyError, match="read only replica"):
                replica.set("key", "value")
        assert_equal(primary, replica)
        primary.flushall()
        primary.set("only", "key")
        wait_for(lambda: has_caught_up(primary, replica))
        assert state(replica) == {"only": "key"}


def test_redis_cli_shows_both_ends() -> None:
    with kv_server() as first, kv_server(*replica_of(first)) as second:
        with of(first) as primary, of(second) as replica:
            wait_for(lambda: is_synced(replica))
            wait_for(lambda: primary.info("replication")["slave0"]["offset"] > 0)

        def cli(server: KvServer, *words: str) -> str:
            return told("redis-cli", "-p", str(server.port), *words)

        assert cli(first, "ROLE").startswith("master\n")
        assert str(second.port) in cli(first, "ROLE")
        said = cli(first, "INFO", "replication")
        assert "role:master" in said
        assert f"slave0:ip=127.0.0.1,port={second.port},state=online,offset=" in said
        role = cli(second, "ROLE").split("\n")
        assert role[:4] == ["slave", "127.0.0.1", str(first.port), "connected"]
        said = cli(second, "INFO", "replication")
        assert "role:slave" in said
        assert f"master_port:{first.port}" in said
        assert "master_link_status:up" in said
        assert "READONLY You can't write against a read only replica." in cli(
            second, "SET", "a", "b"
        )
        assert cli(second, "REPLICAOF", "NO", "ONE") == "OK\n"
        assert cli(second, "SET", "a", "b") == "OK\n"
        assert cli(second, "REPLICAOF", "127.0.0.1", str(first.port)) == "OK\n"
        wait_for(lambda: cli(second, "DBSIZE") == "0\n")


def counts(client: redis.Redis) -> tuple[int, int]:
    """Copies sent, and replicas that went on where they had stopped, of which there are more when a
    busy machine lost connections."""
    stats = client.info("stats")
    return stats["sync_full"], stats["sync_partial_ok"]


def test_a_killed_replica_goes_on_where_it_stopped(tmp_path: Path, cores: int) -> None:
    options = ("--dir", tmp_path / "replica", "--sync", "always", *on(cores))
    with kv_server(*on(cores)) as first, of(first) as primary:
        with load(first):
            for _ in range(3):
                with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
                    wait_for(partial(is_synced, replica))
                    kill(second)
        full, resumed = counts(primary)
        assert full == cores
        assert resumed >= 2 * cores
        with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
            assert_equal(primary, replica)
        full, resumed = counts(primary)
        assert full == cores
        assert resumed >= 3 * cores


@pytest.mark.parametrize("sync", ["everysec", "snapshots"])
def test_a_snapshot_of_a_replica_says_where_it_stopped(
    tmp_path: Path, sync: str, cores: int
) -> None:
    options = ("--dir", tmp_path / "replica", "--sync", sync, *on(cores))
    with kv_server(*on(cores)) as first, of(first) as primary:
        with load(first):
            for _ in range(3):
                with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
                    wait_for(partial(is_synced, replica))
                    assert replica.save()
                    time.sleep(0.1)
                    kill(second)
        with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
            assert_equal(primary, replica)
            second.process.terminate()
            assert second.process.wait(PATIENCE_S) == 0
        with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
            assert_equal(primary, replica)
        full, resumed = counts(primary)
        assert full == cores
        assert resumed >= 4 * cores


def test_what_was_written_in_between_is_not_mixed_with_the_primary(
    tmp_path: Path, cores: int
) -> None:
    options = ("--dir", tmp_path / "replica", *on(cores))
    with kv_server(*on(cores)) as first, of(first) as primary:
        primary.set("key", "value")
        with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
            wait_for(lambda: has_caught_up(primary, replica))
        # For a while it is a server of its own.
        with kv_server(*options) as second, of(second) as alone:
            change_all(alone)
            assert alone.execute_command("REPLICAOF", "127.0.0.1", str(first.port)) == "OK"
            wait_for(lambda: has_caught_up(primary, alone))
            assert state(alone) == {"key": "value"}
        assert counts(primary)[0] == 2 * cores
        with kv_server(*options) as second, of(second) as alone:
            change_all(alone)
            kill(second)
        with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
            wait_for(lambda: has_caught_up(primary, replica))
            assert state(replica) == {"key": "value"}
        assert counts(primary)[0] == 3 * cores


def test_one_that_was_away_for_longer_than_the_backlog_gets_a_copy(
    tmp_path: Path, cores: int
) -> None:
    options = ("--dir", tmp_path / "replica", *on(cores))
    with kv_server("--replica-backlog", "32KiB", *on(cores)) as first, of(first) as primary:
        with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
            wait_for(lambda: is_synced(replica))
            kill(second)
        with primary.pipeline(transaction=False) as pipeline:
            for number in range(2000):
                pipeline.set(f"key:{number}", number)
            pipeline.execute()
        with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
            assert_equal(primary, replica)
        stats = primary.info("stats")
        assert (stats["sync_full"], stats["sync_partial_ok"]) == (2 * cores, 0)
        assert stats["sync_partial_err"] == cores


def test_a_primary_that_is_a_new_one_sends_a_copy(tmp_path: Path) -> None:
    options = ("--dir", tmp_path / "replica")
    for key, refused in [("old", 0), ("new", 1)]:
        with (
            kv_server() as first,
            kv_server(*options, *replica_of(first)) as second,
            of(first) as primary,
            of(second) as replica,
        ):
            primary.set(key, "value")
            wait_for(partial(has_caught_up, primary, replica))
            assert state(replica) == {key: "value"}
            stats = primary.info("stats")
            assert (stats["sync_full"], stats["sync_partial_err"]) == (1, refused)
            kill(second)


def test_what_a_replica_has_applied_is_there_after_promotion(tmp_path: Path, cores: int) -> None:
    options = ("--dir", tmp_path / "replica", *on(cores))
    with kv_server(*on(cores)) as first, kv_server(*options, *replica_of(first)) as second:
        applied: dict[str, str] = {}
        is_under_way = Event()

        def write() -> None:
            try:
                with of(first) as client:
                    for number in range(1_000_000):
                        key, value = f"key:{number % 500}", str(number)
                        client.set(key, value)
                        if client.execute_command("WAIT", 1, 1000) == 1:
                            applied[key] = value
                        if number == 500:
                            is_under_way.set()
            except redis.ConnectionError:
                pass

        with of(second) as replica:
            wait_for(lambda: is_synced(replica))
            writer = Thread(target=write)
            writer.start()
            assert is_under_way.wait(PATIENCE_S)
            kill(first)
            writer.join(PATIENCE_S)
            assert replica.execute_command("REPLICAOF", "NO", "ONE") == "OK"
            assert replica.execute_command("ROLE")[0] == "master"
            for key, value in applied.items():
                # A later one may have come without having been acknowledged.
                found = int(replica.get(key) or -1)
                assert found >= int(value)
                assert (found - int(value)) % 500 == 0
            assert replica.set("mine", "value")
            expected = state(replica)
            kill(second)
        with kv_server(*options) as again, of(again) as promoted:
            assert promoted.execute_command("ROLE")[0] == "master"
            assert state(promoted) == expected


def test_a_primary_that_ends_in_order_leaves_nothing_behind(cores: int) -> None:
    with (
        kv_server(*on(cores)) as first,
        kv_server(*replica_of(first), *on(cores)) as second,
        of(second) as replica,
    ):
        wait_for(lambda: is_synced(replica))
        stop(second)
        with of(first) as primary, primary.pipeline(transaction=False) as pipeline:
            for number in range(20_000):
                pipeline.set(f"key:{number}", "x" * 100)
            pipeline.execute()
        first.process.terminate()
        second.process.send_signal(signal.SIGCONT)
        assert first.process.wait(PATIENCE_S) == 0
        assert replica.dbsize() == 20_000
        assert replica.execute_command("REPLICAOF", "NO", "ONE") == "OK"
        assert replica.get("key:19999") == "x" * 100


def test_a_replica_that_never_reads_holds_no_more_than_the_backlog() -> None:
    options = ("--memory", "512MiB", "--replica-backlog", "4MiB")
    with kv_server(*options) as first, of(first) as primary:
        value = "x" * 100_000
        with primary.pipeline(transaction=False) as pipeline:
            for number in range(500):
                pipeline.set(f"key:{number}", value)
            pipeline.execute()
        with socket.create_connection(("127.0.0.1", first.port)) as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.sendall(SYNC)
            wait_for(lambda: primary.info("replication")["connected_slaves"] == 1)
            before = primary.info("memory")["used_memory_rss"]
            for round_number in range(40):
                with primary.pipeline(transaction=False) as pipeline:
                    for number in range(50):
                        pipeline.set(f"key:{number}", f"{round_number}{value}")
                    pipeline.execute()
            wait_for(lambda: primary.info("replication")["connected_slaves"] == 0)
            assert primary.info("replication")["repl_backlog_histlen"] <= 5 << 20
            # 200 MB were written meanwhile.
            assert primary.info("memory")["used_memory_rss"] - before < 64 << 20
        assert primary.get("key:1") == f"39{value}"


def test_what_is_no_replica_or_no_primary_is_refused(tmp_path: Path) -> None:
    with kv_server() as first, of(first) as primary:
        for wrong in [
            "9 ? 0 7",
            "x ? 0 7",
            "2 ? 0 7",
            "2 ? 0 7 1 1 id",
            "2 ? 0 7 0 2 id",
            "2 ? 0 7 0 1",
        ]:
            with pytest.raises(redis.ResponseError):
                primary.execute_command("OVERSIDE.SYNC", *wrong.split())
        with socket.create_connection(("127.0.0.1", first.port), timeout=PATIENCE_S) as garbage:
            garbage.sendall(SYNC + b"\xff" * 100_000)
            assert garbage.recv(5) == b"+FULL"
            primary.set("key", "value")
        wait_for(lambda: primary.info("replication")["connected_slaves"] == 0)
        assert primary.get("key") == "value"
    for answer in [b"+FULL x 1 1\r\n", b"+CONTINUE\r\n", b"A" * 5000, b"+FULL " + b"a" * 40]:
        with socket.create_server(("127.0.0.1", 0)) as fake:
            options = ("--replica-of", f"127.0.0.1:{fake.getsockname()[1]}")
            with kv_server(*options, "--dir", tmp_path) as second, of(second) as replica:
                tail = b" 1 1\r\n" + b"\xff" * 1000 if answer.startswith(b"+FULL a") else b""
                connection, _ = fake.accept()
                with connection:
                    connection.sendall(answer + tail)
                    fake.settimeout(PATIENCE_S)
                    # It is refused, and tried again.
                    fake.accept()[0].close()
                said = replica.info("replication")
                assert said["role"] == "slave"
                assert said["master_link_status"] == "down"
                assert said["master_link_last_error"]


def test_with_a_password(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    with kv_server("--password-file", password) as first:
        with kv_server(*replica_of(first)) as second, of(second) as replica:
            last = "master_link_last_error"
            wait_for(lambda: "NOAUTH" in str(replica.info("replication")[last]))
        options = ("--replica-password-file", password)
        with kv_server(*replica_of(first), *options) as second, of(second) as replica:
            wait_for(lambda: is_synced(replica))


def test_by_tls(tmp_path: Path, cores: int) -> None:
    keys = {name: server_keys(tmp_path / name) for name in ("keys", "others")}
    mine = ("--tls-keys", keys["keys"], "--tls-clients", "required")
    with kv_server("--tls-listen", "127.0.0.1:0", *mine, *on(cores)) as first, of(first) as primary:
        at = ("--replica-of", f"127.0.0.1:{first.ports['tls']}")
        for wrong in [
            ("--replica-tls-keys", keys["others"]),
            ("--replica-tls-keys", keys["keys"], "--replica-tls-name", "other.example"),
        ]:
            with kv_server(*at, *wrong, *on(cores)) as second, of(second) as replica:
                last = partial(replica.info, "replication")
                wait_for(lambda last=last: "certificate" in str(last()["master_link_last_error"]))
        with (
            kv_server(*at, "--replica-tls-keys", keys["keys"], *on(cores)) as second,
            of(second) as replica,
        ):
            with load(first):
                wait_for(lambda: is_synced(replica))
            assert_equal(primary, replica)
            primary.set("key", "x" * 10_000_000)
            assert primary.execute_command("WAIT", 1, 0) == 1
            assert replica.strlen("key") == 10_000_000


def test_a_copy_that_was_not_completed_does_not_become_a_primary(
    tmp_path: Path, cores: int
) -> None:
    directory = tmp_path / "replica"
    with kv_server("--memory", "256MiB", *on(cores)) as first, of(first) as primary:
        with primary.pipeline(transaction=False) as pipeline:
            for number in range(300):
                pipeline.set(f"key:{number}", "x" * 100_000)
            pipeline.execute()
        # It cannot take it all.
        options = ("--dir", directory, "--memory", "32MiB", *on(cores))
        with kv_server(*options, *replica_of(first)) as second, of(second) as replica:
            last = "master_link_last_error"
            wait_for(lambda: "cannot be executed" in str(replica.info("replication")[last]))
            with pytest.raises(redis.exceptions.BusyLoadingError):
                replica.get("key:1")
            with pytest.raises(redis.ResponseError, match="not complete"):
                replica.execute_command("REPLICAOF", "NO", "ONE")
            kill(second)
    said = kv("serve", "--listen", "127.0.0.1:0", "--dir", directory, *on(cores), code=3)
    assert "a part of another server's state" in said
    assert "--replica-of" in said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--semantics", "cache"), "--semantics store"),
        (("--design", "lat", "--dpu", "dpu0"), "--design cpu-only"),
        (("--directory", "etcd://127.0.0.1:1"), "leave --directory away"),
    ],
)
def test_servers_that_have_no_copies_say_so(options: tuple[str, ...], reason: str) -> None:
    assert reason in kv("serve", "--replica-of", "127.0.0.1:1", *options, code=2)
    if options[0] == "--semantics":
        with kv_server(*options) as server, of(server) as client:
            for words in ["REPLICAOF 127.0.0.1 1", "OVERSIDE.SYNC 2 ? 0 7 0 1 id"]:
                with pytest.raises(redis.ResponseError, match="no copies"):
                    client.execute_command(*words.split())


def test_wait_counts_replicas_and_gives_up_in_time(cores: int) -> None:
    with kv_server(*on(cores)) as first, of(first) as primary:
        assert primary.execute_command("WAIT", 0, 0) == 0
        begin = time.monotonic()
        assert primary.execute_command("WAIT", 1, 60) == 0
        assert time.monotonic() - begin >= 0.05
        for wrong in ["x 1", "1 x", "1 -1"]:
            with pytest.raises(redis.ResponseError, match=r"integer|negative"):
                primary.execute_command("WAIT", *wrong.split())
        with kv_server(*replica_of(first), *on(cores)) as second, of(second) as replica:
            wait_for(lambda: is_synced(replica))
            for number in range(200):
                primary.set(f"key:{number}", number)
                assert primary.execute_command("WAIT", 1, 0) == 1
                assert replica.get(f"key:{number}") == str(number)
            with pytest.raises(redis.ResponseError, match="WAIT cannot be used with replica"):
                replica.execute_command("WAIT", 1, 0)
            stop(second)
            primary.set("key", "later")
            with primary.pipeline(transaction=True) as pipeline:
                # Within a transaction nobody waits.
                pipeline.execute_command("WAIT", 1, 0)
                assert pipeline.execute() == [0]
            with socket.create_connection(("127.0.0.1", first.port)) as waiting:
                waiting.settimeout(PATIENCE_S)
                waiting.sendall(b"WAIT 1 0\r\nPING\r\n")
                wait_for(lambda: primary.info("clients")["blocked_clients"] == 1)
                # What follows waits too.
                waiting.sendall(b"GET key\r\n")
                assert primary.ping()
                second.process.send_signal(signal.SIGCONT)
                expected = b":1\r\n+PONG\r\n$5\r\nlater\r\n"
                said = b""
                while len(said) < len(expected):
                    said += waiting.recv(100)
                assert said == expected
            with socket.create_connection(("127.0.0.1", first.port)) as leaving:
                leaving.sendall(b"WAIT 2 0\r\n")
                wait_for(lambda: primary.info("clients")["blocked_clients"] == 1)
            wait_for(lambda: primary.info("clients")["blocked_clients"] == 0)
            with socket.create_connection(("127.0.0.1", first.port)) as waiting:
                waiting.settimeout(PATIENCE_S)
                waiting.sendall(b"WAIT 2 0\r\n")
                wait_for(lambda: primary.info("clients")["blocked_clients"] == 1)
                primary.execute_command("REPLICAOF", "127.0.0.1", "1")
                assert waiting.recv(100).startswith(b"-UNBLOCKED ")


def test_a_replica_has_as_many_cores_as_its_primary() -> None:
    with (
        kv_server(*on(3)) as first,
        kv_server(*replica_of(first), *on(2)) as second,
        of(first) as primary,
        of(second) as replica,
    ):
        last = "master_link_last_error"
        wait_for(lambda: "--cores 3" in str(replica.info("replication")[last]))
        assert primary.info("replication")["connected_slaves"] == 0
        with pytest.raises(redis.exceptions.BusyLoadingError):
            replica.get("key")


def test_wait_counts_a_replica_that_has_all_partitions_only() -> None:
    """A connection for one partition alone is no replica that has everything."""
    with (
        kv_server(*on(2)) as first,
        of(first) as primary,
        socket.create_connection(("127.0.0.1", first.port)) as half,
    ):
        half.sendall(SYNC.replace(b" 0 1 id", b" 0 2 id"))
        wait_for(lambda: primary.info("replication")["connected_slaves"] == 1)
        assert primary.info("replication")["slave0"]["state"] == "send_bulk"
        half.sendall((1 << 62).to_bytes(8, "little"))
        assert primary.execute_command("WAIT", 1, 100) == 0


def test_clients_that_change_the_role_at_the_same_time_agree(tmp_path: Path) -> None:
    """All partitions are the same, whatever several clients ask for."""
    refused: list[str] = []
    with (
        kv_server(*on(2)) as first,
        kv_server(*on(2)) as other,
        kv_server("--dir", tmp_path, *on(2)) as second,
    ):

        def change(number: int) -> None:
            ports = [str(first.port), str(other.port)]
            with of(second) as client:
                for turn in range(30):
                    words = ("NO", "ONE") if turn % 3 == 0 else ("127.0.0.1", ports[number % 2])
                    try:
                        client.execute_command("REPLICAOF", *words)
                    except redis.ResponseError as error:
                        refused.append(str(error))

        clients = [Thread(target=change, args=(number,)) for number in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(PATIENCE_S)
        assert all("another client" in text or "not complete" in text for text in refused)
        with of(first) as primary, of(other) as unused, of(second) as replica:
            unused.set("other", "value")
            primary.mset({f"key:{number}": number for number in range(100)})
            assert replica.execute_command("REPLICAOF", "127.0.0.1", str(first.port)) == "OK"
            assert replica.info("replication")["master_port"] == first.port
            wait_for(lambda: has_caught_up(primary, replica))
            assert state(replica) == state(primary)
            assert unused.info("replication")["connected_slaves"] == 0
