"""Predictions of `overside simulate kv --from` for designs of the store, beside measurements.

    python benches/kv_model.py [--quick] [--overside PROGRAM]

Stages are measured with everything on the host (`overside kv profile`); from them the simulation
answers for `cpu-only` and `sav`, both of which are then run. The host has core 0; core 1 has the
load and, in place of a DPU, the agent, which the simulation is told (`dpu=clients`). Keys and
values of 8 bytes, 16 connections, reads alone. Ratios are of a turn, whose three measurements
follow each other at once.

Goal: the simulation is within 15 % of what is measured. Where other programs want the cores, run it
with real-time priority (`chrt -r 5`); what switches between programs on a core is not in the model.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GOAL = 0.15
PIPELINES = (16, 64)
DESIGNS = ("cpu-only", "sav")
HOST, CLIENTS = 0, 1
RECORDS = ["--key-size", "8", "--value-size", "8", "--records", "100000", "--reads", "100"]


class Bench:
    """Programs, and where they find each other."""

    def __init__(self, overside: str, directory: Path, seconds: float) -> None:
        self.overside = overside
        self.seconds = str(seconds)
        self.profile = directory / "profile.json"
        self.environment = dict(os.environ, OVERSIDE_AGENTS=str(directory / "agents.toml"))

    def told(self, *words: str) -> Any:
        """JSON output of a command."""
        command = [self.overside, *words, "--json"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env=self.environment
        )
        return json.loads(done.stdout)

    @contextmanager
    def running(self, core: int, *words: str) -> Iterator[Any]:
        """A program on a core, and what it says when it is there."""
        command = ["taskset", "-c", str(core), self.overside, *words, "--json"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=self.environment
        ) as process:
            try:
                assert process.stdout is not None
                yield json.loads(process.stdout.readline())
            finally:
                process.terminate()

    def load(self, pipeline: int) -> list[str]:
        """Options of the load on a server."""
        some = ["--core", str(CLIENTS), "-c", "16", "-P", str(pipeline)]
        return [*some, "--seconds", self.seconds, *RECORDS]

    def live(self, design: str, pipeline: int) -> float:
        """Requests a second of a design."""
        serve = ["kv", "serve", "--listen", "127.0.0.1:0", "--memory", "256MiB"]
        if design != "cpu-only":
            serve += ["--design", design, "--dpu", "dpu0"]
        with self.running(HOST, *serve) as said:
            found = self.told("kv", "bench", f"redis://{said['listen'][0]}", *self.load(pipeline))
        rate: float = found["points"][0]["requests_per_s"]["median"]
        return rate

    def modelled(self, pipeline: int) -> dict[str, float]:
        """The same from stages, by design."""
        words = ["kv", "profile", "--server-core", str(HOST), *self.load(pipeline)]
        self.profile.write_text(json.dumps(self.told(*words)))
        sets = [f"design={','.join(DESIGNS)}", "dpu=clients", "client_cores=1", "requests=200000"]
        settings = [word for one in sets for word in ("--set", one)]
        answer = self.told("simulate", "kv", "--from", str(self.profile), *settings)
        # In millions.
        rates = [row["throughput"]["typ"] * 1e6 for row in answer["rows"]]
        return dict(zip(DESIGNS, rates, strict=True))


def main() -> int:
    """Prints ratios; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two turns of a second")
    parser.add_argument("--overside", default=shutil.which("overside") or "overside")
    args = parser.parse_args()
    turns, seconds = (2, 1.0) if args.quick else (5, 3.0)
    found: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(args.overside, Path(directory), seconds)
        agent = ["agent", "--insecure", "--listen", "127.0.0.1:0", "--quiet"]
        with bench.running(CLIENTS, *agent) as said:
            subprocess.run(
                [args.overside, "agents", "add", "dpu0", said["address"]],
                check=True,
                env=bench.environment,
                stdout=subprocess.DEVNULL,
            )
            for _ in range(turns):
                for pipeline in PIPELINES:
                    modelled = bench.modelled(pipeline)
                    for design in DESIGNS:
                        ratio = modelled[design] / bench.live(design, pipeline)
                        found.setdefault((design, pipeline), []).append(ratio)
    print(f"modelled / measured requests a second (load of the machine {os.getloadavg()[0]:.1f})")
    is_met = True
    for (design, pipeline), ratios in found.items():
        median = statistics.median(ratios)
        is_near = abs(median - 1.0) <= GOAL
        is_met &= is_near
        print(
            f"{design:9} {pipeline:4} in flight  {median:.2f}  ({min(ratios):.2f} to"
            f" {max(ratios):.2f})  within {GOAL:.0%}: {'met' if is_near else 'MISSED'}"
        )
    return 0 if is_met else 1


if __name__ == "__main__":
    raise SystemExit(main())
