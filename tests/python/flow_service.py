"""Runs `overside flow serve`, and talks to it as any client of Arrow Flight does."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.flight as fl
from command import PATIENCE_S, Json, Listening, ended, native, wait_for

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("name", pa.string())])
#: The path that streams are put under.
INPUT = fl.FlightDescriptor.for_path("flow")
#: An output to subscribers.
SUBSCRIBERS = '[outputs.all]\nto = "subscribers"\n'


def batch(first: int, rows: int = 100) -> pa.RecordBatch:
    """Rows whose ids go on from `first`."""
    ids = range(first, first + rows)
    columns = [list(ids), [n / 8 for n in ids], [f"row {n}" for n in ids]]
    return pa.record_batch(columns, schema=SCHEMA)


def definition(directory: Path, text: str, name: str = "flow") -> Path:
    """A pipeline's file with these outputs, and perhaps stages."""
    path = directory / f"{name}.toml"
    # Definitions are UTF-8, whatever the locale is.
    path.write_text(f'schema = "flow-pipeline/1"\nname = "{name}"\n{text}', encoding="utf-8")
    return path


def spill(directory: Path, size: str = "64 MiB") -> str:
    """Options with so little memory that a backlog goes to disk."""
    return f'memory = "1 MiB"\n[spill]\ndirectory = "{directory}"\nbytes = "{size}"\n'


class Service(Listening):
    """A service that runs, and where."""

    def client(self, **options: Any) -> fl.FlightClient:
        """A client without a password."""
        return fl.connect(self.uri, **options)

    def statistics(self) -> Json:
        """Result of the action `statistics`."""
        with self.client() as client:
            answer: Json = json.loads(next(client.do_action("statistics")).body.to_pybytes())
            return answer

    def kill(self) -> None:
        """Kills the service, as if the machine had stopped."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def end(self) -> int:
        """Ends the service like an operator. Returns its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)


@contextmanager
def flow_service(*words: str | Path) -> Iterator[Service]:
    """A service at any port of this machine, with these options too."""
    listen = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
    common = ["flow", "serve", "--json", "--quiet", "--drain", "2"]
    command = [*native(), *common, *listen, *map(str, words)]
    with ended(command) as process:
        yield Service(process)


class Producer:
    """A producer that numbers its batches, and knows which are safe."""

    def __init__(
        self,
        service: Service,
        name: str,
        descriptor: fl.FlightDescriptor = INPUT,
        **options: Any,
    ) -> None:
        self.client = service.client(**options)
        self.name = name
        self.writer, self.reader = self.client.do_put(descriptor, SCHEMA)
        self.acknowledged = -1
        #: Error that ended the stream.
        self.error: Exception | None = None
        # A writer is for one thread at a time.
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while (answer := self.reader.read()) is not None:
                said = json.loads(answer.to_pybytes())
                assert said["producer"] == self.name
                assert said["acknowledged"] >= self.acknowledged
                self.acknowledged = said["acknowledged"]
        except (pa.ArrowException, fl.FlightError, OSError) as error:
            self.error = error
            return
        with self._writing:
            try:
                # Says how the stream ended.
                self.writer.close()
            except (pa.ArrowException, fl.FlightError, OSError) as error:
                self.error = self.error or error

    def send(self, sequence: int, data: pa.RecordBatch | None = None) -> None:
        """Sends a batch under a number; unless it is given, the one that belongs to the number."""
        data = batch(100 * sequence) if data is None else data
        said = json.dumps({"producer": self.name, "sequence": sequence})
        with self._writing:
            if self.error is not None:
                raise self.error
            try:
                self.writer.write_with_metadata(data, said.encode())
            except (pa.ArrowException, fl.FlightError) as error:
                # Whoever notices first hears why.
                self.error = error
                raise

    def send_all(self, sequences: Iterable[int]) -> Self:
        """Sends the batches of these numbers."""
        for sequence in sequences:
            self.send(sequence)
        return self

    def wait(self, sequence: int) -> None:
        """Waits until a batch and all before it are safe."""
        wait_for(lambda: self.acknowledged >= sequence or self.error is not None)
        assert self.acknowledged >= sequence, self.error

    def close(self, last: int | None = None) -> None:
        """Sends no more, and waits until all is safe: up to the number `last`, if it is given."""
        # The thread that reads closes.
        self.writer.done_writing()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the stream does not end"
        self.client.close()
        if last is not None:
            assert (self.acknowledged, self.error) == (last, None)


def put(service: Service, *batches: pa.RecordBatch, **options: Any) -> None:
    """Sends batches without names or numbers."""
    with service.client(**options) as client:
        writer, _ = client.do_put(INPUT, batches[0].schema)
        for one in batches:
            writer.write_batch(one)
        writer.close()


def take(service: Service, output: str, partition: int | None = None, **options: Any) -> pa.Table:
    """Batches that wait in an output, and those that follow until everything has been processed."""
    ticket: Json = {"output": output, "follow": False}
    if partition is not None:
        ticket["partition"] = partition
    with service.client(**options) as client:
        return client.do_get(fl.Ticket(json.dumps(ticket).encode())).read_all()


def take_rows(service: Service, output: str, count: int, column: str = "id") -> list[int]:
    """The values of so many rows or more, in ascending order."""
    found: list[int] = []

    def all_there() -> bool:
        found.extend(take(service, output)[column].to_pylist())
        return len(found) >= count

    wait_for(all_there)
    return sorted(found)


def take_numbered(
    service: Service, output: str, count: int = 0
) -> dict[tuple[str, int], pa.RecordBatch]:
    """Batches in an output, by producer and number, each once. Waits for at least `count`
    batches."""
    found: dict[tuple[str, int], pa.RecordBatch] = {}
    ticket = json.dumps({"output": output, "follow": False}).encode()

    def all_there() -> bool:
        with service.client() as client:
            for chunk in client.do_get(fl.Ticket(ticket)):
                said = json.loads(chunk.app_metadata.to_pybytes())
                found[said["producer"], said["sequence"]] = chunk.data
        return len(found) >= count

    wait_for(all_there)
    return found


def ids(table: pa.Table) -> list[int]:
    """The ids of a table, ascending."""
    return sorted(table.column("id").to_pylist())
