"""RDMA by perftest: what its programs print is read strictly, and absent devices are said."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import agents, planned, ran, short_box
from overside.bench import perftest
from overside.tasks import rdma

#: Output of version 6.06 on rdma_rxe, in `tools/with-debian-kernel`.
_PRINTED = Path(__file__).parent / "perftest"
LATENCY = (_PRINTED / "write_lat_rc.txt").read_text()
BANDWIDTH = (_PRINTED / "write_bw_rc.txt").read_text()
#: Parameters whose product is the box `rdma`, without the pairing.
_MATRIX = ("operation", "transport", "metric")
_HAS_DEVICE = Path("/sys/class/infiniband").exists()
needs_device = pytest.mark.skipif(not _HAS_DEVICE, reason="no RDMA device: make test-rdma has one")


def asked(**given: object) -> dict[str, object]:
    return rdma.TASK.normal(given)


def test_round_trips_are_not_halved() -> None:
    write = rdma.figures(asked(message_size=64), LATENCY)
    assert write["latency_min"] == pytest.approx(2 * 12.24)
    assert write["latency_p999"] == pytest.approx(2 * 14274.78)
    read = rdma.figures(asked(message_size=64, operation="read"), LATENCY)
    assert read["latency_min"] == pytest.approx(12.24)
    assert set(write) <= set(rdma.TASK.metrics)


def test_bits_are_not_bytes() -> None:
    found = rdma.figures(asked(metric="bandwidth", message_size=4096), BANDWIDTH)
    assert found["throughput"] == pytest.approx(found["bit_rate"] * 125)
    # The columns agree with each other: messages a second by their size.
    assert found["rate"] * 4096 / 1e6 == pytest.approx(found["throughput"], rel=1e-2)


@pytest.mark.parametrize("printed", sorted(_PRINTED.glob("*.txt")), ids=lambda path: path.stem)
def test_what_perftest_printed_is_read(printed: Path) -> None:
    operation, kind, _ = printed.stem.split("_")
    text = printed.read_text()
    given = asked(
        operation=operation,
        metric="latency" if kind == "lat" else "bandwidth",
        message_size=8 << 20 if "8m" in printed.stem else 4096 if kind == "bw" else 64,
    )
    found = rdma.figures(given, text)
    assert all(value > 0 for value in found.values())
    if operation != "read":
        assert perftest.inline_bytes(text) == 0


def test_a_payload_that_did_not_go_inline_is_not_said_to_have() -> None:
    text = (_PRINTED / "write_lat_inline.txt").read_text()
    with pytest.raises(rdma.CannotError, match="at most 0 bytes inline"):
        rdma.figures(asked(message_size=64, inline=True), text)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (LATENCY, ("t_typical", "t_median")),
        (LATENCY, ("12.24 ", "")),
        (LATENCY, ("12.24", "nan")),
        (LATENCY, ("12.24", "-12.24")),
        (LATENCY, ("12.24", "12,24")),
        (LATENCY, (" 64      200 ", " 128     200 ")),
        (LATENCY, (LATENCY, "")),
        (LATENCY, (LATENCY, LATENCY + LATENCY)),
        (LATENCY, (LATENCY, LATENCY[: LATENCY.index(" 64      200")])),
        (BANDWIDTH, ("Gb/sec", "MB/sec")),
    ],
)
def test_what_is_not_quite_the_table_is_refused(text: str, change: tuple[str, str]) -> None:
    given = asked(message_size=64)
    if text is BANDWIDTH:
        given = asked(message_size=4096, metric="bandwidth")
    assert rdma.figures(given, text)
    with pytest.raises(perftest.PerftestError):
        rdma.figures(given, text.replace(*change))


def test_both_ends_are_told_the_same() -> None:
    given = asked(operation="send", device="mlx5_0", completion="event", destination_device="rxe0")
    command = rdma.command_line(given, "device", 7000)
    assert " ".join(command) == "ib_send_lat -F -p 7000 -c RC -d mlx5_0 -s 2 -n 5000 -I 0 -e"
    other = rdma.command_line(given, "destination_device", 7000)
    assert " ".join(other) == " ".join(command).replace("mlx5_0", "rxe0")
    given = asked(metric="bandwidth", queue_pairs=4, inline=True)
    command = rdma.command_line(given, "device", 7001)
    assert (
        " ".join(command)
        == "ib_write_bw -F -p 7001 -c RC -s 2 -n 5000 -I 2 -q 4 -t 128 --report_gbits"
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"operation": "read", "transport": "uc"}, "UC connections have no read"),
        ({"operation": "write", "transport": "ud"}, "UD connections have no write"),
        ({"operation": "write", "completion": "event"}, "only polls"),
        ({"source": "nobody", "destination": "here"}, "no agent is called 'nobody'"),
    ],
)
def test_what_cannot_be_is_skipped_with_the_reason(
    tmp_path: Path, given: dict[str, object], reason: str
) -> None:
    (test,) = planned(short_box(tmp_path, {"task": "rdma", "parameters": given}))
    assert test["status"] == "skipped"
    assert reason in test["reason"]


def test_the_box_has_every_verb_of_every_transport() -> None:
    there = {
        tuple(test["parameters"][name] for name in _MATRIX)
        for test in planned("rdma", cwd=Path.cwd())
    }
    possible = set()
    for point in itertools.product(*(rdma.TASK.parameters[name].choices for name in _MATRIX)):
        given = asked(**dict(zip(_MATRIX, point, strict=True)))
        with contextlib.suppress(ValueError):
            rdma.command_line(given, "device", 7000)
            possible.add(point)
    assert there == possible
    assert len(possible) == 2 * (3 + 2 + 1 + 3)


@pytest.mark.skipif(shutil.which("ib_write_bw") is None, reason="perftest is not installed")
@pytest.mark.parametrize("metric", ["latency", "bandwidth"])
@pytest.mark.parametrize("operation", ["send", "write", "read"])
def test_the_programs_have_the_options(operation: str, metric: str) -> None:
    command = rdma.command_line(asked(operation=operation, metric=metric), "device", 7000)
    said = subprocess.run(
        [command[0], "--help"], capture_output=True, text=True, timeout=20, check=False
    )
    text = said.stdout + said.stderr
    for option in (word for word in command[1:] if word.startswith("-")):
        assert f"{option}," in text or f"{option} " in text, option


@pytest.mark.skipif(_HAS_DEVICE, reason="there is an RDMA device")
def test_without_a_device_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    (test,) = planned(short_box(tmp_path, {"task": "rdma"}))
    assert test["status"] == "skipped"
    assert "no RDMA device" in test["reason"]


_SMALL = {"message_size": 64, "iterations": 50, "metric": ["latency", "bandwidth"]}


@needs_device
@pytest.mark.parametrize(
    ("transport", "operations", "ends"),
    [
        ("rc", ["read", "write", "send"], ["host", "here"]),
        ("uc", ["write", "send"], ["here"]),
        ("ud", ["send"], ["here"]),
    ],
)
def test_every_verb_and_pairing(
    tmp_path: Path, transport: str, operations: list[str], ends: list[str]
) -> None:
    pairing = {"source": ["host", "here"], "destination": ends}
    parameters = _SMALL | {"operation": operations, "transport": transport} | pairing
    entry = {"task": "rdma", "parameters": parameters}
    box = short_box(tmp_path, entry, rounds=2, max_s=900)
    tests = 2 * 2 * len(ends) * len(operations)
    # Where the clock is emulated perftest prints `inf` now and then, which is no figure.
    samples = measured(box, code=None)
    right = [sample for sample in samples if sample["status"] == "ok"]
    assert len({sample["test"] for sample in right}) >= tests * 3 // 4, samples
    for sample in right:
        assert {warning["kind"] for warning in sample["warnings"]} >= {"one-machine"}
        # Of a few slow messages the rate is rounded to 0.
        assert any(value > 0 for value in sample["metrics"].values()), sample
    for sample in samples:
        assert sample in right or "not finite" in sample["error"]["message"]


@needs_device
def test_payloads_that_the_device_does_not_take_inline_are_skipped(tmp_path: Path) -> None:
    parameters = {"message_size": 512, "iterations": 5, "inline": True}
    box = short_box(tmp_path, {"task": "rdma", "parameters": parameters})
    (sample,) = measured(box, code=None)
    assert sample["status"] == "skipped"
    assert "bytes inline" in sample["reason"]


@needs_device
def test_the_link_by_ucx_takes_rdma(tmp_path: Path) -> None:
    parameters = {
        "device": "ucx",
        "variant": "rc",
        "operation": ["read", "write", "send"],
        "initiator": ["host", "dpu"],
        "completion": ["poll", "none"],
        "measure": "throughput",
        "depth": 4,
        "buffer_size": 4096,
    }
    box = short_box(tmp_path, {"task": "dma", "parameters": parameters})
    samples = measured(box)
    assert len(samples) == 12
    for sample in samples:
        assert sample["status"] == "ok", sample
        assert "rc" in json.dumps(sample["applied"])
        assert sample["check"]["buffers"] > 0


def test_both_ends_are_on_a_node(tmp_path: Path) -> None:
    # Whether there is a device is for the agent to say.
    small = {"message_size": 64, "iterations": 50, "node": "dpu0"}
    box = short_box(tmp_path, {"task": "rdma", "parameters": small})
    with agents(tmp_path, dpu0=["--insecure"]):
        assert [test["status"] for test in planned(box)] == ["planned"]
        (sample,) = measured(box, code=None)
    assert sample["node"] == "dpu0"
    if sample["status"] == "ok":
        assert sample["applied"]["device"].startswith("dpu0/")
        assert {warning["kind"] for warning in sample["warnings"]} >= {"one-machine"}
    else:
        assert sample["reason"].startswith("dpu0: ")


def measured(box: Path, code: int | None = 0) -> list[dict[str, Any]]:
    """The samples of a run of it."""
    lines = (ran(box, code=code) / "samples.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
