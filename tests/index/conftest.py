"""Projects to index."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.index.rows import make_lively

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def lively_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which something of each kind happened; not to be changed."""
    root = tmp_path_factory.mktemp("lively") / "project"
    make_lively(root)
    return root


@pytest.fixture
def root(lively_project: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    shutil.copytree(lively_project, tmp_path / "project", symlinks=True)
    return tmp_path / "project"
