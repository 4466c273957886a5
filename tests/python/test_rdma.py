"""RDMA by perftest: what its programs print is read strictly, and absent devices are said."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from command import planned, short_box
from overside.bench import perftest
from overside.tasks import rdma

#: As version 6 prints it; addresses are made up.
LATENCY = """\
---------------------------------------------------------------------------------------
                    RDMA_Write Latency Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 Mtu             : 1024[B]
 Link type       : Ethernet
 Max inline data : 220[B]
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0089 PSN 0x91cd2a RKey 0x1820dc VAddr 0x005581dd2d1000
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 64      5000          1.43           6.21         1.47     	       1.48        	0.07   		1.60   		3.02   
---------------------------------------------------------------------------------------
"""  # noqa: E501, W291
BANDWIDTH = """\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             92.41              92.40              0.176238
---------------------------------------------------------------------------------------
"""


def asked(**given: object) -> dict[str, object]:
    return rdma.TASK.normal(given)


def test_round_trips_are_not_halved() -> None:
    write = rdma.figures(asked(message_size=64), LATENCY)
    assert write["latency_p50"] == pytest.approx(2 * 1.47)
    assert write["latency_p999"] == pytest.approx(2 * 3.02)
    read = rdma.figures(asked(message_size=64, operation="read"), LATENCY)
    assert read["latency_p50"] == pytest.approx(1.47)
    assert set(write) <= set(rdma.TASK.metrics)


def test_bits_are_not_bytes() -> None:
    found = rdma.figures(asked(metric="bandwidth", message_size=65536), BANDWIDTH)
    assert found["bit_rate"] == 92.40
    assert found["throughput"] == pytest.approx(11550)
    # The columns agree with each other: messages a second by their size.
    assert found["rate"] * 65536 / 1e6 == pytest.approx(found["throughput"], rel=1e-3)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (LATENCY, ("t_typical", "t_median")),
        (LATENCY, ("1.47 ", "")),
        (LATENCY, ("1.47", "nan")),
        (LATENCY, ("1.47", "-1.47")),
        (LATENCY, ("1.47", "1,47")),
        (LATENCY, (" 64      5000 ", " 128     5000 ")),
        (LATENCY, (LATENCY, "")),
        (LATENCY, (LATENCY, LATENCY + LATENCY)),
        (LATENCY, (LATENCY, LATENCY[: LATENCY.index(" 64      5000")])),
        (BANDWIDTH, ("Gb/sec", "MB/sec")),
    ],
)
def test_what_is_not_quite_the_table_is_refused(text: str, change: tuple[str, str]) -> None:
    given = asked(message_size=64)
    if text is BANDWIDTH:
        given = asked(message_size=65536, metric="bandwidth")
    assert rdma.figures(given, text)
    with pytest.raises(perftest.PerftestError):
        rdma.figures(given, text.replace(*change))


def test_both_ends_are_told_the_same() -> None:
    command = rdma.command_line(asked(operation="send", device="mlx5_0", completion="event"), 7000)
    assert " ".join(command) == "ib_send_lat -F -p 7000 -d mlx5_0 -s 2 -n 5000 -e"
    command = rdma.command_line(asked(metric="bandwidth", queue_pairs=4), 7001)
    assert " ".join(command) == "ib_write_bw -F -p 7001 -s 2 -n 5000 --report_gbits -q 4 -t 128"


@pytest.mark.skipif(shutil.which("ib_write_bw") is None, reason="perftest is not installed")
@pytest.mark.parametrize("metric", ["latency", "bandwidth"])
@pytest.mark.parametrize("operation", ["send", "write", "read"])
def test_the_programs_have_the_options(operation: str, metric: str) -> None:
    command = rdma.command_line(asked(operation=operation, metric=metric), 7000)
    said = subprocess.run(
        [command[0], "--help"], capture_output=True, text=True, timeout=20, check=False
    )
    text = said.stdout + said.stderr
    for option in (word for word in command[1:] if word.startswith("-")):
        assert f"{option}," in text or f"{option} " in text, option


@pytest.mark.skipif(Path("/sys/class/infiniband").exists(), reason="there is an RDMA device")
def test_without_a_device_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    (test,) = planned(short_box(tmp_path, {"task": "rdma"}))
    assert test["status"] == "skipped"
    assert "no RDMA device" in test["reason"]
