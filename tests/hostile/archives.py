"""Compressed files: who makes them, and what they hold according to somebody else."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from pathlib import Path
from random import Random

from command import native

#: Seconds after which a command hangs.
PATIENCE_S = 120
#: Ending of an archive's name, by format.
SUFFIXES = {"gzip": ".gz", "zlib": ".zz", "lz4": ".lz4", "zstd": ".zst"}
#: Emulated cards that do a verb's chunks of a format; the others run on the CPU.
_CARDS = {
    ("compress", "gzip"): "emulated:bf2",
    ("decompress", "gzip"): "emulated:bf2",
    ("decompress", "lz4"): "emulated:bf3",
}
#: Others that write these formats, and how.
MAKERS = {
    "gzip": ("gzip -c", "gzip -1c", "pigz -c", "pigz -p2 -b128 -ic", "bgzip -c"),
    "zlib": ("pigz -zc",),
    "lz4": ("lz4 -qc", "lz4 -qc -BD -B4", "lz4 -qc -B4 -BX --content-size", "lz4 -9qc"),
    "zstd": ("zstd -qc", "zstd -19qc", "zstd -qc --long=22", "zstd -qc -B65536 -T2"),
}
#: Others that read them.
_READERS = {"gzip": ("gzip", "-dc"), "lz4": ("lz4", "-dqc"), "zstd": ("zstd", "-dqc")}


def placed(random: Random, verb: str, form: str) -> list[str]:
    """The options for one of the placements that there are."""
    placement = random.choice(("cpu", "device", "split:50", "adaptive"))
    card = _CARDS.get((verb, form))
    if card is None or placement == "cpu":
        return []
    return ["--device", card, "--placement", placement]


def overside(*words: object, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs the installed command. One that hangs is an exception."""
    return subprocess.run(
        [*native(), *map(str, words)],
        cwd=directory,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=False,
    )


def emptied(directory: Path) -> Path:
    """The directory of a trial, without what the one before left."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory


def some_bytes(random: Random, longest: int) -> bytes:
    """Words, noise and zeros, in any order."""
    length, parts = random.randrange(longest), []
    while (room := length - sum(map(len, parts))) > 0:
        piece = random.randrange(1, room + 1)
        kind = random.randrange(3)
        if kind == 0:
            parts.append(random.randbytes(piece))
        elif kind == 1:
            parts.append(bytes(piece))
        else:
            words = [b"%x " % random.randrange(5000) for _ in range(200)]
            text = b"".join(random.choices(words, k=1 + piece // 4))
            parts.append(text[:piece])
    return b"".join(parts)


def made_by(maker: str, content: bytes) -> bytes:
    """Archive that a program makes of the content."""
    words = maker.split()
    if words[0] == "overside":
        words[:1] = native()
    return subprocess.run(words, input=content, capture_output=True, check=True).stdout


def held_by(form: str, archive: bytes, ignoring: bool = False) -> bytes | None:
    """Content that another program finds in an archive; `None` if it is incomplete or, unless
    `ignoring`, if bytes follow it."""
    if form == "zlib":
        reader = zlib.decompressobj()
        try:
            content = reader.decompress(archive)
        except zlib.error:
            return None
        return content if reader.eof and (ignoring or not reader.unused_data) else None
    done = subprocess.run(_READERS[form], input=archive, capture_output=True, check=False)
    # gzip warns so.
    accepted = (0, 2) if ignoring and form == "gzip" else (0,)
    return done.stdout if done.returncode in accepted else None
