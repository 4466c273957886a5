"""`overside flow serve`: streams in, what comes out, and what happens when something dies."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from command import PATIENCE_S, ended, flow, native, server_keys, wait_for
from flow_service import (
    INPUT,
    SCHEMA,
    SUBSCRIBERS,
    Producer,
    Service,
    batch,
    definition,
    flow_service,
    ids,
    put,
    spill,
    take,
    take_numbered,
    take_rows,
)

STAGES = """
[[stages]]
filter = "id % 10 < 5"

[[stages]]
partition = { key = "id", by = "bits:2" }

[outputs.near]
to = "subscribers"
partitions = "0,1"

[outputs.far]
to = "subscribers"
partitions = "2,3,null"
"""


def test_what_is_put_in_comes_out_filtered_and_partitioned(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, STAGES)) as service:
        put(service, *(batch(100 * n) for n in range(20)))
        wanted = [n for n in range(2000) if n % 10 < 5]
        assert ids(take(service, "near", 0)) == [n for n in wanted if n % 4 == 0]
        # What a subscriber did not want waits for another one.
        assert ids(take(service, "near")) == [n for n in wanted if n % 4 == 1]
        far = take(service, "far")
        assert far.schema == SCHEMA
        assert ids(far) == [n for n in wanted if n % 4 > 1]
        assert list(far.column("name").to_pylist()[:1]) == ["row 2"]
        said = service.statistics()
        assert said["counters"]["received_rows_total"] == 2000
        assert said["input"]["backlog_batches"] == 0
        partitions = {p["partition"]: p["rows"] for o in said["outputs"] for p in o["partitions"]}
        assert partitions == {p: sum(n % 4 == p for n in wanted) for p in range(4)}
        assert service.end() == 0


def test_what_is_safe_is_acknowledged_and_duplicates_are_removed(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, SUBSCRIBERS)) as service:
        producer = Producer(service, "sensor").send_all((0, 1, 1, 0, 2))
        # Nothing is safe before somebody has taken it.
        wait_for(lambda: service.statistics()["counters"]["received_batches_total"] == 5)
        assert producer.acknowledged == -1
        found = take_numbered(service, "all", 3)
        assert sorted(found) == [("sensor/all", n) for n in range(3)]
        producer.wait(2)
        producer.close()
        assert producer.error is None
        # One that lost its connection sends again what it thinks was not acknowledged.
        again = Producer(service, "sensor").send_all((1, 2, 3))
        wait_for(lambda: again.acknowledged == 2)
        assert sorted(take_numbered(service, "all", 1)) == [("sensor/all", 3)]
        again.close(3)
        assert service.statistics()["counters"]["duplicate_batches_total"] == 4


def test_a_name_without_numbers_is_numbered_by_position(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, SUBSCRIBERS)) as service:
        # It lost its connection, and begins again.
        for count in (3, 5):
            with service.client() as client:
                writer, reader = client.do_put(INPUT, SCHEMA)
                for n in range(count):
                    writer.write_with_metadata(batch(100 * n), b'{"producer": "sensor"}')
                writer.done_writing()
                found = take_numbered(service, "all", count - (3 if count == 5 else 0))
                while (answer := reader.read()) is not None:
                    said = json.loads(answer.to_pybytes())
                assert said == {"producer": "sensor", "acknowledged": count - 1}
        assert sorted(found) == [("sensor/all", n) for n in (3, 4)]
        assert service.statistics()["counters"]["duplicate_batches_total"] == 3
        long = {"producer": "sensor", "sequence": 9, "more": "x" * 5000}
        told = refused(service, "flow", batch(0), json.dumps(long).encode())
        assert "4096 are the most" in told
        with service.client() as client:
            writer, _ = client.do_put(INPUT, SCHEMA)
            writer.write_with_metadata(batch(0), b'{"producer": "other"}')
            writer.write_with_metadata(batch(0), b'{"producer": "other", "sequence": 7}')
            with pytest.raises(pa.ArrowInvalid, match="give one to all, or to none"):
                writer.close()


def test_small_messages_do_not_become_more_than_the_memory(tmp_path: Path) -> None:
    text = 'memory = "1 MiB"\n[outputs.kept]\nto = "kept"\n'
    limit = "--message-size", "256KiB"
    with flow_service(definition(tmp_path, text), *limit) as service, service.client() as client:
        zeros = pa.record_batch([pa.array([0] * 500_000)], names=["id"])
        compressed = pa.ipc.IpcWriteOptions(compression="zstd")
        options = fl.FlightCallOptions(write_options=compressed)
        writer, _ = client.do_put(INPUT, zeros.schema, options)
        writer.write_batch(zeros)
        with pytest.raises(pa.ArrowException, match="4000000 bytes long, more than 1048576"):
            writer.close()
    deltas = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    options = fl.FlightCallOptions(write_options=deltas)
    words = [f"{n:01000}" for n in range(2000)]
    schema = pa.schema([("word", pa.dictionary(pa.int32(), pa.string()))])
    with flow_service(definition(tmp_path, text), *limit) as service, service.client() as client:
        writer, _ = client.do_put(INPUT, schema, options)

        def send() -> None:
            # Each batch adds 100 kB to the dictionary.
            for end in range(100, len(words), 100):
                indices = pa.array([end - 1], pa.int32())
                column = pa.DictionaryArray.from_arrays(indices, words[:end])
                writer.write_batch(pa.record_batch([column], schema=schema))
            writer.close()

        with pytest.raises(pa.ArrowException, match="more than 1048576"):
            send()
        assert service.statistics()["counters"]["received_rows_total"] >= 5


def test_an_exchange_gives_back_what_the_stages_make(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, STAGES)) as service, service.client() as client:
        writer, reader = client.do_exchange(INPUT)
        writer.begin(SCHEMA)
        for n in range(5):
            writer.write_batch(batch(100 * n))
        writer.done_writing()
        found = [(json.loads(c.app_metadata.to_pybytes()), c.data) for c in reader]
        assert {said["sequence"] for said, _ in found} == set(range(5))
        assert all(
            {n % 4 for n in data["id"].to_pylist()} == {said["partition"]} for said, data in found
        )
        assert ids(pa.Table.from_batches([data for _, data in found])) == [
            n for n in range(500) if n % 10 < 5
        ]
        writer.close()


def test_any_client_finds_out_what_there_is(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, STAGES)) as service, service.client() as client:
        paths = [[part.decode() for part in f.descriptor.path] for f in client.list_flights()]
        assert paths == [["flow"], ["flow", "far"], ["flow", "near"]]
        with pytest.raises(pa.ArrowException, match="schema is known once"):
            client.get_schema(INPUT)
        put(service, batch(0))
        assert client.get_schema(INPUT).schema == SCHEMA
        info = client.get_flight_info(fl.FlightDescriptor.for_path("flow", "near"))
        assert info.schema == SCHEMA
        assert info.total_records == -1
        reader = client.do_get(info.endpoints[0].ticket)
        assert reader.read_chunk().data.num_rows > 0
        reader.cancel()
        actions = {action.type for action in client.list_actions()}
        assert actions == {"health", "statistics", "codecs"}
        assert next(client.do_action("health")).body.to_pybytes() == b"SERVING"


def refused(service: Service, path: str, data: pa.RecordBatch, metadata: bytes = b"") -> str:
    """Error message for a producer's invalid batch."""

    def send() -> None:
        with service.client() as client:
            writer, reader = client.do_put(fl.FlightDescriptor.for_path(path), data.schema)
            writer.write_with_metadata(data, metadata)
            writer.done_writing()
            while reader.read() is not None:
                pass
            writer.close()

    with pytest.raises((pa.ArrowException, fl.FlightError)) as told:
        send()
    return str(told.value)


def test_what_is_wrong_is_said_and_other_streams_go_on(tmp_path: Path) -> None:
    stages = '[[stages]]\nselect = "id, CAST(name AS BIGINT) AS n"\n'
    with flow_service(definition(tmp_path, stages + SUBSCRIBERS)) as service:
        schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
        good = pa.record_batch([[1, 2], ["10", "20"]], schema=schema)
        bad = pa.record_batch([[1, 2], ["10", "ten"]], schema=schema)
        with service.client() as client:
            writer, _ = client.do_put(INPUT, schema)
            writer.write_with_metadata(good, b'{"producer": "good", "sequence": 0}')
            assert "batch 0 of bad cannot be processed" in refused(
                service, "flow", bad, b'{"producer": "bad", "sequence": 0}'
            )
            # The same number again, and better.
            again = pa.record_batch([[3], ["30"]], schema=schema)
            other, _ = client.do_put(INPUT, schema)
            other.write_with_metadata(again, b'{"producer": "bad", "sequence": 0}')
            writer.write_with_metadata(good, b'{"producer": "good", "sequence": 1}')
            assert take_rows(service, "all", 5, "n") == [10, 10, 20, 20, 30]
            writer.close()
            other.close()
        assert "takes streams under the path" in refused(service, "other", good)
        told = refused(service, "flow", batch(0))
        assert "columns of this stream are not those of the pipeline's input: " in told
        assert 'column "x" is new' in told
        assert "app_metadata" in refused(service, "flow", good, b'{"sequence": -1}')
        with pytest.raises(pa.ArrowException, match="there are: all"):
            take(service, "none")
        with service.client() as client:
            with pytest.raises(pa.ArrowInvalid, match="a ticket is"):
                client.do_get(fl.Ticket(b"{")).read_all()
            with pytest.raises(pa.ArrowInvalid, match="health, statistics"):
                next(client.do_action("none"))
        assert service.statistics()["counters"]["failed_batches_total"] == 1


def test_a_backlog_goes_to_disk_and_survives_a_kill(tmp_path: Path) -> None:
    pipeline = definition(tmp_path, spill(tmp_path / "spill") + SUBSCRIBERS)
    with flow_service(pipeline) as service:
        producer = Producer(service, "sensor")
        # About 3 MB: more than fits into memory. Nobody takes anything.
        producer.send_all(range(300))
        producer.wait(100)
        # What is on disk is told there.
        wait_for(lambda: service.statistics()["spill"]["used_bytes"] > 1 << 20)
        service.kill()
    acknowledged = producer.acknowledged
    with flow_service(pipeline) as service:
        # Found again without having been sent again.
        found = take_numbered(service, "all")
        assert {n for _, n in found} >= set(range(acknowledged + 1))
        assert all(found["sensor/all", n].equals(batch(100 * n)) for n in range(acknowledged + 1))
        again = Producer(service, "sensor").send_all(range(acknowledged + 1, 320))
        found |= take_numbered(service, "all", 320 - len(found))
        again.wait(319)
        again.close()
        assert sorted(n for _, n in found) == list(range(320))
        assert service.end() == 0
    assert not list((tmp_path / "spill").glob("*.spill"))


def test_a_subscriber_that_stalls_does_not_hold_up_others(tmp_path: Path) -> None:
    outputs = '[outputs.slow]\nto = "subscribers"\n' + SUBSCRIBERS
    pipeline = definition(tmp_path, spill(tmp_path / "spill") + outputs)
    with flow_service(pipeline) as service, service.client() as client:
        producer = Producer(service, "sensor")
        stalled = client.do_get(fl.Ticket(b"slow"))
        producer.send_all(range(300))
        assert len(take_numbered(service, "all", 300)) == 300
        producer.wait(0)
        assert stalled.read_chunk().data.num_rows == 100
        stalled.cancel()
        producer.client.close()


def test_a_subscriber_that_reads_nothing_does_not_stop_a_producer_that_waits(
    tmp_path: Path,
) -> None:
    # All together more than the transport takes without a reader.
    long = pa.concat_batches([batch(0)] * 600)
    pipeline = definition(tmp_path, SUBSCRIBERS)
    with flow_service("--stall", "1", pipeline) as service, service.client() as client:
        producer = Producer(service, "sensor")
        stalled = client.do_get(fl.Ticket(b"all"))
        with service.client() as other:
            reader = other.do_get(fl.Ticket(b"all"))
            for sequence in range(40):
                producer.send(sequence, long)
                assert reader.read_chunk().data.num_rows == long.num_rows
                producer.wait(sequence)
        stalled.cancel()
        producer.client.close()


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    # A limit of the process stands for a full disk: a segment is longer.
    pipeline = definition(tmp_path, spill(tmp_path / "spill") + SUBSCRIBERS)
    command = ["bash", "-c", 'ulimit -f 1024; exec "$@"', "bash", *native(), "flow", "serve"]
    words = ["--json", "--quiet", "--listen", "127.0.0.1:0", str(pipeline)]
    with ended([*command, *words]) as process:
        service = Service(process)
        producer = Producer(service, "sensor")
        with contextlib.suppress(pa.ArrowException, fl.FlightError):
            producer.send_all(range(2000))
        wait_for(lambda: producer.error is not None)
        assert "cannot be kept" in str(producer.error)
        acknowledged = producer.acknowledged
        found = take_numbered(service, "all")
        assert {n for _, n in found} >= set(range(acknowledged + 1))
        assert service.end() in (0, 5)


def test_the_end_delivers_what_is_there(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, SUBSCRIBERS)) as service, service.client() as client:
        producer = Producer(service, "sensor")
        reader = client.do_get(fl.Ticket(b"all"))
        producer.send_all(range(50))
        wait_for(lambda: service.statistics()["counters"]["received_batches_total"] == 50)
        taken: list[int] = []

        def take_all() -> None:
            # The service ends the stream when it ends.
            with contextlib.suppress(pa.ArrowException, fl.FlightError):
                for chunk in reader:
                    taken.append(json.loads(chunk.app_metadata.to_pybytes())["sequence"])

        thread = threading.Thread(target=take_all)
        thread.start()
        assert service.end() == 0
        thread.join(PATIENCE_S)
        assert taken == list(range(50))
        wait_for(lambda: producer.error is not None)
        assert producer.acknowledged == 49
        assert "shutting down" in str(producer.error)


def test_a_password_and_certificates_are_needed_where_others_can_connect(tmp_path: Path) -> None:
    pipeline = definition(tmp_path, SUBSCRIBERS)
    said = flow("serve", pipeline, "--listen", "0.0.0.0", code=2)
    assert "--password-file FILE is required" in said
    word = tmp_path / "password"
    word.write_text("pass word\n")
    word.chmod(0o600)
    keys = server_keys(tmp_path / "keys")
    words = ("--password-file", word, "--tls-keys", keys)
    with flow_service(pipeline, *words) as service:
        address = f"grpc+tls://{service.address}"
        options = {
            "tls_root_certs": (keys / "ca.pem").read_bytes(),
            "override_hostname": "agent.overside.invalid",
        }
        with fl.connect(address, **options) as client:
            with pytest.raises(fl.FlightUnauthenticatedError):
                next(client.do_action("health"))
            with pytest.raises(fl.FlightUnauthenticatedError):
                client.authenticate_basic_token("any", "wrong")
            token = client.authenticate_basic_token("any", "pass word")
            call = fl.FlightCallOptions(headers=[token])
            assert next(client.do_action("health", call)).body.to_pybytes() == b"SERVING"
            basic = base64.b64encode(b"u:pass word")
            call = fl.FlightCallOptions(headers=[(b"authorization", b"Basic " + basic)])
            writer, _ = client.do_put(INPUT, SCHEMA, call)
            writer.write_batch(batch(0))
            writer.close()
            ticket = fl.Ticket(b'{"output": "all", "follow": false}')
            assert client.do_get(ticket, call).read_all().num_rows == 100
        with pytest.raises(fl.FlightUnavailableError), service.client() as client:
            next(client.do_action("health", fl.FlightCallOptions(timeout=5)))


def test_metrics_are_in_prometheus_format(tmp_path: Path) -> None:
    pipeline = definition(tmp_path, STAGES)
    with flow_service(pipeline, "--metrics", "127.0.0.1:0") as service:
        put(service, batch(0))
        take(service, "near")
        with urllib.request.urlopen(f"http://{service.metrics}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            lines = answer.read().decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        prefix = "overside_flow_service_"
        assert values[prefix + "received_rows_total"] == "100"
        assert float(values[prefix + 'queue_batches_total{queue="input"}']) == 1
        assert float(values[prefix + 'queue_batches{queue="near"}']) == 0
        spent = [key for key in values if key.startswith(prefix + "stage_host_cpu_ns_total{")]
        stages = [key.partition('stage="')[2].rstrip('"}') for key in spent]
        assert stages == ["unpack", "filter", "partition", "repack"]
        assert all(float(values[key]) > 0 for key in spent)
        names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
        assert {key.partition("{")[0] for key in values} == names


def test_messages_and_streams_are_bounded(tmp_path: Path) -> None:
    pipeline = definition(tmp_path, "streams = 2\n" + SUBSCRIBERS)
    with flow_service(pipeline, "--message-size", "64KiB") as service:
        assert "message length too large" in refused(service, "flow", batch(0, 10_000))
        producers = [Producer(service, f"p{n}") for n in range(2)]
        for producer in producers:
            producer.send(0)
        wait_for(lambda: service.statistics()["counters"]["put_streams"] == 2)
        wait_for(lambda: service.statistics()["counters"]["received_batches_total"] == 2)
        assert "too many streams" in refused(service, "flow", batch(0))
        take(service, "all")
        for producer in producers:
            producer.close()


def test_another_service_gets_each_batch_once_whoever_dies(tmp_path: Path) -> None:
    behind = definition(tmp_path, spill(tmp_path / "b") + SUBSCRIBERS, "behind")
    with flow_service(behind) as probe:
        address = probe.address
    text = (
        '[[stages]]\nfilter = "id % 2 = 0"\n[outputs.next]\nto = "grpc://' + address + '/behind"\n'
    )
    first = definition(tmp_path, spill(tmp_path / "a") + text)
    found: dict[tuple[str, int], pa.RecordBatch] = {}
    with flow_service(first) as front:
        producer = Producer(front, "sensor").send_all(range(100))
        with flow_service(behind, "--listen", address) as second:
            producer.send(100)
            found |= take_numbered(second, "all")
            second.kill()
        producer.send_all(range(101, 300))
        with flow_service(behind, "--listen", address) as second:
            wait_for(lambda: front.statistics()["outputs"][0]["connected"])
            found |= take_numbered(second, "all")
            acknowledged = producer.acknowledged
            front.kill()
            with flow_service(first) as front_again:
                again = Producer(front_again, "sensor").send_all(range(acknowledged + 1, 400))

                def all_there() -> bool:
                    found.update(take_numbered(second, "all"))
                    return len(found) == 400

                wait_for(all_there)
                again.wait(399)
                again.close()
            assert second.statistics()["counters"]["failed_batches_total"] == 0
    assert sorted(found) == [("sensor/next/all", n) for n in range(400)]
    assert found["sensor/next/all", 7].column("id").to_pylist() == list(range(700, 800, 2))


def test_a_wrong_definition_is_explained(tmp_path: Path) -> None:
    wrong = definition(tmp_path, '[outputs.a]\nto = "grpc://nowhere/x"\n')
    assert "grpc://nowhere/x: it has no HOST:PORT" in flow("serve", wrong, code=3)
