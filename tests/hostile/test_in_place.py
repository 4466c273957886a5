"""Files that are replaced while something goes wrong: what they held is never lost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from archives import (
    MAKERS,
    PATIENCE_S,
    SUFFIXES,
    emptied,
    held_by,
    made_by,
    overside,
    placed,
    some_bytes,
)
from command import native
from overside.__main__ import main

if TYPE_CHECKING:
    from conftest import Trials

CONTENT_MAX = 3_000_000
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
VERBS = ("compress", "decompress")
#: With file systems of its own.
ALONE = ("unshare", "--map-root-user", "--mount")


class Work:
    """A file that is to be replaced, in a directory of its own."""

    def __init__(self, random: Random, parent: Path) -> None:
        self.form = random.choice(tuple(SUFFIXES))
        self.content = some_bytes(random, CONTENT_MAX)
        self.directory = emptied(parent / "work")
        self.plain = self.directory / "it"
        self.archive = self.directory / f"it{SUFFIXES[self.form]}"
        self.turn(random.choice(VERBS))
        own = f"overside compress -c --format {self.form}"
        maker = random.choice((own, *MAKERS[self.form]))
        compresses = self.verb == "compress"
        self.written = self.content if compresses else made_by(maker, self.content)
        self.before.write_bytes(self.written)
        self.words = self.options(random)

    def turn(self, verb: str) -> None:
        """Sets the next verb, which determines the file's name before and after."""
        self.verb = verb
        both = self.plain, self.archive
        self.before, self.after = both if verb == "compress" else reversed(both)

    def options(self, random: Random) -> list[str]:
        options = [self.verb, f"--format={self.form}", *placed(random, self.verb, self.form)]
        if self.verb == "compress":
            options.append(f"--chunk={random.choice(('16k', '256k', '1M'))}")
        return options

    def start(self, *more: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*native(), *self.words, *more, self.before.name],
            cwd=self.directory,
            env=os.environ | variables,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def names(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}

    def unfinished(self) -> set[str]:
        return {name for name in self.names() if name.startswith(".overside-")}

    def holds(self, path: Path) -> bool:
        """`True` if that file has all of the content; a file of another length is a failure."""
        if not path.exists():
            return False
        archive = path.read_bytes()
        content = archive if path == self.plain else held_by(self.form, archive)
        assert content == self.content, f"{path.name} holds something else"
        return True

    def assert_kept(self, told: object = "") -> None:
        assert self.holds(self.before) | self.holds(self.after), f"both are gone: {told}"


def test_a_signal_at_any_moment_loses_nothing(trials: Trials, tmp_path: Path) -> None:
    for trial in trials(quick=10):
        with trial() as random:
            work = Work(random, tmp_path)
            process = _begun(random, work)
            number = random.choice(SIGNALS)
            process.send_signal(number)
            _, told = process.communicate(timeout=PATIENCE_S)
            assert process.returncode in (0, -number), told
            work.assert_kept()
            assert number == signal.SIGKILL or not work.unfinished()
            _assert_gone_on_with(work)


def _begun(random: Random, work: Work) -> subprocess.Popen[str]:
    """In the middle of its work, or not quite, or just not any more."""
    begin = time.monotonic()
    measured = overside(*work.words, "-o", "measured", work.before.name, directory=work.directory)
    assert measured.returncode == 0, measured
    took = time.monotonic() - begin
    (work.directory / "measured").unlink()
    process = work.start()
    if random.random() < 0.7:
        time.sleep(random.uniform(0, took * 1.2))
    else:
        # When it is about to remove the original.
        while not work.after.exists() and process.poll() is None:
            pass
    return process


def _assert_gone_on_with(work: Work) -> None:
    """The next run does the work, and takes away what the killed one left."""
    if work.before.exists():
        # Both are there if the original was about to be removed.
        done = overside(*work.words, "-f", work.before.name, directory=work.directory)
        assert done.returncode == 0, done
        assert not work.unfinished()
    elif work.unfinished():
        # It was being removed.
        done = overside("clean", "--files", "--yes", directory=work.directory)
        assert done.returncode == 0, done
    assert work.names() == {work.after.name}
    assert work.holds(work.after)


def test_several_on_one_file_lose_nothing(trials: Trials, tmp_path: Path) -> None:
    for trial in trials(quick=5):
        with trial() as random:
            work = Work(random, tmp_path)
            both = random.random() < 0.5
            if both:
                # Some compress it while others decompress it.
                archive = made_by(f"overside compress -c --format {work.form}", work.content)
                work.plain.write_bytes(work.content)
                work.archive.write_bytes(archive)
            running = []
            for _ in range(random.randrange(2, 5)):
                if both:
                    work.turn(random.choice(VERBS))
                work.words = work.options(random)
                running.append(work.start(*random.choice(((), ("-f",)))))
                time.sleep(random.choice((0, 0, random.uniform(0, 0.05))))
            cleaned = random.random() < 0.5
            while cleaned and any(process.poll() is None for process in running):
                words = ["clean", "--files", "--yes", "--below", str(work.directory)]
                assert main(words) == 0
            told = [process.communicate(timeout=PATIENCE_S)[1] for process in running]
            codes = {process.returncode for process in running}
            assert codes <= {0, 1, 2}, told
            assert both or 0 in codes, told
            assert not work.unfinished()
            work.assert_kept(told)


@pytest.mark.parametrize("by", ["rename", "move", "unlink"])
def test_another_file_that_takes_the_name_is_never_removed(
    trials: Trials, tmp_path: Path, by: str
) -> None:
    other = b"what came after the rotation"
    for trial in trials(quick=3):
        with trial() as random:
            work = Work(random, tmp_path)
            new = work.directory / "new"
            new.write_bytes(other)
            process = _begun(random, work)
            # It may be gone already.
            with suppress(FileNotFoundError):
                if by == "move":
                    work.before.rename(work.directory / "rotated")
                elif by == "unlink":
                    work.before.unlink()
            new.rename(work.before)
            _, told = process.communicate(timeout=PATIENCE_S)
            assert process.returncode in (0, 1, 2), told
            assert not work.unfinished()
            rotated = work.directory / "rotated"
            assert not rotated.exists() or rotated.read_bytes() == work.written
            if not work.before.exists():
                # It took the name before it was opened, and so it was read.
                assert held_by(work.form, work.after.read_bytes()) == other, told
                continue
            assert work.before.read_bytes() == other, told
            assert not work.after.exists() or work.holds(work.after)


def test_a_file_that_may_not_grow_loses_nothing(trials: Trials, tmp_path: Path) -> None:
    for trial in trials(quick=5):
        with trial() as random:
            work = Work(random, tmp_path)
            limit = random.randrange(len(work.content) + 1000)
            process = work.start()
            # Before it writes anything, or in the middle.
            with suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
            _, told = process.communicate(timeout=PATIENCE_S)
            _assert_done_or_left(work, process.returncode, told, "File too large")


def test_a_disk_that_is_full_loses_nothing(trials: Trials, tmp_path: Path) -> None:
    if subprocess.run([*ALONE, "true"], check=False).returncode:
        pytest.skip("this user cannot mount a file system")
    for trial in trials(quick=5):
        with trial() as random:
            work = Work(random, tmp_path)
            # Its own pages of 4 KiB, and more or less of what both files take.
            size = len(work.written) + random.randrange(len(work.content) + 50_000) + 8192
            script = """
                mkdir small && mount -t tmpfs -o size=$1 none small && mv "$2" small || exit 99
                shift; file=$1; shift; cd small; "$@" "$file"; code=$?
                cp -a . ..; exit $code
            """
            command = [*native(), *work.words]
            process = subprocess.run(
                [*ALONE, "sh", "-c", script, "sh", str(size), work.before.name, *command],
                cwd=work.directory,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            (work.directory / "small").rmdir()
            code, told = process.returncode, process.stderr
            _assert_done_or_left(work, code, told, "No space left on device")


def _assert_done_or_left(work: Work, code: int, told: str, why: str) -> None:
    if code:
        assert (code, work.names()) == (1, {work.before.name}), told
        assert work.before.read_bytes() == work.written
        assert f"{work.after.name}: {why}" in told
    else:
        assert work.names() == {work.after.name}, told
        assert work.holds(work.after)


@pytest.fixture(scope="session")
def failing_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that notes what is synced and removed, and lets it fail."""
    library = tmp_path_factory.mktemp("disk") / "failing_disk.so"
    source = Path(__file__).with_name("failing_disk.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def test_what_the_disk_does_not_confirm_is_not_relied_on(
    trials: Trials, tmp_path: Path, failing_disk: Path
) -> None:
    for trial in trials(quick=5):
        with trial() as random:
            work = Work(random, tmp_path)
            calls, fails = work.directory / "calls", random.randrange(3)
            variables = {"LD_PRELOAD": failing_disk, "CALLS": calls, "FAILS": fails}
            process = work.start(**{name: str(value) for name, value in variables.items()})
            _, told = process.communicate(timeout=PATIENCE_S)
            made = [line.split(" ", 1) for line in calls.read_text().splitlines()]
            calls.unlink()
            kinds = [(call, Path(path).name.split("-")[0]) for call, path in made]
            file, directory = ("sync", ".overside"), ("sync", work.directory.name)
            removed = ("remove", ".overside")
            if fails == 0:
                # The original is taken away from its name and looked at before it is removed.
                assert (process.returncode, kinds) == (0, [file, directory, removed]), told
                assert work.names() == {work.after.name}
                continue
            assert process.returncode == 1
            assert f"{work.after.name}: Input/output error" in told
            assert work.before.read_bytes() == work.written
            if fails == 1:
                assert kinds == [file, removed]
                assert work.names() == {work.before.name}
            else:
                assert kinds == [file, directory]
                assert work.holds(work.after)
