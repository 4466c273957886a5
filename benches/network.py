"""The task `network` beside iperf3 and sockperf on loopback: streams and round trips, in turn.

    python benches/network.py [--quick]

Both ends of each program are on this machine: iperf3's and sockperf's in two processes, Overside's
in two threads of one. The programs take turns, forwards and backwards; ratios are medians of
ratios within a turn. Programs that are not installed are left out. iperf3's figure is the
receiver's; its messages have 128 KiB, as ours. sockperf prints half of a round trip, which is
doubled here.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from overside import _core
from overside.tasks.network import TASK

STREAM_TARGET = 0.95


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three turns of half a second")
    quick = parser.parse_args().quick
    turns, seconds = (3, 0.5) if quick else (10, 2.0)
    worker = _core.Worker()

    def overside(metric: str, **parameters: object) -> Callable[[], float]:
        return lambda: ours(worker, seconds, metric, parameters)

    print(f"{turns} turns of {seconds:g} s, both ends on this machine")
    compare(
        "stream of 128 KiB messages, 1 connection",
        "MB/s",
        {
            "overside": overside("throughput", pattern="stream"),
            "iperf3": lambda: iperf3(seconds, 1),
        },
        turns,
        STREAM_TARGET,
    )
    compare(
        "stream of 128 KiB messages, 4 connections",
        "MB/s",
        {
            "overside": overside("throughput", pattern="stream", connections=4),
            "iperf3": lambda: iperf3(seconds, 4),
        },
        turns,
        STREAM_TARGET,
    )
    compare(
        "round trip of 64 bytes, one at a time, median",
        "µs",
        {
            "overside": overside("latency_p50", message_size=64),
            "sockperf": lambda: sockperf(seconds, 64),
        },
        turns,
        None,
    )


def compare(
    what: str,
    unit: str,
    all_programs: dict[str, Callable[[], float]],
    turns: int,
    target: float | None,
) -> None:
    """Lets them take turns and prints medians and the ratio of the first to the second."""
    print(f"\n{what}")
    programs = {n: run for n, run in all_programs.items() if n == "overside" or shutil.which(n)}
    figures: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(turns):
        order = list(programs) if turn % 2 == 0 else list(reversed(programs))
        for name in order:
            figures[name].append(programs[name]())
    for name, values in figures.items():
        middle = statistics.median(values)
        print(f"  {name:9} {middle:10.1f} {unit}  ({min(values):.1f}..{max(values):.1f})")
    for name in all_programs:
        if name not in programs:
            print(f"  {name:9} is not installed")
        elif name != "overside":
            pairs = zip(figures["overside"], figures[name], strict=True)
            ratio = statistics.median(a / b for a, b in pairs)
            met = "" if target is None else f"; target at least {target}: "
            if target is not None:
                met += "met" if ratio >= target else "MISSED"
            print(f"  overside / {name}: {ratio:.3f}{met}")


def ours(worker: _core.Worker, seconds: float, metric: str, parameters: dict[str, object]) -> float:
    """One sample of the task."""
    request = TASK.test(TASK.normal(parameters))
    times = {"warmup_s": 0.1, "sample_s": seconds, "timeout_s": 60, "seed": 1}
    sample = json.loads(worker.measure(json.dumps(request | times)))
    if sample["status"] != "ok":
        raise SystemExit(f"overside: {sample}")
    return float(sample["metrics"][metric])


def iperf3(seconds: float, connections: int) -> float:
    """MB/s that iperf3 counts at its receiver."""
    port = free_port()
    with running(["iperf3", "--server", "--one-off", "--port", str(port)], port):
        said = subprocess.run(
            [
                *("iperf3", "--client", "127.0.0.1", "--port", str(port), "--json"),
                *("--time", f"{max(1, round(seconds))}", "--parallel", str(connections)),
            ],
            capture_output=True,
            check=True,
            timeout=60,
        )
    return float(json.loads(said.stdout)["end"]["sum_received"]["bits_per_second"]) / 8e6


def sockperf(seconds: float, message_bytes: int) -> float:
    """Microseconds of the median round trip."""
    port = free_port()
    where = ["--tcp", "-i", "127.0.0.1", "-p", str(port)]
    with running(["sockperf", "server", *where], port):
        said = subprocess.run(
            [
                *("sockperf", "ping-pong", *where),
                *("-m", str(message_bytes), "-t", f"{max(1, round(seconds))}"),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    found = re.search(r"percentile 50\.000\s*=\s*([0-9.]+)", said.stdout)
    if not found:
        raise SystemExit(f"sockperf: {said.stdout[-500:]}")
    return 2 * float(found[1])


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """A server, from when it listens until it is not needed."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        listening(port)
        yield
    finally:
        server.kill()
        server.wait()


def listening(port: int) -> None:
    """Waits for a server without connecting: iperf3 would take that for its client."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table, encoding="ascii") as lines:
                if any(f":{port:04X} " in line and " 0A " in line for line in lines):
                    return
        time.sleep(0.01)
    raise SystemExit(f"no server at port {port}")


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])


if __name__ == "__main__":
    main()
