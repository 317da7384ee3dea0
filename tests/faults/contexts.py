"""A plugin of pytest: coverage notes by which test each line is run."""

import coverage
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the context of a test before its fixtures are made."""
    running = coverage.Coverage.current()
    assert running is not None, "run this under coverage"
    running.switch_context(item.nodeid)
