"""What tests of the preview server may ask for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from playwright.sync_api import Browser, BrowserContext, Page

from covalt_git.calls.background import BackgroundCalls
from tests.browser import console_errors
from tests.server.api_client import Api, make_project
from tests.server.live import Live, live


class Compiled(BytecodeCache):
    """What Jinja made of the templates, by their texts: hundreds of apps are made here of the same ones."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._kept:
            bucket.bytecode_from_string(self._kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


Flask.jinja_options = {"bytecode_cache": Compiled()}


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


@pytest.fixture(scope="session")
def sample_app(sample_project: Path) -> Flask:
    """The app of a project without roles; its two hundred routes take 40 ms to make."""
    return Api.of(sample_project).app


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
def api(root: Path, sample_app: Flask) -> Api:
    """The API of a project with one chat, c1, in which nothing has happened."""
    sample_app.config.update(COVALT_ROOT=root, COVALT_STREAMS=BackgroundCalls())
    made = Api(root, sample_app)
    made.post("create_chat", chat_id="c1", title="A chat")
    return made
