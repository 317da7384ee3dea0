"""The tables are the specification's, strict, and commented."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from covalt_git.index.database import SCHEMA, connect

SPECIFICATION = (
    Path(__file__).parents[2].parent / "shared" / "seeds" / "toolset-system-specification.md"
)
COMPUTED = {("workspace_manifests", "files")}
"""Columns that are answered by a query from others; see the table's comment."""


def specified() -> dict[str, list[str]]:
    """Return the columns of each table, as section 1 of the specification lists them."""
    text = SPECIFICATION.read_text(encoding="utf-8").split("\n## 2.")[0]
    return {
        table: re.findall(r"(?m)^\| `(\w+)` \|", body)
        for table, body in re.findall(
            r"(?ms)^### 1\.\d[^\n]*`(\w+)` table\n(.*?)(?=^### |\Z)", text
        )
    }


@pytest.fixture
def connection(tmp_path: Path) -> sqlite3.Connection:
    return connect(tmp_path / "index.db")


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row["name"] for row in connection.execute(f"PRAGMA table_info({table})")]


def tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("PRAGMA table_list").fetchall()
    own = [row["name"] for row in rows if (row["schema"], row["type"]) == ("main", "table")]
    return [name for name in own if not name.startswith("sqlite_")]


@pytest.mark.skipif(
    not SPECIFICATION.exists(), reason="the specification is not beside this checkout"
)
def test_every_table_and_column_of_the_specification_is_there(
    connection: sqlite3.Connection,
) -> None:
    wanted = specified()
    assert len(wanted) == 8

    missing = {
        (table, column)
        for table, names in wanted.items()
        for column in names
        if column not in columns(connection, table)
    }
    connection.close()

    assert missing == COMPUTED


def test_every_table_is_strict(connection: sqlite3.Connection) -> None:
    rows = connection.execute("PRAGMA table_list").fetchall()
    strict = {row["name"]: row["strict"] for row in rows if row["schema"] == "main"}

    assert {strict[name] for name in tables(connection)} == {1}
    connection.close()


def test_references_and_values_are_held_to(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        connection.execute("INSERT INTO blobs VALUES ('nowhere', 'a', 'b', 1)")
    with pytest.raises(sqlite3.IntegrityError, match="cannot store TEXT"):
        connection.execute(
            "INSERT INTO toolset_readings VALUES ('a', 'b', 'yes', '[]', '[]', x'', 1)"
        )
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        connection.execute(
            "INSERT INTO toolset_readings VALUES ('a', 'b', 1, 'no json', '[]', x'', 1)"
        )
    connection.close()


def test_every_table_says_what_it_is() -> None:
    statements = re.findall(r"(?m)^(--.*)\n(?:CREATE TABLE)", SCHEMA)

    assert len(statements) == SCHEMA.count("CREATE TABLE")


def test_booleans_are_zero_and_one(connection: sqlite3.Connection) -> None:
    for name in ("enabled", "requires_confirmation", "sound"):
        for line in re.findall(rf"(?m)^    {name} .*$", SCHEMA):
            assert f"CHECK ({name} IN (0, 1))" in line
    connection.close()
