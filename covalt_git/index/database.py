"""The index file: opened, made when it is missing, and made again when it cannot be trusted."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git import __version__
from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")

VERSION = zlib.crc32(f"{__version__}\n{SCHEMA}".encode()) & 0x7FFFFFFF
"""Kept in the file's ``user_version``: another schema, or another release, starts over."""

BUSY_TIMEOUT_S = 30.0


class IndexUnusableError(CovaltError):
    """The index cannot be opened or made, for a reason that deleting it does not mend."""

    code = "index_unusable"
    http_status = 503


def connect(path: Path) -> sqlite3.Connection:
    """Open the index at ``path``, empty where it was missing, damaged or of another version.

    It keeps no write-ahead log: deleting the one file must never leave half of an index behind.

    Raises:
        IndexUnusableError: when the file cannot be written, or is in use for too long.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return _opened(path)
    except sqlite3.OperationalError as error:
        raise IndexUnusableError(f"{path} cannot be used: {error}") from None
    except sqlite3.DatabaseError:
        remove(path)
        return _opened(path)


def remove(path: Path) -> None:
    """Delete the index; the next open makes it again."""
    for ending in ("", "-journal", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the index for writing; all of it happens or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        if _version(connection) != VERSION:
            _make(connection)
        connection.execute("SELECT count(*) FROM toolset_readings").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _make(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = OFF")
    with transaction(connection):
        if _version(connection) != VERSION:  # another process may have been first
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall():
                connection.execute(f'DROP TABLE "{name}"')
            for statement in _statements(SCHEMA):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("PRAGMA foreign_keys = ON")


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; ``executescript`` would commit between them."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
