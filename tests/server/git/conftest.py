"""A served chat, and its clone by stock git."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api_client import Api
from tests.server.git.git_served import GitServed, chat_with_files, git_served


@pytest.fixture
def served(api: Api) -> Iterator[GitServed]:
    """A served project with the chat c1, with two commits."""
    chat_with_files(api)
    with git_served(api.root) as served:
        yield served


@pytest.fixture
def work(served: GitServed, tmp_path: Path) -> Path:
    """A clone of that chat."""
    return served.clone(tmp_path / "work")
