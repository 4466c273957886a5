"""Commands in README and in the pages for newcomers work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import documents
import pytest
from command import native

pytestmark = pytest.mark.begun_first

#: On a slow or busy machine the time of a box ends before its rounds do (5), and the emulation of a
#: card is late (104). Neither is the documents' fault.
PRELUDE = """overside() {
    local code=0
    command overside "$@" || code=$?
    case $code in 5 | 104) return 0 ;; esac
    return $code
}
"""
#: The longest that all commands of one page take here, with a busy machine.
TIMEOUT_S = 900


def _names(page: Path) -> str:
    return str(page.relative_to(documents.ROOT))


@pytest.mark.parametrize("page", documents.pages(), ids=_names)
def test_verbs_and_options_exist(page: Path) -> None:
    for block in documents.blocks(page):
        for words in documents.commands(block):
            text, rest = _help_of(words)
            options = set(re.findall(r"(?<![\w-])--?[A-Za-z0-9][\w-]*", text))
            for word in rest:
                if re.fullmatch(r"--[a-z-]+(=.*)?", word):
                    assert word.partition("=")[0] in options, f"{_names(page)}: {words}"
                elif re.fullmatch(r"-[A-Za-z0-9]+", word):
                    # Short ones can be written together; one with a value ends the word.
                    assert f"-{word[1]}" in options or word in ("-1", "-9"), f"{page}: {words}"


@pytest.mark.parametrize("page", documents.pages(), ids=_names)
def test_commands_run(page: Path, tmp_path: Path) -> None:
    _run(page, tmp_path, with_long=False)


@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [page for page in documents.pages() if any(b.is_long for b in documents.blocks(page))],
    ids=_names,
)
def test_commands_that_take_longer_run(page: Path, tmp_path: Path) -> None:
    _run(page, tmp_path, with_long=True)


def test_the_readme_fits_one_screen_of_a_repository() -> None:
    page = documents.ROOT / "README.md"
    assert page.read_text().count("\n") < 70
    called = [words[0] for block in documents.blocks(page) for words in documents.commands(block)]
    assert called == ["run", "advise", "compress"]


def _run(page: Path, directory: Path, *, with_long: bool) -> None:
    """Types the blocks of a page into one shell, in a directory with documents to work on."""
    chosen = [b for b in documents.blocks(page) if not b.not_run and (with_long or not b.is_long)]
    if not chosen:
        pytest.skip("nothing in it can be run here in a short time")
    shutil.copytree(documents.ROOT / "docs", directory / "docs")
    script = "".join(
        f"{sys.executable} - <<'PYTHON'\n{block.text}PYTHON\n"
        if block.language == "python"
        else block.text
        for block in chosen
    )
    path = f"{Path(native()[0]).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", PRELUDE + script],
        cwd=directory,
        env=os.environ | {"PATH": path, "OVERSIDE_PLUGINS": ""},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _help_of(words: list[str]) -> tuple[str, list[str]]:
    """The help of the verb, or of its action, and the words behind it."""
    if words[0].startswith("-"):
        return _help(()), words
    own = _help((words[0],))
    has_actions = "<COMMAND>" in own
    if has_actions and words[1:] and re.search(rf"^  {re.escape(words[1])}(?: |$)", own, re.M):
        return _help((words[0], words[1])), words[2:]
    return own, words[1:]


@cache
def _help(verb: tuple[str, ...]) -> str:
    done = subprocess.run(
        [*native(), *verb, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"there is no verb {' '.join(verb)}: {done.stderr}"
    return done.stdout
