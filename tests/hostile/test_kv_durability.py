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
        """What was acknowledged is there, unless the request without an answer came after it."""
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
