"""What holds for all tests."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
from command import overside, tiny_box

# A shell that starts the tests in the background has them ignore interrupts, and what they start
# would inherit that. Some of it is interrupted to see what it does.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[None]:
    """A cache that all tests share, so that each data set is made once; not the user's."""
    with tempfile.TemporaryDirectory(prefix="overside-tests-") as directory:
        os.environ["OVERSIDE_CACHE"] = directory
        yield


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
