"""A bound on the memory of the whole process."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

#: Memory without DuckDB's buffers: Arrow batches on their way out, messages, stacks of threads.
_BESIDE_BYTES = 1 << 30


@contextlib.contextmanager
def limited_process(memory_bytes: int) -> Iterator[None]:
    """Bounds this process too: some of DuckDB's functions take memory that it does not count.
    What is beyond is an error of the statement that wants it. Programs that are started after it
    have the limit of before."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = _data_bytes() + memory_bytes + _BESIDE_BYTES
    for limit in before:
        if limit != resource.RLIM_INFINITY:
            most = min(most, limit)
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int:
    """Returns the current size of the memory that counts for the limit, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) << 10
    return 0
