"""What any test may ask for."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import hypothesis
import playwright.sync_api
import pytest

from tests.browser import Browser, find_browser, launched
from tests.examples import examples

# A shell that runs the tests behind it has its programs ignore Ctrl-C, and they hand that on to
# what they start: the tests press Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How fast this machine makes examples is no fact about us.
slow = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "covalt", max_examples=examples(100), deadline=None, suppress_health_check=slow
)
hypothesis.settings.load_profile("covalt")


@pytest.fixture(scope="module", autouse=True)
def _connections_end() -> Iterator[None]:
    """Have no module leave a thread to the next: a process that has threads does not fork."""
    yield
    if (live := sys.modules.get("covalt_git.connections.pool")) is not None:
        live.CONNECTIONS.close()


@pytest.fixture(scope="session")
def browser() -> Browser:
    """Headless Chromium."""
    return find_browser()


@pytest.fixture(scope="module")
def chromium() -> Iterator[playwright.sync_api.Browser]:
    """The same to click in, started once a module: while it runs, this process has an event loop."""
    with playwright.sync_api.sync_playwright() as driver, launched(driver) as browser:
        yield browser
