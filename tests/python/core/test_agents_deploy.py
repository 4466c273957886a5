"""`overside agents deploy` to a machine of its own: a sandbox on loopback with a real sshd, whose
`/etc`, `/run`, `/usr/local` and home directory are of the test."""

from __future__ import annotations

import getpass
import json
import os
import pwd
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import PATIENCE_S, native

#: An address of loopback at which no other process's agent listens: other tests run beside these.
ADDRESS = f"127.7.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"
#: Starts the agent as the unit says, and keeps what it was asked.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>/run/systemctl.log
[ "$1" = restart ] || exit 0
. /etc/overside/agent.env
setsid setpriv --reuid overside --regid overside --init-groups /usr/local/bin/overside agent \
    --listen "$OVERSIDE_LISTEN" --keys /etc/overside/keys </dev/null >/run/agent.log 2>&1 &
"""

pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("bwrap") is None or not Path("/usr/sbin/sshd").exists(),
    reason="it takes root, bubblewrap and openssh-server",
)


@dataclass
class Machine:
    """The other machine, and the user on this one."""

    place: Path

    def path(self, name: str) -> Path:
        return self.place / name

    def overside(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*native(), *words],
            cwd=self.place,
            env=os.environ | {"OVERSIDE_AGENTS": str(self.place / "here/agents.toml")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def deploy(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        ssh = f"ssh -F {self.place / 'ssh_config'}"
        return self.overside("agents", "deploy", "dpu0", "--ssh", ssh, *words, code=code)

    def assert_works(self) -> None:
        """The agent compresses for this machine."""
        text = b"what is said three times is true\n" * 10_000
        (self.place / "text").write_bytes(text)
        far = ["--device", "dpu0/cpu", "--placement", "device"]
        self.overside("compress", "-kf", "text", *far)
        done = subprocess.run(
            ["gunzip", "-c", self.place / "text.gz"], capture_output=True, check=True
        )
        assert done.stdout == text


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Iterator[Machine]:
    home = pwd.getpwuid(os.getuid()).pw_dir
    for name in ("etc", "run/sshd", "local/bin", "home", "here"):
        (tmp_path / name).mkdir(parents=True)
    tmp_path.chmod(0o755)
    etc = tmp_path / "etc"
    (etc / "passwd").write_text(
        f"root:x:0:0::{home}:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
    )
    (etc / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (etc / "shadow").write_text("root:*:::::::\nsshd:*:::::::\n")
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\n")
    for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "login.defs", "alternatives"):
        there = Path("/etc", name)
        if there.is_dir():
            shutil.copytree(there, etc / name, symlinks=True)
        elif there.exists():
            shutil.copy(there, etc / name)
    for key in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key]
        subprocess.run(command, check=True)
    with closing(socket.socket()) as free:
        free.bind((ADDRESS, 0))
        port = free.getsockname()[1]
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress {ADDRESS}:{port}\nHostKey {tmp_path}/host_key\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/user_key.pub\nStrictModes no\nPidFile none\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\n"
    )
    (tmp_path / "ssh_config").write_text(
        f"Host dpu0\nHostName {ADDRESS}\nPort {port}\nUser {getpass.getuser()}\n"
        f"IdentityFile {tmp_path}/user_key\nIdentitiesOnly yes\nLogLevel ERROR\n"
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nBatchMode yes\n"
    )
    mounts = {"etc": "/etc", "run": "/run", "local": "/usr/local", "home": home}
    binds = [word for name, to in mounts.items() for word in ("--bind", tmp_path / name, to)]
    # What is below a home directory that is another one there stays where it is.
    sandbox = ["bwrap", "--die-with-parent", "--unshare-pid", "--cap-add", "ALL"]
    sandbox += ["--ro-bind", "/", "/", "--tmpfs", "/tmp", *binds]
    sandbox += ["--bind", str(tmp_path), str(tmp_path)]
    sandbox += ["--dev", "/dev", "--proc", "/proc"]
    log = tmp_path / "sshd.log"
    with log.open("w") as err:
        sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", tmp_path / "sshd_config"]
        process = subprocess.Popen([*sandbox, *sshd], stderr=err)
    try:
        until = time.monotonic() + PATIENCE_S
        while "listening" not in log.read_text():
            if process.poll() is not None:
                pytest.skip(f"no sandbox with an sshd can be had here: {log.read_text()}")
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield Machine(tmp_path)
    finally:
        # All that was started there ends with it.
        process.terminate()
        process.wait(PATIENCE_S)


def test_a_machine_with_systemd_gets_a_service(machine: Machine) -> None:
    machine.path("run/systemd/system").mkdir(parents=True)
    systemctl = machine.path("local/bin/systemctl")
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    machine.path("etc/systemd/system").mkdir(parents=True)
    machine.path("etc/overside").mkdir()
    machine.path("etc/overside/agent.env").write_text(
        "OVERSIDE_OPTIONS=--no-probes\nOVERSIDE_LISTEN=127.0.0.1:1\n"
    )

    done = machine.deploy()
    assert "the service overside-agent runs there" in done.stderr
    assert "made keys in" in done.stderr
    assert done.stdout.startswith(f"dpu0: {ADDRESS}:7433: release ")
    assert "dpu0/cpu" in done.stdout
    machine.assert_works()

    asked = machine.path("run/systemctl.log").read_text().splitlines()
    assert asked == ["daemon-reload", "enable --quiet overside-agent", "restart overside-agent"]
    unit = Path(__file__).parents[3] / "contrib/overside-agent.service"
    installed = machine.path("etc/systemd/system/overside-agent.service")
    assert installed.read_text() == unit.read_text()
    environment = machine.path("etc/overside/agent.env").read_text().splitlines()
    assert environment == [f"OVERSIDE_LISTEN={ADDRESS}:7433", "OVERSIDE_OPTIONS=--no-probes"]
    assert "\noverside:" in machine.path("etc/passwd").read_text()
    keys = machine.path("etc/overside/keys")
    assert sorted(path.name for path in keys.iterdir()) == ["agent.key", "agent.pem", "ca.pem"]
    for path in keys.iterdir():
        about = path.stat()
        assert stat.S_IMODE(about.st_mode) == 0o600
        assert about.st_uid != os.getuid(), "the service's user reads them, and nobody else"


def test_a_machine_without_systemd_gets_a_process_and_says_so(machine: Machine) -> None:
    done = machine.deploy("--name", "dpu0")
    assert "no systemd there: it runs as process" in done.stderr
    machine.assert_works()
    again = machine.deploy()
    assert "made keys" not in again.stderr
    processes = {text.stderr.split("as process ")[1].split()[0] for text in (done, again)}
    assert len(processes) == 2, "the one before was ended"
    machine.assert_works()


def test_a_user_without_root_gets_it_into_the_home_directory(machine: Machine) -> None:
    done = machine.deploy("--user", "--listen", f"{ADDRESS}:7434")
    assert f"dpu0: {ADDRESS}:7434: release " in done.stdout
    machine.assert_works()
    assert machine.path("home/.local/bin/overside").exists()
    assert machine.path("home/.config/overside/keys/agent.key").exists()
    assert not machine.path("local/bin/overside").exists()
    listed = json.loads(machine.overside("agents", "list", "--json").stdout)
    (agent,) = listed["agents"]
    assert agent["address"] == f"{ADDRESS}:7434"
    assert agent["keys"] == str(machine.path("here/keys"))


def test_a_command_for_another_machine_is_refused_before_anything_is_changed(
    machine: Machine,
) -> None:
    other = bytearray(Path(native()[0]).read_bytes())
    # The machine in the ELF header: x86-64 is 62, 64-bit Arm 183.
    other[18] = 183 if other[18] == 62 else 62
    machine.path("other").write_bytes(other)
    refused = machine.deploy("--binary", "other", code=3)
    assert "and the command is for" in refused.stderr
    assert f"--binary dist/overside-{os.uname().machine}" in refused.stderr
    machine.path("other").write_text("no program")
    assert "is no command for Linux" in machine.deploy("--binary", "other", code=3).stderr
    assert list(machine.path("local/bin").iterdir()) == []
    assert machine.overside("agents", "list").stdout == ""


def test_a_host_that_cannot_be_reached_is_named(machine: Machine) -> None:
    nowhere = ["agents", "deploy", "root@127.0.0.1", "--name", "dpu0"]
    nowhere += ["--ssh", "ssh -o BatchMode=yes -p 1"]
    assert "ssh could not reach root@127.0.0.1" in machine.overside(*nowhere, code=3).stderr
    unnamed = machine.overside("agents", "deploy", "root@127.0.0.1", code=3)
    assert "takes --name" in unnamed.stderr
