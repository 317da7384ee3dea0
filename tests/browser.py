"""A real browser for the tests that look at pages: headless Chromium, with a profile of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import playwright.sync_api
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@dataclass(frozen=True)
class Browser:
    """Chromium, and a folder where it may keep what it needs."""

    program: str
    profile: Path

    def document(self, page: Path) -> str:
        """Return the document as it stands once the page's scripts have run."""
        shown = subprocess.run(
            [
                *(self.program, *OPTIONS, f"--user-data-dir={self.profile}"),
                *("--virtual-time-budget=1000", "--dump-dom", page.as_uri()),
            ],
            capture_output=True,
            check=True,
            timeout=100,
        )
        return shown.stdout.decode("utf-8")


def find_browser(profile: Path) -> Browser:
    """Return the browser of this machine; without one the test is skipped, and fails in CI."""
    return Browser(_program(), profile)


def launched(driver: playwright.sync_api.Playwright) -> playwright.sync_api.Browser:
    """Return the same browser, started by a driver that clicks, types and takes pictures.

    The one who asked closes it.
    """
    return driver.chromium.launch(executable_path=_program(), args=OPTIONS)


def _program() -> str:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        missing("Chromium", "apt-get install chromium")
    return str(program)


def missing(what: str, how: str) -> None:
    """Skip the test for want of something; in CI, where `make test` installs it, fail."""
    reason = f"{what} is not on this machine: {how}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
