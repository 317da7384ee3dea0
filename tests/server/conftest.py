"""What tests of the preview server may ask for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.server.api import Api, make_project


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser profile of this test's own: no cookie, no storage, no history."""
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture(scope="session")
def sample_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the sample toolsets and no chat; not to be changed."""
    return make_project(tmp_path_factory.mktemp("server") / "sample")


@pytest.fixture
def root(sample_project: Path, tmp_path: Path) -> Path:
    """A project with the sample toolsets and no chat."""
    return Path(shutil.copytree(sample_project, tmp_path / "project"))


@pytest.fixture
def api(root: Path) -> Api:
    """The API of a project with one chat, c1, in which nothing has happened."""
    made = Api.of(root)
    made.post("create_chat", chat_id="c1", title="A chat")
    return made
