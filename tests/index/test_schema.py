"""The tables are those of the specification, strict, and commented."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from covalt_git.index.database import SCHEMA, connect

SPECIFICATION = (
    Path(__file__).parents[2].parent / "shared" / "seeds" / "toolset-system-specification.md"
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(tmp_path / "index.db")) as opened:
        yield opened


@pytest.mark.skipif(
    not SPECIFICATION.exists(), reason="the specification is not next to this checkout"
)
def test_every_column_of_the_specification_exists(connection: sqlite3.Connection) -> None:
    text = SPECIFICATION.read_text(encoding="utf-8").split("\n## 2.")[0]
    tables = re.findall(r"(?ms)^### 1\.\d[^\n]*`(\w+)` table\n(.*?)(?=^### |\Z)", text)
    wanted = {
        (table, column)
        for table, body in tables
        for column in re.findall(r"(?m)^\| `(\w+)` \|", body)
    }
    found = {
        (table, row["name"])
        for table, _ in tables
        for row in connection.execute(f"PRAGMA table_info({table})")
    }

    assert len(tables) == 8
    # The files of a manifest are answered by a query; see the comment of the table.
    assert wanted - found == {("workspace_manifests", "files")}


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


@pytest.mark.parametrize("name", ["enabled", "requires_confirmation", "sound"])
def test_booleans_are_zero_and_one(name: str) -> None:
    for line in re.findall(rf"(?m)^    {name} .*$", SCHEMA):
        assert f"CHECK ({name} IN (0, 1))" in line
