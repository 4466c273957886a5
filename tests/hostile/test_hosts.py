"""Agents whose hosts are rude, idle or hostile, or that are killed while they work: others are
served meanwhile, and nothing is left behind."""

from __future__ import annotations

import gzip
import json
import random
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import agents
import pytest
from agents import Agent, hang_up, job, message, opening, send
from command import native

if TYPE_CHECKING:
    from conftest import Trials

#: Some text, in as many bytes.
WORDS = b"all work and no play makes a dull text\n"


@pytest.fixture(params=["plain", "secure"])
def agent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Agent]:
    with agents.agent(tmp_path, secure=request.param == "secure") as running:
        # What is made once is there before anything is counted.
        running.assert_serves(WORDS * 100)
        yield running


def conversation(rng: random.Random) -> bytes:
    """All messages of a well-behaved host, in one piece."""
    source = rng.randbytes(rng.choice([1, 100, 5000, 100_000]))
    jobs = b"".join(job(slot, source, len(source)) for slot in range(4))
    return agents.PREAMBLE + opening() + jobs + message("close")


def garbage(rng: random.Random) -> bytes:
    """Bytes that a host never sends."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 5000))
    if kind == 1:
        return b"GET / HTTP/1.1\r\nHost: dpu0\r\n\r\n"
    # A TLS record that says it is long, and is not.
    if kind == 2:
        return b"\x16\x03\x01\xff\xff" + rng.randbytes(rng.randrange(200))
    said = bytearray(conversation(rng))
    if kind == 3:
        # Lengths and kinds that cannot be.
        header = struct.pack("<IB3x", rng.choice([0, 1 << 27, (1 << 32) - 1]), rng.randrange(256))
        return agents.PREAMBLE + opening() + header + rng.randbytes(rng.randrange(100))
    if kind == 4:
        for _ in range(rng.randrange(1, 10)):
            said[rng.randrange(len(said))] ^= 1 << rng.randrange(8)
        return bytes(said)
    # The same things in another order.
    parts = [opening(), message("close"), message("leave"), job(0, b"a", 1), message({"probe": 1})]
    rng.shuffle(parts)
    return agents.PREAMBLE + b"".join(parts)


def be_rude(agent: Agent, rng: random.Random) -> socket.socket | None:
    """One connection that does not do what it should; open still, or over."""
    connection = agent.connect(rng.choice(["127.0.0.1", "127.0.0.2", "127.0.0.3"]))
    act = rng.randrange(5)
    if act == 0:
        return connection
    said = garbage(rng) if act == 1 else conversation(rng)
    if act == 2:
        said = said[: rng.randrange(len(said))]
    if act == 3:
        # Byte by byte, with pauses.
        for byte in said[: rng.randrange(1, 40)]:
            send(connection, bytes([byte]))
            time.sleep(0.0005)
        return connection
    send(connection, said)
    if act == 4 or rng.random() < 0.5:
        hang_up(connection)
        return None
    return connection


def test_rude_connections_keep_nobody_out(agent: Agent, trials: Trials) -> None:
    open_ones: list[socket.socket] = []
    for trial in trials(quick=8):
        with trial() as rng:
            for _ in range(rng.randrange(10, 60)):
                connection = be_rude(agent, rng)
                if connection is not None:
                    open_ones.append(connection)
            agent.assert_serves(WORDS * rng.randrange(1, 50_000))
            while len(open_ones) > 200 or (open_ones and rng.random() < 0.5):
                hang_up(open_ones.pop(rng.randrange(len(open_ones))))
            assert agent.process.poll() is None
    for connection in open_ones:
        connection.close()
    agent.assert_settles()


def test_a_crowd_that_says_nothing_keeps_nobody_out(agent: Agent, trials: Trials) -> None:
    for trial in trials(quick=2):
        with trial() as rng, ExitStack() as crowd:
            for _ in range(rng.randrange(34, 300)):
                crowd.enter_context(agent.connect(rng.choice(["127.0.0.1", "127.0.0.2"])))
            for _ in range(3):
                listed = agent.host("agents", "list", "--json")
                (one,) = json.loads(listed.stdout)["agents"]
                assert one["unavailable"] is None
            agent.assert_serves(WORDS * 1000)
    agent.assert_settles()


#: Contexts that take much: by a library's tables, by long jobs, by patterns.
LARGE = [
    {"operation": "compress-zstd", "variant": "zstd", "level": 22},
    {"operation": "compress-zstd", "variant": "zstd", "level": 19},
    {"operation": "compress-zlib", "variant": "libdeflate", "level": 12},
    {"operation": "copy"},
    {"operation": "match-count", "patterns": ["[a-z]{3,9}x.*y"] * 50},
]


def take_much(agent: Agent, rng: random.Random) -> socket.socket | None:
    """A connection of somebody with the keys that takes as much as it is given."""
    try:
        connection = agent.login("127.0.0.2")
    except OSError:
        return None
    size = 1 << rng.randrange(16, 27)
    send(
        connection,
        opening(
            **rng.choice(LARGE),
            depth=rng.choice([1, 64, 4096]),
            max_source_bytes=size,
            max_destination_bytes=size,
        ),
    )
    connection.settimeout(10)
    try:
        opened = agents.reply(connection)
    except OSError:
        hang_up(connection)
        return None
    if "opened" not in opened:
        # A refusal says what there is not.
        assert "memory" in json.dumps(opened), opened
        return connection
    connection.settimeout(0.2)
    source = (WORDS * (size // len(WORDS) + 1))[:size]
    jobs = b"".join(job(slot, source, size) for slot in range(rng.randrange(1, 4)))
    # Not all of it may be taken before the time is over, and the answers are not fetched.
    send(connection, jobs[: rng.randrange(len(jobs)) + 1])
    return connection


def test_who_takes_much_gets_no_more_than_there_is(tmp_path: Path, trials: Trials) -> None:
    limit = 512 << 20
    with agents.agent(tmp_path, "--memory", str(limit), secure=True) as agent:
        agent.assert_serves(WORDS * 100)
        held: list[socket.socket] = []
        for trial in trials(quick=3):
            with trial() as rng:
                for _ in range(rng.randrange(1, 12)):
                    connection = take_much(agent, rng)
                    if connection is not None:
                        held.append(connection)
                    resident = agent.resources.resident_bytes
                    assert resident < limit * 1.25, f"{resident >> 20} MiB"
                agent.assert_serves(WORDS * 20_000)
                while len(held) > 60 or (held and rng.random() < 0.7):
                    hang_up(held.pop(rng.randrange(len(held))))
        for connection in held:
            hang_up(connection)
        agent.assert_settles()


def test_many_share_little_memory_and_all_is_done(tmp_path: Path, trials: Trials) -> None:
    with agents.agent(tmp_path, "--memory", "128MiB") as agent:
        for trial in trials(quick=2):
            with trial() as rng, ThreadPoolExecutor(6) as pool:
                text = (rng.randbytes(1000) + WORDS * 100) * 2000
                done = [pool.submit(agent.assert_serves, text) for _ in range(6)]
                for one in done:
                    one.result()
        agent.assert_settles()


def test_a_killed_agent_costs_no_byte(tmp_path: Path, trials: Trials) -> None:
    for trial in trials(quick=4):
        with trial() as rng, agents.agent(tmp_path, secure=rng.random() < 0.5) as agent:
            size = rng.randrange(1, 24) << 20
            text = (rng.randbytes(1 << 16) + WORDS * 2000) * (size >> 17)
            where = rng.choice(["device", "split:50", "adaptive"])
            words = ["compress", "-c", "--chunk", "256k", "--device", "dpu0/cpu"]
            with subprocess.Popen(
                [*native(), *words, "--placement", where],
                env=agent.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as host:
                timer = threading.Timer(rng.uniform(0, 0.4), agent.process.kill)
                timer.start()
                out, err = host.communicate(text, timeout=60)
                timer.join()
            if host.returncode == 0:
                assert gzip.decompress(out) == text, where
            else:
                # The agent had gone before the host came.
                assert b"dpu0" in err, err


def test_a_host_that_is_killed_leaves_nothing_behind(agent: Agent, trials: Trials) -> None:
    for trial in trials(quick=4):
        with (
            trial() as rng,
            subprocess.Popen(
                [*native(), "compress", "-c", "--device", "dpu0/cpu", "--placement", "device"],
                env=agent.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as host,
        ):
            timer = threading.Timer(rng.uniform(0, 0.2), host.kill)
            timer.start()
            assert host.stdin is not None
            with suppress(BrokenPipeError):
                while True:
                    host.stdin.write(rng.randbytes(1 << 16))
            timer.join()
            with suppress(BrokenPipeError):
                host.stdin.close()
            host.stdin = None
            host.wait(60)
            agent.assert_serves(WORDS * 100)
    agent.assert_settles()
