"""A key-value server that is killed, and one whose disk is full, loses nothing acknowledged."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import TYPE_CHECKING

import pytest
import redis
from command import PATIENCE_S
from kv_disk import Recorder
from kv_server import KvServer, kv_server

if TYPE_CHECKING:
    from conftest import Trials

#: A name space of its own, where a file system can be mounted.
ALONE = ("unshare", "--user", "--map-root-user", "--mount")


class Writer(Thread):
    """A client that writes, and what it was told is stored."""

    def __init__(self, server: KvServer, name: str, random: Random) -> None:
        super().__init__()
        self.server = server
        self.name = name
        self.random = random
        self.count = 0
        self.acknowledged: dict[str, str] = {}
        self.asked: dict[str, str] = {}

    def run(self) -> None:
        with (
            suppress(redis.ConnectionError),
            redis.Redis(port=self.server.port, retry=None) as client,
        ):
            while True:
                names = [f"{self.name}:{self.random.randrange(50)}" for _ in range(4)]
                self.count += 1
                some = {name: f"{self.count}:" + "v" * self.random.randrange(300) for name in names}
                self.asked = some
                client.mset(some)
                self.acknowledged |= some
                self.asked = {}

    def check(self, client: redis.Redis) -> None:
        """Checks that acknowledged writes are there, unless an unanswered request replaced them."""
        for key, value in self.acknowledged.items():
            found = client.get(key)
            assert found in (value.encode(), self.asked.get(key, value).encode()), key


def test_killed_at_any_time_it_has_what_was_acknowledged(trials: Trials, tmp_path: Path) -> None:
    for trial in trials(quick=8):
        with trial() as random:
            state = tmp_path / str(trials.tried)
            words = ["--dir", str(state), "--sync", "always"]
            with kv_server(*words) as server:
                writers = [Writer(server, f"w{n}", Random(random.random())) for n in range(3)]
                for writer in writers:
                    writer.start()
                with redis.Redis(port=server.port) as client:
                    end = time.monotonic() + PATIENCE_S
                    while not all(writer.acknowledged for writer in writers):
                        assert time.monotonic() < end
                        time.sleep(0.001)
                    time.sleep(random.random() / 4)
                    if random.random() < 0.5:
                        client.bgsave()
                        time.sleep(random.random() / 100)
                server.process.kill()
                for writer in writers:
                    writer.join(PATIENCE_S)
            with kv_server(*words) as server, redis.Redis(port=server.port) as client:
                for writer in writers:
                    writer.check(client)


@pytest.mark.parametrize(
    ("sync", "cores"), [("always", 1), ("always", 2), ("everysec", 1), ("no", 1)]
)
def test_when_the_power_fails_it_has_what_was_promised(
    trials: Trials, tmp_path: Path, sync: str, cores: int
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    recorder = Recorder(tmp_path, disk)
    words = ["--sync", sync, "--cores", str(cores), "--dir"]
    history: list[tuple[str, str]] = []
    acknowledged: list[int] = []
    random = Random(1)
    for is_killed in (True, False):
        with (
            kv_server(*words, disk / "state", before=recorder.command()) as server,
            redis.Redis(port=server.port, decode_responses=True) as client,
        ):
            for turn in range(40):
                key = f"k{random.randrange(7)}"
                value = f"{turn}:" + "v" * random.randrange(3000)
                history.append((key, value))
                client.set(key, value)
                acknowledged.append(recorder.size())
                if turn in (12, 25):
                    client.save() if turn == 12 else client.bgsave()
                if turn == 20 and sync == "everysec":
                    # Longer than from one sync to the next.
                    time.sleep(1.2)
            if is_killed:
                server.process.kill()
    calls = recorder.calls()
    for trial in trials(quick=40):
        with trial() as random:
            crash = random.randrange(len(calls))
            before, state = calls[:crash], tmp_path / f"after-{trials.tried}"
            state.mkdir()
            recorder.fail_power(before, random, state)
            synced = 0
            begun: dict[str, int] = {}
            for call in before:
                if call.name == "begin":
                    begun[call.path] = call.end
                elif call.name == "end" and "/log-" in call.path:
                    synced = begun[call.path]
            until = synced if sync != "always" else before[-1].end if before else 0
            promised = sum(size <= until for size in acknowledged)
            with (
                kv_server(*words, state / "state") as server,
                redis.Redis(port=server.port, decode_responses=True) as client,
            ):
                found = {key: client.get(key) for key in client.scan_iter()}
            possible = (dict(history[:count]) for count in range(promised, len(history) + 1))
            assert found in possible, f"{promised} writes were promised"


def test_a_full_disk_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    if subprocess.run([*ALONE, "true"], check=False).returncode:
        pytest.skip("this user cannot mount a file system")
    small = tmp_path / "small"
    small.mkdir()
    mount = ("sh", "-c", 'mount -t tmpfs -o size=1M none "$0" && exec "$@"', str(small))
    words = ["--dir", str(small / "state"), "--sync", "always"]
    with kv_server(*words, before=(*ALONE, *mount)) as server:
        # The file system as the server has it.
        inside = Path(f"/proc/{server.process.pid}/root") / small.relative_to("/")
        ballast = inside / "ballast"
        ballast.write_bytes(os.urandom(600_000))
        client = redis.Redis(port=server.port, retry=None)
        acknowledged: dict[str, bytes] = {}
        refusal = ""
        end = time.monotonic() + PATIENCE_S
        while not refusal:
            assert time.monotonic() < end
            key, value = f"key:{len(acknowledged)}", os.urandom(5000)
            try:
                client.set(key, value)
                acknowledged[key] = value
            except redis.ConnectionError:
                # The write that found the disk full has no answer.
                continue
            except redis.ResponseError as error:
                refusal = str(error)
        assert "disk" in refusal
        for key, value in acknowledged.items():
            assert client.get(key) == value
        assert client.info("persistence")["aof_last_write_status"] == "err"
        ballast.unlink()
        while True:
            try:
                client.set("after", "room")
                break
            except redis.ResponseError:
                assert time.monotonic() < end
                time.sleep(0.05)
        acknowledged["after"] = b"room"
        client.close()
        # As a copy of the directory has it, while the server runs.
        copy = tmp_path / "copy"
        subprocess.run(["cp", "-r", inside / "state", copy], check=True)
    with (
        kv_server("--dir", str(copy), "--sync", "always") as server,
        redis.Redis(port=server.port) as client,
    ):
        for key, value in acknowledged.items():
            assert client.get(key) == value
