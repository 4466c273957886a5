"""Resident memory of `overside flow` does not grow with the number of partitions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.dataset
import pytest
from command import native

ROWS = 5_000_000
MIB = 1 << 20


@pytest.fixture(scope="module")
def particles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 400 MB."""
    path = tmp_path_factory.mktemp("tables") / "particles.arrow"
    command = [*native(), "flow", "generate", "particles", str(path), "--rows", str(ROWS)]
    subprocess.run(command, check=True)
    return path


# A process begins with the peak of its parent, which execve(2) keeps, so this one is small.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
"""


def peak_bytes(*words: str | Path) -> int:
    """Most resident memory that a command takes."""
    command = [sys.executable, "-c", PEAK, *native(), "flow", *map(str, words)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("partitions", [4, 256, 1024])
def test_partitions_of_parquet_share_their_memory(
    particles: Path, tmp_path: Path, partitions: int
) -> None:
    """256 MiB gather as rows of partitions, and 512 MiB as row groups."""
    words = ["--key", "id", "--hash", str(partitions), "--format", "parquet"]
    peak = peak_bytes("partition", particles, *words, "--threads", "2", "--out", tmp_path)
    assert peak < 1024 * MIB
    assert pyarrow.dataset.dataset(tmp_path).count_rows() == ROWS


@pytest.mark.parametrize("partitions", [4, 256, 1024])
def test_a_pipelines_files_are_bounded(particles: Path, tmp_path: Path, partitions: int) -> None:
    """Beside `memory` each file has a buffer, a row group of some KiB a column, and a footer."""
    pipeline = tmp_path / "pipeline.toml"
    pipeline.write_text(
        'schema = "flow-pipeline/1"\nname = "parts"\nthreads = 2\nmemory = "64 MiB"\n'
        f'[[stages]]\npartition = {{ key = "id", by = "hash:{partitions}" }}\n'
        '[outputs.parts]\nto = "parts"\nformat = "parquet"\ncodec = "zstd"\n'
    )
    peak = peak_bytes("run", pipeline, particles)
    assert peak < 448 * MIB
    assert pyarrow.dataset.dataset(tmp_path / "parts").count_rows() == ROWS
