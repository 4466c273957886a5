"""Programs that are started: their output, their end, and errors that say which one failed."""

from __future__ import annotations

import os
import sys

import pytest
from command import has_ended, wait_for
from overside.processes import PIPE, Process, ProcessError, output

#: Starts a child, prints its number, and ends.
LEAVES = """
import subprocess, sys
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], **quiet)
print(child.pid)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_program_is_given_its_input_and_its_output_is_returned() -> None:
    assert output(["tr", "a-z", "A-Z"], 20, stdin=b"said\n") == b"SAID\n"
    assert output(python("print('unread')"), 20, stdin=bytes(1 << 20)) == b"unread\n"


@pytest.mark.parametrize(
    ("command", "kind", "said"),
    [
        (["sh", "-c", "echo no such disk >&2; exit 3"], "job", "exit status 3: no such disk"),
        (["sh", "-c", "kill -SEGV $$"], "job", "crashed (SIGSEGV)"),
        (["sh", "-c", "kill -KILL $$"], "job", "crashed (SIGKILL; is there enough memory?)"),
        (["/nowhere/sh", "-c"], "job", "cannot be started: /nowhere/sh does not exist"),
        (["sh", "-c", "echo begun >&2; sleep 60"], "timeout", "did not end within 0.3 s: begun"),
        (["sh", "-c", "yes"], "job", "wrote more than 16 MiB of output"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_an_error_says_which_program_failed_and_how(
    command: list[str], kind: str, said: str
) -> None:
    with pytest.raises(ProcessError) as raised:
        output(command, 0.3 if kind == "timeout" else 20)
    assert raised.value.kind == kind
    assert str(raised.value).startswith("`sh -c")
    assert str(raised.value).endswith(said)


def test_what_a_program_leaves_behind_ends_with_it() -> None:
    pid = int(output(python(LEAVES), 20))
    wait_for(lambda: has_ended(pid))


def test_a_first_line_is_waited_for_no_longer_than_said() -> None:
    for code, line in [
        ("print('here', flush=True); input()", b"here\n"),
        ("print('cut', end='', flush=True); import time; time.sleep(600)", b"cut"),
        ("", b""),
    ]:
        with Process(python(code), stdout=PIPE) as process:
            # The second one waits for all of it.
            assert process.first_line(1.0 if line == b"cut" else 20) == line
        assert has_ended(process.pid)


def test_one_that_heeds_no_request_is_ended_all_the_same() -> None:
    code = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
    )
    process = Process(python(code), stdin=PIPE, stdout=PIPE)
    process.first_line(20)
    assert not process.is_done(0.01)
    os.kill(process.pid, 0)
    process.end(0.1)
    assert process.returncode == -9
