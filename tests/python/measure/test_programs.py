"""Programs that a sample starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command import has_ended, wait_for
from overside.processes import ProcessError
from overside.tasks.programs import Programs, free_port
from overside.tasks.rdma import RdmaTask

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


def test_programs_end_with_the_sample_and_with_them_what_they_started(tmp_path: Path) -> None:
    with Programs(tmp_path, "test", 20) as programs:
        pid = programs.start("parent", [sys.executable, "-c", CHILD]).announced()["pid"]
        os.kill(pid, 0)
    wait_for(lambda: has_ended(pid))


def test_waiting_for_a_port_does_not_take_its_one_connection(tmp_path: Path) -> None:
    with Programs(tmp_path, "test", 20) as programs:
        port = free_port()
        programs.start("server", [sys.executable, "-c", LISTEN, str(port)]).listen(port, 10)
        silent = programs.start("server", [sys.executable, "-c", "print('no')"], is_read=False)
        with pytest.raises(ProcessError, match="the server did not listen: no"):
            silent.listen(free_port(), 10)


@pytest.mark.parametrize(
    ("code", "expected", "kind"),
    [
        ("import sys; print('out'); sys.exit('err')", "ended with exit status 1: err out", "job"),
        ("import time; time.sleep(60)", "was not done in time", "timeout"),
    ],
)
def test_a_failure_is_a_failed_sample_that_cites_the_log(
    tmp_path: Path, code: str, expected: str, kind: str
) -> None:
    class Load(RdmaTask):
        def measured(self, programs: Programs, test: Any) -> dict[str, Any]:
            return {"said": programs.start("load", [sys.executable, "-c", code]).finish()}

    task = Load()
    task.prepare(tmp_path, [])
    (tmp_path / "logs").mkdir()
    sample = task.sample(SimpleNamespace(id="rdma/1"), 1, 5 if kind == "job" else 0.2)
    assert sample["status"] == "failed"
    assert sample["error"] == {"kind": kind, "message": f"the load {expected}"}


def test_one_that_ends_before_it_has_announced_itself(tmp_path: Path) -> None:
    with Programs(tmp_path, "test", 5) as programs:
        for code in ("", "print('no JSON')"):
            program = programs.start("agent", [sys.executable, "-c", code])
            with pytest.raises(ProcessError, match="the agent did not say where it listens"):
                program.announced()
        said = programs.start("agent", [sys.executable, "-c", "print('{}')"])
        assert said.announced() == {}
