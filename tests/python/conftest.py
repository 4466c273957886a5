"""Fixtures that several of these tests use."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
from command import overside, tiny_box


@pytest.fixture(scope="session")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    """A browser's tab."""
    with chromium.browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="session")
def tiny_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The directory of a tiny box with its one run, to be read only; and what the command said."""
    directory = tmp_path_factory.mktemp("tiny")
    tiny_box(directory)
    return directory, overside("run", "tiny.json", "--seed", "9", cwd=directory, code=0)
