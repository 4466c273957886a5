"""Confines programs with bubblewrap (bwrap(1)).

A confined program sees this machine's files, but can write only to given directories: it has
namespaces of its own for mounts, processes and shared memory, no capabilities, and no way to more
rights (`no_new_privs`, so that `sudo` does nothing). `/tmp` and `/run` are empty and its own:
sockets there, as of a container engine, are out of reach. The network is shared. Its processes end
with it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from overside import processes
from overside.errors import Exit, UserError, as_user_error

#: Set to 1: every program of a plug-in is confined.
VARIABLE = "OVERSIDE_SANDBOX"
_PROGRAM = "bwrap"
#: Directory of a resolver with the file that /etc/resolv.conf points to.
_RESOLVER = Path("/run/systemd/resolve")
_OPTIONS = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--tmpfs", "/tmp", "--tmpfs", "/run"),  # noqa: S108 (its own)
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"),
    "--die-with-parent",
)


def is_wanted() -> bool:
    """Returns `True` if plug-ins are to run in a sandbox."""
    return os.environ.get(VARIABLE) == "1"


def require() -> None:
    """Confines every program of a plug-in from now on.

    Raises `UserError` if that does not work here.
    """
    remedy = "install bubblewrap (Debian: apt install bubblewrap), or leave --sandbox away"
    if shutil.which(_PROGRAM) is None:
        raise UserError(f"--sandbox needs {_PROGRAM}, which is not installed", remedy, Exit.ABSENT)
    what, failure = "--sandbox does not work here", processes.ProcessError
    with as_user_error(what, failure, remedy=remedy, code=Exit.ABSENT):
        processes.output(command(["true"], cwd=Path("/"), visible=[], writable=[]), 30)
    os.environ[VARIABLE] = "1"


def command(
    argv: Sequence[str], *, cwd: Path, visible: Sequence[Path], writable: Sequence[Path]
) -> list[str]:
    """The command that runs `argv` confined. `visible` are folders that are there to be read even
    if they lie below /tmp or /run; `writable` must exist."""
    shown = [path for path in (_RESOLVER, *visible) if path.exists()]
    return [
        _PROGRAM,
        *_OPTIONS,
        *(word for path in shown for word in ("--ro-bind", str(path), str(path))),
        *(word for path in writable for word in ("--bind", str(path), str(path))),
        *("--chdir", str(cwd), "--"),
        *argv,
    ]


def status(code: int) -> int:
    """Converts the exit status of `bwrap` into that of its program: negative after a signal."""
    return 128 - code if code > 128 else code
