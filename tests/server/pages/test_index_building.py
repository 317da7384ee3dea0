"""Pages while the index is built: the browser is told, and gets its page when the index is there."""

import sqlite3
from pathlib import Path

import pytest

from covalt_git.index.database import is_current
from covalt_git.index.index import Index
from covalt_git.models.project_config import WorkspaceConfig
from tests.server.visitor import Visitor
from tests.settling import until


def test_a_page_says_that_the_index_is_built_and_opens_then(
    visitor: Visitor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = root / "data" / "index.db"
    assert visitor.open("/chats").status == 200
    index.unlink()
    monkeypatch.setattr("covalt_server.pages.index_building.PATIENCE_S", 0.1)
    with sqlite3.connect(index, isolation_level=None) as other:  # an index of another version
        other.execute("PRAGMA user_version = 1")
        other.execute("BEGIN EXCLUSIVE")
        waits = visitor.open("/chats")
        assert (waits.status, waits.headers["Retry-After"]) == (503, "1")
        assert "Building the index" in waits.text
        assert {"http-equiv": "refresh", "content": "1"} in waits.named("meta")
        other.execute("ROLLBACK")
    other.close()
    until(lambda: visitor.open("/chats").status == 200)
    assert is_current(index)


def test_an_index_of_this_version_is_recognized(root: Path) -> None:
    index = root / "data" / "index.db"
    with Index.open(root, WorkspaceConfig()):
        assert is_current(index)
    index.write_bytes(b"")
    assert not is_current(index)
    index.unlink()
    assert not is_current(index)
    index.mkdir()
    assert not is_current(index)
