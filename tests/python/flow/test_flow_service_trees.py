"""Log-structured trees that services feed."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from command import PATIENCE_S, flow, native, wait_for
from flow_service import SCHEMA, Producer, Service, batch, definition, flow_service, ids, put

TREE = """
[outputs.tracks]
to = "tracks"
tree = { id = "name", time = "id", capacity = "100 KiB", bits = 1, levels = 2 }
"""


def ask(*directories: Path | str, words: list[str]) -> subprocess.CompletedProcess[bytes]:
    """A query of trees. They are directories, or served."""
    command = [*native(), "flow", "tree", "query", *map(str, directories), *words]
    command += ["--format", "arrow-stream"]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)


def of_times(times: range) -> list[str]:
    """The words for rows in this time."""
    return ["--from", str(times.start), "--to", str(times.stop)]


def tracks(
    *directories: Path | str, object_id: str | None = None, times: range | None = None
) -> pa.Table:
    """Rows of trees, of one object or of all."""
    words = [*(["--id", object_id] if object_id else []), *(of_times(times) if times else [])]
    told = ask(*directories, words=words)
    assert told.returncode == 0, told.stderr
    return pa.ipc.open_stream(told.stdout).read_all()


def test_a_tree_has_each_row_once_whatever_dies(tmp_path: Path) -> None:
    pipeline = definition(tmp_path, TREE)
    with flow_service(pipeline) as service:
        producer = Producer(service, "sensor").send_all(range(50))
        # A batch is safe once the tree has it on disk.
        producer.wait(20)
        service.kill()
    acknowledged = producer.acknowledged
    assert set(ids(tracks(tmp_path / "tracks"))) >= set(range(100 * (acknowledged + 1)))
    with flow_service(pipeline) as service:
        # From the beginning: this producer has forgotten what was acknowledged.
        again = Producer(service, "sensor").send_all(range(80))
        again.close(79)
        # Others may compact it while it is fed.
        flow("tree", "compact", tmp_path / "tracks")
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
            producer = Producer(first, "sensor").send_all(range(30))
            # That is, in both trees.
            producer.close(29)
            served = f"{first.uri}/tracks", f"{second.uri}/behind"
            assert ids(tracks(*served)) == list(range(3000))
            assert ids(tracks(served[0], tmp_path / "far")) == list(range(3000))
            for n in (5, 77, 2999):
                assert tracks(*served, object_id=f"row {n}").column("id").to_pylist() == [n]
    directories = tmp_path / "tracks", tmp_path / "far"
    assert all(tracks(one).num_rows > 0 for one in directories)
    assert ids(tracks(*directories)) == list(range(3000))
    for n in (5, 77, 2999):
        assert tracks(*directories, object_id=f"row {n}").column("id").to_pylist() == [n]


def refusal(*words: str) -> str:
    """Error message of a query that cannot be answered."""
    return flow("tree", "query", *words, code=2)


def test_a_tree_that_is_served_answers_any_client(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, TREE)) as service, service.client() as client:
        address = f"{service.uri}/tracks"
        assert "made with the first batch" in refusal(address)
        put(service, *(batch(100 * n) for n in range(20)))
        asked = {"ids": ["row 7", "row 1999", "nobody"], "from": "5"}
        ticket = json.dumps({"output": "tracks", "tracks": asked}).encode()
        info = client.get_flight_info(fl.FlightDescriptor.for_command(ticket))
        assert info.schema == SCHEMA
        assert json.loads(info.app_metadata) == {"id": "name", "time": "id"}
        found = client.do_get(info.endpoints[0].ticket).read_all()
        assert found.column("id").to_pylist() == [1999, 7]
        # Also what is not in a leaf yet; compressed, if it is asked for so.
        everything = fl.Ticket(json.dumps({"output": "flow", "tracks": {}}).encode())
        options = fl.FlightCallOptions(headers=[(b"overside-codec", b"zstd")])
        assert ids(client.do_get(everything, options).read_all()) == list(range(2000))
        # Bounded on both sides.
        assert "more than 1000 bytes" in refusal(address, "--memory", "1000")
        for ticket, reason in [
            (b'{"output": "nobody", "tracks": {}}', "there are: tracks"),
            (b'{"output": "tracks", "tracks": {"id": "x"}}', "a query is .*ids"),
            (b'{"output": "tracks", "tracks": {"from": "x"}}', "is no time"),
        ]:
            with pytest.raises((pa.ArrowInvalid, pa.ArrowKeyError), match=reason):
                client.do_get(fl.Ticket(ticket)).read_all()
    assert address.removesuffix("/tracks") in refusal(address)


def levels(directory: Path) -> list[int]:
    """Rows of each level of a tree, the root's first."""
    shown = json.loads(flow("tree", "show", directory, "--json"))
    return [level["rows"] for level in shown["levels"]]


def nodes_below(directory: Path, tree: str) -> Callable[..., AbstractContextManager[Service]]:
    """Starts `left` or `right`, each with a tree like that."""
    for name in ("left", "right"):
        definition(directory, tree.replace('to = "tracks"', f'to = "{name}"'), name)

    def node(name: str, address: str = "127.0.0.1:0") -> AbstractContextManager[Service]:
        return flow_service(directory / f"{name}.toml", "--listen", address)

    return node


@pytest.mark.parametrize("how", ["", 'outer = "zstd"'])
def test_a_tree_over_several_services_has_each_row_once_whatever_dies(
    tmp_path: Path, how: str
) -> None:
    """A root, and two next nodes that it passes rows to by the lowest bit of the key."""
    below = TREE.replace("bits = 1", "bits = 1, above = 1").replace("100 KiB", "10 KiB")
    node = nodes_below(tmp_path, below)
    with node("right") as right, ExitStack() as others:
        left = others.enter_context(node("left"))
        addresses = [f"{left.uri}/left", f"{right.uri}/right"]
        upper = TREE.replace("bits = 1, levels = 2", f"next = {json.dumps(addresses)}") + how
        root = definition(tmp_path, upper)
        with flow_service(root) as service:
            producer = Producer(service, "sensor")
            for sequences in (range(40), range(40, 42)):
                producer.send_all(sequences)
                producer.wait(sequences[-1])
            # What it has is found, here and there.
            address = f"{service.uri}/tracks"
            assert ids(tracks(address)) == list(range(4200))
            assert levels(tmp_path / "tracks")[0] > 0
            for n in (5, 77, 2999):
                assert tracks(address, object_id=f"row {n}").column("id").to_pylist() == [n]
            assert all(sum(levels(tmp_path / name)) > 1000 for name in ("left", "right"))
            left.kill()
            producer.send_all(range(42, 82))
            # It does not say that it has everything.
            wait_for(lambda: service.statistics()["outputs"][0]["last_error"] is not None)
            assert left.uri in service.statistics()["outputs"][0]["last_error"]
            assert left.uri in refusal(address) or "ask again later" in refusal(address)
            others.enter_context(node("left", left.address))
            producer.wait(81)
            assert ids(tracks(address)) == list(range(8200))
            service.kill()
        with flow_service(root) as service:
            again = Producer(service, "sensor").send_all(range(120))
            again.close(119)
            address = f"{service.uri}/tracks"
            found = tracks(address)
            assert ids(found) == list(range(12_000))
            assert found.column("name").to_pylist() == sorted(found.column("name").to_pylist())
            assert tracks(address, object_id="row 11999").num_rows == 1
    # Whoever reads the directories finds the same.
    assert ids(tracks(*(tmp_path / name for name in ("tracks", "left", "right")))) == ids(found)
    assert levels(tmp_path / "tracks")[1] == 0
    for name in ("left", "right"):
        assert len(list((tmp_path / name).glob("*.parquet"))) > 1


def test_what_a_killed_root_had_begun_to_pass_on_is_found(tmp_path: Path) -> None:
    """At once if it is of a node that is there. Who asks for others hears which one is missing."""
    below = TREE.replace("bits = 1", "bits = 1, above = 1")
    node = nodes_below(tmp_path, below)

    def ids_of(name: str) -> list[int]:
        return ids(tracks(tmp_path / name))

    with node("left") as left, node("right") as right:
        next_nodes = json.dumps([f"{left.uri}/left", f"{right.uri}/right"])
        root = definition(tmp_path, TREE.replace("bits = 1, levels = 2", f"next = {next_nodes}"))
        with flow_service(root) as service:
            address = f"{service.uri}/tracks"
            put(service, *(batch(100 * n) for n in range(40)))
            assert ids(tracks(address)) == list(range(4000))
            before = ids_of("right")
            left.kill()
            # Nobody is needed who is away.
            assert tracks(address, object_id=f"row {before[0]}")["id"].to_pylist() == before[:1]
            told = refusal(address)
            assert f"next node {left.uri}/left does not answer" in told
            assert "start it again" in told
            producer = Producer(service, "sensor")
            producer.send_all(range(40, 80))
            wait_for(lambda: len(ids_of("right")) > len(before))
            wait_for(lambda: service.statistics()["outputs"][0]["last_error"] is not None)
            service.kill()
        with flow_service(root) as service:
            # Nobody sends anything to it.
            address = f"{service.uri}/tracks"
            there = set(ids_of("right"))
            for n in (before[0], max(there)):
                assert tracks(address, object_id=f"row {n}")["id"].to_pylist() == [n]
            told = refusal(address, "--id", f"row {ids_of('left')[0]}")
            assert "rows are on their way" in told
            assert f"{left.uri}/left does not answer" in told
            assert right.uri not in told
            with node("left", left.address):
                wait_for(lambda: levels(tmp_path / "tracks")[0] == 0)
                found = ids(tracks(address))
                assert found == list(range(len(found)))
                assert set(found) > there
                assert sorted(ids_of("left") + ids_of("right")) == found


NOT_YET = "rows that were acknowledged are not in the tree yet"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Locks a tree meanwhile, as if its disk were slow."""
    directory.mkdir(exist_ok=True)
    with (directory / ".tree.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("is_next", [False, True])
def test_rows_that_are_acknowledged_from_a_spill_directory_are_found(
    tmp_path: Path, is_next: bool
) -> None:
    """Once the tree has them; until then a query waits, and in the end says so."""
    spill = f'memory = "17 MiB"\n[spill]\ndirectory = "{tmp_path / "spill"}"\nbytes = "64 MiB"\n'
    capacity = 'capacity = "4 MiB", bits = 1, above = 1' if is_next else 'capacity = "4 MiB"'
    tree = TREE.replace('capacity = "100 KiB", bits = 1, levels = 2', capacity)
    below = definition(tmp_path, spill + tree.replace('to = "tracks"', 'to = "low"'), "low")
    with flow_service(below) as low, ExitStack() as others:
        service, path = low, "low"
        if is_next:
            beside = definition(tmp_path, tree.replace('"tracks"', '"beside"'), "beside")
            other = others.enter_context(flow_service(beside))
            ends = json.dumps([f"{low.uri}/low", f"{other.uri}/beside"])
            upper = TREE.replace("bits = 1, levels = 2", f"next = {ends}")
            upper = upper.replace("100 KiB", "4 MiB")
            service = others.enter_context(flow_service(definition(tmp_path, upper)))
            path = "tracks"
        address = f"{service.uri}/{path}"
        descriptor = fl.FlightDescriptor.for_path("flow" if is_next else "low")
        with held(tmp_path / "low"):
            producer = Producer(service, "sensor", descriptor=descriptor)
            for sequence in range(40):
                producer.send(sequence, batch(10_000 * sequence, 10_000))
            wait_for(lambda: producer.acknowledged > 0)
            last = range(10_000 * producer.acknowledged, 10_000 * (producer.acknowledged + 1))
            assert NOT_YET in refusal(address)

        def answered() -> list[int] | None:
            told = ask(address, words=of_times(last))
            if told.returncode == 0:
                return ids(pa.ipc.open_stream(told.stdout).read_all()) or [-1]
            assert NOT_YET in told.stderr.decode(), told
            return None

        assert wait_for(answered) == list(last)
        producer.close(39)
        for begin in range(0, 400_000, 20_000):
            times = range(begin, begin + 20_000)
            assert ids(tracks(address, times=times)) == list(times)


def test_a_node_two_levels_below_that_is_away_is_named(tmp_path: Path) -> None:
    """And its objects are not said to be none, nor the question to be wrong."""

    def level(name: str, above: int, *below: str) -> AbstractContextManager[Service]:
        shape = f"next = {json.dumps(below)}" if below else "bits = 1, levels = 1"
        tree = TREE.replace('to = "tracks"', f'to = "{name}"').replace("100 KiB", "10 KiB")
        tree = tree.replace("bits = 1, levels = 2", f"{shape}, above = {above}")
        return flow_service(definition(tmp_path, tree, name))

    with ExitStack() as running:

        def start(name: str, above: int, *below: str) -> tuple[Service, str]:
            service = running.enter_context(level(name, above, *below))
            return service, f"{service.uri}/{name}"

        (_, c), (last, d) = start("c", 2), start("d", 2)
        root, address = start("root", 0, start("a", 1, c, d)[1], start("b", 1)[1])
        descriptor = fl.FlightDescriptor.for_path("root")
        producer = Producer(root, "sensor", descriptor=descriptor).send_all(range(20))
        producer.close()
        assert ids(tracks(address)) == list(range(2000))
        last.kill()
        with root.client() as client:
            ticket = json.dumps({"output": "root", "tracks": {}}).encode()
            with pytest.raises(fl.FlightUnavailableError, match=f"{d} does not answer"):
                client.do_get(fl.Ticket(ticket)).read_all()
        for name in "bc":
            n = ids(tracks(tmp_path / name))[0]
            assert tracks(address, object_id=f"row {n}")["id"].to_pylist() == [n]


def test_a_tree_without_its_columns_is_refused_at_once(tmp_path: Path) -> None:
    wrong = definition(tmp_path, TREE.replace('"name"', '"nobody"'))
    told = pytest.raises(pa.ArrowException, match='output "tracks": there is no column "nobody"')
    with flow_service(wrong) as service, told:
        put(service, batch(0))
