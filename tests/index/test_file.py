"""The index file may be damaged, old, in use or gone: the next command works all the same."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.index.database import VERSION, IndexUnusableError, connect, put, put_new
from covalt_git.toolsets.new_project import SAMPLES
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.workspaces.uploads import Upload
from covalt_git.workspaces.writing import writing
from tests.index.rows import Rows, anew, chats_of, dump, open_index, synced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def file(root: Path) -> Path:
    synced(root)
    return root / "data" / "index.db"


def answers(root: Path) -> Rows:
    """Ask through the doors that commands use, then return the rows."""
    with open_index(root) as index:
        index.sync()
        assert [tool.tool_id for tool in index.tools()] == tool_ids(root)
        assert [row["id"] for row in index.toolsets()] == sorted(SAMPLES)
        assert index.search("sumary table", lambda _: True, 1) == ["data-lab:summarize"]
        assert [row["id"] for row in index.chat_rows()] == ["c2", "empty", "c1"]
        assert index.calls("c1")
        assert len(index.approvals("pending")) == 1
        index.counts()
    return dump(root / "data" / "index.db")


def tool_ids(root: Path) -> list[str]:
    found = [tool.tool_id for name in SAMPLES for tool in read_toolset(root, name).tools]
    return sorted(found)


def overwrite(file: Path, start: int, content: bytes) -> None:
    with file.open("r+b") as stream:
        stream.seek(start)
        stream.write(content)


def change_version(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION ^ 1}")


def drop_a_table(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE toolset_readings")


def drop_a_column(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE chats DROP COLUMN title")
        connection.execute("UPDATE chats SET refs = '{}'")


def break_the_search(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(
            "UPDATE tool_search_data SET block = randomblob(length(block)) WHERE id > 1"
        )
        connection.commit()


def swell_the_search(file: Path) -> None:
    """Let the words say that they are of more parts than there is memory for."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        swollen = bytes.fromhex("b2b725541252f10e4ee8b3fb")
        connection.execute("UPDATE tool_search_data SET block = ? WHERE id = 10", (swollen,))
        with pytest.raises(MemoryError):
            connection.execute("SELECT 1 FROM tool_search WHERE tool_search MATCH 'a'").fetchall()
        connection.commit()


def drop_the_search(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE tool_search")


def make_another(file: Path) -> None:
    file.unlink()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE tools (mine)")
        connection.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE children (id REFERENCES parents)")
        connection.execute("CREATE VIEW toolsets AS SELECT 1 AS id")
        connection.execute("CREATE VIRTUAL TABLE notes USING fts5(text)")
        connection.execute("INSERT INTO parents VALUES (1)")
        connection.execute("INSERT INTO children VALUES (1)")
        connection.commit()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda file: file.unlink(), id="gone"),
        pytest.param(lambda file: file.write_bytes(b""), id="empty"),
        pytest.param(lambda file: file.write_bytes(b"garbage" * 5_000), id="garbage"),
        pytest.param(lambda file: os.truncate(file, 50), id="half-a-header"),
        pytest.param(lambda file: os.truncate(file, 5_000), id="truncated-to-a-page"),
        pytest.param(lambda file: os.truncate(file, file.stat().st_size // 2), id="half"),
        pytest.param(lambda file: os.truncate(file, file.stat().st_size - 4096), id="a-page-short"),
        pytest.param(lambda file: os.truncate(file, file.stat().st_size - 100), id="end-torn"),
        pytest.param(lambda file: overwrite(file, 0, b"x" * 16), id="another-magic"),
        pytest.param(lambda file: overwrite(file, 100, b"\xff" * 3_000), id="schema-page"),
        pytest.param(change_version, id="another-version"),
        pytest.param(drop_a_table, id="a-table-is-missing"),
        pytest.param(drop_a_column, id="a-column-is-missing"),
        pytest.param(break_the_search, id="words-are-garbage"),
        pytest.param(swell_the_search, id="words-are-too-large"),
        pytest.param(drop_the_search, id="words-are-missing"),
        pytest.param(make_another, id="another-program's-database"),
    ],
)
def test_a_damaged_index_is_made_again(
    root: Path, file: Path, damage: Callable[[Path], object]
) -> None:
    before = dump(file)

    damage(file)

    assert answers(root) == before


@pytest.mark.parametrize("seed", range(6))
def test_a_page_of_garbage_anywhere_never_stops_a_command(
    root: Path, file: Path, seed: int
) -> None:
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


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("with_index", [True, False], ids=["beside-the-index", "alone"])
def test_what_another_database_left_beside_it_changes_nothing(
    root: Path, file: Path, ending: str, *, with_index: bool
) -> None:
    before = dump(file)
    if not with_index:
        file.unlink()
    file.with_name(f"index.db{ending}").write_bytes(random.Random(1).randbytes(9_000))

    assert answers(root) == before


KILLED_WHILE_WRITING = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("DELETE FROM workspace_manifests")
connection.execute("UPDATE tools SET name = 'half', description = description || hex(zeroblob(50000))")
os._exit(0)
"""


@pytest.mark.parametrize("delete", [True, False], ids=["index-deleted", "index-kept"])
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


def test_an_index_deleted_under_an_open_one_is_made_again(root: Path, file: Path) -> None:
    before = dump(file)
    with open_index(root) as index:
        file.unlink()
        with chats_of(root).open("c2") as chat, writing(chat) as writer:
            writer.upload([Upload("new.txt", b"new")])

        index.sync()

        assert {row["id"]: row["manifests"] for row in index.chat_rows()}["c2"] == 2
    after = dump(file)
    assert after != before
    assert after == anew(root, root / "data" / "anew.db")


def test_an_index_damaged_under_an_open_one_is_made_again(root: Path, file: Path) -> None:
    before = dump(file)
    with open_index(root) as index:
        file.write_bytes(b"garbage" * 9_000)

        assert len(index.tools()) == len(tool_ids(root))
        index.rebuild()

    assert dump(file) == before


# --- what deleting does not mend ---------------------------------------------------------------------


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "index.db").mkdir()

    with pytest.raises(IndexUnusableError) as caught:
        connect(tmp_path / "index.db")

    assert caught.value.message == (
        f"the index {str(tmp_path / 'index.db')!r} cannot be used: unable to open database file"
    )
    assert caught.value.hint == (
        "see who may write there, and whether the disk is full; it is only a cache"
    )


def test_a_file_in_the_place_of_its_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")

    with pytest.raises(IndexUnusableError, match="cannot be used"):
        connect(tmp_path / "data" / "index.db")


@contextlib.contextmanager
def as_somebody_else() -> Iterator[None]:
    """Root may write anywhere, so it is nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("left", ["no folder", "no file", "garbage", "another version"])
def test_a_folder_that_may_not_be_written_is_told(left: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        folder.mkdir()
        path = folder / "inner" / "index.db" if left == "no folder" else folder / "index.db"
        if left == "garbage":
            path.write_bytes(b"garbage" * 900)
        if left == "another version":
            connect(path).close()
            change_version(path)
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        Path(name).chmod(0o755)
        with as_somebody_else(), pytest.raises(IndexUnusableError) as caught:
            connect(path)
        folder.chmod(0o755)

    assert caught.value.message.startswith(f"the index {str(path)!r} cannot be used: ")


@pytest.mark.parametrize("write", [put, put_new])
def test_a_row_takes_the_place_of_the_one_of_its_key(
    tmp_path: Path, write: Callable[[sqlite3.Connection, str, dict[str, object]], int]
) -> None:
    row: dict[str, object] = {"id": "a:b", "toolset_id": "a", "definition": "{}"}
    with contextlib.closing(connect(tmp_path / "index.db")) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        first = write(connection, "toolset_prompts", row)
        second = write(connection, "toolset_prompts", row | {"definition": "[]"})

        (kept,) = connection.execute("SELECT rowid, definition FROM toolset_prompts").fetchall()

    assert first != second == kept["rowid"]
    assert kept["definition"] == "[]"
