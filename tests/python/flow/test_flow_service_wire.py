"""Compression of messages between services and their clients."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import overside
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from command import wait_for
from flow_service import (
    INPUT,
    SCHEMA,
    SUBSCRIBERS,
    Json,
    Producer,
    Service,
    batch,
    definition,
    flow_service,
    ids,
    put,
    take,
)

#: An engine that is part of the machine where codecs run.
DEVICE = 'placement = "device"\ndevice = "emulated:bf2"\n'
TICKET = fl.Ticket(b'{"output": "all", "follow": false}')
BATCHES = [batch(5000 * number, 5000) for number in range(4)]
WANTED = list(range(20_000))


def asking(**headers: str) -> fl.FlightCallOptions:
    """A call that asks for its answer so."""
    pairs = [(f"overside-{name}".encode(), value.encode()) for name, value in headers.items()]
    return fl.FlightCallOptions(headers=pairs)


def sent_bytes(service: Service) -> int:
    count: int = service.statistics()["counters"]["sent_bytes_total"]
    return count


def devices(stage: Json) -> dict[str, int]:
    """Jobs by operation, of the emulated device."""
    of_device = [one for one in stage["devices"] if one["device"] == "emulated:bf2"]
    return {one["operation"]: one["jobs"] for one in of_device}


def exchanged(client: fl.FlightClient, options: fl.FlightCallOptions) -> list[pa.RecordBatch]:
    writer, reader = client.do_exchange(INPUT, options)
    writer.begin(SCHEMA)
    writer.write_batch(BATCHES[0])
    writer.done_writing()
    batches: list[pa.RecordBatch] = reader.read_all().to_batches()
    return batches


def test_a_subscriber_gets_what_it_asks_for(tmp_path: Path) -> None:
    taken: dict[str, int] = {}
    with flow_service(definition(tmp_path, SUBSCRIBERS)) as service, service.client() as client:
        for codec in ["", "none", "lz4", "zstd:3"]:
            before = sent_bytes(service)
            put(service, *BATCHES)
            options = asking(codec=codec) if codec else None
            table = client.do_get(TICKET, options).read_all()
            assert ids(table) == WANTED
            taken[codec] = sent_bytes(service) - before
        # Who asks for nothing gets plain Arrow.
        assert taken[""] == taken["none"] > 1.5 * taken["lz4"] > 2 * taken["zstd:3"]
        # Likewise by an exchange, whatever it is for.
        put(service, *BATCHES)
        uri = f"{service.uri}/all"
        before = sent_bytes(service)
        batches = overside.subscribe(uri, follow=False, codec="zstd")
        assert sorted(i for one in batches for i in one.data.column("id").to_pylist()) == WANTED
        assert sent_bytes(service) - before < taken["lz4"]
        assert exchanged(client, asking(codec="lz4")) == [BATCHES[0]]
        # A reader of Arrow refuses what is compressed as a whole.
        with pytest.raises(pa.ArrowException):
            exchanged(client, asking(outer="gzip"))
        repack = service.statistics()["repack"]
        assert repack["rows_out"] > 5 * len(WANTED)
        assert repack["bytes_out"] < repack["bytes_in"]
        for options, reason in [
            (asking(codec="brotli"), "overside-codec: .*none, lz4, zstd"),
            (asking(outer="gzip:77"), "overside-outer: .*77"),
            (asking(outer="deflate-part"), "overside-outer: .*deflate, gzip"),
            (asking(outer="gzip", codec="lz4"), "ask for one of them"),
        ]:
            with pytest.raises(pa.ArrowInvalid, match=reason):
                client.do_get(TICKET, options).read_all()


def test_a_service_says_what_it_reads(tmp_path: Path) -> None:
    with (
        flow_service("--node") as node,
        flow_service(definition(tmp_path, SUBSCRIBERS)) as service,
    ):
        for one in (node, service):
            with one.client() as client:
                assert "codecs" in [action.type for action in client.list_actions()]
                said = json.loads(next(client.do_action("codecs")).body.to_pybytes())
                assert said["codec"] == ["none", "lz4", "zstd"]
                assert {"deflate", "lz4-block", "zstd"} <= set(said["outer"])


@pytest.mark.parametrize("how", ['codec = "zstd"', 'outer = "deflate"'])
def test_another_service_gets_compressed_messages(tmp_path: Path, how: str) -> None:
    """By an accelerator, on both sides, where whole messages are DEFLATE."""
    is_outer = "outer" in how
    unpack = f"[unpack]\n{DEVICE}" if is_outer else ""
    repack = f"[repack]\n{DEVICE}" if is_outer else ""
    with flow_service(definition(tmp_path, unpack + SUBSCRIBERS)) as last:
        output = f'[outputs.next]\nto = "{last.uri}/flow"\n{how}\n'
        with flow_service(definition(tmp_path, repack + output, "first")) as first:
            # All is safe once a subscriber has it.
            with first.client() as client:
                writer, _ = client.do_put(fl.FlightDescriptor.for_path("first"), SCHEMA)
                for one in BATCHES:
                    writer.write_batch(one)
                found: list[int] = []
                wait_for(lambda: found.extend(ids(take(last, "all"))) or found == WANTED)
                writer.close()
            plain = sum(one.nbytes for one in BATCHES)
            assert last.statistics()["counters"]["received_bytes_total"] < plain / 2
            sender, receiver = first.statistics()["repack"], last.statistics()["unpack"]
            assert sender["bytes_out"] < sender["bytes_in"] / 2
            assert receiver["bytes_in"] < receiver["bytes_out"] / 2
            assert sender["rows_out"] == receiver["rows_out"] == len(WANTED)
            if is_outer:
                assert devices(sender)["compress-deflate"] >= 4
                assert devices(receiver)["decompress-deflate"] >= 4
            else:
                assert sender["devices"] == receiver["devices"] == []


@pytest.mark.parametrize("how", ['codec = "lz4"', 'outer = "deflate"'])
def test_a_node_is_sent_and_answers_compressed_messages(tmp_path: Path, how: str) -> None:
    options = ["--device", "emulated:bf2", "--placement", "device"] if "outer" in how else []
    with flow_service("--node", *options) as node:
        text = f"""
[nodes.dpu]
address = "{node.uri}"
{how}

[[stages]]
filter = "id % 2 = 0"
placement = "dpu"

{SUBSCRIBERS}"""
        with flow_service(definition(tmp_path, text)) as service:
            put(service, *BATCHES)
            assert ids(take(service, "all")) == WANTED[::2]
            stage = service.statistics()["stages"][0]
            assert stage["node"]["batches"] == 4
        said = node.statistics()
        unpack, repack = said["unpack"], said["repack"]
        assert (unpack["rows_out"], repack["rows_out"]) == (len(WANTED), len(WANTED) // 2)
        assert 1.5 * unpack["bytes_in"] < unpack["bytes_out"]
        assert 1.5 * repack["bytes_out"] < repack["bytes_in"]
        assert ("decompress-deflate" in devices(unpack)) == bool(options)
        assert ("compress-deflate" in devices(repack)) == bool(options)


class Foreign(fl.FlightServerBase):  # type: ignore[misc]
    """A server that acknowledges, and knows no codecs but those of Arrow."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.found: list[int] = []

    def do_put(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.FlightMetadataWriter,
    ) -> None:
        for chunk in reader:
            self.found += chunk.data.column("id").to_pylist()
            said = json.loads(chunk.app_metadata.to_pybytes())
            answer = {"producer": said["producer"], "acknowledged": said["sequence"]}
            writer.write(json.dumps(answer).encode())


@pytest.mark.parametrize("how", ['codec = "zstd"', 'outer = "deflate"'])
def test_a_foreign_service_gets_what_every_reader_of_arrow_reads(tmp_path: Path, how: str) -> None:
    with Foreign() as foreign:
        threading.Thread(target=foreign.serve, daemon=True).start()
        output = f'[outputs.next]\nto = "grpc://127.0.0.1:{foreign.port}/any"\n{how}\n'
        with flow_service(definition(tmp_path, output)) as service:
            producer = Producer(service, "sensor")
            for number, one in enumerate(BATCHES):
                producer.send(number, one)
            producer.wait(3)
            producer.close()
            assert sorted(foreign.found) == WANTED
            repack = service.statistics()["repack"]
            is_smaller = repack["bytes_out"] < repack["bytes_in"] / 2
            assert is_smaller == how.startswith("codec")
