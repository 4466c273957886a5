"""Log-structured trees that services feed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from command import PATIENCE_S, native
from flow_service import Producer, batch, definition, flow_service, ids, put

TREE = """
[outputs.tracks]
to = "tracks"
tree = { id = "name", time = "id", capacity = "100 KiB", bits = 1, levels = 2 }
"""


def tracks(*directories: Path, object_id: str | None = None) -> pa.Table:
    """What trees have, of one object or of all."""
    words = ["--id", object_id] if object_id else []
    command = [*native(), "flow", "tree", "query", *map(str, directories), *words]
    command += ["--format", "arrow-stream"]
    told = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
    return pa.ipc.open_stream(told.stdout).read_all()


def test_a_tree_has_each_row_once_whatever_dies(tmp_path: Path) -> None:
    pipeline = definition(tmp_path, TREE)
    with flow_service(pipeline) as service:
        producer = Producer(service, "sensor")
        for sequence in range(50):
            producer.send(sequence)
        # A batch is safe once the tree has it on disk.
        producer.wait(20)
        service.kill()
    acknowledged = producer.acknowledged
    assert set(ids(tracks(tmp_path / "tracks"))) >= set(range(100 * (acknowledged + 1)))
    with flow_service(pipeline) as service:
        # From the beginning: this producer has forgotten what was acknowledged.
        again = Producer(service, "sensor")
        for sequence in range(80):
            again.send(sequence)
        again.close()
        assert (again.acknowledged, again.error) == (79, None)
        # Others may compact it while it is fed.
        compact = [*native(), "flow", "tree", "compact", str(tmp_path / "tracks")]
        subprocess.run(compact, check=True, capture_output=True, timeout=PATIENCE_S)
        last = Producer(service, "other")
        last.send(0, batch(8000))
        last.close()
        assert service.end() == 0
    found = tracks(tmp_path / "tracks")
    assert ids(found) == list(range(8100))
    assert found.column("name").to_pylist() == sorted(found.column("name").to_pylist())


def test_trees_of_several_services_are_one_table(tmp_path: Path) -> None:
    behind = definition(tmp_path, TREE.replace('to = "tracks"', 'to = "far"'), "behind")
    with flow_service(behind) as second:
        near = TREE + 'partitions = "0,null"\n'
        far = f'[outputs.far]\nto = "grpc://{second.address}/behind"\npartitions = "1"\n'
        stage = '[[stages]]\npartition = { key = "name", by = "hash:2" }\n'
        with flow_service(definition(tmp_path, stage + near + far)) as first:
            producer = Producer(first, "sensor")
            for sequence in range(30):
                producer.send(sequence)
            # That is, in both trees.
            producer.close()
            assert (producer.acknowledged, producer.error) == (29, None)
    directories = tmp_path / "tracks", tmp_path / "far"
    assert all(tracks(one).num_rows > 0 for one in directories)
    assert ids(tracks(*directories)) == list(range(3000))
    for n in (5, 77, 2999):
        assert tracks(*directories, object_id=f"row {n}").column("id").to_pylist() == [n]


def test_a_tree_without_its_columns_is_refused_at_once(tmp_path: Path) -> None:
    wrong = definition(tmp_path, TREE.replace('"name"', '"nobody"'))
    told = pytest.raises(pa.ArrowException, match='output "tracks": there is no column "nobody"')
    with flow_service(wrong) as service, told:
        put(service, batch(0))
