"""The tables are strict and commented."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from covalt_git.index.database import SCHEMA, connect


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(tmp_path / "index.db")) as opened:
        yield opened


def test_every_table_is_strict_and_commented(connection: sqlite3.Connection) -> None:
    rows = connection.execute("PRAGMA table_list").fetchall()
    own = [row for row in rows if (row["schema"], row["type"]) == ("main", "table")]

    assert {row["strict"] for row in own if not row["name"].startswith("sqlite_")} == {1}
    comments = re.findall(r"(?m)^(--.*)\n(?:CREATE TABLE)", SCHEMA)
    assert len(comments) == SCHEMA.count("CREATE TABLE")


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ("blobs VALUES ('nowhere', 'a', 'b', 1)", "FOREIGN KEY"),
        ("toolset_readings VALUES ('a', 'b', 'yes', '[]', '[]', x'', 1)", "cannot store TEXT"),
        ("toolset_readings VALUES ('a', 'b', 1, 'no json', '[]', x'', 1)", "CHECK"),
        ("toolset_readings VALUES ('a', 'b', 2, '[]', '[]', x'', 1)", "CHECK"),
    ],
)
def test_references_and_values_are_checked(
    connection: sqlite3.Connection, values: str, error: str
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=error):
        connection.execute(f"INSERT INTO {values}")
