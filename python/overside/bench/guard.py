"""Protects a run's files from plug-ins: changes that a plug-in makes are noticed and undone."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO

from overside.bench import store
from overside.bench.store import RunStore

_FILES = (Path(store.MANIFEST), store.ENVIRONMENT)
_SAMPLES = Path(store.SAMPLES)
_FOLDERS = (Path(), Path("nodes"), Path("logs"))
#: Files get a time of change that is not now, so that every write changes it, however coarse the
#: file system's clock is.
_AGE_NS = 1_000_000_000


class RunGuard:
    """Guard of one run's files against changes by plug-ins.

    It costs nothing if no plug-in runs.
    """

    def __init__(self, run: RunStore) -> None:
        self._run = run
        self._texts: dict[Path, bytes] = {}
        self._stamps: dict[Path, tuple[int, ...] | None] = {}

    @cached_property
    def _samples(self) -> IO[bytes]:
        """The samples so far, in a file without a name, which other programs cannot find."""
        return tempfile.TemporaryFile()

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        """Context in which other programs may run. At its end the list has the names of the files
        that they changed, which are restored."""
        changed: list[str] = []
        self._remember()
        try:
            yield changed
        finally:
            changed += self._put_back()

    def _remember(self) -> None:
        for name in _FILES:
            path = self._run.path / name
            # The machine is not known yet while data are being made.
            if path.exists():
                self._texts[name] = path.read_bytes()
        with (self._run.path / _SAMPLES).open("rb") as file:
            file.seek(self._samples.seek(0, os.SEEK_END))
            shutil.copyfileobj(file, self._samples)
        self._samples.flush()
        for name in (_SAMPLES, *self._texts):
            then = time.time_ns() - _AGE_NS
            os.utime(self._run.path / name, ns=(then, then))
        for name in (*_FOLDERS, _SAMPLES, *self._texts):
            self._stamps[name] = self._stamp(name)

    def _stamp(self, name: Path) -> tuple[int, ...] | None:
        """Returns attributes that change when a file is written; `None` if there is no file.

        For a folder: its identity and permissions.
        """
        try:
            status = (self._run.path / name).lstat()
        except OSError:
            return None
        if stat.S_ISDIR(status.st_mode):
            return status.st_dev, status.st_ino, status.st_mode
        times = status.st_mtime_ns, status.st_ctime_ns
        return status.st_dev, status.st_ino, status.st_mode, status.st_size, *times

    def _put_back(self) -> list[str]:
        changed = []
        for name in (*_FOLDERS, _SAMPLES, *self._texts):
            before = self._stamps[name]
            if self._stamp(name) == before:
                continue
            changed.append(name.name or "its folder")
            path = self._run.path / name
            if name in _FOLDERS:
                _make_folder(path, before[2] if before else 0o755)
            else:
                _remove_other_kind(path)
                self._write(name)
        return changed

    def _write(self, name: Path) -> None:
        path = self._run.path / name
        new = path.with_name(f".{path.name}.{os.getpid()}")
        _remove_other_kind(new)
        new.unlink(missing_ok=True)
        with new.open("xb") as file:
            if name == _SAMPLES:
                self._samples.seek(0)
                shutil.copyfileobj(self._samples, file)
            else:
                file.write(self._texts[name])
        new.replace(path)
        if name == _SAMPLES:
            self._run.open_samples()


def _make_folder(path: Path, mode: int) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.unlink()
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(stat.S_IMODE(mode))


def _remove_other_kind(path: Path) -> None:
    """A folder in the place of a file would not be replaced."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
