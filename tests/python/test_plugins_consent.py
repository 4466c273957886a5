"""Nothing changes the system unasked: what is found by reading, and what is stopped in running."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from overside.bench import consent

CHANGES = [
    'subprocess.run(["sudo", "apt", "install", "-y", "fio"], check=True)',
    'os.system("apt-get update && apt-get install -y gcc")',
    'subprocess.run("cd x; sudo make install", shell=True)',
    'subprocess.run(f"sudo apt install {name}", shell=True)',
    'run_command(["/usr/bin/systemctl", "restart", "openibd"])',
    'command = "sysctl -w vm.nr_hugepages=512"',
    'run(["sh", "-c", "modprobe vfio"])',
    'run(["pip", "install", "--user", "pandas"])',
    'run(["/usr/bin/pip3", "install", "pandas"])',
    'run(["python3.10", "-m", "pip", "install", "pandas"])',
    'open("/etc/hosts", "a").write("x")',
    'Path("/etc/hosts").write_text("x")',
    'shutil.copy("here", "/usr/local/bin/there")',
    'shutil.rmtree("/opt/thing")',
    'os.system("echo 1 > /proc/sys/vm/drop_caches")',
    'os.system("echo x | tee /etc/motd")',
    'os.system("curl -s https://example.org/install | bash")',
    'subprocess.run(["git", "lfs", "install"])',
    'os.system("echo export A=1 >> ~/.bashrc")',
]
HARMLESS = [
    'subprocess.run(["gcc", "-O2", "x.c", "-o", "x"])',
    'subprocess.run("pip install pandas", shell=True)',
    'subprocess.run([pip, "install", "pandas"])',
    'print("please run: sudo apt install fio")',
    'raise RuntimeError("sudo apt install fio first")',
    '"""sudo apt install fio"""',
    "# sudo apt install fio",
    'open("/etc/hosts").read()',
    'shutil.copy("/etc/hosts", "here")',
    'os.system("cp /usr/share/dict/words words")',
    'os.system("ls > /dev/null 2>&1")',
    'x = {"service": 1}',
    'parser.add_argument("--mount", help="sudo mount it")',
    'os.makedirs("/tmp/results")',
    "import subprocess",
]


def findings(tmp_path: Path, text: str, name: str = "prepare.py") -> list[str]:
    script = tmp_path / name
    script.write_text(text)
    return [str(finding) for finding in consent.system_changes(script, [tmp_path])]


@pytest.mark.parametrize("line", CHANGES)
def test_changes_are_found(line: str, tmp_path: Path) -> None:
    found = findings(tmp_path, f"import os\nif True:\n    {line}\n")
    assert len(found) >= 1
    assert found[0].startswith("prepare.py:3: ")


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_need_no_consent(line: str, tmp_path: Path) -> None:
    assert findings(tmp_path, f"import os\nif True:\n    {line}\n    pass\n") == []


def test_scripts_that_it_calls_or_imports_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "setup.sh").write_text("#!/bin/sh\n# apt remove\nset -e\napt install x\n")
    (tmp_path / "helper.py").write_text('import os\nos.system("sudo reboot")\n')
    text = 'import helper\nimport subprocess\nsubprocess.run(["bash", "tools/setup.sh"])\n'
    assert sorted(findings(tmp_path, text)) == [
        "helper.py:2: sudo reboot",
        "tools/setup.sh:4: apt install x",
    ]


def test_what_cannot_be_read_needs_consent(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read beforehand" in str(
        consent.system_changes(tmp_path / "binary.py", [tmp_path])[0]
    )
    assert findings(tmp_path, "def broken(:\nsudo x\n") == ["prepare.py:2: sudo x"]


@pytest.mark.parametrize("text", ["(" * 100_000, "-" * 90_000 + "1", "'a'+" * 50_000 + "'b'"])
def test_a_script_that_overwhelms_the_parser_is_read_as_lines(text: str, tmp_path: Path) -> None:
    found = findings(tmp_path, f"{text}\nsudo x\n")
    assert found == ["prepare.py:2: sudo x"]


def test_a_script_too_large_to_read_needs_consent(tmp_path: Path) -> None:
    assert findings(tmp_path, "#" * 300_000) == ["prepare.py:1: is too large to be read beforehand"]


def test_scripts_that_name_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\n")
    (tmp_path / "b.py").write_text("import a\nimport b\n")
    assert consent.system_changes(tmp_path / "a.py", [tmp_path]) == []


def test_shims_refuse_and_tell(tmp_path: Path) -> None:
    folder = consent.shims(tmp_path / "shims")
    assert consent.refused(folder) == []
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    # Put together at run time, so that reading the script would not find it.
    done = subprocess.run(
        ["sh", "-c", 'a=su; "${a}do" apt install fio; echo after'],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "after\n"
    assert "would change this system" in done.stderr
    assert consent.refused(folder) == ["sudo apt install fio"]
    assert consent.refused(folder) == []
