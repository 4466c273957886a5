"""The key-value server's drivers, where the system forbids one."""

from __future__ import annotations

import ctypes
import errno
import struct
import subprocess
from collections.abc import Callable

import pytest
from command import PATIENCE_S, native

_IO_URING_SETUP = 425
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_REFUSE, _ALLOW = 0x0005_0000, 0x7FFF_0000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def _forbid_io_uring(error: int) -> Callable[[], None]:
    """What a container's filter does: io_uring_setup(2) fails with this error from now on."""
    instructions = [
        (0x20, 0, 0, 0),  # the number of the system call
        (0x15, 0, 1, _IO_URING_SETUP),
        (0x06, 0, 0, _REFUSE | error),
        (0x06, 0, 0, _ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)

    def forbid() -> None:
        libc = ctypes.CDLL(None)
        memory = ctypes.create_string_buffer(code)
        program = _Program(len(instructions), ctypes.addressof(memory))
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        libc.prctl(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)

    return forbid


@pytest.mark.parametrize(
    ("error", "reason"),
    [(errno.EPERM, "io_uring is "), (errno.ENOSYS, "this kernel has no io_uring")],
)
def test_a_forbidden_driver_is_refused_with_the_remedy(error: int, reason: str) -> None:
    words = ["kv", "serve", "--listen", "127.0.0.1:0", "--memory", "16MiB"]
    refused = subprocess.run(
        [*native(), *words, "--driver", "io_uring"],
        preexec_fn=_forbid_io_uring(error),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert refused.returncode == 3
    assert reason in refused.stderr
    assert "leave --driver away" in refused.stderr
