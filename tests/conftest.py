"""Settings of all tests."""

import os
import signal
import tempfile

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


def pytest_configure(config: pytest.Config) -> None:
    """Makes a cache that all tests share, so that each data set is made once; not the user's.
    Workers inherit it from the process that starts them."""
    if not hasattr(config, "workerinput"):
        cache = tempfile.TemporaryDirectory(prefix="overside-tests-")
        os.environ["OVERSIDE_CACHE"] = cache.name
        config.add_cleanup(cache.cleanup)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Says what goes to one worker together, and begins with what takes long."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and shares(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item.get_closest_marker("begun_first") is None)


def shares(item: pytest.Item) -> bool:
    """`True` if it uses a fixture of its module, which every worker would have to create."""
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 # it has no public name
    return any(definition.scope == "module" for found in fixtures.values() for definition in found)
