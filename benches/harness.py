"""Overhead of the harness for a box of 1,000 trivial tests: milliseconds per test, without the
start of its worker processes.

    python benches/harness.py

Runs a box of 1,000 copies of 1 KiB with a microsecond of sampling each, one round, and subtracts
the time of a bare worker for the same tests and the time to start workers. All three are measured
in the same minute, three times, in alternating order.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = 1000
REPEATS = 3
TARGET_MS = 2.0


def main() -> None:
    """Prints the cost."""
    with tempfile.TemporaryDirectory() as directory:
        figures = [measure(Path(directory), number) for number in range(REPEATS)]
    for name, unit in (("harness", "ms/test"), ("start", "ms/worker"), ("bare", "ms/test")):
        values = [figure[name] for figure in figures]
        print(
            f"{name:8} {statistics.median(values):8.3f} {unit}"
            f"  ({min(values):.3f}..{max(values):.3f})"
        )
    harness = statistics.median(figure["harness"] for figure in figures)
    print(f"target: at most {TARGET_MS} ms/test: {'met' if harness <= TARGET_MS else 'MISSED'}")


def measure(directory: Path, number: int) -> dict[str, float]:
    """One repetition, its parts in one order or the other."""
    box = write_box(directory)
    if number % 2:
        bare_s = bare(directory)
        run_s, workers = run(directory, box)
    else:
        run_s, workers = run(directory, box)
        bare_s = bare(directory)
    start_s = statistics.median(start_worker() for _ in range(5))
    return {
        "harness": (run_s - bare_s - workers * start_s) / TESTS * 1e3,
        "start": start_s * 1e3,
        "bare": bare_s / TESTS * 1e3,
    }


def write_box(directory: Path) -> Path:
    """1,000 tests that do next to nothing."""
    (directory / "data").write_bytes(bytes(range(256)) * 1024)
    parameters = {
        "buffer_size": 1024,
        "depth": list(range(1, TESTS + 1)),
        "batch": 1,
        "data": str(directory / "data"),
        "sample_bytes": 1024,
    }
    measure = {"rounds": 1, "warmup_s": 0, "sample_s": 1e-6, "max_s": 3600}
    box = {
        "schema": "box/1",
        "name": "trivial",
        "tasks": [{"task": "copy", "parameters": parameters}],
        "measure": measure,
    }
    path = directory / "trivial.json"
    path.write_text(json.dumps(box))
    return path


def run(directory: Path, box: Path) -> tuple[float, int]:
    """Seconds from the first sample's start until the run's end, and the number of workers.

    Taken inside one process so that neither Python's start nor the report count.
    """
    from overside.bench import box as boxes  # noqa: PLC0415
    from overside.bench import launch, plan  # noqa: PLC0415
    from overside.bench.runner import Runner  # noqa: PLC0415

    here = boxes.machine()
    chosen = boxes.load(str(box), (), here)
    tests = plan.plan(chosen, here)
    assert len(tests) == TESTS
    begun = launch.start(chosen, tests, directory / "results", ["bench"])
    with begun.run:
        runner = Runner(begun, max_s=3600, quiet=True)
        begin = time.perf_counter()
        assert runner.run() == 0
        return time.perf_counter() - begin, len({test.block for test in tests})


def bare(directory: Path) -> float:
    """Seconds that the same tests take in a worker without a harness."""
    from overside import _core  # noqa: PLC0415
    from overside.tasks.offload import OffloadTask  # noqa: PLC0415

    worker = _core.Worker()
    copy = OffloadTask("copy")
    requests = []
    for depth in range(1, TESTS + 1):
        parameters = copy.normal({"buffer_size": 1024, "depth": depth, "batch": 1})
        request = copy.test(parameters)
        request["data"] = {
            "name": "data",
            "files": [str(directory / "data")],
            "sample_bytes": 1024,
        }
        times = {"warmup_s": 0, "sample_s": 1e-6, "timeout_s": 60, "seed": 0}
        requests.append(json.dumps(request | times))
    begin = time.perf_counter()
    for request in requests:
        worker.measure(request)
    return time.perf_counter() - begin


def start_worker() -> float:
    """Seconds from starting a worker until it could take a test, and its end."""
    begin = time.perf_counter()
    # With nothing on stdin it ends as soon as it reads; it has imported everything by then.
    code = "from overside import _core; _core.Worker()"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
