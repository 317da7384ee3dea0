"""What any test may ask for."""

from __future__ import annotations

import pytest

from tests.browser import Browser, find_browser


@pytest.fixture(scope="session")
def browser() -> Browser:
    """Headless Chromium."""
    return find_browser()
