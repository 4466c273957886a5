"""A disk whose power fails: any state that a directory may have afterwards.

`kv_disk.c` writes down what a process asks of the file system. Of that, whatever no sync of
the same file or directory has followed may be there afterwards or not, in any combination: names,
removals, and writes, of which there may be a part, or as many zeros, too.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

#: Fates of a write that no sync has followed.
FATES = ("whole", "lost", "zeros", "part")


@dataclass
class Call:
    """A call of the process, and where it ends in the trace."""

    name: str
    path: str
    offset: int
    data: bytes
    end: int


@dataclass
class File:
    """A file, whatever its names are: its calls, and before which one all are on the disk."""

    calls: list[tuple[int, Call]] = field(default_factory=list)
    synced: int = -1

    def content(self, random: Random) -> bytes:
        """Content that the file may have."""
        content = bytearray()
        for position, call in self.calls:
            fate = "whole" if position < self.synced else random.choice(FATES)
            data = {
                "whole": call.data,
                "lost": b"",
                "zeros": bytes(len(call.data)),
                "part": call.data[: random.randrange(len(call.data) + 1)],
            }[fate]
            if call.name == "truncate" and fate != "lost":
                del content[call.offset :]
            elif data:
                content.extend(bytes(max(0, call.offset - len(content))))
                content[call.offset : call.offset + len(data)] = data
        return bytes(content)


class Recorder:
    """Records processes that work in a directory."""

    def __init__(self, scratch: Path, disk: Path) -> None:
        self.disk, self.trace = disk, scratch / "trace"
        self.library = scratch / "kv_disk.so"
        source = Path(__file__).with_name("kv_disk.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.library, source, "-ldl"], check=True)

    def command(self) -> tuple[str, ...]:
        """First words of the command of a process."""
        names = {"LD_PRELOAD": self.library, "DISK": self.disk, "TRACE": self.trace}
        return ("env", *(f"{name}={value}" for name, value in names.items()))

    def size(self) -> int:
        """Bytes of the trace until now."""
        return self.trace.stat().st_size

    def calls(self) -> list[Call]:
        """All calls, in order."""
        trace, at, calls = self.trace.read_bytes(), 0, []
        while at < len(trace):
            line = trace.index(b"\n", at)
            name, length, offset, path = trace[at:line].decode().split(" ", 3)
            at = line + 1 + int(length)
            calls.append(Call(name, path, int(offset), trace[line + 1 : at], at))
        return calls

    def fail_power(self, calls: list[Call], random: Random, to: Path) -> None:
        """Makes a directory as it may be when the power fails behind these calls."""
        there: dict[str, File] = {}
        for is_synced, call, file in entries(calls):
            if not is_synced and random.random() < 0.5:
                continue
            there.pop(call.path, None)
            if call.name in ("create", "rename"):
                there[call.data.decode() or call.path] = file
            elif call.name == "mkdir":
                name = to / Path(call.path).relative_to(self.disk)
                if name.parent.is_dir():
                    name.mkdir()
        for path, file in there.items():
            name = to / Path(path).relative_to(self.disk)
            if name.parent.is_dir():
                name.write_bytes(file.content(random))


def entries(calls: list[Call]) -> list[tuple[bool, Call, File]]:
    """Changes of names, each with whether it is on the disk, and the file."""
    names: dict[str, File] = {}
    found: list[tuple[int, Call, File]] = []
    synced: dict[str, int] = {}
    began: dict[str, int] = {}
    for position, call in enumerate(calls):
        file = names.get(call.path)
        if call.name == "begin":
            began[call.path] = position
        elif call.name == "end" and file:
            file.synced = began[call.path]
        elif call.name == "end":
            synced[call.path] = began[call.path]
        elif call.name in ("write", "truncate"):
            if file:
                file.calls.append((position, call))
        else:
            found.append((position, call, file or File()))
            names.pop(call.path, None)
            if call.name in ("create", "rename"):
                names[call.data.decode() or call.path] = found[-1][2]
    return [
        (position < synced.get(str(Path(call.path).parent), -1), call, file)
        for position, call, file in found
    ]
