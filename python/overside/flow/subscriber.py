"""An output of `overside flow serve`: each batch once, and acknowledged once it is done with.

1. DoExchange with the output as the descriptor's command: batches come, numbers go back.
2. A batch is acknowledged when the next one is asked for. Until then the service keeps it.
3. After a lost connection the service sends unacknowledged batches again. Those that were done
   before are recognized by producer and number, and acknowledged again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from overside.flow.connection import TLS_NAME, Connection

_LOG = logging.getLogger(__name__)

#: Producers whose last numbers are remembered; of more, those that came longest ago are forgotten.
_PRODUCERS_MAX = 1 << 16
#: Seconds until a lost connection is tried again, at first and at most.
_RETRY_S, _RETRY_MAX_S = 0.1, 5.0
#: Exceptions that pyarrow raises if the connection is lost.
_LOST = (
    fl.FlightUnavailableError,
    fl.FlightTimedOutError,
    fl.FlightInternalError,
    fl.FlightCancelledError,
)


@dataclass(frozen=True)
class SubscribedBatch:
    """A batch of an output."""

    #: The rows.
    data: pa.RecordBatch
    #: Identifier of the batch's origin: the input's producer, the output and the partition.
    producer: str
    #: The number of the batch among those of its producer; ascends.
    sequence: int
    #: The partition, if there are any.
    partition: int | None


def subscribe(
    uri: str,
    *,
    partition: int | None = None,
    follow: bool = True,
    reconnect_s: float = 60,
    codec: str | None = None,
    password: str | None = None,
    tls_keys: str | Path | None = None,
    tls_name: str = TLS_NAME,
) -> Iterator[SubscribedBatch]:
    """Yields the batches of an output of `overside flow serve`, each batch once.

    A batch is acknowledged when the next one is asked for: one that a program had not finished when
    it ended, or failed, comes again to the next subscriber. Where several programs each need every
    batch, give each an output.

    Args:
        uri: `grpc://HOST:PORT/OUTPUT`, or `grpc+tls://...`.
        partition: The only partition that is wanted.
        follow: Wait for more once everything has come.
        reconnect_s: How long a service that was lost, or ended, is tried again, in seconds.
        codec: What the service is to compress columns with on the way: `lz4`, `zstd`, `zstd:LEVEL`.
        password: The service's password, if it has one.
        tls_keys: A directory with `ca.pem`, and with `host.pem` and `host.key` if the service
            requires a certificate.
        tls_name: The name in the service's certificate.

    Returns:
        Batches; without `follow` they end when all are acknowledged.

    Raises:
        ImportError: pyarrow is missing.
        ValueError: The URI is another one.
        pyarrow.flight.FlightError: The service does not answer, or refuses.
        pyarrow.ArrowException: There is no such output.
    """
    connection = Connection(uri, password, tls_keys, tls_name, codec=codec)
    wanted: dict[str, Any] = {"output": connection.path, "follow": follow}
    if partition is not None:
        wanted["partition"] = partition
    command = fl.FlightDescriptor.for_command(json.dumps(wanted).encode())
    connection.check()
    return _reconnecting(connection, command, reconnect_s, follow=follow)


def _reconnecting(
    connection: Connection, command: fl.FlightDescriptor, reconnect_s: float, *, follow: bool
) -> Iterator[SubscribedBatch]:
    """The batches of one stream after the other. A service that ends may be started again."""
    done = _Completed()
    while True:
        try:
            yield from _stream(connection, command, done)
            if not follow:
                return
        except _LOST as error:
            _LOG.info("the connection was lost, and is tried again: %s", error)
        _wait(connection, reconnect_s)


def _wait(connection: Connection, reconnect_s: float) -> None:
    """Waits until the service answers again. Raises `FlightError` if it does not in that time."""
    deadline = time.monotonic() + reconnect_s
    pause = _RETRY_S
    while True:
        time.sleep(pause)
        try:
            connection.check()
            return
        except _LOST:
            if time.monotonic() > deadline:
                raise
        pause = min(2 * pause, _RETRY_MAX_S)


def _stream(
    connection: Connection, command: fl.FlightDescriptor, done: _Completed
) -> Iterator[SubscribedBatch]:
    """The batches of one stream that are not done with."""
    streams = connection.client.do_exchange(command, connection.options)
    writer, reader = map(connection.kept, streams)
    try:
        for chunk in reader:
            said = json.loads(chunk.app_metadata.to_pybytes())
            batch = SubscribedBatch(
                chunk.data, said["producer"], said["sequence"], said.get("partition")
            )
            if not done.has(batch):
                yield batch
                connection.check_process()
                done.add(batch)
            acknowledgement = {"producer": batch.producer, "acknowledged": batch.sequence}
            writer.write_metadata(json.dumps(acknowledgement).encode())
    finally:
        # Acknowledgements arrive before the end of this side; the service answers with its own.
        with contextlib.suppress(fl.FlightError, pa.ArrowException, StopIteration):
            if connection.is_usable:
                writer.done_writing()
                while True:
                    reader.read_chunk()


class _Completed:
    """The last numbers that are done with, by producer."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, int] = OrderedDict()

    def has(self, batch: SubscribedBatch) -> bool:
        """Returns `True` if the batch, or a later one of the same producer, was completed."""
        return batch.sequence <= self._last.get(batch.producer, -1)

    def add(self, batch: SubscribedBatch) -> None:
        """Marks a batch as done with."""
        self._last[batch.producer] = batch.sequence
        self._last.move_to_end(batch.producer)
        if len(self._last) > _PRODUCERS_MAX:
            self._last.popitem(last=False)
