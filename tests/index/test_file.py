"""An index file that is damaged, old, locked or deleted is made again, or named in an error."""

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.index.database import VERSION, IndexUnusableError, connect
from covalt_git.toolsets.new_project import SAMPLES
from tests.index.rows import Rows, anew, dump, open_index, synced


@pytest.fixture(scope="module")
def root(lively_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of this module: each test leaves its index as it was."""
    folder = tmp_path_factory.mktemp("damaged") / "project"
    return Path(shutil.copytree(lively_project, folder, symlinks=True))


@pytest.fixture
def file(root: Path) -> Path:
    synced(root)
    return root / "data" / "index.db"


def answers(root: Path) -> Rows:
    """Query the index as commands do, then return its rows."""
    with open_index(root) as index:
        index.sync()
        assert [row["id"] for row in index.toolsets()] == sorted(SAMPLES)
        assert len(index.tools()) >= 10
        assert index.search("sumary table", lambda _: True, 1) == ["data-lab:summarize"]
        assert [row["id"] for row in index.chat_rows()] == ["c2", "empty", "c1"]
        assert index.calls("c1")
        assert len(index.approvals("pending")) == 1
        index.counts()
    return dump(root / "data" / "index.db")


def overwrite(file: Path, start: int, content: bytes) -> None:
    with file.open("r+b") as stream:
        stream.seek(start)
        stream.write(content)


def execute(*statements: str) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return damage


def make_words_larger_than_memory(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        large = bytes.fromhex("b2b725541252f10e4ee8b3fb")
        connection.execute("UPDATE tool_search_data SET block = ? WHERE id = 10", (large,))
        with pytest.raises(MemoryError):
            connection.execute("SELECT 1 FROM tool_search WHERE tool_search MATCH 'a'").fetchall()
        connection.commit()


def make_another_database(file: Path) -> None:
    file.unlink()
    execute(
        "CREATE TABLE tools (mine)",
        "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
        "CREATE TABLE children (id REFERENCES parents)",
        "CREATE VIEW toolsets AS SELECT 1 AS id",
        "CREATE VIRTUAL TABLE notes USING fts5(text)",
        "INSERT INTO parents VALUES (1)",
        "INSERT INTO children VALUES (1)",
    )(file)


another_version = execute(f"PRAGMA user_version = {VERSION ^ 1}")
DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "garbage": lambda file: file.write_bytes(b"garbage" * 5_000),
    "half-a-header": lambda file: os.truncate(file, 50),
    "half": lambda file: os.truncate(file, file.stat().st_size // 2),
    "torn-end": lambda file: os.truncate(file, file.stat().st_size - 100),
    "another-magic": lambda file: overwrite(file, 0, b"x" * 16),
    "schema-page": lambda file: overwrite(file, 100, b"\xff" * 3_000),
    "another-version": another_version,
    "missing-table": execute("DROP TABLE toolset_readings"),
    "missing-column": execute(
        "ALTER TABLE chats DROP COLUMN title", "UPDATE chats SET refs = '{}'"
    ),
    "garbage-words": execute(
        "UPDATE tool_search_data SET block = randomblob(length(block)) WHERE id > 1"
    ),
    "too-large-words": make_words_larger_than_memory,
    "missing-words": execute("DROP TABLE tool_search"),
    "another-database": make_another_database,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_index_is_made_again(
    root: Path, file: Path, damage: Callable[[Path], object]
) -> None:
    before = dump(file)

    damage(file)

    assert answers(root) == before


@pytest.mark.parametrize("seed", range(2))
def test_pages_of_garbage_never_stop_a_command(root: Path, file: Path, seed: int) -> None:
    chance = random.Random(seed)
    pages = file.stat().st_size // 4096
    for _ in range(3):
        garbage = bytes(4096) if seed % 2 else chance.randbytes(4096)
        overwrite(file, chance.randrange(pages) * 4096, garbage)

    with open_index(root) as index:
        index.sync()
        index.counts()
        index.tools()
        index.search("write a file", lambda _: True, 20)
        index.calls("c1")
        index.rebuild()

    assert dump(file) == anew(root, root / "data" / "anew.db")


KILLED_WHILE_WRITING = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("DELETE FROM workspace_manifests")
connection.execute("UPDATE tools SET name = 'half', description = description || hex(zeroblob(50000))")
os._exit(0)
"""


@pytest.mark.parametrize("delete", [True, False])
def test_a_process_killed_while_writing_leaves_the_old_rows(
    root: Path, file: Path, *, delete: bool
) -> None:
    before = dump(file)
    subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(file)], check=True)
    assert file.with_name("index.db-journal").stat().st_size > 0
    if delete:
        file.unlink()

    assert answers(root) == before
    assert not file.with_name("index.db-journal").exists()


@pytest.mark.parametrize("place", ["index.db", "data"])
def test_a_folder_or_file_in_its_place_is_an_error_that_names_it(
    tmp_path: Path, place: str
) -> None:
    path = tmp_path / "data" / "index.db"
    if place == "data":
        path.parent.write_text("")
    else:
        path.mkdir(parents=True)

    with pytest.raises(IndexUnusableError) as caught:
        connect(path)

    assert repr(str(path)) in caught.value.message
    assert caught.value.hint
