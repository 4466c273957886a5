"""`overside calibrate`: a device measured, its profile written, checked and used."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command import PATIENCE_S, agents, environment, only_run, overside, samples, start
from overside import _core
from overside.bench.statistics import load_run
from overside.calibration import fit

# What measures for its own sake is not measured beside itself.
pytestmark = [pytest.mark.xdist_group("timed"), pytest.mark.begun_first]


def with_profiles_of(directory: Path, *words: str) -> str:
    """Output of the command with the profiles in a directory."""
    done = subprocess.run(
        [sys.executable, "-m", "overside", *words],
        cwd=directory,
        env=environment() | {"OVERSIDE_PROFILES": str(directory)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout


def test_a_quick_calibration_writes_a_profile_that_is_right_and_used(tmp_path: Path) -> None:
    done = overside("calibrate", "--quick", "--out", "mine.toml", "--json", cwd=tmp_path, code=0)
    answer = json.loads(done.stdout)
    assert answer["profile"] == "mine"
    assert answer["may_be_shared"]
    overside("profile", "check", "mine.toml", cwd=tmp_path, code=0)
    profile = tomllib.loads((tmp_path / "mine.toml").read_text())
    assert profile["provenance"] == "measured"
    assert answer["run"].rpartition("/")[2] in profile["sources"]["run"]
    assert any("network was not measured" in note for note in profile["notes"])
    values, tables = profile["values"], profile["tables"]
    # What the model needs and nobody publishes: jobs by completion, contexts, memory.
    for way in ("poll", "event"):
        assert f"job.latency.compress-deflate.{way}" in values
        assert f"job.cpu.compress-deflate.{way}" in values
    assert "context.init.compress-deflate" in values
    assert tables["memory.latency.random"]["by"] == "bytes"
    latency = tables["memory.latency.random"]["value"]
    assert latency[0] < latency[-1], "a block of many MiB is not in the first cache"
    assert {f"stream.{kernel}" for kernel in ("copy", "scale", "add", "triad")} <= set(tables)
    for value in [*values.values(), *tables.values()]:
        assert value["facts"], "each value says how it was measured"
    # Neither host name nor address leaves the machine.
    assert os.uname().nodename not in (tmp_path / "mine.toml").read_text()

    found = with_profiles_of(tmp_path, "list", "profiles", "mine")
    assert json.loads(found)[0]["name"] == "mine"


def test_an_emulated_device_is_calibrated_for_trying_only(tmp_path: Path) -> None:
    words = ("--operation", "compress-deflate", "--quick", "--out", "e.toml")
    done = overside("calibrate", "--device", "emulated:bf2", *words, cwd=tmp_path)
    statuses = {test.status for test in load_run(only_run(tmp_path)).tests}
    if "ok" not in statuses and "invalid" in statuses:
        pytest.skip("the machine is too busy for an emulation in time")
    assert done.returncode == 0, done.stderr
    assert "do not share it" in done.stderr
    overside("profile", "check", "e.toml", cwd=tmp_path, code=2)


def dma_device() -> str:
    """DPDK's software DMA device, if it is here."""
    device = "dpdk:dma_skeleton"
    found = {str(one["name"]): one for one in json.loads(_core.devices("dpdk"))}
    if device not in found or found[device].get("unavailable"):
        pytest.skip("DPDK's software DMA device is not here")
    return device


def test_a_calibrated_engine_is_emulated_alone_as_it_is_simulated(tmp_path: Path) -> None:
    words = ("--operation", "copy", "--quick", "--out", "mine.toml")
    overside("calibrate", "--device", dma_device(), *words, cwd=tmp_path, code=0)
    profile = tomllib.loads((tmp_path / "mine.toml").read_text())
    assert {"dma.polled.rate", "dma.host.peak"} <= set(profile["values"])
    table = profile["tables"]["dma.copy.latency.poll"]
    sizes = [int(at) for at in table["at"]]
    # Between lengths that were measured as well.
    lengths = [*sizes[1:], sizes[-1] // 3]
    alone = {"depth": 1, "measure": "latency", "buffer_size": lengths}
    full = {"depth": [1, 4, 1024], "measure": "throughput", "buffer_size": lengths}
    common = {"device": "emulated:mine", "completion": "poll", "operation": ["read", "write"]}
    box = {
        "schema": "box/1",
        "name": "mine",
        "tasks": [
            {"task": "dma", "parameters": common | alone, "metrics": ["latency_p50"]},
            {"task": "dma", "parameters": common | full, "metrics": ["rate"]},
        ],
        "measure": {"rounds": 1, "warmup_s": 0, "sample_s": 0.1},
    }
    (tmp_path / "box.json").write_text(json.dumps(box))

    with_profiles_of(tmp_path, "run", "box.json", "--name", "emulated")
    tests = load_run(tmp_path / "results/emulated").tests
    assert len(tests) == 2 * len(lengths) * 4
    axes = {
        "profile": "mine",
        "primitive": "dma",
        "initiator": "host",
        "completion": "poll",
        "cores": "1",
        "depth": "1,4,1024",
    }
    settings = [word for key, value in axes.items() for word in ("--set", f"{key}={value}")]
    simulated = {}
    for length in lengths:
        words = ("simulate", "dma", *settings, "--set", f"bytes={length} B", "--json")
        for row in json.loads(with_profiles_of(tmp_path, *words))["rows"]:
            labels = dict(row["labels"])
            rate, latency = row["throughput"]["typ"] * 1e6, row["latency"]["typ"]
            simulated[labels["access"], length, labels["depth"]] = rate, latency
    assert len(simulated) == 2 * len(lengths) * 3
    for test in tests:
        asked = test.parameters
        assert (test.provenance, test.timing) == ("emulated", "virtual")
        key = (asked["operation"], asked["buffer_size"], str(asked["depth"]))
        rate, latency = simulated[key]
        metric, expected = ("rate", rate) if "rate" in test.values else ("latency_p50", latency)
        found = list(test.values[metric].values())
        assert found == [pytest.approx(expected, rel=0.02)], (asked, latency)
        if metric == "latency_p50" and asked["buffer_size"] in sizes:
            calibrated = table["value"][sizes.index(asked["buffer_size"])]
            # Histograms keep three digits.
            assert found == [pytest.approx(calibrated, rel=0.005)]


def test_what_copies_cost_traffic_to_another_machine_is_measured_if_asked(tmp_path: Path) -> None:
    device = dma_device()
    with agents(tmp_path, far=["--insecure"]):
        words = ("--device", device, "--network", "far", "--quick", "--out", "traffic.toml")
        overside("calibrate", *words, cwd=tmp_path, code=0)
    overside("profile", "check", "traffic.toml", cwd=tmp_path, code=0)
    text = (tmp_path / "traffic.toml").read_text()
    assert "--network DEST" in text
    (address,) = re.findall(r"127\.0\.0\.1:\d+", (tmp_path / "agents.toml").read_text())
    assert address not in text, "a profile is shared, an address is not"
    profile = tomllib.loads(text)
    beside = [one for one in samples(only_run(tmp_path)) if one["test"].startswith("network/")]
    assert beside
    assert all(one["status"] == "ok" for one in beside)
    # On few cores the loss is what it happens to be: a value, or a note that there is none.
    drop = profile["values"].get("dma.contended.drop")
    if drop is not None:
        assert drop["facts"] == ["run.traffic"]
    else:
        assert any("less than what it varies by" in note for note in profile["notes"])
    assert not any("was not measured" in note for note in profile["notes"])


def test_what_cannot_be_calibrated_is_named_with_a_remedy(tmp_path: Path) -> None:
    absent = overside("calibrate", "--device", "emulated:bf9", cwd=tmp_path, code=3)
    assert "there is no device emulated:bf9" in absent.stderr
    cannot = overside("calibrate", "--operation", "compress-rar", cwd=tmp_path, code=3)
    assert "cpu cannot do compress-rar" in cannot.stderr
    name = overside("calibrate", "--name", "My Card", cwd=tmp_path, code=2)
    assert "is not a profile's name" in name.stderr
    other = overside("calibrate", "--name", "a", "--out", "b.toml", cwd=tmp_path, code=2)
    assert "a profile's file has its name" in other.stderr
    cores = overside("calibrate", "--network", "10.0.0.2:5300", cwd=tmp_path, code=2)
    assert "a device with an engine that copies" in " ".join(cores.stderr.split())
    for time in ("0s", "-1", "soon", "1e9", "25h"):
        overside("calibrate", f"--time={time}", cwd=tmp_path, code=2)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "calibration.json").write_text("[]")
    done = overside("calibrate", "--resume", "other", cwd=tmp_path, code=2)
    assert "is no calibration" in done.stderr
    assert not list(tmp_path.glob("results/*"))


def test_what_was_measured_before_an_interruption_is_kept_and_gone_on_with(
    tmp_path: Path,
) -> None:
    words = ("calibrate", "--quick", "--no-memory", "--time", "60s", "--out", "mine.toml")
    running = start(*words, "--operation", "copy", cwd=tmp_path)
    assert running.stderr is not None
    first = running.stderr.readline()
    assert "Ctrl-C keeps them" in first
    run = only_run(tmp_path)
    while running.poll() is None and not (run / "samples.jsonl").read_bytes():
        pass
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    overside("calibrate", "--resume", run, cwd=tmp_path, code=0)
    overside("profile", "check", "mine.toml", cwd=tmp_path, code=0)


@pytest.mark.parametrize(("constant", "slope"), [(0.0, 2.0), (600.0, 0.1), (50.0, 3.0)])
def test_a_line_is_found_again(constant: float, slope: float) -> None:
    sizes = [64.0, 4096.0, 65536.0, 2097152.0]
    noise = {0: 1.0, 1: 1.01, 2: 0.99, 3: 1.0, 4: 1.005, 5: 0.995}
    points = [
        (size, {at: (constant + slope * size) * factor for at, factor in noise.items()})
        for size in sizes
    ]
    found = fit.line(points)
    assert found is not None
    assert found.slope is not None
    assert found.slope.low <= slope <= found.slope.high
    assert found.misfit < 1e-6
    if constant:
        assert found.constant is not None
        assert found.constant.value == pytest.approx(constant, rel=0.01)
    else:
        assert found.constant is None, "what is not above zero is left out"


def test_points_that_leave_the_line_widen_the_interval() -> None:
    points = [(1.0, {0: 10.0}), (10.0, {0: 100.0}), (100.0, {0: 2000.0})]
    found = fit.line(points)
    assert found is not None
    assert found.slope is not None
    assert found.slope.high / found.slope.value >= 1 + found.misfit - 1e-9
    assert found.misfit > 0.1
    assert fit.line(points[:1]) is None
    assert fit.line([(1.0, {0: 1.0}), (2.0, {1: 2.0})]) is None, "no round has both"
