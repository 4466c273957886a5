"""`overside flow run --on ray`: stages on machines of a Ray cluster, and what comes out."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command import PATIENCE_S, environment, native, wait_for
from flow_service import flow_service
from ray_cluster import needs_ray, ray_cluster

Json = dict[str, Any]

STAGES = """
threads = 2

[nodes.dpu0]
RESOURCES
timeout = "5 s"

[[stages]]
filter = "id % 3 <> 0"
placement = "PLACEMENT"
node = "dpu0"

[[stages]]
select = "id, id * 2 AS twice, name"
placement = "dpu0"

[[stages]]
partition = { key = "id", by = "hash:4" }

[outputs.all]
to = "DIRECTORY"
format = "arrow"
"""
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = 20_000


def pipeline(directory: Path, placement: str = "adaptive", resources: str = "") -> Path:
    """A pipeline on a node, of Ray if it has resources; in this process otherwise."""
    text = STAGES.replace("PLACEMENT", placement).replace("DIRECTORY", f"out-{bool(resources)}")
    if placement == "dpu0":
        text = text.replace('node = "dpu0"\n', "")
    node = f"resources = {{ {resources} }}" if resources else 'address = "in-process"'
    path = directory / f"p-{bool(resources)}.toml"
    head = 'schema = "flow-pipeline/1"\nname = "ray"\n'
    path.write_text(head + text.replace("RESOURCES", node))
    return path


def batch(number: int) -> pa.RecordBatch:
    """One of many batches."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.record_batch([list(ids), [f"row {n}" for n in ids]], schema=SCHEMA)


def batches(directory: Path, count: int) -> Path:
    """A file of batches."""
    path = directory / "in.arrows"
    with pa.ipc.new_stream(path, SCHEMA) as writer:
        for number in range(count):
            writer.write_batch(batch(number))
    return path


def files(directory: Path) -> dict[str, bytes]:
    """Files that a run wrote."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@contextmanager
def flow_run(*words: str | Path, stdin: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A run."""
    with subprocess.Popen(
        [*native(), "flow", "run", "--json", *map(str, words)],
        env=environment(),
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def report(*words: str | Path) -> Json:
    """Report of a run that has ended."""
    with flow_run(*words) as process:
        out, err = process.communicate(timeout=PATIENCE_S * 3)
    assert process.returncode == 0, err.decode()
    said: Json = json.loads(out)
    return said


def refused(code: int, *words: str | Path) -> str:
    """Message of a run that ends with that code."""
    with flow_run(*words) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    return err.decode()


def node_processes() -> dict[int, int]:
    """Processes of nodes that were started from this environment -> who started them."""
    found = {}
    (program,) = native()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if words[:4] == [program.encode(), b"flow", b"serve", b"--node"]:
            found[int(entry.name)] = int(parent)
    return found


def test_nodes_without_an_address_need_ray(tmp_path: Path) -> None:
    path = pipeline(tmp_path, resources="bf2 = 1")
    assert "--on ray" in refused(2, path, batches(tmp_path, 1))
    # Nothing has to be there to see whether it fits.
    with flow_run(path, batches(tmp_path, 1), "--on", "ray", "--check") as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert out == b"OK\n"
    told = refused(2, pipeline(tmp_path), batches(tmp_path, 1), "--on", "ray")
    assert "no stage is on a node with `resources`" in told


@pytest.mark.parametrize("placement", ["dpu0", "split:50", "adaptive"])
def test_a_run_uses_a_node_at_an_address(tmp_path: Path, placement: str) -> None:
    table = batches(tmp_path, 12)
    report(pipeline(tmp_path), table)
    path = pipeline(tmp_path, placement, "bf2 = 1")
    with flow_service("--node") as node:
        address = f'address = "grpc://{node.address}"'
        path.write_text(path.read_text().replace("resources = { bf2 = 1 }", address))
        said = report(path, table)
    assert files(tmp_path / "out-True") == files(tmp_path / "out-False")
    assert said["stages"][1]["node"]["batches"] == 12
    assert said["provenance"] == "measured"
    assert "ray" not in said


@needs_ray
@pytest.mark.long
def test_the_output_is_that_of_one_machine(tmp_path: Path) -> None:
    table = batches(tmp_path, 12)
    report(pipeline(tmp_path), table)
    with ray_cluster({"bf2": 1}, {"near_storage": 2}) as (cluster, _):
        on_ray = ("--on", "ray", "--ray-address", cluster.address)
        path = pipeline(tmp_path, "dpu0", "bf2 = 1")
        said = report(path, table, *on_ray)
        told = refused(3, pipeline(tmp_path, "dpu0", "bf3 = 1"), table, *on_ray)
        assert "bf3 1" in told
        assert "near_storage 2" in told
        # What a run has taken is free again, and its processes are gone.
        wait_for(lambda: not node_processes())
        (tmp_path / "out-True").rename(tmp_path / "before")
        report(pipeline(tmp_path, "dpu0", "bf2 = 1"), table, *on_ray)
    assert files(tmp_path / "before") == files(tmp_path / "out-False")
    assert files(tmp_path / "before") == files(tmp_path / "out-True")
    assert said["ray"]["dpu0"]["starts"] == 1
    assert said["ray"]["dpu0"]["address"].startswith("grpc://")
    assert "password" not in json.dumps(said["ray"])
    assert [stage["node"]["batches"] for stage in said["stages"][:2]] == [12, 12]


@needs_ray
@pytest.mark.long
@pytest.mark.parametrize("killed", ["process", "machine"])
def test_nothing_is_lost_with_a_node_that_is_killed(tmp_path: Path, killed: str) -> None:
    report(pipeline(tmp_path), batches(tmp_path, 40))
    path = pipeline(tmp_path, resources="bf2 = 1")
    with ray_cluster({"bf2": 1}, {"bf2": 1}) as (cluster, nodes):
        words = (path, "-", "--on", "ray", "--ray-address", cluster.address)
        with flow_run(*words, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            writer = pa.ipc.new_stream(pa.PythonFile(process.stdin, "w"), SCHEMA)
            for number in range(20):
                writer.write_batch(batch(number))
            # It has begun to read, so the node is there.
            ((node, worker),) = node_processes().items()
            if killed == "process":
                os.kill(node, signal.SIGKILL)
            else:
                raylet = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
                (host,) = (one for one in nodes if raylet in processes(one))
                cluster.remove_node(host, allow_graceful=False)
            await_text(process, b"Ray has started dpu0 again")
            for number in range(20, 40):
                writer.write_batch(batch(number))
            writer.close()
            process.stdin.close()
            process.stdin = None
            out, err = process.communicate(timeout=PATIENCE_S * 3)
        assert process.returncode == 0, err.decode()
    said = json.loads(out)
    assert files(tmp_path / "out-True") == files(tmp_path / "out-False")
    assert said["ray"]["dpu0"]["starts"] == 2
    assert sum(stage["node"]["losses"] for stage in said["stages"] if stage.get("node")) >= 1


def await_text(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Waits until the process says something on stderr."""
    assert process.stderr is not None
    end, told = time.monotonic() + 2 * PATIENCE_S, b""
    while text not in told:
        left = end - time.monotonic()
        assert left > 0, told
        if select.select([process.stderr], [], [], left)[0]:
            more = os.read(process.stderr.fileno(), 65536)
            assert more, told
            told += more


def processes(node: Any) -> set[int]:
    """The processes of a node of the cluster."""
    return {one.process.pid for some in node.all_processes.values() for one in some}
