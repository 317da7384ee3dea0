"""Projects with the toolsets of ``fixtures/mcp_toolsets``."""

import shutil
from pathlib import Path

import pytest

from covalt_git.project import Project
from tests.copied import copied
from tests.mcp_client import make_project

ROLES = """\
  guest: {allow: [guide.*], deny: [guide.off, guide.dot]}
  writer: {allow: ["pages.text", "demo.**"]}
"""


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "project"
    return make_project(folder, "guide", "pages", "quiz", "show", roles=ROLES)


@pytest.fixture(scope="session")
def shared(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose clients each work in a new chat; tests must not change anything else in it."""
    return Path(shutil.copytree(template, tmp_path_factory.mktemp("shared") / "project"))


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "project")


@pytest.fixture
def chat_id(shared: Path) -> str:
    """A new chat of the shared project."""
    with Project.open(shared).chats.new() as chat:
        return chat.id
