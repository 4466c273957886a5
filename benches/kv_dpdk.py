"""Datagrams of `overside kv` over shared memory by DPDK (memif), beside UDP over loopback.

    python benches/kv_dpdk.py [--quick] [--overside PROGRAM]

One server answers both; server and load generator have a core each. The two take turns, forwards
and backwards; ratios are medians of ratios within a turn. The server's CPU time a request is that
of its thread: other programs on the machine count less there than in rates and latencies. Where it
polls, polling in vain is part of it.

There is no goal: what a frame costs in memif (two copies, and checksums here) stands against system
calls, of which UDP makes few for many datagrams that come together.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overside import _core

SERVER = "10.77.0.2"
CLIENT = "10.77.0.1"
#: Connections and requests in flight on each.
CASES = {"one request at a time": (1, 1), "8 clients, 960 requests in flight each": (8, 960)}


@dataclass(frozen=True)
class Measured:
    """Result of a turn."""

    rate: float
    p50_us: float
    cpu_ns: float


def main() -> int:
    """Prints figures and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two turns of a second")
    parser.add_argument("--overside", default=shutil.which("overside") or "overside")
    args = parser.parse_args()
    turns, seconds = (2, 1.0) if args.quick else (6, 3.0)
    with tempfile.TemporaryDirectory() as directory:
        try:
            bench = Bench(args.overside, Path(directory), seconds)
        except LookupError as reason:
            print(f"no server over DPDK: {reason}; nothing to compare with")
            return 0
        try:
            for title, (connections, pipeline) in CASES.items():
                load = ["-c", str(connections), "-P", str(pipeline)]
                compare(bench, title, load, turns)
        finally:
            bench.end()
    return 0


def compare(bench: Bench, title: str, load: list[str], turns: int) -> None:
    """Prints one case."""
    found: dict[str, list[Measured]] = {"memif": [], "udp": []}
    bench.measure("udp", load, loads=True)
    for turn in range(turns):
        order = list(found) if turn % 2 == 0 else list(reversed(found))
        for way in order:
            found[way].append(bench.measure(way, load))
    print(f"{title} (load of the machine {os.getloadavg()[0]:.1f})")
    figures = {
        "requests/s": "rate",
        "median latency, us": "p50_us",
        "server CPU a request, ns": "cpu_ns",
    }
    for name, field in figures.items():
        memif, udp = ([getattr(one, field) for one in found[way]] for way in found)
        ratios = [one / other for one, other in zip(memif, udp, strict=True)]
        print(
            f"  {name:26} memif {statistics.median(memif):11,.1f}"
            f"   UDP {statistics.median(udp):11,.1f}"
            f"   ratio {statistics.median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})",
            flush=True,
        )


class Bench:
    """A server, and load for it."""

    def __init__(self, overside: str, directory: Path, seconds: float) -> None:
        """`LookupError`: the server does not start, with what it says."""
        self._overside = overside
        self._memif = f"net_memif0,role=%s,socket={directory / 'memif'}"
        log = directory / "log"
        self._seconds = seconds
        self._server = subprocess.Popen(
            [
                *(overside, "kv", "serve", "--json", "--memory", "256MiB", "--core", "0"),
                *("--listen", "127.0.0.1:0", "--datagram", "127.0.0.1:0", "--dpdk-trusted"),
                *("--dpdk-port", self._memif % "server", "--dpdk-address", SERVER),
            ],
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
        )
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        # DPDK explains its arguments where it does not take them.
        if not line.startswith("{"):
            self._server.stdout.read()
            self._server.wait(30)
            raise LookupError(log.read_text().strip())
        said = json.loads(line)
        host, _, port = said["listen"][0].rpartition(":")
        self._tcp = (host, int(port))
        self._udp = said["datagram"][0]

    def measure(self, way: str, load: list[str], *, loads: bool = False) -> Measured:
        """By one of the two ways."""
        where = ["datagram://" + (self._udp if way == "udp" else SERVER)]
        if way == "memif":
            where = [f"datagram://{SERVER}:6379", "--dpdk-port", self._memif % "client"]
            where += ["--dpdk-address", CLIENT]
        before = self._info()
        done = subprocess.run(
            [
                *(self._overside, "kv", "bench", *where, "--json", "--core", "1", "--busy-poll"),
                *("--reads", "95", "--key-size", "8", "--value-size", "8", *load),
                *("--seconds", str(self._seconds), "--warm-up", "0.2"),
                *([] if loads else ["--no-load"]),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        after = self._info()
        point: Any = json.loads(done.stdout)["points"][0]
        spent = {name: float(after[name]) - float(before[name]) for name in before}
        requests = spent["total_commands_processed"]
        return Measured(
            rate=point["requests_per_s"]["median"],
            p50_us=point["latency_ns"]["p50"]["median"] / 1e3,
            cpu_ns=spent["used_cpu_main_thread"] * 1e9 / requests,
        )

    def _info(self) -> dict[str, str]:
        """The counters that are needed."""
        host, port = self._tcp
        lines = _core.kv_info(f"{host}:{port}", None, 10).splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        names = ("total_commands_processed", "used_cpu_main_thread")
        return {name: fields[name] for name in names}

    def end(self) -> None:
        """Ends the server."""
        self._server.terminate()
        self._server.wait(30)


if __name__ == "__main__":
    sys.exit(main())
