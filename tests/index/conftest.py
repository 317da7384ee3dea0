"""The project that is indexed."""

from pathlib import Path

import pytest

from tests.copied import copied
from tests.index.rows import make_lively


@pytest.fixture(scope="session")
def lively_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with chats, calls and approvals of every kind; not to be changed."""
    root = tmp_path_factory.mktemp("lively") / "project"
    make_lively(root)
    return root


@pytest.fixture
def root(lively_project: Path, tmp_path: Path) -> Path:
    return copied(lively_project, tmp_path / "project")
