"""`overside flow serve` is killed at any moment; producers send again what was not acknowledged."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import overside
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from command import PATIENCE_S, flow, wait_for
from flow_service import (
    SUBSCRIBERS,
    Producer,
    Service,
    batch,
    definition,
    flow_service,
    take_numbered,
)
from test_flow_service_outputs import read
from test_flow_service_trees import TREE, tracks

BATCHES, ROWS, PRODUCERS = 150, 500, 2
STAGE = '[[stages]]\npartition = { key = "id", by = "bits:1" }\n'
FILES = '[outputs.kept]\nto = "kept"\nformat = "FORMAT"\nfile_bytes = "100 KiB"\n'
#: Pauses of gRPC between attempts to connect are longer than a start takes.
AT_ONCE = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 100),
]
LOST = (pa.ArrowException, fl.FlightError, OSError, AssertionError)


class Place:
    """A service that is started again at the same address."""

    def __init__(self, pipeline: Path) -> None:
        self.pipeline = pipeline
        self.service: Service | None = None
        self._running = ExitStack()
        self.address = "127.0.0.1:0"

    def start(self) -> Place:
        started = flow_service(self.pipeline, "--listen", self.address)
        self.service = self._running.enter_context(started)
        self.address = self.service.address
        return self

    def stop(self, *, kill: bool) -> None:
        assert self.service is not None
        if kill:
            self.service.kill()
        else:
            assert self.service.end() == 0
        self._running.close()

    def is_empty(self) -> bool:
        """True if nothing waits in it."""
        try:
            with self.client(generic_options=AT_ONCE) as client:
                said = json.loads(next(client.do_action("statistics")).body.to_pybytes())
        except LOST:
            return False
        return not any(queue["backlog_batches"] for queue in (said["input"], *said["outputs"]))

    def client(self, **options: object) -> fl.FlightClient:
        return fl.connect(f"grpc://{self.address}", **options)


def produce(place: Place, name: str, first: int, pauses: random.Random) -> None:
    """Sends batches until all are acknowledged, again after each loss."""
    acknowledged = -1
    end = time.monotonic() + PATIENCE_S
    while acknowledged < BATCHES - 1 and time.monotonic() < end:
        try:
            producer = Producer(place, name, generic_options=AT_ONCE)  # type: ignore[arg-type]
        except LOST:
            continue
        try:
            # Some have forgotten an acknowledgement or two.
            for sequence in range(max(0, acknowledged + 1 - pauses.choice((0, 0, 5))), BATCHES):
                producer.send(sequence, batch(first + ROWS * sequence, ROWS))
                time.sleep(pauses.choice((0, 0, 0.002, 0.01)))
            producer.wait(BATCHES - 1)
        except LOST:
            time.sleep(0.02)
        finally:
            acknowledged = max(acknowledged, producer.acknowledged)
            producer.client.close()
    assert acknowledged == BATCHES - 1


class Subscriber(threading.Thread):
    """Takes an output, whatever dies."""

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        self.place = place
        self.rows: Counter[int] = Counter()

    def run(self) -> None:
        # The service ends when all rows are there.
        with suppress(*LOST):
            for taken in overside.subscribe(f"grpc://{self.place.address}/all"):
                self.rows.update(taken.data.column("id").to_pylist())


def trial(directory: Path, kind: str, *, spill: bool, numbers: random.Random) -> int:
    """Kills services while producers send. Each row has to be there once.

    Returns the number of kills.
    """

    def text(name: str) -> str:
        # A tree takes four times its capacity of it.
        memory = "1424 KiB" if kind == "tree" else "1 MiB"
        where = f'[spill]\ndirectory = "spill-{name}"\nbytes = "64 MiB"\n' if spill else ""
        return f'memory = "{memory}"\n{where}'

    outputs = {"tree": TREE, "subscribers": STAGE + SUBSCRIBERS}
    file_kind = "arrow" if kind == "arrow" else "parquet"
    files = STAGE + FILES.replace("FORMAT", file_kind)
    pipeline = definition(directory, text("last") + outputs.get(kind, files), "flow")
    places = [Place(pipeline).start()]
    if kind == "service":
        to = f'[outputs.next]\nto = "grpc://{places[0].address}/flow"\n'
        (directory / "front").mkdir()
        front = definition(directory / "front", text("front") + STAGE + to, "flow")
        places.append(Place(front).start())
    producers = [
        threading.Thread(
            target=produce,
            args=(places[-1], f"p{n}", n * BATCHES * ROWS, random.Random(numbers.random())),
            daemon=True,
        )
        for n in range(PRODUCERS)
    ]
    subscriber = Subscriber(places[0]) if kind == "subscribers" else None
    for thread in [*producers, *([subscriber] if subscriber else [])]:
        thread.start()
    kills = 0
    for _ in range(numbers.randint(1, 5)):
        time.sleep(numbers.uniform(0.05, 0.6))
        place = numbers.choice(places)
        place.stop(kill=True)
        kills += 1
        place.start()
    for thread in producers:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    for place in reversed(places):
        # What is acknowledged may be on the way from the spill directory.
        wait_for(place.is_empty)
    wanted = range(PRODUCERS * BATCHES * ROWS)
    if subscriber:
        wait_for(lambda: len(subscriber.rows) == len(wanted))
    for place in reversed(places):
        place.stop(kill=False)
    if subscriber:
        found = subscriber.rows
    elif kind == "tree":
        found = Counter(tracks(directory / "tracks").column("id").to_pylist())
    else:
        found = Counter(read(directory / "kept", file_kind).column("id").to_pylist())
    missing = [n for n in wanted if n not in found]
    twice = [n for n, count in found.items() if count > 1]
    assert (len(missing), len(twice)) == (0, 0), (missing[:3], twice[:3])
    return kills


CASES = [
    (kind, spill)
    for kind in ("arrow", "parquet", "tree", "subscribers", "service")
    for spill in (False, True)
]


@pytest.mark.parametrize("kind", ["parquet", "subscribers", "service"])
def test_each_row_is_there_once_whatever_is_killed(tmp_path: Path, kind: str) -> None:
    assert trial(tmp_path, kind, spill=True, numbers=random.Random(kind)) > 0


@pytest.mark.long
@pytest.mark.parametrize(("kind", "spill"), CASES)
def test_each_row_is_there_once_after_many_kills(tmp_path: Path, kind: str, spill: bool) -> None:
    numbers, kills = random.Random(), 0
    for number in range(100):
        directory = tmp_path / str(number)
        directory.mkdir()
        kills += trial(directory, kind, spill=spill, numbers=numbers)
        if kills >= 12:
            return


def test_what_is_lost_from_the_spill_directory_is_named(tmp_path: Path) -> None:
    text = 'memory = "1 MiB"\n[spill]\ndirectory = "spill"\nbytes = "64 MiB"\n' + SUBSCRIBERS
    pipeline = definition(tmp_path, text)
    with flow_service(pipeline) as service:
        producer = Producer(service, "sensor")
        for sequence in range(200):
            producer.send(sequence, batch(ROWS * sequence, ROWS))
        producer.wait(100)
        service.kill()
    acknowledged = producer.acknowledged + 1
    (segment,) = (tmp_path / "spill").glob("output-all-*.spill")
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size // 2)
    said = flow("serve", pipeline, "--listen", "127.0.0.1:0", code=3)
    assert f"{segment} is damaged at byte" in said
    assert "acknowledged batches are lost; restore it" in said
    with flow_service(pipeline, "--accept-loss") as service:
        lost = service.statistics()["counters"]["lost_batches_total"]
        assert f"{lost} acknowledged batches" in said
        assert len(take_numbered(service, "all", acknowledged - lost)) >= acknowledged - lost
        assert service.end() == 0
    with flow_service(pipeline) as service:
        assert service.statistics()["counters"]["lost_batches_total"] == 0
