"""Only the user can read the index, and SQLite's locks hold although it is made private."""

import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from covalt_git.index import database

WRITER = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
other.execute("BEGIN IMMEDIATE")
"""


@pytest.mark.parametrize("again", [database.connect, database.is_current])
def test_to_open_the_index_again_keeps_the_locks_of_other_connections(
    tmp_path: Path, again: object
) -> None:
    path = tmp_path / "index.db"
    first = database.connect(path)
    first.execute("BEGIN IMMEDIATE")

    opened = again(path)  # type: ignore[operator]
    other = subprocess.run(
        [sys.executable, "-c", WRITER, str(path)], capture_output=True, text=True, check=False
    )

    assert "database is locked" in other.stderr
    first.execute("COMMIT")
    first.close()
    if isinstance(opened, sqlite3.Connection):
        opened.close()


def test_a_new_index_is_private_at_once_and_an_old_one_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    database.connect(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    path.chmod(0o644)
    database.connect(path).close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["index.db"]
