"""A stream into `overside flow serve`, and into a bare Flight server, in turns.

    python benches/flow_ingest.py BINARY [--rounds N] [--bytes N]

BINARY is `overside`. pyarrow sends batches over loopback to two servers, each a process of its own.
The bare one is pyarrow's: it reads the batches and drops them. The service reads them, has a filter
drop the rows, with queue, numbers and acknowledgements. CPU time is that of the server.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import flight

PIPELINE = """schema = "flow-pipeline/1"
name = "bench"
[[stages]]
filter = "id < 0"
[outputs.all]
to = "subscribers"
"""
BARE = """
from pyarrow import flight
class Server(flight.FlightServerBase):
    def do_put(self, context, descriptor, reader, writer):
        for _ in reader:
            pass
server = Server("grpc://127.0.0.1:0")
print(f"listening at 127.0.0.1:{server.port}", flush=True)
server.serve()
"""
MESSAGE_MB = (0.25, 1, 5, 20, 50)
TARGET = 0.8
TICKS_PER_S = 100


class Server:
    """A server in a process of its own."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        found = None
        while found is None:
            found = re.search(r"127\.0\.0\.1:(\d+)", next(self.process.stdout))
        self.address = f"grpc://127.0.0.1:{found[1]}"

    def cpu_s(self) -> float:
        """CPU time so far (proc_pid_stat(5))."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def take(self, batch: pa.RecordBatch, count: int) -> tuple[float, float]:
        """Seconds, and CPU seconds of the server, until it has so many of the batch."""
        with flight.connect(self.address) as client:
            begin, cpu = time.perf_counter(), self.cpu_s()
            writer, results = client.do_put(flight.FlightDescriptor.for_path("bench"), batch.schema)
            for _ in range(count):
                writer.write_batch(batch)
            writer.done_writing()
            while results.read() is not None:
                pass
            writer.close()
            return time.perf_counter() - begin, self.cpu_s() - cpu


def main() -> None:
    """Prints the service's rate as a share of the bare server's, for each length of a message."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bytes", type=int, default=500_000_000)
    arguments = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as definition:
        definition.write(PIPELINE)
        definition.flush()
        serve = [arguments.binary, "flow", "serve", definition.name, "--listen", "127.0.0.1:0"]
        servers = (Server([sys.executable, "-c", BARE]), Server(serve))
        try:
            for megabytes in MESSAGE_MB:
                rows = int(megabytes * 1e6) // 24
                values = pa.array([float(row % 997) for row in range(rows)])
                batch = pa.record_batch({"id": pa.array(range(rows)), "x": values, "y": values})
                count = max(4, arguments.bytes // batch.nbytes)
                turns = [
                    [one.take(batch, count) for one in servers] for _ in range(arguments.rounds)
                ]
                ratios = sorted(bare[0] / service[0] for bare, service in turns)
                gigabytes = count * batch.nbytes / 1e9
                cpu = [statistics.median(turn[side][1] for turn in turns) for side in (0, 1)]
                print(
                    f"{megabytes:5} MB: {statistics.median(ratios):.2f} of the bare server's rate"
                    f" ({ratios[0]:.2f} to {ratios[-1]:.2f}, target {TARGET}), CPU"
                    f" {cpu[1] / gigabytes:.2f} s/GB, bare {cpu[0] / gigabytes:.2f}"
                )
        finally:
            for server in servers:
                server.process.kill()
                server.process.wait()


if __name__ == "__main__":
    main()
