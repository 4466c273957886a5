"""Run directories as results.md describes them: writing them, and reading them again."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from overside import strict_json
from overside.bench import shape
from overside.errors import UserError, as_user_error, require_utf8
from overside.tasks.common import Json

if TYPE_CHECKING:
    from overside.tasks.common import Task

MANIFEST = "manifest.json"
SAMPLES = "samples.jsonl"
ENVIRONMENT = Path("nodes") / "local.json"
SCHEMA = "run/1"


def now() -> str:
    """The time, RFC 3339, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id(box_name: str) -> str:
    """A run's name: UTC time, the box's name, 4 hex digits."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", box_name).strip(".-")[:60] or "box"
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{safe}-{secrets.token_hex(2)}"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replaces a file: readers see the old or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_output(path: Path, content: str | bytes) -> None:
    """Writes a file that the user asked for.

    Raises `UserError` if that cannot be done.
    """
    remedy = "give a place that can be written to"
    with as_user_error(f"cannot write {path}", OSError, remedy=remedy):
        write_atomically(path, content)


def read_manifest(path: Path) -> Json:
    """A run's manifest.

    Raises `UserError` if `path` is no run directory, or one of another format.
    """
    remedy = "give the directory that `overside run` wrote, results/<run>"
    try:
        manifest = strict_json.loads((path / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} is no run: it has no {MANIFEST}", remedy) from None
    except OSError as error:
        raise UserError(f"cannot read {path / MANIFEST}: {error.strerror}", remedy) from None
    except ValueError as error:
        raise UserError(f"{path / MANIFEST} is damaged: {error}", remedy) from None
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise UserError(f"{path / MANIFEST} is not of the format {SCHEMA}", remedy)
    if not isinstance(manifest.get("tests"), list):
        raise UserError(f"{path / MANIFEST} lists no tests", remedy)
    with as_user_error(f"{path / MANIFEST} is damaged", ValueError, remedy=remedy):
        shape.tests(manifest["tests"], needed=False)
    return manifest


def check_manifest(path: Path, manifest: Json, *, needed: bool) -> None:
    """Raises `UserError` if a run's manifest cannot be worked with (`shape.manifest`)."""
    try:
        shape.manifest(manifest, needed=needed)
    except ValueError as error:
        message = f"{path / MANIFEST} is damaged: {error}"
        raise UserError(message, "start a new run") from None


def read_environment(path: Path) -> Json:
    """Returns the recorded description of the machine; empty if there is none."""
    try:
        environment = strict_json.loads((path / ENVIRONMENT).read_bytes())
    except (OSError, ValueError):
        return {}
    return environment if isinstance(environment, dict) else {}


def read_nodes(path: Path) -> Json:
    """Returns the recorded descriptions of nodes other than this machine, by name.

    A merged run has those of all its machines.
    """
    found = {}
    for file in sorted((path / ENVIRONMENT).parent.glob("*.json")):
        if file.name != ENVIRONMENT.name:
            try:
                environment = strict_json.loads(file.read_bytes())
            except (OSError, ValueError):
                continue
            if isinstance(environment, dict):
                found[file.stem] = environment
    return found


def read_samples(path: Path) -> Iterator[Json]:
    """The samples in the order they were written.

    A last line without its end is left by a killed run: it is not a sample. A damaged line
    elsewhere is an error, because a figure would silently be missing.
    """
    try:
        file = (path / SAMPLES).open("rb")
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            remedy = "remove that line: the run then lacks that sample, and `--resume` makes it"
            where = f"{path / SAMPLES}:{number}"
            with as_user_error(f"{where} is damaged", ValueError, remedy=remedy):
                sample: Json = strict_json.loads(line)
                shape.sample(sample)
            yield sample


def add_metrics(known: Json, task: Task) -> None:
    """Adds a task's metrics to a manifest's. Where it means something else by a name than a task
    before it, it has an entry of its own, `task.metric`."""
    for name, metric in task.metrics.items():
        if known.setdefault(name, metric.json()) != metric.json():
            known[f"{task.name}.{name}"] = metric.json()


class RunStore:
    """A run directory that is being written. One process at a time: it holds a lock."""

    def __init__(self, path: Path, manifest: Json) -> None:
        self.path = path
        self.manifest = manifest
        self._samples: BinaryIO | None = None
        self.open_samples()
        self._drop_torn_line()

    def open_samples(self) -> None:
        """Opens the file of samples that is there now.

        Raises `UserError` if another process writes it.
        """
        self.close()
        self._samples = (self.path / SAMPLES).open("ab")
        try:
            fcntl.flock(self._samples, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise UserError(
                f"{self.path} is being written by another process", "wait until it has ended"
            ) from None

    @classmethod
    def create(cls, parent: Path, manifest: Json) -> RunStore:
        """Makes `parent / manifest["id"]`.

        Raises `UserError` if that cannot be written, or a name in it is not UTF-8.
        """
        path = parent / manifest["id"]
        require_utf8(path)
        require_utf8(manifest["box_path"])
        if path.exists():
            raise UserError(
                f"there is a run called {manifest['id']} in {parent} already",
                "choose another --name, or remove it",
            )
        remedy = "choose another directory with `--out DIR`"
        with as_user_error(f"cannot write {path}", OSError, remedy=remedy):
            (path / "nodes").mkdir(parents=True)
            (path / "logs").mkdir()
            store = cls(path, manifest)
            store.write_manifest()
        return store

    @classmethod
    def reopen(cls, path: Path) -> RunStore:
        """Opens a run to go on with it."""
        manifest = read_manifest(path)
        with as_user_error(f"cannot write {path}", OSError):
            for folder in ("nodes", "logs"):
                (path / folder).mkdir(exist_ok=True)
            store = cls(path, manifest)
            # Who held the lock may have written it since.
            store.manifest = read_manifest(path)
        return store

    def _drop_torn_line(self) -> None:
        assert self._samples is not None
        size = self._samples.seek(0, os.SEEK_END)
        if not size:
            return
        with (self.path / SAMPLES).open("rb") as file:
            end = size
            while end:
                start = max(0, end - 65536)
                file.seek(start)
                newline = file.read(end - start).rfind(b"\n")
                if newline >= 0:
                    end = start + newline + 1
                    break
                end = start
        if end < size:
            self._samples.truncate(end)
            self._samples.seek(0, os.SEEK_END)

    def append(self, sample: Json) -> None:
        """Adds a sample; it is with the operating system when this returns. A line that does not
        fit on the disk is taken back, and the `OSError` raised."""
        assert self._samples is not None
        line = json.dumps(sample, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        start = self._samples.seek(0, os.SEEK_END)
        data = memoryview(line.encode() + b"\n")
        fd = self._samples.fileno()
        try:
            while data:
                data = data[os.write(fd, data) :]
        except OSError:
            os.ftruncate(fd, start)
            raise

    def write_manifest(self) -> None:
        """Writes the manifest as it is now."""
        write_atomically(
            self.path / MANIFEST, json.dumps(self.manifest, indent=1, ensure_ascii=False) + "\n"
        )

    def write_environment(self, environment: Json) -> None:
        """Writes the description of the machine."""
        write_atomically(
            self.path / ENVIRONMENT, json.dumps(environment, indent=1, ensure_ascii=False) + "\n"
        )

    def write_node(self, name: str, environment: Json) -> None:
        """Writes the description of another node."""
        text = json.dumps(environment, indent=1, ensure_ascii=False)
        write_atomically(self.path / ENVIRONMENT.parent / f"{name}.json", f"{text}\n")

    def close(self) -> None:
        """Lets others write it."""
        if self._samples is not None:
            self._samples.close()
            self._samples = None

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
