"""New plug-ins: what a good one gives, and what a bad one cannot do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest
from command import overside
from overside.plugins import discovery
from overside.plugins.program import ProgramPlugin, ProtocolError, read_lines
from overside.plugins.task import PluginTask
from overside.tasks.common import Test

ABOUT = {
    "plugin": "1",
    "name": "probe",
    "description": "a probe",
    "parameters": {"size": {"type": "integer", "default": 1, "minimum": 1}},
    "metrics": {"rate": {"unit": "1/s", "better": "higher", "description": "a rate"}},
    "verifies": True,
}
GOOD = '{"metrics": {"rate": 2}, "check": {"ok": true, "method": "eye", "value": "v"}}'

#: Seconds, and nobody else's: the processes of these tests are told by their command line.
FOREVER = 10_000_000 + os.getpid()
#: Behind a command: it goes on without the output, and the script after it has let go of that.
SILENT = (
    '>/dev/null 2>&1 &\nuntil [ "$(readlink /proc/$!/fd/2)" = /dev/null ]; do sleep 0.01; done\n'
)


def make(
    tmp_path: Path, run: str, *, prepare: str = ":", clean: str = ":", about: object = ABOUT
) -> Path:
    """Writes a plug-in in shell; returns its folder."""
    folder = tmp_path / "plugins" / "probe"
    folder.mkdir(parents=True)
    (folder / "about.json").write_text(json.dumps(about))
    program = folder / "plugin"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$1" in\n'
        f'describe) cat "{folder}/about.json" ;;\n'
        f"prepare)\n{prepare}\n;;\n"
        f"run)\n{run}\n;;\n"
        f"clean)\n{clean}\n;;\n"
        "esac\n"
    )
    program.chmod(0o755)
    return folder


def load(folder: Path) -> ProgramPlugin:
    plugin = discovery.at(folder, "probe")
    assert isinstance(plugin, ProgramPlugin)
    return plugin


def measure(plugin: PluginTask, run_dir: Path, timeout_s: float = 20.0) -> dict:
    """One sample, with all that comes before and after it."""
    test = Test("probe/0", plugin.name, {"size": 3}, [])
    reason = plugin.prepare(run_dir, [test])
    assert reason is None
    try:
        return plugin.sample(test, 0, timeout_s)
    finally:
        plugin.clean()


def is_running(command: str) -> bool:
    """`True` if there is a process with this command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if line == command.encode().replace(b" ", b"\0") + b"\0":
                return True
    return False


BAD = {
    "hangs": (f"sleep {FOREVER}.1", "timeout", "did not end within 0.5 s"),
    "ignores SIGTERM": (
        'trap "" TERM; while :; do sleep 0.1; done',
        "timeout",
        "did not end within 0.5 s",
    ),
    "crashes": ("kill -SEGV $$", "plugin", "crashed (SIGSEGV)"),
    "gives up": ("echo no such disk >&2; exit 3", "plugin", "exit status 3; it said: no such disk"),
    "prints garbage": ("echo hello", "plugin", "line 1 of its output is not JSON ('hello')"),
    "prints bytes": (r"printf '\377\376\n'", "plugin", "line 1 of its output is not UTF-8"),
    "prints a list": ("echo '[1]'", "plugin", "line 1 of its output is not a JSON object"),
    "prints a long line": (
        "head -c 2000000 /dev/zero | tr '\\0' a",
        "plugin",
        "line 1 is longer than 1 MiB",
    ),
    "prints deep JSON": (
        "head -c 200000 /dev/zero | tr '\\0' '['",
        "plugin",
        "line 1 of its output is not JSON",
    ),
    "prints nothing": (":", "plugin", "answered run with nothing"),
    "prints a gigabyte": ("head -c 1000000000 /dev/zero", "plugin", "wrote more than 16 MiB"),
    "lingers": (
        f"exec >&-; sleep {FOREVER}.2",
        "plugin",
        "closed its output, but did not end within 2 s",
    ),
    "leaves a child with its output": (
        f"sleep {FOREVER}.3 &\necho '{GOOD}'",
        "plugin",
        "a child that it left behind still holds its output",
    ),
    "leaves a daemon": (
        f"setsid sleep {FOREVER}.4 {SILENT}echo '{GOOD}'",
        "plugin",
        "left processes running (",
    ),
    "leaves a daemon without environment": (
        f"setsid env -i sleep {FOREVER}.8 {SILENT}echo '{GOOD}'",
        "plugin",
        "left processes running (",
    ),
    "leaves a daemon of a daemon": (
        f"setsid env -i sh -c 'setsid sleep {FOREVER}.9 & exec sleep {FOREVER}.9' "
        f"{SILENT}echo '{GOOD}'",
        "plugin",
        "left processes running (",
    ),
    "says NaN": ("""echo '{"metrics": {"rate": NaN}}'""", "plugin", "is not JSON"),
    "says infinity": (
        """echo '{"metrics": {"rate": 1e999}}'""",
        "plugin",
        "1e999 is no finite number",
    ),
    "says a number without end": (
        'printf \'{"metrics": {"rate": 1%0400d}}\' 0',
        "plugin",
        "is no finite number",
    ),
    "says what no sum can hold": (
        """echo '{"metrics": {"rate": 1e308}}'; echo '{"metrics": {"rate": 1e308}}'""",
        "plugin",
        "not a number up to 1e+100",
    ),
    "works for as long as no sum can hold": (
        """for i in 1 2; do echo '{"metrics": {"rate": 1}, "elapsed_ns": 1e308}'; done""",
        "plugin",
        "elapsed_ns must be a number",
    ),
    "checks with half a character": (
        """echo '{"metrics": {"rate": 2}, "check": {"ok": true, "method": "\\\\ud800"}}'""",
        "plugin",
        "half of a character",
    ),
    "skips with half a character": (
        """echo '{"skip": "\\\\udfff"}'""",
        "plugin",
        "half of a character",
    ),
    "says text": ("""echo '{"metrics": {"rate": "2"}}'""", "plugin", "not a number up to"),
    "invents a metric": (
        """echo '{"metrics": {"joy": 2}}'""",
        "plugin",
        "'joy', which describe does not name",
    ),
    "invents a key": ("""echo '{"metrics": {"rate": 2}, "x": 1}'""", "plugin", "unknown key 'x'"),
    "works backwards": (
        """echo '{"metrics": {"rate": 2}, "work": {"bytes": -1}, "check": {"ok": true}}'""",
        "plugin",
        "work must be an object of bytes",
    ),
    "forgets its check": ("""echo '{"metrics": {"rate": 2}}'""", "plugin", "has no check, though"),
    "finds a wrong result": (
        f"""echo '{GOOD}'; echo '{{"metrics": {{"rate": 2}}, "check": {{"ok": false}}}}'""",
        "verification",
        "found a wrong result (line 2)",
    ),
    "reports an error": (
        """echo '{"error": {"kind": "job", "message": "queue full"}}'; exit 1""",
        "job",
        "reports: queue full",
    ),
}


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.replace(" ", "-"))
def test_a_bad_plugin_becomes_a_failed_sample(case: str, tmp_path: Path) -> None:
    script, kind, message = BAD[case]
    plugin = load(make(tmp_path, script))
    begin = time.monotonic()
    sample = measure(plugin, tmp_path / "run", 0.5 if kind == "timeout" else 20.0)
    assert time.monotonic() - begin < 15
    assert sample["status"] == "failed"
    assert sample["error"]["kind"] == kind
    assert sample["error"]["message"].startswith("plug-in probe ")
    assert message in sample["error"]["message"]
    for number in (1, 2, 3, 4, 8, 9):
        assert not is_running(f"sleep {FOREVER}.{number}")


def test_repetitions_become_one_sample(tmp_path: Path) -> None:
    lines = "\n".join(
        f"""echo '{{"metrics": {{"rate": {rate}}}, "check": {{"ok": true, "value": "{rate}"}},"""
        f""" "work": {{"jobs": 1, "bytes": 10}}, "elapsed_ns": 5, "cpu": {{"host_s": 0.5}}}}'"""
        for rate in (1, 9, 2)
    )
    plugin = load(make(tmp_path, lines))
    assert plugin.verified
    sample = measure(plugin, tmp_path / "run")
    assert sample["status"] == "ok"
    assert sample["metrics"] == {"probe.rate": 2}
    assert sample["work"] == {"jobs": 3, "bytes": 30}
    assert sample["elapsed_ns"] == 15
    assert sample["cpu"] == {"host_s": 1.5}
    assert sample["check"] == {"method": "by the plug-in", "value": "2", "buffers": 3}
    assert sample["applied"]["driver"] == "probe"


def test_the_request_says_what_to_do(tmp_path: Path) -> None:
    plugin = load(make(tmp_path, f"cat > request.json; echo '{GOOD}'", prepare="cat > all.json"))
    assert measure(plugin, tmp_path / "run")["status"] == "ok"
    work = tmp_path / "run" / "plugins" / "probe"
    assert json.loads((work / "request.json").read_text()) == {
        "plugin": "1",
        "verb": "run",
        "work_dir": str(work),
        "test": "probe/0",
        "parameters": {"size": 3},
        "round": 0,
        "timeout_s": 20.0,
    }
    tests = json.loads((work / "all.json").read_text())["tests"]
    assert tests == [{"test": "probe/0", "parameters": {"size": 3}}]


def test_a_plugin_may_decline(tmp_path: Path) -> None:
    plugin = load(make(tmp_path, """echo '{"skip": "no such card"}'"""))
    sample = measure(plugin, tmp_path / "run")
    assert (sample["status"], sample["reason"]) == ("skipped", "no such card")


def test_prepare_may_decline_for_all(tmp_path: Path) -> None:
    plugin = load(make(tmp_path, ":", prepare="""echo '{"skip": "no such card"}'"""))
    assert plugin.prepare(tmp_path / "run", []) == "no such card"
    plugin.clean()


def test_clean_follows_prepare_even_if_that_failed(tmp_path: Path) -> None:
    plugin = load(make(tmp_path, ":", prepare="touch begun; exit 1", clean="rm begun; touch done"))
    sample = measure(plugin, tmp_path / "run")
    assert "(prepare): ended with exit status 1" in sample["error"]["message"]
    work = tmp_path / "run" / "plugins" / "probe"
    assert not (work / "begun").exists()
    assert (work / "done").exists()


def test_a_plugin_that_was_never_prepared_is_not_cleaned(tmp_path: Path) -> None:
    folder = make(tmp_path, ":", clean=f"touch {tmp_path / 'cleaned'}", about={"plugin": "1"})
    plugin = load(folder)
    assert "describes itself wrongly" in measure(plugin, tmp_path / "run")["error"]["message"]
    assert not (tmp_path / "cleaned").exists()


def test_what_prepare_started_lives_until_clean(tmp_path: Path) -> None:
    folder = make(
        tmp_path,
        f"kill -0 $(cat server.pid) && echo '{GOOD}'",
        prepare=f"sleep {FOREVER}.5 {SILENT}echo $! > server.pid",
    )
    assert measure(load(folder), tmp_path / "run")["status"] == "ok"
    assert not is_running(f"sleep {FOREVER}.5")


def test_a_plugin_that_cannot_start_says_why(tmp_path: Path) -> None:
    folder = make(tmp_path, ":")
    program = folder / "plugin"
    program.chmod(0o644)
    if os.geteuid() == 0 or not os.access(program, os.X_OK):
        message = measure(load(folder), tmp_path / "run")["error"]["message"]
        assert f"{program} is not executable; chmod +x" in message
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    message = measure(load(folder), tmp_path / "run")["error"]["message"]
    assert "the interpreter in the first line of" in message
    program.write_text("echo hello\n")
    message = measure(load(folder), tmp_path / "run")["error"]["message"]
    assert "a script needs a first line such as #!/usr/bin/env python3" in message


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"plugin": "7"}, '"plugin" must be "1"'),
        ({"name": "other"}, "it calls itself 'other', but boxes call it 'probe'"),
        ({"description": ""}, "it has no description"),
        ({"metrics": {}}, "it names no metric"),
        ({"metrics": {"rate": {"better": "bigger"}}}, 'must say "better"'),
        ({"parameters": {"size": {"type": "float"}}}, "must have a type of string"),
        ({"parameters": {"size": {"typ": "any"}}}, "unknown key 'typ'"),
        ({"parameters": [1]}, "'parameters' must be an object"),
        ({"metrics": {"\x1b[2J": {}}}, "is no name"),
        ({"timeout_s": -1}, '"timeout_s" must be above 0'),
        ({"extra": 1}, "unknown key 'extra'"),
    ],
)
def test_a_wrong_description_is_explained(
    change: dict[str, object], problem: str, tmp_path: Path
) -> None:
    plugin = load(make(tmp_path, ":", about={**ABOUT, **change}))
    message = measure(plugin, tmp_path / "run")["error"]["message"]
    assert "describes itself wrongly" in message
    assert problem in message


@pytest.mark.parametrize(
    "change",
    [
        {"verifies": False},
        {"metrics": {"rate": {"better": "higher"}}},
        {"metrics": {"rate": {"unit": "1/s"}}},
    ],
)
def test_without_a_unit_a_direction_or_a_check_it_is_unverified(
    change: dict[str, object], tmp_path: Path
) -> None:
    plugin = load(make(tmp_path, f"echo '{GOOD}'", about={**ABOUT, **change}))
    assert plugin.failure is None
    assert not plugin.verified


def test_logs_are_kept_and_bounded(tmp_path: Path) -> None:
    plugin = load(make(tmp_path, f"head -c 40000000 /dev/zero >&2; echo '{GOOD}'"))
    assert measure(plugin, tmp_path / "run")["status"] == "ok"
    log = tmp_path / "run" / "logs" / "plugin-probe.log"
    assert log.stat().st_size < 17 << 20
    assert b"cut here" in log.read_bytes()[-100:]


def start(tmp_path: Path, *, catches: bool) -> tuple[subprocess.Popen[str], BinaryIO]:
    """A process in which a plug-in runs for ever, and a pipe that the plug-in holds open."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    folder = make(tmp_path, f"exec 3>{pipe}; exec sleep {FOREVER}.6")
    script = (
        "import signal\n"
        "import sys\n"
        "from pathlib import Path\n"
        "from overside.tasks.common import Test\n"
        "from overside.plugins import discovery\n"
        "plugin = discovery.at(Path(sys.argv[1]), 'probe')\n"
        "test = Test('probe/0', 'probe', {}, [])\n"
        "plugin.prepare(Path(sys.argv[2]), [test])\n"
        "try:\n"
        "    plugin.sample(test, 0, 60)\n"
        f"except {'KeyboardInterrupt' if catches else 'MemoryError'}:\n"
        "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "    plugin.clean()\n"
        "    print('passed', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder), str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        text=True,
    )
    # Opening it waits for the plug-in to open it, too.
    return process, pipe.open("rb")


def test_ctrl_c_ends_the_program_and_passes(tmp_path: Path) -> None:
    process, pipe = start(tmp_path, catches=True)
    # Python drops the exception of a signal that comes in one of its own callbacks: press again.
    for _ in range(60):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
            break
    assert process.communicate(timeout=60)[0] == "passed\n"
    with pipe:
        assert pipe.read() == b"", "its end is closed, for it has ended"


def test_a_killed_runner_takes_its_plugin_along(tmp_path: Path) -> None:
    process, pipe = start(tmp_path, catches=False)
    process.kill()
    process.communicate()
    with pipe:
        assert pipe.read() == b"", "its end is closed, for it has ended"


def test_where_plugins_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = tmp_path / "here" / "box.json"
    box.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv(discovery.PATH_VARIABLE, f"{tmp_path / 'none'}:{elsewhere}")
    assert discovery.find("probe", box) is None
    folder = make(tmp_path, ":")
    folder.parent.rename(elsewhere)
    found = discovery.find("probe", box)
    assert found is not None
    assert found.folder == elsewhere / "probe"
    make(box.parent, ":")
    found = discovery.find("probe", box)
    assert found is not None
    assert found.folder == box.parent / "plugins" / "probe"


def test_a_single_program_is_a_plugin_in_a_folder_of_plugins_only(tmp_path: Path) -> None:
    """A program beside a box may have a task's name by chance."""
    program = tmp_path / "probe"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    program.chmod(0o755)
    assert discovery.find("probe", tmp_path / "box.json") is None
    assert not (tmp_path / "started").exists()
    (tmp_path / "plugins").mkdir()
    program.rename(tmp_path / "plugins" / "probe")
    assert discovery.find("probe", tmp_path / "box.json") is not None


def test_its_words_cannot_command_a_terminal(tmp_path: Path) -> None:
    script = """printf '\\033[2Jboo\\n' >&2; exit 1"""
    sample = measure(load(make(tmp_path, script)), tmp_path / "run")
    assert "it said: ?[2Jboo" in sample["error"]["message"]


@pytest.mark.parametrize("name", ["../probe", "/probe", "plugins/probe", "", ".", "..", "a\0b"])
def test_a_name_does_not_lead_elsewhere(name: str, tmp_path: Path) -> None:
    make(tmp_path, ":")
    (tmp_path / "plugins" / "box.json").touch()
    assert discovery.find(name, tmp_path / "plugins" / "box.json") is None


def test_lines_are_bounded() -> None:
    assert read_lines(b'\n{"a": 1}\n\n{"b": 2}') == [{"a": 1}, {"b": 2}]
    with pytest.raises(ProtocolError, match="more than 100000 lines"):
        read_lines(b"{}\n" * 100_001)


def test_a_new_plugin_works_at_once(tmp_path: Path) -> None:
    made = overside("plugin", "new", "sorting", "--dir", str(tmp_path))
    assert made.returncode == 0, made.stderr
    folder = tmp_path / "sorting"
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "box.json", "plugin"]
    checked = overside("plugin", "check", str(folder), "--json")
    assert checked.returncode == 0, checked.stdout
    assert json.loads(checked.stdout)["ok"] is True
    plugin = discovery.find("sorting", folder / "box.json")
    assert plugin is not None
    assert plugin.verified
    text = (folder / "README.md").read_text() + (folder / "box.json").read_text()
    assert "{{" not in text
    again = overside("plugin", "new", "sorting", "--dir", str(tmp_path))
    assert again.returncode == 2
    assert "exists; nothing was written" in again.stderr


@pytest.mark.parametrize("name", ["compress", "a b", "../x", ""])
def test_a_new_plugin_needs_a_name_of_its_own(name: str, tmp_path: Path) -> None:
    refused = overside("plugin", "new", name, "--dir", str(tmp_path))
    assert refused.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_check_says_what_is_wrong(tmp_path: Path) -> None:
    folder = make(tmp_path, "echo hello")
    checked = overside("plugin", "check", str(folder))
    assert checked.returncode == 100
    assert "wrong  plug-in probe (run) line 1 of its output is not JSON" in checked.stdout
    assert overside("plugin", "check", str(tmp_path)).returncode == 2


def test_check_runs_what_changes_the_system_only_if_that_is_allowed(tmp_path: Path) -> None:
    mark = tmp_path / "prepared"
    about = ABOUT | {"changes_system": ["loads a kernel module"]}
    folder = make(tmp_path, f"echo '{GOOD}'", prepare=f"touch {mark}", about=about)
    checked = overside("plugin", "check", folder, "--json", code=0)
    steps = json.loads(checked.stdout)["steps"]
    assert [step["verdict"] for step in steps] == ["ok", "note"]
    assert "loads a kernel module" in steps[-1]["what"]
    assert not mark.exists()
    overside("plugin", "check", folder, "--allow-scripts", code=0)
    assert mark.exists()
