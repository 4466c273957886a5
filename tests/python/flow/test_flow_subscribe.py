"""Subscribers of `overside flow serve` that acknowledge: nothing is lost, whatever dies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import overside
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from command import PATIENCE_S, wait_for
from flow_service import (
    SUBSCRIBERS,
    Producer,
    Service,
    batch,
    definition,
    flow_service,
    ids,
    put,
    spill,
    take_numbered,
)

PARTITIONS = '[[stages]]\npartition = { key = "id", by = "bits:1" }\n' + SUBSCRIBERS


class Subscriber:
    """Subscriber that only uses Arrow Flight."""

    def __init__(self, service: Service, **wanted: Any) -> None:
        self.client = service.client()
        command = json.dumps({"output": "all", **wanted}).encode()
        self.writer, self.reader = self.client.do_exchange(fl.FlightDescriptor.for_command(command))

    def take(self) -> tuple[str, int]:
        """The producer and number of the next batch."""
        said = json.loads(self.reader.read_chunk().app_metadata.to_pybytes())
        return said["producer"], said["sequence"]

    def acknowledge(self, producer: str, sequence: int) -> None:
        self.say({"producer": producer, "acknowledged": sequence})

    def say(self, words: object) -> None:
        self.writer.write_metadata(json.dumps(words).encode())

    def leave(self) -> None:
        """Without another word."""
        self.reader.cancel()
        self.client.close()


def taken(service: Service) -> int:
    """Number of batches of the output that are not needed any more."""
    output = service.statistics()["outputs"][0]
    return int(output["batches"] - output["backlog_batches"])


@pytest.mark.parametrize(
    ("text", "there"),
    [
        (SUBSCRIBERS, []),
        # The last one has the rows without a key.
        (PARTITIONS, [0, 1, 2]),
        (PARTITIONS + 'partitions = "1"\n[outputs.rest]\nto = "subscribers"\n', [1]),
    ],
)
def test_a_partition_that_cannot_be_is_refused(tmp_path: Path, text: str, there: list[int]) -> None:
    with flow_service(definition(tmp_path, text)) as service, service.client() as client:
        put(service, batch(0))
        for partition in (0, 1, 2, 3, 2**32 - 1):
            wanted = {"output": "all", "partition": partition, "follow": partition not in there}
            if partition in there:
                client.do_get(fl.Ticket(json.dumps(wanted).encode())).read_all()
                continue
            for ticket in (f"all/{partition}", json.dumps(wanted)):
                with pytest.raises(KeyError, match=f"no partition {partition}"):
                    client.do_get(fl.Ticket(ticket.encode()))
            with pytest.raises(KeyError, match=f"no partition {partition}"):
                Subscriber(service, partition=partition).take()


def test_a_batch_is_safe_once_it_is_acknowledged(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, SUBSCRIBERS)) as service:
        producer = Producer(service, "sensor").send_all(range(5))
        first = Subscriber(service)
        assert [first.take() for _ in range(5)] == [("sensor/all", n) for n in range(5)]
        # One that has everything and says nothing.
        assert (producer.acknowledged, taken(service)) == (-1, 0)
        # What nobody sent is nobody's: a number beyond is all that came so far.
        first.acknowledge("another", 3)
        first.acknowledge("sensor/all", 1)
        producer.wait(1)
        assert taken(service) == 2
        first.leave()
        wait_for(lambda: service.statistics()["outputs"][0]["subscribers"] == 0)
        assert producer.acknowledged == 1
        second = Subscriber(service)
        assert [second.take() for _ in range(3)] == [("sensor/all", n) for n in range(2, 5)]
        second.acknowledge("sensor/all", 99)
        producer.wait(4)
        producer.close()
        assert (producer.error, taken(service)) == (None, 5)
        second.leave()
        assert service.end() == 0


def test_a_stream_that_does_not_follow_ends_with_the_last_acknowledgement(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, PARTITIONS)) as service:
        put(service, *(batch(100 * n) for n in range(10)))
        one = Subscriber(service, follow=False, partition=1)
        numbers = [one.take() for _ in range(10)]
        for name, sequence in numbers:
            assert name.endswith("/all/1")
            one.acknowledge(name, sequence)
        with pytest.raises(StopIteration):
            one.take()
        # The other partition waits for somebody else.
        assert taken(service) == 10
        assert len(take_numbered(service, "all")) == 10
        assert taken(service) == 20


def test_what_one_has_not_acknowledged_waits_although_another_has_it(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, SUBSCRIBERS)) as service:
        careful = Subscriber(service)
        producer = Producer(service, "sensor").send_all(range(3))
        found = [careful.take() for _ in range(3)]
        assert set(take_numbered(service, "all")) == set(found)
        assert taken(service) == 0
        careful.acknowledge("sensor/all", 2)
        producer.wait(2)
        careful.leave()
        producer.close()


def test_what_is_not_acknowledged_goes_to_disk_and_stays(tmp_path: Path) -> None:
    pipeline = definition(tmp_path, spill(tmp_path / "spill") + SUBSCRIBERS)
    with flow_service(pipeline) as service:
        greedy = Subscriber(service)
        producer = Producer(service, "sensor")
        # About 3 MB: more than fits into memory.
        for sequence in range(300):
            producer.send(sequence)
            greedy.take()
        wait_for(lambda: service.statistics()["spill"]["used_bytes"] > 1 << 20)
        assert service.statistics()["outputs"][0]["memory_bytes"] < 1 << 20
        greedy.leave()
        acknowledged = producer.acknowledged
        service.kill()
    with flow_service(pipeline) as service:
        found = take_numbered(service, "all")
        assert {n for _, n in found} >= set(range(acknowledged + 1))


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, SUBSCRIBERS)) as service:
        put(service, batch(0))
        for words in ({"acknowledged": 1}, {"producer": "a", "acknowledged": -1}, [], "text"):
            wrong = Subscriber(service)
            wrong.take()
            wrong.say(words)
            with pytest.raises(pa.ArrowInvalid, match="app_metadata of a subscriber is"):
                wrong.take()
        for command in (b"{", b'{"output": "all", "more": 1}', b"\xff"):
            descriptor = fl.FlightDescriptor.for_command(command)
            with (
                service.client() as client,
                pytest.raises(pa.ArrowInvalid, match="a ticket is"),
            ):
                client.do_exchange(descriptor)[1].read_chunk()
        with pytest.raises(pa.ArrowKeyError, match="there are: all"):
            next(overside.subscribe(f"{service.uri}/none"))
        assert taken(service) == 0
    with pytest.raises(fl.FlightUnavailableError):
        overside.subscribe(f"{service.uri}/all")
    with pytest.raises(ValueError, match="is not like grpc://HOST:PORT/NAME"):
        overside.subscribe("http://127.0.0.1:1/all")


def test_subscribers_are_bounded(tmp_path: Path) -> None:
    pipeline = definition(tmp_path, "streams = 1\n" + SUBSCRIBERS)
    with flow_service(pipeline, "--max-subscribers", "2") as service:
        # The one stream is a producer's: subscribers do not need it.
        producer = Producer(service, "sensor")
        producer.send(0)
        both = [Subscriber(service) for _ in range(2)]
        assert [one.take() for one in both] == [("sensor/all", 0)] * 2
        with pytest.raises(pa.ArrowException, match="--max-subscribers"):
            Subscriber(service).take()
        for one in both:
            one.acknowledge("sensor/all", 0)
        producer.close()
        for one in both:
            one.leave()


def test_python_acknowledges_when_it_asks_for_the_next(tmp_path: Path) -> None:
    with flow_service(definition(tmp_path, PARTITIONS)) as service:
        put(service, *(batch(100 * n) for n in range(10)))
        for number, one in enumerate(overside.subscribe(f"{service.uri}/all", partition=0)):
            assert one.partition == 0
            assert one.sequence == number
            assert all(n % 2 == 0 for n in one.data["id"].to_pylist())
            wait_for(lambda number=number: taken(service) == number)  # type: ignore[misc]
            if number == 6:
                break
        # The seventh was not done with.
        wait_for(lambda: service.statistics()["outputs"][0]["subscribers"] == 0)
        assert taken(service) == 6
        rest = list(overside.subscribe(f"{service.uri}/all", follow=False))
        assert Counter(one.partition for one in rest) == {0: 4, 1: 10}
        wait_for(lambda: taken(service) == 20)
        rows = pa.Table.from_batches([one.data for one in rest])
        assert len(ids(rows)) == 14 * 50


def test_each_batch_once_whatever_is_killed(tmp_path: Path) -> None:
    """The service is killed again and again, between a producer and a subscriber that go on."""
    pipeline = definition(tmp_path, spill(tmp_path / "spill") + SUBSCRIBERS)
    with flow_service(pipeline) as probe:
        address = probe.address
    seen: Counter[int] = Counter()
    last = 400

    def subscribe() -> None:
        for one in overside.subscribe(f"grpc://{address}/all", reconnect_s=PATIENCE_S):
            if one.producer != "sensor/all":
                return
            assert one.data["id"][0].as_py() == 100 * one.sequence
            seen[one.sequence] += 1

    thread = None
    acknowledged = -1
    for killed_at in (60, 150, 300, None):
        with flow_service(pipeline, "--listen", address) as service:
            if thread is None:
                thread = threading.Thread(target=subscribe, daemon=True)
                thread.start()
            producer = Producer(service, "sensor")
            producer.send_all(range(acknowledged + 1, killed_at or last))
            producer.wait((killed_at or last) // 2)
            if killed_at is None:
                producer.close()
                assert producer.error is None
                wait_for(lambda: len(seen) == last)
                put(service, batch(0))
                thread.join(PATIENCE_S)
            else:
                service.kill()
            acknowledged = max(acknowledged, producer.acknowledged)
            producer.client.close()
    assert thread is not None
    assert not thread.is_alive()
    assert seen == Counter(range(last))


PROGRAM = """
import sys
import overside

with open(sys.argv[2], "a") as log:
    for batch in overside.subscribe(sys.argv[1]):
        log.write(f"{batch.sequence}\\n")
        log.flush()
"""


def test_a_subscriber_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()

    def seen() -> Counter[int]:
        # The last line may not be whole.
        return Counter(int(line) for line in log.read_text().splitlines(True) if "\n" in line)

    with flow_service(definition(tmp_path, spill(tmp_path / "spill") + SUBSCRIBERS)) as service:
        producer = Producer(service, "sensor")
        command = [sys.executable, "-c", PROGRAM, f"{service.uri}/all", str(log)]
        for turn, wanted in enumerate((30, 130, 300)):
            producer.send_all(range(100 * turn, 100 * (turn + 1)))
            with subprocess.Popen(command) as process:
                wait_for(lambda wanted=wanted: len(seen()) >= wanted)  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
                process.wait(PATIENCE_S)
        # What the last one had not acknowledged waits still.
        take_numbered(service, "all")
        producer.close()
        assert producer.error is None
    assert set(seen()) == set(range(300))
    # Twice came what was not acknowledged when a process was killed.
    assert max(seen().values()) <= 2
