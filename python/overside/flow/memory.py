"""A bound on the memory of the whole process."""

from __future__ import annotations

import resource
from pathlib import Path

#: Memory beside DuckDB's buffers: Arrow batches on their way out, messages, stacks of threads.
_BESIDE_BYTES = 1 << 30


def limit_process(memory_bytes: int) -> None:
    """Bounds this process too: some of DuckDB's functions take memory that it does not count.
    What is beyond is an error of the statement that wants it."""
    used = _data_bytes()
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = used + memory_bytes + _BESIDE_BYTES
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _data_bytes() -> int:
    """What counts for that limit now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) << 10
    return 0
