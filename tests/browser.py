"""A real browser for tests of pages: headless Chromium with a new profile each time."""

import os
import shutil

import playwright.sync_api
import pytest
from axe_playwright_python.sync_playwright import Axe

WHOLE = ("chromium", "chromium-browser", "google-chrome")
SHELL = "chromium-headless-shell"
"""The same engine without its windows: it starts in half the time, and lacks what only they show."""
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Wait until a whole frame was drawn: observers of sizes are notified within one, so by the second's start."""


def launched(
    driver: playwright.sync_api.Playwright, *, whole: bool = False
) -> playwright.sync_api.Browser:
    """Start the browser by a driver; the caller closes it.  ``whole`` is the browser of users, with windows.

    Without one on this machine the test is skipped, and fails in CI.
    """
    names = WHOLE if whole else (SHELL, *WHOLE)
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        missing("Chromium", "apt-get install chromium")
    return driver.chromium.launch(executable_path=program, args=OPTIONS)


def console_errors(page: playwright.sync_api.Page) -> list[str]:
    """Return the list that whatever the page's console calls an error goes to from now on."""
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


def violations(page: playwright.sync_api.Page) -> list[str]:
    """Return the elements of a page that break a rule of axe, also one of its best practices, with the rule."""
    answer = Axe().run(page, options={"resultTypes": ["violations"]}).response
    return [
        f"{rule['impact']} {rule['id']}: {node['html']}"
        for rule in answer["violations"]
        for node in rule["nodes"]
    ]


def missing(what: str, how: str) -> None:
    """Skip the test for want of something; in CI, where `make test` installs it, fail."""
    reason = f"{what} is not on this machine: {how}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
