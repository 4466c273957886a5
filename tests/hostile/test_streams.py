"""Damaged archives: the right bytes, or an error and the archive where it was."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from archives import MAKERS, SUFFIXES, emptied, held_by, made_by, overside, placed, some_bytes

if TYPE_CHECKING:
    from conftest import Trials

CONTENT_MAX = 300_000
#: Number of ways in which an archive is damaged.
VARIANTS = 20


def _archive(random: Random, form: str) -> tuple[bytes, bytes]:
    """An archive of one of many makers, or of two, and what it holds."""
    own = f"overside compress -c --format {form} --chunk {random.choice(('1k', '16k', '1M'))}"
    makers = [own, *MAKERS[form]]
    archive = content = b""
    # A second zlib stream is no part of the first one's file.
    for _ in range(1 if form == "zlib" else random.choice((1, 1, 2))):
        piece = some_bytes(random, CONTENT_MAX)
        archive += made_by(random.choice(makers), piece)
        content += piece
    return archive, content


def _flipped(random: Random, archive: bytes) -> bytes:
    # Where headers are more is at stake.
    end = random.choice((len(archive), min(len(archive), 64)))
    damaged = bytearray(archive)
    for _ in range(random.choice((1, 1, 2, 8))):
        damaged[random.randrange(end)] ^= 1 << random.randrange(8)
    return bytes(damaged)


def _cut(random: Random, archive: bytes) -> bytes:
    end = random.choice((len(archive), min(len(archive), 64)))
    length = random.randrange(end)
    return archive[: random.choice((length, len(archive) - 1 - length))]


def _overwritten(random: Random, archive: bytes) -> bytes:
    """Overwrites a part, as a failing disk or a hole in a file does."""
    begin = random.randrange(len(archive))
    length = random.randrange(1, 5000)
    instead = random.choice((bytes(length), random.randbytes(length)))
    return (archive[:begin] + instead + archive[begin + length :])[: len(archive)]


def _moved(random: Random, archive: bytes) -> bytes:
    """A piece is missing, or is there twice."""
    begin, end = sorted(random.randrange(len(archive) + 1) for _ in range(2))
    return random.choice((archive[:begin] + archive[end:], archive[:end] + archive[begin:]))


def _followed(random: Random, archive: bytes) -> bytes:
    more = random.choice((b"\x1f", bytes(512), b"\x78\x9c", archive[:20], random.randbytes(9)))
    return archive + more


DAMAGES = (_flipped, _cut, _overwritten, _moved, _followed)


@pytest.mark.parametrize("form", SUFFIXES)
def test_damaged_archives_are_right_or_refused(trials: Trials, tmp_path: Path, form: str) -> None:
    for trial in trials(quick=2):
        with trial() as random:
            archive, content = _archive(random, form)
            files = {
                f"{number}{SUFFIXES[form]}": random.choice(DAMAGES)(random, archive)
                for number in range(VARIANTS)
            }
            directory = emptied(tmp_path / "work")
            for name, damaged in files.items():
                (directory / name).write_bytes(damaged)
            options = placed(random, "decompress", form)
            done = overside("decompress", *options, *files, directory=directory)
            assert done.returncode in (0, 1, 2), done
            told = _messages(done.stderr)
            assert told.keys() <= files.keys(), done.stderr
            kept = {
                name
                for name, damaged in files.items()
                if _is_kept(directory / name, form, damaged, content, told.get(name, ""))
            }
            left = {path.name for path in directory.iterdir()}
            assert not {name for name in left if name.startswith(".")}, "an unfinished file"
            assert {name for name in left if Path(name).suffix} == kept


def _messages(told: str) -> dict[str, str]:
    """Message about each file, in a line."""
    start = "overside decompress: "
    lines = told.splitlines()
    assert all(line.startswith(start) for line in lines), told
    named = [line.removeprefix(start).partition(": ") for line in lines]
    messages = {name: message for name, _, message in named}
    assert len(messages) == len(lines), "one message a file"
    return messages


def _is_kept(file: Path, form: str, damaged: bytes, content: bytes, message: str) -> bool:
    """`True` if a file was kept, which it must be unless all of it was right."""
    output = file.with_suffix("")
    if not message:
        found = output.read_bytes()
        # What is whole to others as well is not known to be damaged.
        assert found == content or found == held_by(form, damaged), "other bytes"
        return False
    assert file.read_bytes() == damaged, "the input is kept as it is"
    if message.endswith(" bytes after the compressed data; kept"):
        assert output.read_bytes() == held_by(form, damaged, ignoring=True), "other bytes"
        return True
    assert not output.exists(), "nothing under the final name"
    # The lengths in a gzip member's extra field are nothing that others look at.
    assert form == "gzip" or content != held_by(form, damaged), f"others read it: {message}"
    return True
