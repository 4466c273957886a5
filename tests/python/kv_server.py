"""Runs a key-value server, by the command that users have."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from command import agents, ended, native, told


class KvServer:
    """A server that runs, and where."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        said: dict[str, Any] = json.loads(process.stdout.readline() or "null")
        self.ports = {
            name: int(said[name][0].rpartition(":")[2])
            for name in ("listen", "tls", "memcached", "datagram")
            if said.get(name)
        }

    @property
    def port(self) -> int:
        """Port for clients of Redis."""
        return self.ports["listen"]


DESIGNS = {
    "cpu-only": (),
    "2 cores": ("--cores", "2"),
    "sav": ("--dpu", "dpu0", "--design", "sav", "--dpu-cores", "2"),
}
"""Designs of a server that listens at one side, and the options that they are asked for by."""


@contextmanager
def kv_design(design: str, directory: Path, *words: str | Path) -> Iterator[KvServer]:
    """A server of a design, with an agent of this machine where it needs one.

    The agent's files are in the directory.
    """
    options = DESIGNS[design]
    with ExitStack() as stack:
        if "--dpu" in options:
            stack.enter_context(agents(directory, dpu0=("--insecure",)))
        yield stack.enter_context(kv_server(*options, *words))


@contextmanager
def kv_server(*words: str | Path, before: tuple[str, ...] = ()) -> Iterator[KvServer]:
    """A server at any port of this machine, with these options too."""
    common = ["kv", "serve", "--json", "--memory", "64MiB", "--listen", "127.0.0.1:0", "--quiet"]
    command = [*before, *native(), *common, *map(str, words)]
    with ended(command) as process:
        yield KvServer(process)


def kv(*words: str | Path, code: int = 0) -> str:
    """Output of a verb of `overside kv`."""
    return told(*native(), "kv", *words, code=code)
