"""A box that runs on a machine of a Ray cluster."""

from __future__ import annotations

import io
import json
import re
import signal
import sys
import tarfile
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overside.processes import PIPE, STDOUT, Process

#: The most bytes of a run that come back: its text, not its data.
RUN_BYTES_MAX = 1 << 30
#: Lines of output in the message of a failure: the last ones.
_LINES_MAX = 3
#: Files of a run that come back; whatever else is in it, like its report, can be made again.
_WANTED = re.compile(r"[^/]+/(manifest\.json|samples\.jsonl|nodes/[^/]+\.json|logs/[^/]+)")


class BoxRun:
    """A Ray actor with `overside run` as its child. `progress` and `cancel` can be called while it
    runs."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._process: Process | None = None

    def run(self, name: str, content: bytes, words: Sequence[str]) -> dict[str, Any]:
        """Runs a box with these arguments of the command line. Returns its exit code, its last
        lines, and the run's directory as tar."""
        with tempfile.TemporaryDirectory(prefix="overside-fleet-") as directory:
            self._directory = Path(directory)
            box = self._directory / name
            box.write_bytes(content)
            command = [sys.executable, "-P", "-m", "overside", "run", name, "--quiet", *words]
            self._process = Process(
                [*command, "--out", "results"],
                cwd=directory,
                stdout=PIPE,
                stderr=STDOUT,
                bufsize=-1,
                dies_with_parent=True,
            )
            with self._process as process:
                assert process.stdout is not None
                lines = (line.decode(errors="replace").split() for line in process.stdout)
                said = deque((" ".join(line)[:500] for line in lines if line), _LINES_MAX)
                code = process.wait()
            runs = self._runs()
            return {
                "code": code,
                "said": "; ".join(said) if code else "",
                "run": _packed(runs[0]) if runs else None,
            }

    def progress(self) -> tuple[int, int]:
        """Samples that have been taken, and those that were planned: more may come where intervals
        are wide."""
        for run in self._runs():
            try:
                manifest = json.loads((run / "manifest.json").read_bytes())
                taken = (run / "samples.jsonl").read_bytes().count(b"\n")
            except (OSError, ValueError):
                continue
            tests = sum(test["status"] == "planned" for test in manifest["tests"])
            return taken, tests * manifest["rounds"]["planned"]
        return 0, 0

    def cancel(self) -> None:
        """Ends the box as an interrupt from the keyboard does: samples so far are kept."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)

    def _runs(self) -> list[Path]:
        if self._directory is None:
            return []
        return [path for path in self._directory.glob("results/*") if path.is_dir()]


def _packed(run: Path) -> bytes:
    """A run's directory. Raises `ValueError` if it is too long."""
    out = io.BytesIO()
    size = 0
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for path in sorted(run.rglob("*")):
            name = path.relative_to(run.parent).as_posix()
            if path.is_file() and not path.is_symlink() and _WANTED.fullmatch(name):
                size += path.stat().st_size
                if size > RUN_BYTES_MAX:
                    raise ValueError(f"the run has more than {RUN_BYTES_MAX} bytes")
                tar.add(path, name)
    return out.getvalue()


def unpack(packed: bytes, directory: Path) -> None:
    """Writes a run's files into a directory that is made. Raises `ValueError` for anything else."""
    size = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
            for member in tar:
                size += member.size
                if not (member.isreg() and _WANTED.fullmatch(member.name)):
                    raise ValueError(f"{member.name!r} does not belong to a run")
                if size > RUN_BYTES_MAX:
                    raise ValueError(f"the run has more than {RUN_BYTES_MAX} bytes")
                path = directory / member.name.partition("/")[2]
                if ".." in path.parts:
                    raise ValueError(f"{member.name!r} does not belong to a run")
                path.parent.mkdir(parents=True, exist_ok=True)
                file = tar.extractfile(member)
                assert file is not None
                path.write_bytes(file.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"the run cannot be read: {error}") from None
