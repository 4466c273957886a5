"""Outputs of `overside flow serve`, nodes that run its stages, and bursts."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pyarrow.parquet as pq
import pytest
from command import PATIENCE_S, wait_for
from flow_service import (
    SCHEMA,
    Producer,
    batch,
    definition,
    flow_service,
    ids,
    put,
    take,
    take_rows,
)

FILES = """
[[stages]]
partition = { key = "id", by = "bits:1" }

[outputs.kept]
to = "kept"
format = "FORMAT"
"""


#: No file but Arrow's holds these.
UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])


def read(directory: Path, suffix: str) -> pa.Table:
    """All files of an output."""
    tables = map(read_one, sorted(directory.glob(f"*.{suffix}")))
    return pa.concat_tables([table.replace_schema_metadata() for table in tables])


def read_one(path: Path) -> pa.Table:
    return pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_have_each_row_once_whatever_dies(tmp_path: Path, form: str) -> None:
    pipeline = definition(tmp_path, FILES.replace("FORMAT", form))
    with flow_service(pipeline) as service:
        producer = Producer(service, "sensor").send_all(range(50))
        # A batch is safe once it is in a file that has its name.
        producer.wait(20)
        service.kill()
    acknowledged = producer.acknowledged
    kept = read(tmp_path / "kept", form)
    assert set(ids(kept)) >= set(range(100 * (acknowledged + 1)))
    with flow_service(pipeline) as service:
        # From the beginning: this producer has forgotten what was acknowledged.
        again = Producer(service, "sensor").send_all(range(80))
        again.close(79)
        assert again.error is None
        assert service.end() == 0
    assert ids(read(tmp_path / "kept", form)) == list(range(8000))
    odd = list((tmp_path / "kept").glob(f"*-1.{form}"))
    assert odd
    assert all(n % 2 for path in odd for n in ids(read_one(path)))


def test_a_stream_without_names_ends_when_its_files_are_there(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, FILES.replace("FORMAT", "parquet"))) as service:
        put(service, *(batch(100 * n) for n in range(10)))
        assert ids(read(tmp_path / "kept", "parquet")) == list(range(1000))


def test_small_batches_gather_into_few_files(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, FILES.replace("FORMAT", "parquet"))) as service:
        put(service, *(batch(100 * n) for n in range(35)))
        assert ids(read(tmp_path / "kept", "parquet")) == list(range(3500))
    # Two partitions: a set of files has two, and batches gather while their producer sends.
    assert len(list((tmp_path / "kept").glob("*.parquet"))) <= 10


STAGES = """
[nodes.dpu]
address = "grpc://ADDRESS"

[[stages]]
filter = "id % 10 < 5"
placement = "PLACEMENT"
NODE

[[stages]]
partition = { key = "id", by = "bits:2" }

[outputs.all]
to = "subscribers"
"""
WANTED = [n for n in range(6000) if n % 10 < 5]


def on_node(directory: Path, address: str, placement: str) -> Path:
    node = "" if placement == "dpu" else 'node = "dpu"'
    text = STAGES.replace("ADDRESS", address).replace("PLACEMENT", placement)
    return definition(directory, text.replace("NODE", node))


@pytest.mark.parametrize("placement", ["dpu", "split:50", "adaptive"])
def test_a_stage_runs_on_another_service(tmp_path: Path, placement: str) -> None:
    with flow_service("--node") as node:
        with flow_service(on_node(tmp_path, node.address, placement)) as service:
            producer = Producer(service, "sensor").send_all(range(60))
            assert take_rows(service, "all", len(WANTED)) == WANTED
            producer.close()
            stage = service.statistics()["stages"][0]
            assert stage["node"]["batches"] + stage["host"]["batches"] == 60
            if placement == "dpu":
                assert stage["node"]["batches"] > 0
                assert stage["node"]["is_real"]
        assert node.statistics()["counters"]["node_batches_total"] >= stage["node"]["batches"]


def test_a_node_that_dies_loses_nothing(tmp_path: Path) -> None:
    with (
        flow_service("--node", "--slowdown", "4") as node,
        flow_service(on_node(tmp_path, node.address, "dpu")) as service,
    ):
        producer = Producer(service, "sensor")
        for sequence in range(60):
            producer.send(sequence)
            if sequence == 30:
                wait_for(lambda: node.statistics()["counters"]["node_batches_total"] > 0)
                node.kill()
        assert take_rows(service, "all", len(WANTED)) == WANTED
        producer.close()
        stage = service.statistics()["stages"][0]
        assert stage["node"]["losses"] > 0
        assert stage["host"]["batches"] > 0


def test_bursts_wait_in_memory_and_then_on_disk(tmp_path: Path) -> None:
    text = (
        f'memory = "16 MiB"\n[spill]\ndirectory = "{tmp_path / "spill"}"\nbytes = "256 MiB"\n'
        '[outputs.all]\nto = "subscribers"\n'
    )
    with flow_service(definition(tmp_path, text)) as service, service.client() as client:
        producer = Producer(service, "sensor")
        taken: list[int] = []
        gate = threading.Event()

        def consume() -> None:
            # The service ends the stream when it ends.
            with contextlib.suppress(pa.ArrowException, fl.FlightError):
                for chunk in client.do_get(fl.Ticket(b"all")):
                    gate.wait(PATIENCE_S)
                    taken.append(json.loads(chunk.app_metadata.to_pybytes())["sequence"])

        thread = threading.Thread(target=consume, daemon=True)
        thread.start()
        sent = 0
        for burst, spills in ((100, False), (3000, True), (100, False)):
            before = service.statistics()["outputs"][0]["spilled_batches"]
            gate.clear()
            for _ in range(burst):
                producer.send(sent)
                sent += 1
            wait_for(lambda sent=sent: service.statistics()["outputs"][0]["batches"] == sent)
            said = service.statistics()
            # The transport holds some.
            assert said["outputs"][0]["backlog_batches"] <= burst
            assert said["outputs"][0]["memory_bytes"] <= 4 << 20
            assert (said["outputs"][0]["spilled_batches"] > before) is spills
            gate.set()
            wait_for(lambda sent=sent: len(taken) == sent)
            producer.wait(sent - 1)
            said = service.statistics()
            assert said["outputs"][0]["backlog_batches"] == 0
            assert said["spill"]["used_bytes"] == 0
        assert taken == list(range(sent))
        producer.close()
        assert service.statistics()["outputs"][0]["backlog_peak_batches"] > 1000


def test_unknown_schemas_and_inputs_are_refused_by_a_node() -> None:
    with flow_service("--node") as node, node.client() as client:
        with pytest.raises((fl.FlightError, NotImplementedError), match="a node has no pipeline"):
            put(node, batch(0))
        command = fl.FlightDescriptor.for_command(b'{"stage": "filter = \\"none > 1\\""}')
        writer, reader = client.do_exchange(command)
        writer.begin(SCHEMA)
        with pytest.raises(pa.ArrowException, match="none"):
            reader.read_all()
        assert not list(client.list_flights())


@pytest.mark.parametrize(
    ("output", "column"),
    [
        ('format = "csv"', pa.array([{"a": 1}])),
        ('format = "parquet"', UNION),
        ('tree = { id = "id", time = "id" }', UNION),
        (
            'tree = { id = "id", time = "id" }',
            pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["a"])),
        ),
    ],
)
def test_columns_that_files_cannot_hold_are_refused_at_once(
    tmp_path: Path, output: str, column: pa.Array
) -> None:
    pipeline = definition(tmp_path, f'[outputs.kept]\nto = "kept"\n{output}\n')
    sent = pa.record_batch({"id": pa.array([1]), "odd": column})
    told = pytest.raises(pa.ArrowException, match=r'output "kept": column "odd" has .*leave it out')
    with flow_service(pipeline) as service:
        with told:
            put(service, sent)
        with pytest.raises(pa.ArrowKeyError, match="there are: none"):
            take(service, "kept")
        # Others are taken.
        put(service, sent.select(["id"]))
        assert service.end() == 0
