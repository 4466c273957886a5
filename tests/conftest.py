"""What holds for all tests."""

import os
import signal
import tempfile
from collections.abc import Iterator

import pytest

# A shell that starts the tests in the background has them ignore interrupts, and what they start
# would inherit that. Some of it is interrupted to see what it does.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Here, because these are known before the tests are looked for.
def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hostile trials")
    group.addoption(
        "--minutes", type=float, default=0, help="go on with each hostile test for so many minutes"
    )
    group.addoption("--seed", type=int, help="the seed of the first trial, as a failure tells it")


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[None]:
    """A cache that all tests share, so that each data set is made once; not the user's."""
    with tempfile.TemporaryDirectory(prefix="overside-tests-") as directory:
        os.environ["OVERSIDE_CACHE"] = directory
        yield
