"""Runs the real command line, and boxes small enough for tests."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    ExitStack,
    chdir,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from pathlib import Path
from typing import Any
from unittest import mock

from overside import _core, commands
from overside.__main__ import main
from overside.commands import Arguments

Json = dict[str, Any]

#: Seconds after which something that should have happened has not.
PATIENCE_S = 300


def overside(
    *words: str | Path, cwd: Path = Path(), code: int | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a verb; its exit code must be `code` if that is given. Those that measure get a process
    of their own, others do not: starting Python takes longer than most of them. Where only the run
    is of interest, `ran` starts none either."""
    argv = [str(word) for word in words]
    if argv[:1] in (["run"], ["calibrate"]):
        done = subprocess.run(
            [sys.executable, "-m", "overside", *argv],
            cwd=cwd,
            env=environment() | variables,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            # Beside other work a measuring process may wait for its turn for a long time.
            timeout=PATIENCE_S * 6,
            check=False,
        )
    else:
        done = _called(argv, cwd, environment() | variables)
    if code is not None:
        assert done.returncode == code, done.stderr + done.stdout
    return done


def _called(
    argv: list[str], cwd: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """The same in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(cwd),
        mock.patch.dict(os.environ, variables),
        mock.patch.object(sys, "argv", ["overside", *argv]),
    ):
        code = main(argv)
    return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())


def parsed(*line: str | Path) -> Arguments:
    """The values of a command line, as a verb gets them."""
    _, text = _core.command_line([str(word) for word in line])
    return json.loads(text, object_hook=commands.value).values


def start(*words: str | Path, cwd: Path) -> subprocess.Popen[str]:
    """Starts a verb."""
    return subprocess.Popen(
        [sys.executable, "-m", "overside", *map(str, words)],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def environment() -> dict[str, str]:
    """No plug-ins from elsewhere, messages 80 columns wide. The cache is one of this session."""
    return os.environ | {"OVERSIDE_PLUGINS": "", "COLUMNS": "80"}


@contextmanager
def running_agent(
    *words: str, command: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], Json]]:
    """`overside agent` on this machine with the CPU as its device, and what it says of itself.
    `command` is another one than that beside this Python."""
    common = ["agent", "--listen", "127.0.0.1:0", "--json", "--device", "cpu", "-p", "1"]
    whole = [*(command or native()), *common, *words]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, text=True) as agent:
        try:
            assert agent.stdout is not None
            yield agent, json.loads(agent.stdout.readline())
        finally:
            agent.terminate()
            agent.wait(PATIENCE_S)


@contextmanager
def agents(directory: Path, **options: Sequence[str]) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Agents of this machine with these options, in an inventory that has `gone` beside them, which
    is not there. Those with the option `--keys` have keys."""
    text = '[agents.gone]\naddress = "localhost:1"\n'
    with ExitStack() as stack:
        running = {}
        for name, option in options.items():
            keys, words = directory / f"keys-{name}", list(option)
            if "--keys" in words:
                command = [*native(), "agent", "keys", keys]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                words.append(str(keys))
            running[name], about = stack.enter_context(running_agent(*words))
            assert about["probes"] == ("--no-probes" not in words)
            text += f'[agents.{name}]\naddress = "{about["address"]}"\n'
            text += f'keys = "{keys.name}"\n' if "--keys" in words else ""
        inventory = directory / "agents.toml"
        inventory.write_text(text)
        with mock.patch.dict(os.environ, {"OVERSIDE_AGENTS": str(inventory)}):
            yield running


@contextmanager
def ended(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A server's process, which is ended afterwards, also where the test fails."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                # It may have been stopped by a test that failed.
                process.kill()
                raise


class Listening:
    """A server that runs, and where."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        said: dict[str, str] = json.loads(process.stdout.readline() or "null")
        self.address, self.metrics = said["address"], said.get("metrics")
        self.uri = f"grpc://{self.address}"


def server_keys(directory: Path) -> Path:
    """An authority, with certificates of a server and of its clients."""
    told(*native(), "agent", "keys", directory)
    for name in ("pem", "key"):
        shutil.copy(directory / f"agent.{name}", directory / f"server.{name}")
    return directory


def completed(
    *command: str | Path, code: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program, which ends with this code."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def told(*command: str | Path, code: int = 0, **variables: str) -> str:
    """Output of a program, likewise: of a failure its errors."""
    done = completed(*command, code=code, **variables)
    return done.stdout if code == 0 else done.stderr


def flow(*words: str | Path, code: int = 0, **variables: str) -> str:
    """Output of a verb of `overside flow`, likewise."""
    return told(*native(), "flow", *words, code=code, **variables)


def native() -> list[str]:
    """The native command beside this Python."""
    return [str(Path(sys.executable).parent / "overside")]


def partitioned(*words: str | Path) -> list[Json]:
    """The files that `overside flow partition` writes, as it tells them."""
    files: list[Json] = json.loads(flow("partition", *words, "--json"))["files"]
    return files


def tiny_box(directory: Path, **changes: Any) -> Path:
    """A box of four tests that take milliseconds. Keys of `measure` can be given directly.

    The metric that decides about further rounds is the ratio, which is the same in every round:
    there are none, however noisy the machine is.
    """
    (directory / "words.txt").write_text("all work and no play makes a dull text\n" * 2000)
    measure = {"rounds": 6, "warmup_s": 0, "sample_s": 0.002, "max_s": 300, "target_interval": 0.05}
    measure |= {key: changes.pop(key) for key in list(changes) if key in measure}
    data = {"data": "words.txt", "sample_bytes": 16384}
    box = {
        "schema": "box/1",
        "name": "tiny",
        "seed": 7,
        "tasks": [
            {
                "task": "compress",
                "parameters": {
                    "variant": ["zlib", "libdeflate"],
                    "level": 1,
                    "buffer_size": 4096,
                    **data,
                },
                "metrics": ["ratio", "throughput"],
            },
            {
                "task": "decompress",
                "parameters": {"variant": "zlib", "buffer_size": [4096, 8192], **data},
                "metrics": ["ratio", "throughput"],
            },
        ],
        "measure": measure,
    }
    return write_box(directory, box | changes)


def write_box(directory: Path, box: Json, name: str = "tiny.json") -> Path:
    """Writes a box."""
    path = directory / name
    path.write_text(json.dumps(box))
    return path


def short_box(directory: Path, *tasks: Json, **measure: Any) -> Path:
    """A box of these entries that takes one short sample of each test, however busy the machine
    is meanwhile."""
    measure = {"rounds": 1, "warmup_s": 0, "sample_s": 0.05, "max_s": 300} | measure
    box = {"schema": "box/1", "name": "short", "seed": 7, "tasks": tasks, "measure": measure}
    return write_box(directory, box)


def ran(box: Path, *words: str | Path, code: int | None = 0) -> Path:
    """Runs a box where it lies; the run. It is measured by processes of its own as always, but the
    verb is called in this one."""
    done = _called(["run", *map(str, [box, *words])], box.parent, environment())
    assert code in (None, done.returncode), done.stderr + done.stdout
    return only_run(box.parent)


def planned(box: str | Path, *words: str, cwd: Path | None = None) -> list[Json]:
    """The tests that a box stands for."""
    done = overside("plan", box, "--json", *words, cwd=cwd or Path(box).parent, code=0)
    tests: list[Json] = json.loads(done.stdout)["tests"]
    return tests


def said(done: subprocess.CompletedProcess[str]) -> str:
    """All that a command said, its lines joined."""
    return " ".join((done.stdout + done.stderr).split())


def only_run(directory: Path) -> Path:
    """The one run that there is."""
    (run,) = (directory / "results").iterdir()
    return run


def manifest(run: Path) -> Json:
    """A run's manifest."""
    return json.loads((run / "manifest.json").read_text())


def samples(run: Path) -> list[Json]:
    """A run's samples, each line of them a whole one."""
    return [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]


def children(pid: int) -> list[int]:
    """The processes that a process has started and that have not been reaped."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def has_ended(pid: int) -> bool:
    """A process that nobody has waited for yet is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def is_playing(agent: int) -> bool:
    """`True` if the process of an agent plays an end of a running test."""
    names = []
    for thread in Path(f"/proc/{agent}/task").iterdir():
        with suppress(OSError):
            names.append((thread / "comm").read_text().strip())
    return "agent-probe" in names


def wait_for(happened: Callable[[], Any]) -> Any:
    """First true result of `happened`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        answer = happened()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"did not happen within {PATIENCE_S} s")
