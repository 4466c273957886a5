"""Programs that a sample starts."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from overside.tasks.programs import ProgramError, Programs, free_port

LISTEN = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    time.sleep(60)
"""
CHILD = """
import json, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(json.dumps({"pid": child.pid}), flush=True)
time.sleep(60)
"""


def has_ended(pid: int) -> bool:
    """A process that nobody has waited for yet is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_programs_end_with_the_sample_and_with_them_what_they_started(tmp_path: Path) -> None:
    with Programs(tmp_path, "test", 20) as programs:
        pid = programs.start("parent", [sys.executable, "-c", CHILD]).announced()["pid"]
        os.kill(pid, 0)
    end = time.monotonic() + 10
    while not has_ended(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_waiting_for_a_port_does_not_take_its_one_connection(tmp_path: Path) -> None:
    with Programs(tmp_path, "test", 20) as programs:
        port = free_port()
        programs.start("server", [sys.executable, "-c", LISTEN, str(port)]).listen(port, 10)
        silent = programs.start("server", [sys.executable, "-c", "print('no')"], is_read=False)
        with pytest.raises(ProgramError, match="the server did not listen: no"):
            silent.listen(free_port(), 10)


@pytest.mark.parametrize(
    ("code", "expected", "kind"),
    [
        ("import sys; print('out'); sys.exit('err')", "ended with code 1: err out", "job"),
        ("import time; time.sleep(60)", "was not done in time", "timeout"),
    ],
)
def test_a_failure_is_a_failed_sample_that_cites_the_log(
    tmp_path: Path, code: str, expected: str, kind: str
) -> None:
    with Programs(tmp_path, "test", 5 if kind == "job" else 0.2) as programs:
        load = programs.start("load", [sys.executable, "-c", code])
        with pytest.raises(ProgramError) as raised:
            load.finish()
    sample = raised.value.sample()
    assert sample["status"] == "failed"
    assert sample["error"] == {"kind": kind, "message": f"the load {expected}"}


def test_one_that_ends_before_it_has_announced_itself(tmp_path: Path) -> None:
    with Programs(tmp_path, "test", 5) as programs:
        for code in ("", "print('no JSON')"):
            program = programs.start("agent", [sys.executable, "-c", code])
            with pytest.raises(ProgramError, match="the agent has ended before it listened"):
                program.announced()
        said = programs.start("agent", [sys.executable, "-c", "print('{}')"])
        assert said.announced() == {}
