"""A real browser for tests of pages: headless Chromium with a new profile each time."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import playwright.sync_api
import pytest

WHOLE = ("chromium", "chromium-browser", "google-chrome")
SHELL = "chromium-headless-shell"
"""The same engine without its windows: it starts in half the time, and lacks what only they show."""
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Wait until a whole frame was drawn: observers of sizes are notified within one, so by the second's start."""


class Browser:
    """Headless Chromium."""

    def document(self, page: Path) -> str:
        """Return the document after the page's scripts have run and it was drawn.

        Not by ``--dump-dom``, whose virtual time may pass without a single frame on a busy machine.
        """
        # In a thread of its own, because a driver that another test holds has this one's event loop.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._document, page).result()

    def _document(self, page: Path) -> str:
        with playwright.sync_api.sync_playwright() as driver, launched(driver) as chromium:
            shown = chromium.new_page()
            shown.goto(page.as_uri())
            shown.evaluate(DRAWN)
            return shown.content()


def find_browser() -> Browser:
    """Return the browser of this machine; without one the test is skipped, and fails in CI."""
    _program()
    return Browser()


def launched(
    driver: playwright.sync_api.Playwright, *, whole: bool = False
) -> playwright.sync_api.Browser:
    """Return the same browser, started by a driver that clicks, types and takes pictures.

    ``whole`` is the browser of users, with windows.  The one who asked closes it.
    """
    return driver.chromium.launch(executable_path=_program(whole=whole), args=OPTIONS)


def console_errors(page: playwright.sync_api.Page) -> list[str]:
    """Return the list that whatever the page's console calls an error goes to from now on."""
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


def _program(*, whole: bool = False) -> str:
    names = WHOLE if whole else (SHELL, *WHOLE)
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        missing("Chromium", "apt-get install chromium")
    return str(program)


def missing(what: str, how: str) -> None:
    """Skip the test for want of something; in CI, where `make test` installs it, fail."""
    reason = f"{what} is not on this machine: {how}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
