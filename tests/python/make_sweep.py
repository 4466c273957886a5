"""Writes runs of placements as results.md describes them, with made-up, seeded figures.

Two rates, and what setting up a stream anew costs: the shares follow by equal finish. The figures
describe no machine.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import make_run
from command import Json
from make_run import KIB, METRICS, Scenario
from overside.tasks import find
from overside.tasks.common import test_id

#: Bytes of one stream.
STREAM = 16 * KIB * KIB
PLACEMENTS = ("cpu", *(f"split:{percent}" for percent in range(10, 100, 10)), "device", "adaptive")


@dataclass
class Sweep:
    """One device beside the CPU."""

    device: str = "emulated:bf2"
    task: str = "decompress"
    form: str = "deflate"
    #: MB/s of each side.
    cpu_rate: float = 600.0
    device_rate: float = 3000.0
    #: Time to set the device up for a stream.
    setup_s: float = 0.105
    settings: tuple[str, ...] = ("static", "reconfiguration")
    placements: tuple[str, ...] = PLACEMENTS
    initiator: str = "host"
    #: The device cannot do it.
    reason: str = ""
    #: The share of late completions.
    late: float = 0.0
    events: tuple[str, ...] = ()
    #: MB/s of placements on several devices, which the two rates above do not tell.
    given: tuple[tuple[str, float], ...] = ()


def make(path: Path, *sweeps: Sweep, rounds: int = 6, scenario: Scenario | None = None) -> Path:
    """Writes a run of these sweeps, beside the tests of `scenario`, into the new `path`."""
    other = scenario or Scenario(tasks=(), extra=False)
    other.rounds = rounds
    make_run.make(path, other)
    manifest = json.loads((path / "manifest.json").read_text())
    noise = random.Random(7)
    tests: list[Json] = []
    lines: list[str] = []
    for block, sweep in enumerate(sweeps, start=len(manifest["tests"])):
        for setting in sweep.settings:
            for placement in sweep.placements:
                test = _test(sweep, setting, placement, block)
                if any(known["id"] == test["id"] for known in tests):
                    continue
                tests.append(test)
                if test["status"] == "planned":
                    lines += [
                        json.dumps(_sample(sweep, test, noise, number)) for number in range(rounds)
                    ]
    manifest["tests"] += tests
    manifest["metrics"] = {
        name: {"unit": unit, "better": better, "description": what}
        for name, (unit, better, what) in METRICS.items()
    } | _own_metrics()
    (path / "manifest.json").write_text(json.dumps(manifest))
    with (path / "samples.jsonl").open("a") as samples:
        samples.writelines(line + "\n" for line in lines)
    return path


def _own_metrics() -> Json:
    task = find("compress")
    assert task is not None
    return {name: metric.json() for name, metric in task.metrics.items() if name not in METRICS}


def _test(sweep: Sweep, setting: str, placement: str, block: int) -> Json:
    task = find(sweep.task)
    assert task is not None
    parameters = task.normal(
        {
            "device": sweep.device,
            make_run.KINDS[sweep.task]: sweep.form,
            "buffer_size": 256 * KIB,
            "sample_bytes": STREAM,
            "data": "system",
            "placement": placement,
            "setting": setting,
        }
    )
    skipped = bool(sweep.reason) and parameters["device"] != "cpu"
    return {
        "id": test_id(sweep.task, parameters),
        "task": sweep.task,
        "block": block,
        "parameters": parameters,
        "metrics": ["throughput"],
        "status": "skipped" if skipped else "planned",
        "verified": True,
        "node": "local",
        **({"reason": sweep.reason} if skipped else {}),
    }


def _share(sweep: Sweep, placement: str, setup_s: float) -> float:
    fixed = {"cpu": 0.0, "device": 1.0}
    if placement == "adaptive":
        fair = sweep.device_rate / (sweep.device_rate + sweep.cpu_rate)
        return min((0.0, fair, 1.0), key=lambda share: _times(sweep, share, setup_s)[2])
    return fixed[placement] if placement in fixed else _percent(placement) / 100


def _percent(placement: str) -> float:
    return sum(float(share) for share in placement.split(":")[1].split("+"))


def _times(sweep: Sweep, share: float, setup_s: float) -> tuple[float, float, float]:
    """Seconds of the CPU, of the device, and of a stream."""
    mb = STREAM / 1e6
    cpu_s, device_s = (1 - share) * mb / sweep.cpu_rate, share * mb / sweep.device_rate
    return cpu_s, device_s, max(cpu_s, (setup_s if share > 0 else 0.0) + device_s)


def _sample(sweep: Sweep, test: Json, noise: random.Random, number: int) -> Json:
    parameters = test["parameters"]
    anew = parameters["setting"] == "reconfiguration"
    setup_s = sweep.setup_s if anew else 0.0
    share = _share(sweep, parameters["placement"], setup_s)
    cpu_s, _, stream_s = _times(sweep, share, setup_s)
    mb = STREAM / 1e6
    stream_s = next(
        (mb / rate for p, rate in sweep.given if p == parameters["placement"]), stream_s
    )
    stream_s *= noise.lognormvariate(0, 0.006)
    streams = max(1, round(0.2 / stream_s))
    elapsed_s = stream_s * streams
    size = parameters["buffer_size"]
    jobs = {"cpu": 0, "device": 0}
    total = streams * STREAM // size
    jobs["device"] = round(share * total)
    jobs["cpu"] = total - jobs["device"]
    bytes_ = {target: count * size for target, count in jobs.items()}
    whole = total * size
    host_s = (cpu_s * 1.02 + share * mb * 2e-5 + 1e-4) * streams
    emulated = sweep.device.startswith("emulated:") and jobs["device"] > 0
    metrics = {
        "throughput": whole / 1e6 / elapsed_s,
        "rate": total / elapsed_s,
        "ratio": 0.4,
        "device_share": bytes_["device"] / whole * 100,
        "cpu_seconds": host_s,
        "cpu_cost": host_s / (whole / 1e9),
        "cpu_utilisation": host_s / elapsed_s * 100,
        "engine_throughput": sweep.device_rate if share else sweep.cpu_rate,
    }
    if jobs["cpu"]:
        metrics["cpu_target_throughput"] = sweep.cpu_rate
    if jobs["device"]:
        metrics["device_target_throughput"] = sweep.device_rate
    setups = streams if anew else 1
    stages = {"buffers_total_ns": 2e6 * setups}
    if jobs["device"]:
        stages["device_engine_total_ns"] = bytes_["device"] / sweep.device_rate * 1e3
        stages["device_transfer_total_ns"] = bytes_["device"] / 13.0
        stages["device_init_total_ns"] = 3e6 * setups
        if anew:
            stages["device_end_total_ns"] = sweep.setup_s * 1e9 * setups
    sample: Json = {
        "test": test["id"],
        "round": number,
        "order": 0,
        "status": "ok",
        "started": f"2026-11-21T10:{number:02}:00Z",
        "provenance": "emulated" if emulated else "measured",
        "timing": "replay" if emulated else "real",
        "applied": _applied(sweep.device if jobs["device"] else "cpu"),
        "work": {"jobs": total, "bytes": whole, "doorbells": 0},
        "elapsed_ns": int(elapsed_s * 1e9),
        "check": {"method": "compared with the original", "value": "xxh3:1", "buffers": 64},
        "metrics": metrics,
        "stages": stages,
        "cpu": {"host_s": host_s, "dpu_s": 0.0, "emulator_s": 0.05 if emulated else 0.0},
        "placement": _placed(
            sweep,
            parameters["placement"],
            {"streams": streams, "setups": setups},
            {target: (jobs[target], bytes_[target]) for target in jobs},
        ),
        "warnings": [],
    }
    if emulated:
        sample["late"] = round(sweep.late * jobs["device"])
        if "devices" in sample["placement"]:
            overdue_ns = round(sweep.late * sample["elapsed_ns"])
            sample["placement"]["devices"][0]["overdue_ns"] = overdue_ns
        sample["model"] = {
            "low_ns": 1,
            "typ_ns": 2,
            "high_ns": 3,
            "missing": ["the engine's cost of one job", "latency from the doorbell to the engine"],
            "facts": ["coproc.example.rate"],
        }
    return sample


def _applied(device: str) -> Json:
    emulated = device.startswith("emulated:")
    return {
        "device": device,
        "driver": "emulated 0.1.0" if emulated else "threads 0.1.0",
        "variant": "libdeflate",
        "library": "libdeflate 1.26",
        "provenance": "emulated" if emulated else "measured",
    }


def _placed(
    sweep: Sweep, policy: str, counts: dict[str, int], work: dict[str, tuple[int, int]]
) -> Json:
    targets = {
        target: {
            "applied": _applied("cpu" if target == "cpu" else sweep.device),
            "jobs": count,
            "bytes": bytes_,
            "failed": len(sweep.events) if target == "device" else 0,
            "late": 0,
            "overdue_ns": 0,
            "setups": counts["setups"],
        }
        for target, (count, bytes_) in work.items()
        if count
    }
    adaptive = policy == "adaptive"
    more: Json = {"decision": "split, 83.3 % device; C1 0.167 < 0.95"} if adaptive else {}
    if policy != "cpu":
        more["events"] = list(sweep.events)
    return {
        "policy": policy,
        "initiator": sweep.initiator,
        "streams": counts["streams"],
        **({"cpu": targets["cpu"]} if "cpu" in targets else {}),
        **({"devices": [targets["device"]]} if "device" in targets else {}),
        "bounce_copies": 0,
        "bounce_bytes": 0,
        "decisions": 12 if adaptive else 0,
        **more,
    }
