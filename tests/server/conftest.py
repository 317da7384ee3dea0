"""What tests of the preview server may ask for."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import Browser, BrowserContext, Page

from tests.api_client import Api
from tests.browser import console_errors
from tests.live_server import Live, live
from tests.server.visitor import Visitor


@pytest.fixture(scope="module")
def shared(sample_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Api:
    """The API of a project with the chat c1, for all tests of a module."""
    root = tmp_path_factory.mktemp("shared") / "project"
    api = Api.of(Path(shutil.copytree(sample_project, root)))
    api.post("create_chat", chat_id="c1", title="A chat")
    return api


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser profile of this test's own: no cookie, no storage, no history."""
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture
def served(root: Path) -> Iterator[Live]:
    """The pages of the project, on a port of their own; some modules have more in it."""
    with live(root) as own:
        yield own


@pytest.fixture
def page(context: BrowserContext, served: Live) -> Iterator[Page]:
    """A signed-in page; whatever its console calls an error fails the test."""
    page = context.new_page()
    errors = console_errors(page)
    page.goto(served.door)
    yield page
    assert errors == []


@pytest.fixture
def visitor(app: Flask) -> Visitor:
    """A visitor of the project's pages, whose browser runs no script."""
    return Visitor(app)
