"""Completions and manual pages are made from what the verbs take, Python's verbs too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from command import native

_SHELLS = ("bash", "zsh", "fish")


def _run(*words: str | Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*native(), *map(str, words)],
        capture_output=True,
        text=True,
        env=os.environ | {"OVERSIDE_PYTHON": python},
        timeout=60,
        check=False,
    )


@cache
def _script(shell: str) -> str:
    done = _run("completions", shell)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("overside com", {"compare", "completions", "compress"}),
        ("overside run --fi", {"--filter"}),
        ("overside data ver", {"verify"}),
        ("overside data make --ag", {"--again"}),
        ("overside flow serve-table --lis", {"--listen"}),
        ("overside match --word", {"--word-regexp"}),
        ("overside agent keys --", {"--help"}),
        ("overside report --format ", {"csv", "html", "json", "md"}),
    ],
)
def test_bash_completes_verbs_options_and_choices(line: str, expected: set[str]) -> None:
    words = line.split(" ")
    ask = (
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}\n"
        f"_overside overside '{words[-1]}' '{words[-2]}'\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc"],
        input=_script("bash") + ask,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    assert expected <= set(done.stdout.split())


@pytest.mark.parametrize("shell", _SHELLS)
def test_each_shell_takes_its_script(shell: str, tmp_path: Path) -> None:
    script = _script(shell)
    for word in ("decompress", "serve-table", "resume", "word-regexp"):
        assert word in script
    assert "[default:" not in script.replace("\\", "")
    assert "(default: one per core)" in script.replace("\\", "") or shell == "bash"
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script)
    subprocess.run([shell, "-n", path], timeout=60, check=True)


def test_a_manual_has_a_page_for_each_verb(tmp_path: Path) -> None:
    done = _run("manual", tmp_path / "man1")
    assert (done.returncode, done.stderr) == (0, "")
    pages = {path.name: path.read_text() for path in (tmp_path / "man1").iterdir()}
    assert f"{len(pages)} pages in " in done.stdout
    for name in ("", "-run", "-data-make", "-compress", "-agent-keys", "-flow-serve-table"):
        page = pages[f"overside{name}.1"]
        assert page.count(".SH NAME") == 1
        assert f"overside{name.replace('-serve-table', '')}" in page.replace("\\-", "-")
    assert "filter" in pages["overside-run.1"]
    assert "Examples" in pages["overside-compress.1"]
    assert "(default: gzip)" in pages["overside-compress.1"]


def test_help_of_a_verb_of_a_verb_is_found() -> None:
    for words in (["help", "data", "make"], ["data", "make", "--help"]):
        done = _run(*words)
        assert done.returncode == 0, done.stderr
        assert "--again" in done.stdout
    assert "--help" in _run("help", "agent", "keys").stdout
