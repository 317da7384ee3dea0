"""The index file: opened, made when it is missing, and made again when it cannot be trusted."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git import __version__
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")

VERSION = zlib.crc32(f"{__version__}\n{SCHEMA}".encode()) & 0x7FFFFFFF
"""Kept in the file's ``user_version``: another schema, or another release, starts over."""

BUSY_TIMEOUT_S = 30.0

Row = dict[str, Any]
"""The values of one row by their columns."""


class IndexUnusableError(CovaltError):
    """The index cannot be opened or made, for a reason that deleting it does not mend."""

    code = "index_unusable"
    http_status = 503


class DamagedError(sqlite3.DatabaseError):
    """A row that the file gives is not one that was ever written."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the index at ``path``, empty where it was missing, damaged or of another version.

    It keeps no write-ahead log: deleting the one file must never leave half of an index behind.

    Raises:
        IndexUnusableError: when the file cannot be written, or is in use for too long.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _opened(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            remove(path)
            return _opened(path)
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, error) from None


def is_damage(error: sqlite3.Error) -> bool:
    """Tell whether an error means that the file's content is not to be trusted.

    ``SQLITE_ERROR`` is among them: our statements are right, so it is the tables that are not ours.
    An operational error without a code is Python's, of a text that is not UTF-8.
    """
    if isinstance(error, DamagedError):
        return True
    if isinstance(error, sqlite3.OperationalError) and not _code(error):
        return True
    return _code(error) & 0xFF in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
    }


def as_damage(why: sqlite3.DatabaseError | MemoryError) -> sqlite3.DatabaseError:
    """Return what went wrong as SQLite's: garbage may say that it is larger than the memory there is."""
    return DamagedError("it says that it is too large") if isinstance(why, MemoryError) else why


def is_gone(error: sqlite3.Error) -> bool:
    """Tell whether the file was deleted under an open connection, as anybody may at any moment."""
    return _code(error) == sqlite3.SQLITE_READONLY_DBMOVED


def unusable(path: Path, error: Exception) -> IndexUnusableError:
    """Return the error of an index that cannot be used, and that deleting would not mend."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return IndexUnusableError(
        f"the index {str(path)!r} cannot be used: {why.lower()}",
        hint="see who may write there, and whether the disk is full; it is only a cache",
    )


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", None) or 0)


def remove(path: Path) -> None:
    """Delete the index; the next open makes it again."""
    for ending in ("", "-journal", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def empty(connection: sqlite3.Connection) -> None:
    """Take every row out.

    The file stays: deleting it would pull it from under whoever else has it open.
    """
    for name in tables(connection):
        connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - names of our schema


def tables(connection: sqlite3.Connection, kind: str = "table") -> list[str]:
    """Return the names of the tables of a kind, sorted: ``table``, ``virtual`` or ``view``.

    Those in which a virtual table keeps what it has are its own (``shadow``), and go with it.
    """
    query = """
        SELECT name FROM pragma_table_list
        WHERE schema = 'main' AND type = ? AND name NOT LIKE 'sqlite_%' ORDER BY name
    """
    return [str(row[0]) for row in connection.execute(query, (kind,)).fetchall()]


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the index for writing; all of it happens or nothing.  Within another it is part of it."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # the first error is the one to tell
            connection.rollback()
        raise


def put(connection: sqlite3.Connection, table: str, row: Row) -> int:
    """Write one row of a table, in place of the one of the same key; return its row id if it has one."""
    return _insert(connection, "INSERT OR REPLACE", table, row)


def put_new(connection: sqlite3.Connection, table: str, row: Row) -> int:
    """Do the same for a row that hardly ever replaces one: in a table with triggers five times as fast."""
    try:
        return _insert(connection, "INSERT", table, row)
    except sqlite3.IntegrityError:
        return put(connection, table, row)


def _insert(connection: sqlite3.Connection, verb: str, table: str, row: Row) -> int:
    columns = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    statement = f"{verb} INTO {table} ({columns}) VALUES ({marks})"
    return connection.execute(statement, list(row.values())).lastrowid or 0


def as_text(value: Any) -> str:
    """Return a JSON value as its columns hold it."""
    return canonical_json.dumps(value).decode()


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        # It is a cache: what a power cut leaves of it is either whole or found to be damaged.
        connection.execute("PRAGMA synchronous = NORMAL")
        if _version(connection) != VERSION:
            _make_once(connection)
        connection.execute("SELECT count(*) FROM toolset_readings").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _make_once(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = OFF")
    with transaction(connection):
        if _version(connection) != VERSION:  # another process may have been first
            _make(connection)
    connection.execute("PRAGMA foreign_keys = ON")


def _make(connection: sqlite3.Connection) -> None:
    for kind, noun in (("view", "VIEW"), ("virtual", "TABLE"), ("table", "TABLE")):
        for name in tables(connection, kind):
            connection.execute(f'DROP {noun} "{name}"')
    for statement in _statements(SCHEMA):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


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
