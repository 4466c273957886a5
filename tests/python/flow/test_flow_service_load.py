"""A flow service and its nodes under load: logs on a slow node, and waves in open loop."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
from command import flow
from flow_service import (
    SCHEMA,
    SUBSCRIBERS,
    Json,
    Service,
    batch,
    definition,
    flow_service,
    spill,
)
from test_flow_service_outputs import FILES, read

LOGS = """
[nodes.dpu]
address = "grpc://ADDRESS"

[[stages]]
decompress = { column = "block", codec = "gzip", text = true }
PLACEMENT

[[stages]]
match = { column = "block", patterns = ["ERROR", "status installed"], per = "line" }
PLACEMENT

[[stages]]
compress = { column = "block", codec = "zstd:3" }
PLACEMENT

[outputs.all]
to = "out-NAME"
"""
#: Log of Debian's package manager on this machine; without it, similar lines are generated.
REAL_LOG = Path("/var/log/dpkg.log")


def log_lines() -> list[bytes]:
    """Lines of a log."""
    if REAL_LOG.is_file() and b"status installed" in (text := REAL_LOG.read_bytes()):
        return text.splitlines(keepends=True)[:20_000]
    states = ("unpacked", "half-configured", "installed")
    lines = (
        f"2026-01-02 03:04:05 status {states[n % 3]} package-{n * n}:amd64" for n in range(9999)
    )
    return [line.encode() + b"\n" for line in lines]


def test_logs_are_the_same_bytes_wherever_they_are_searched(tmp_path: Path) -> None:
    lines = log_lines()
    blocks = [gzip.compress(b"".join(lines[at : at + 100])) for at in range(0, len(lines), 100)]
    table = pa.table({"block": pa.array(blocks, pa.binary())})
    log = str(tmp_path / "logs.arrow")
    with pa.OSFile(log, "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
        out.write_table(table, max_chunksize=4)
    placements = {
        "host": 'placement = "host"',
        "dpu": 'placement = "dpu"',
        "split": 'placement = "split:50"\nnode = "dpu"',
        "adaptive": 'placement = "adaptive"\nnode = "dpu"',
    }
    with flow_service("--node", "--slowdown", "4") as node:
        for name, placement in placements.items():
            text = LOGS.replace("ADDRESS", node.address).replace("PLACEMENT", placement)
            pipeline = definition(tmp_path, text.replace("NAME", name), name)
            report = json.loads(flow("run", pipeline, log, "--json"))
            stages = report["stages"]
            on_node = [(stage.get("node") or {}).get("batches", 0) for stage in stages]
            assert all((count > 0) == (name != "host") for count in on_node), (name, on_node)
            assert report["provenance"] == "measured"
    written = [(tmp_path / f"out-{name}" / "part.arrow").read_bytes() for name in placements]
    assert all(one == written[0] for one in written)
    found = pa.ipc.open_file(written[0]).read_all()
    kept = b"".join(
        pa.CompressedInputStream(pa.BufferReader(one), "zstd").read()
        for one in found["block"].to_pylist()
    )
    assert kept == b"".join(
        line for line in lines if b"status installed" in line or b"ERROR" in line
    )


def bench(service: Service, table: Path, *words: str) -> list[Json]:
    """Report on each wave."""
    options = ("--json", "--rows", "1000", *words)
    waves: list[Json] = json.loads(flow("bench-service", f"{service.uri}/flow", table, *options))[
        "waves"
    ]
    return waves


def test_waves_are_measured(tmp_path: Path) -> None:
    table = tmp_path / "table.arrow"
    with pa.OSFile(str(table), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as out:
        out.write_batch(batch(0, 20_000))
    burst = ("--rate", "1MiB", "--burst", "4", "--burst-time", "0.2", "--waves", "2")
    with flow_service(definition(tmp_path, FILES.replace("FORMAT", "arrow"))) as service:
        # Each ends when it has drained, the first one at the latest when the second begins.
        waves = bench(service, table, *burst, "--every", "5")
        assert [wave["spilled_batches"] for wave in waves] == [0, 0]
        assert waves[-1]["drain_ns"] is not None
        for wave in waves:
            # At 4 MiB/s, in whole batches.
            assert 0.8 * (1 << 20) <= wave["bytes"] <= 0.9 * (1 << 20)
            assert wave["rows"] == 1000 * wave["batches"] == 1000 * wave["acknowledged_batches"]
            assert wave["acknowledged_p50_ns"] <= wave["acknowledged_p99_ns"]
            assert wave["backlog_max_batches"] > 0
            assert wave["memory_max_bytes"] > 1 << 20
        sent = sum(wave["rows"] for wave in waves)
        assert read(tmp_path / "kept", "arrow").num_rows == sent
    # Nobody takes anything: what does not fit into memory goes to disk, and nothing drains.
    text = spill(tmp_path / "spill", "256 MiB") + SUBSCRIBERS
    with flow_service(definition(tmp_path, text)) as service:
        waves = bench(service, table, *burst, "--every", "1", "--drain", "0.5")
        assert all(wave["drain_ns"] is None for wave in waves)
        assert all(wave["spilled_batches"] > 0 for wave in waves)
        assert waves[1]["spilled_max_bytes"] > waves[0]["spilled_max_bytes"] > 0
    with flow_service("--node") as node:
        said = flow("bench-service", f"{node.uri}/flow", table, "--rate", "1", code=2)
        assert "no `overside flow serve` with a pipeline" in said
