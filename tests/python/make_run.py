"""Writes run directories as docs/measure/results.md describes them, with made-up, seeded figures.

The reports' tests need runs of every kind without measuring for minutes. The figures follow a
simple rule (a cost per job and a rate) with noise from round to round; they describe no machine.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command import Json
from overside.bench.statistics import RunView, TestSummary, summarise
from overside.tasks.common import test_id

KIB = 1024

METRICS = {
    "throughput": ("MB/s", "higher", "bytes of the uncompressed side in the elapsed time"),
    "compressed_throughput": ("MB/s", "higher", "the same of the compressed side"),
    "engine_throughput": ("MB/s", "higher", "uncompressed bytes in the engine's own time"),
    "rate": ("jobs/s", "higher", "jobs in the elapsed time"),
    "latency_mean": ("µs", "lower", "submission to reaping, of one job"),
    "latency_min": ("µs", "lower", "submission to reaping, of one job"),
    "latency_p50": ("µs", "lower", "submission to reaping, of one job"),
    "latency_p90": ("µs", "lower", "submission to reaping, of one job"),
    "latency_p99": ("µs", "lower", "submission to reaping, of one job"),
    "latency_p999": ("µs", "lower", "submission to reaping, of one job"),
    "latency_max": ("µs", "lower", "submission to reaping, of one job"),
    "ratio": ("-", "lower", "compressed bytes / uncompressed bytes"),
    "cpu_cost": ("s/GB", "lower", "host CPU seconds per 10^9 bytes of the uncompressed side"),
    "cpu_seconds": ("s", "lower", "host CPU seconds of the sample"),
    "stage_queueing": ("µs", "lower", "mean time of one job in a stage"),
    "stage_transfer": ("µs", "lower", "mean time of one job in a stage"),
    "stage_engine": ("µs", "lower", "mean time of one job in a stage"),
}

LATENCIES = {"min": 0.8, "p50": 1.0, "p90": 1.25, "p99": 2.1, "p999": 4.5, "max": 11.0}

# (task, parameters of the operation, variant): MB/s of one thread at a large buffer, ratio.
RATES: dict[tuple[str, str, str], tuple[float, float | None]] = {
    ("compress", "deflate", "isal"): (240.0, 0.43),
    ("compress", "deflate", "libdeflate"): (172.0, 0.40),
    ("compress", "deflate", "zlib"): (78.0, 0.39),
    ("decompress", "deflate", "isal"): (560.0, 0.39),
    ("decompress", "deflate", "libdeflate"): (555.0, 0.39),
    ("decompress", "deflate", "zlib"): (291.0, 0.39),
    ("decompress", "lz4-block", "lz4"): (2600.0, 0.52),
    ("decompress", "lz4-block", "lz4_flex"): (2150.0, 0.52),
    ("match", "count", "hyperscan"): (1900.0, None),
    ("match", "count", "re2"): (205.0, None),
    ("match", "count", "regex"): (260.0, None),
    ("hash", "xxh3", "xxhash"): (11_000.0, None),
    ("copy", "", "memcpy"): (9_400.0, None),
}

EMULATED: dict[tuple[str, str, str], tuple[float, float | None]] = {
    ("compress", "deflate", "bf2"): (1_480.0, 0.41),
    ("decompress", "deflate", "bf2"): (2_600.0, 0.39),
    ("decompress", "deflate", "bf3"): (3_900.0, 0.39),
    ("decompress", "lz4-block", "bf3"): (3_300.0, 0.52),
    ("match", "count", "bf2"): (1_150.0, None),
}

KINDS = {"compress": "format", "decompress": "format", "match": "kind", "hash": "algorithm"}


def summary_of(
    task: str, parameters: Json, figures: Mapping[str, Sequence[float]], **more: Any
) -> TestSummary:
    """A measured test with these figures, one a round; `more` is in all its samples."""
    verified, asked = more.pop("verified", True), more.pop("asked", list(figures))
    common = {
        "status": "ok",
        "provenance": "measured",
        "timing": "real",
        "applied": {key: parameters.get(key) for key in ("device", "variant")},
        "work": {"jobs": 100},
        **more,
    }
    samples = [
        {**common, "round": number, "metrics": dict(zip(figures, values, strict=True))}
        for number, values in enumerate(zip(*figures.values(), strict=True))
    ]
    test = {
        "id": test_id(task, parameters),
        "task": task,
        "parameters": parameters,
        "metrics": asked,
        "verified": verified,
    }
    return summarise(test, samples)


def view(*tests: TestSummary, **manifest: Any) -> RunView:
    """A run of these tests."""
    return RunView(Path("run"), {"schema": "run/1", "tests": [], **manifest}, {}, [*tests])


def around(middle: float, rounds: int = 6) -> list[float]:
    """Rounds within one percent."""
    return [middle * (1 + 0.01 * (2 * i / max(rounds - 1, 1) - 1)) for i in range(rounds)]


@dataclass
class Scenario:
    """Content of a run to write; the defaults make a full run."""

    seed: int = 1
    rounds: int = 6
    sizes: tuple[int, ...] = (4 * KIB, 64 * KIB, 1024 * KIB)
    threads: tuple[int, ...] = (1, 2)
    emulated: bool = True
    tasks: tuple[str, ...] = ("compress", "decompress", "match", "hash", "copy")
    only_first: bool = False
    all_fail: bool = False
    state: str = "complete"
    name: str = "quick"
    late: bool = True
    extra: bool = True  # failed, skipped and unverified tests
    hostile: str = ""  # a text that plug-ins and messages carry
    machine: Json = field(default_factory=dict)


def _test(task: str, parameters: Json, block: int, **more: Any) -> Json:
    text = json.dumps([task, parameters], sort_keys=True)
    return {
        "id": f"{task}/{hashlib.sha256(text.encode()).hexdigest()[:12]}",
        "task": task,
        "block": block,
        "parameters": parameters,
        "metrics": ["throughput", "cpu_cost", "latency_p99"],
        "status": "planned",
        "verified": True,
        "node": "local",
        **more,
    }


def _parameters(task: str, form: str, device: str, **given: Any) -> Json:
    out: Json = {
        "device": device,
        "variant": "auto",
        "buffer_size": 64 * KIB,
        "depth": 16,
        "batch": 16,
        "threads": 1,
        "cores": None,
        "setting": "static",
        "completion": "event",
        "timing": None,
        "data": "system",
        "sample_bytes": 8 * KIB * KIB,
        **given,
    }
    if task in KINDS:
        out[KINDS[task]] = form
    if task == "match":
        out["patterns"] = ["q1", "q2", "q3", "q4"]
    if task == "compress":
        out["level"] = 1
    return out


def _metrics(
    noise: random.Random, size: int, of: tuple[float, float | None], threads: int, cpu_share: float
) -> dict[str, float]:
    rate, ratio = of
    per_job_s = 6e-7
    one_s = per_job_s + size / (rate * 1e6)
    speed_up = 1.0 if threads == 1 else 1.93 / 2 * threads
    throughput = size / one_s / 1e6 * speed_up * noise.lognormvariate(0, 0.012)
    out = {"throughput": throughput, "rate": throughput * 1e6 / size}
    mean_us = 16 / out["rate"] * 1e6
    out["latency_mean"] = mean_us * 1.04
    for name, factor in LATENCIES.items():
        out[f"latency_{name}"] = mean_us * factor * noise.lognormvariate(0, 0.03)
    if ratio is not None:
        out["ratio"] = ratio * (1 + 0.08 * (16 * KIB) / (16 * KIB + size))
        out["compressed_throughput"] = throughput * out["ratio"]
    cpu = 1e3 / rate * cpu_share + per_job_s / size * 1e9
    out["cpu_cost"] = cpu * noise.lognormvariate(0, 0.008)
    out["cpu_seconds"] = out["cpu_cost"] * throughput * 0.2 / 1e3
    out["stage_engine"] = one_s * 1e6
    out["stage_queueing"] = max(mean_us - out["stage_engine"], 0.1)
    return out


def _sample(
    test: Json, number: int, order: int, metrics: dict[str, float], provenance: str
) -> Json:
    size = test["parameters"].get("buffer_size", 1)
    jobs = max(1, round(metrics.get("rate", 100.0) * 0.2))
    variant = test["parameters"].get("variant")
    emulated = provenance == "emulated"
    stages = {
        f"{name}_ns": metrics[f"stage_{name}"] * 1e3
        for name in ("queueing", "transfer", "engine")
        if f"stage_{name}" in metrics
    }
    return {
        "test": test["id"],
        "round": number,
        "order": order,
        "status": "ok",
        "started": f"2026-11-21T10:{number:02}:{order % 60:02}Z",
        "provenance": provenance,
        "timing": "replay" if emulated else "real",
        "applied": {
            "device": test["parameters"].get("device", "cpu"),
            "driver": "profile" if emulated else "threads",
            "variant": "engine" if emulated else variant,
            "library": "profile" if emulated else f"{variant} 1.2.3",
            "provenance": provenance,
        },
        "work": {"jobs": jobs, "bytes": jobs * size},
        "elapsed_ns": 200_000_000,
        "check": {"method": "round trip", "value": "9f86d081884c7d65", "buffers": 16},
        "metrics": metrics,
        "stages": {**stages, "init_ns": 81_000, "memory_ns": 420_000, "end_ns": 52_000},
        "cpu": {
            "host_s": metrics.get("cpu_seconds", 0.1),
            "dpu_s": 0.0,
            "emulator_s": 0.12 if emulated else 0.0,
        },
        "warnings": [],
    }


def _emulated(
    scenario: Scenario, noise: random.Random, test: Json, number: int, order: int
) -> Json:
    parameters = test["parameters"]
    task, card = test["task"], parameters["device"].split(":")[1]
    rate, ratio = EMULATED[task, parameters[KINDS[task]], card]
    size = parameters["buffer_size"]
    metrics = _metrics(noise, size, (rate, ratio), 1, 0.02)
    metrics["stage_transfer"] = size / 6_300
    metrics["engine_throughput"] = rate
    sample = _sample(test, number, order, metrics, "emulated")
    engine_ns = size / rate * 1e3
    sample["model"] = {
        "low_ns": engine_ns * 0.9,
        "high_ns": engine_ns * 1.2,
        "missing": ["per-job cost", "queueing in the engine"],
        "facts": ["coproc.example.rate"],
    }
    sample["late"] = sample["work"]["jobs"] // 3 if scenario.late and size == 4 * KIB else 0
    return sample


def _plan(scenario: Scenario) -> list[Json]:
    tests: list[Json] = []
    for block, task in enumerate(scenario.tasks):
        for size in scenario.sizes:
            for (of, form, variant), _ in RATES.items():
                for threads in scenario.threads if of == task else ():
                    parameters = _parameters(
                        task, form, "cpu", variant=variant, buffer_size=size, threads=threads
                    )
                    tests.append(_test(task, parameters, block))
            for (of, form, card), _ in EMULATED.items():
                if of == task and scenario.emulated:
                    parameters = _parameters(task, form, f"emulated:{card}", buffer_size=size)
                    tests.append(_test(task, parameters, block))
    if scenario.only_first:
        return tests[:1]
    if scenario.extra:
        tests += _extra(scenario)
    return tests


def _extra(scenario: Scenario) -> list[Json]:
    text = scenario.hostile
    unable = _parameters("compress", "deflate", "emulated:bf3")
    big = _parameters("copy", "", "cpu", variant="memcpy", buffer_size=2**30)
    broken = _parameters("hash", "crc32", "cpu", variant="crc32fast")
    return [
        _test(
            "compress",
            unable,
            0,
            status="skipped",
            reason=f"emulated:bf3 cannot compress DEFLATE (its engine only decompresses){text}",
        ),
        _test("copy", big, 4),
        _test("hash", broken, 3),
        _test(f"pagerank{text}", {"graph": f"web{text}", "threads": 2}, 5, verified=False),
    ]


def _samples(scenario: Scenario, noise: random.Random, test: Json, number: int, order: int) -> Json:
    parameters, task = test["parameters"], test["task"]
    if scenario.all_fail or parameters.get("variant") == "crc32fast":
        sample = _sample(test, number, order, {}, "measured")
        sample.update(
            status="failed",
            metrics={},
            error={"kind": "verification", "message": f"digest differs{scenario.hostile}"},
        )
        return sample
    if parameters.get("buffer_size") == 2**30:
        return {
            "test": test["id"],
            "round": number,
            "order": order,
            "status": "skipped",
            "reason": "the data set is shorter than one buffer of 1 GiB",
            "started": "2026-11-21T10:00:00Z",
        }
    if not test["verified"]:
        metrics = {f"score{scenario.hostile}": 9_999.0 * noise.lognormvariate(0, 0.1)}
        return _sample(test, number, order, metrics, "measured")
    if parameters["device"].startswith("emulated:"):
        return _emulated(scenario, noise, test, number, order)
    form = parameters.get(KINDS.get(task, ""), "")
    of = RATES[task, form, parameters["variant"]]
    metrics = _metrics(noise, parameters["buffer_size"], of, parameters["threads"], 1.02)
    return _sample(test, number, order, metrics, "measured")


def _environment(scenario: Scenario) -> Json:
    return {
        "node": "local",
        "cpu": {"model": "Example CPU @ 2.50GHz", "cores": 2, "threads": 2, "simd": ["avx2"]},
        "memory": {"total_bytes": 8 * 2**30, "huge_pages_bytes": 0},
        "kernel": "Linux 6.1.0 x86_64",
        "governor": None,
        "governor_reason": "no cpufreq directory: a virtual machine",
        "virtualised": "kvm",
        "load": {"before": [0.1, 0.2, 0.2], "after": [1.9, 0.8, 0.4]},
        **scenario.machine,
    }


def make(path: Path, scenario: Scenario | None = None) -> Path:
    """Writes a run into the new directory `path` and returns it."""
    scenario = scenario or Scenario()
    noise = random.Random(scenario.seed)
    tests = _plan(scenario)
    done = scenario.rounds if scenario.state == "complete" else max(1, scenario.rounds // 2)
    (path / "nodes").mkdir(parents=True)
    (path / "logs").mkdir()
    lines: list[str] = []
    for number in range(done):
        planned = [test for test in tests if test["status"] == "planned"]
        for order, test in enumerate(planned if number % 2 == 0 else planned[::-1]):
            if scenario.state != "complete" and number == done - 1 and order > len(planned) // 2:
                break
            lines.append(json.dumps(_samples(scenario, noise, test, number, order)))
    (path / "samples.jsonl").write_text("".join(line + "\n" for line in lines))
    (path / "nodes" / "local.json").write_text(json.dumps(_environment(scenario)))
    (path / "manifest.json").write_text(
        json.dumps(_manifest(path, scenario, tests, done), indent=1)
    )
    return path


def _manifest(path: Path, scenario: Scenario, tests: list[Json], done: int) -> Json:
    reasons = {"complete": "target interval reached", "incomplete": "max_s reached"}
    text = scenario.hostile
    metrics = {
        name: {"unit": unit, "better": better, "description": what}
        for name, (unit, better, what) in METRICS.items()
    }
    warnings = [
        {
            "kind": "noise",
            "message": f"the load was 1.9 while measuring{text}",
            "remedy": "stop other programs and run again",
        }
    ]
    return {
        "schema": "run/1",
        "id": path.name,
        "version": "0.1.0",
        "command": ["overside", "run", "boxes/quick.json", "--set", f"compress.level=1{text}"],
        "box": {
            "schema": "box/1",
            "name": f"{scenario.name}{text}",
            "seed": 7,
            "measure": {
                "rounds": scenario.rounds,
                "warmup_s": 0.1,
                "sample_s": 0.2,
                "max_s": 60,
                "target_interval": 0.05,
            },
        },
        "box_path": "boxes/quick.json",
        "box_digest": hashlib.sha256(b"box").hexdigest(),
        "seed": 7,
        "started": "2026-11-21T10:00:00Z",
        "ended": "2026-11-21T10:01:18Z",
        "state": scenario.state,
        "exit_code": {"complete": 0, "incomplete": 5, "interrupted": 130}.get(scenario.state, 0),
        "rounds": {
            "done": done,
            "planned": scenario.rounds,
            "reason": reasons.get(scenario.state, "interrupted"),
        },
        "data": [
            {
                "name": "system",
                "size_bytes": 16 * 2**20,
                "digest": hashlib.sha256(b"data").hexdigest(),
                "origin": "files of this machine",
                "files": [{"name": "usr/lib/python3/ast.py", "size_bytes": 61_000}],
            }
        ],
        "metrics": metrics if not text else {**metrics, f"score{text}": {"unit": f"pts{text}"}},
        "tests": tests,
        "warnings": warnings,
        "late_limit": 0.01,
    }
