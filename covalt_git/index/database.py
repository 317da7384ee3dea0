"""Database file of the index: created if it is missing, and again if it is damaged or outdated."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git import __version__
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.names import new_id

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")

# A new release can fill the same tables in another way.  SQLite stores the version in a signed integer of 32 bits.
VERSION = zlib.crc32(f"{__version__}\n{SCHEMA}".encode()) & 0x7FFFFFFF
"""Version in the file's ``user_version``; a file of another schema or release is rebuilt."""

_VIRTUAL = re.compile(
    r"^CREATE (?=TRIGGER|VIRTUAL)(?:VIRTUAL )?(?P<kind>TRIGGER|TABLE) (?P<name>\w+)", re.MULTILINE
)

BUSY_TIMEOUT_S = 30.0

SYNCHRONOUS = "NORMAL"
"""When SQLite waits for the disk.  For a cache this is enough: damage by a power failure is detected."""

Row = dict[str, Any]
"""Values of a row by column."""


class IndexUnusableError(CovaltError):
    """An index that cannot be opened or created, and that deleting the file would not fix."""

    code = "index_unusable"
    http_status = 503


class DamagedError(sqlite3.DatabaseError):
    """A row that covalt-git cannot have written."""


def connect(path: Path, *, renew: bool = False) -> sqlite3.Connection:
    """Open the index at ``path``; create an empty one if it is missing, damaged or of another version.

    It has no write-ahead log, so that a user can delete the index by deleting one file.  In a folder that cannot be
    written, such as a read-only checkout, the connection is to a copy of the index in memory.

    Args:
        path: the file of the index.
        renew: whether the index is damaged, so that its content is not used.

    Raises:
        IndexUnusableError: if the file cannot be opened or created, or is locked for too long.
    """
    if not is_writable(path):
        return _in_memory(None if renew else path)
    if renew:
        remove(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _open(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            remove(path)
            return _open(path)
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, error) from None


def is_current(path: Path) -> bool:
    """Return whether a file looks like an index of this version, without creating it or waiting for a writer."""
    try:
        with contextlib.closing(_read_only(path, timeout_s=1)) as stored:
            return _version(stored) == VERSION
    except sqlite3.Error:  # missing, damaged, or locked by the process that builds it
        return False


def is_writable(path: Path) -> bool:
    """Return whether the index can be written or created; SQLite also creates a journal in its folder."""
    folder = path.parent
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK) and (not os.path.lexists(path) or os.access(path, os.W_OK))


def _in_memory(path: Path | None) -> sqlite3.Connection:
    """Return a connection to an index in memory, with the rows of the file at ``path`` if it can be read."""
    connection = _open(":memory:")
    if path is None:
        return connection
    try:
        with contextlib.closing(_read_only(path, BUSY_TIMEOUT_S)) as stored:
            if _version(stored) == VERSION:
                stored.backup(connection)
                # A copy of a damaged file succeeds; the first read of a table fails.
                connection.execute("SELECT count(*) FROM toolset_readings").fetchone()
    except sqlite3.Error:  # missing, damaged, or not readable
        connection.close()
        return _open(":memory:")
    return connection


def _read_only(path: Path, timeout_s: float) -> sqlite3.Connection:
    # Another user may write the file.  It is opened by SQLite only, see _make_private.
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, timeout=timeout_s, uri=True)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file is damaged.

    ``SQLITE_ERROR`` does: our statements are valid, so the tables must be wrong.  So does an operational error
    without a code, which Python raises for a text that is not UTF-8.
    """
    if isinstance(error, DamagedError):
        return True
    if isinstance(error, sqlite3.OperationalError) and not _code(error):
        return True
    # The low byte: an extended code, such as SQLITE_CORRUPT_INDEX, has its primary code there.
    return _code(error) & 0xFF in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
    }


def as_damage(why: sqlite3.DatabaseError | MemoryError) -> sqlite3.DatabaseError:
    """Return an error of SQLite; a MemoryError counts as one, because a damaged file can claim a huge size."""
    return DamagedError("a value is too large") if isinstance(why, MemoryError) else why


def is_deleted(error: sqlite3.Error) -> bool:
    """Return whether the file was deleted while the connection was open, which users may do."""
    return _code(error) == sqlite3.SQLITE_READONLY_DBMOVED


def unusable(path: Path, error: Exception) -> IndexUnusableError:
    """Return the error of an index that cannot be used, and that deleting would not fix."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return IndexUnusableError(
        f"the index {str(path)!r} cannot be used: {why.lower()}",
        hint="check its permissions and the free space of the disk; the index is only a cache",
    )


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", None) or 0)


def remove(path: Path) -> None:
    """Delete the index; the next open creates a new one."""
    for ending in ("", "-journal", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def empty(connection: sqlite3.Connection) -> None:
    """Delete all rows.

    The file remains, because other processes may have it open.
    """
    # The words of a search would be deleted row by row, by a trigger for each, and each text be split again.
    virtual = [
        (statement, match)
        for statement in _statements(SCHEMA)
        if (match := _VIRTUAL.search(statement))
    ]
    for _, match in virtual:
        connection.execute(f"DROP {match['kind']} {match['name']}")
    for name in tables(connection):
        connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - names of our schema
    for statement, _ in virtual:
        connection.execute(statement)


def tables(connection: sqlite3.Connection, kind: str = "table") -> list[str]:
    """Return the sorted names of the tables of a kind: ``table``, ``virtual`` or ``view``.

    The tables that store a virtual table's rows have their own kind (``shadow``), and are dropped with it.
    """
    query = """
        SELECT name FROM pragma_table_list
        WHERE schema = 'main' AND type = ? AND name NOT LIKE 'sqlite_%' ORDER BY name
    """
    return [str(row[0]) for row in connection.execute(query, (kind,)).fetchall()]


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in a write transaction, or in the current one if there is one."""
    if connection.in_transaction:
        yield
        return
    # A deferred transaction that has read fails at its first write while another process writes: to wait would
    # be a deadlock, so SQLite does not call the busy handler.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # the first error is reported
            connection.rollback()
        raise


def put(connection: sqlite3.Connection, table: str, row: Row) -> int:
    """Insert or replace a row; return its row id, or 0 without one."""
    return _insert(connection, "INSERT OR REPLACE", table, row)


def put_new(connection: sqlite3.Connection, table: str, row: Row) -> int:
    """Like :func:`put`, for a row that rarely exists already: five times as fast in a table with triggers."""
    try:
        return _insert(connection, "INSERT", table, row)
    except sqlite3.IntegrityError:
        return put(connection, table, row)


def _insert(connection: sqlite3.Connection, verb: str, table: str, row: Row) -> int:
    columns = ", ".join(row)
    placeholders = ", ".join("?" for _ in row)
    statement = f"{verb} INTO {table} ({columns}) VALUES ({placeholders})"
    return connection.execute(statement, list(row.values())).lastrowid or 0


def as_text(value: Any) -> str:
    """Return a JSON value in the form of its columns."""
    return canonical_json.dumps(value).decode()


def _open(path: Path | str) -> sqlite3.Connection:
    if isinstance(path, Path):
        _make_private(path)
    # With an isolation level, Python would begin deferred transactions of its own.
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
        if _version(connection) != VERSION:
            _create_once(connection)
        # The version is in the header; damage of the tables appears here, where connect() creates a new file.
        connection.execute("SELECT count(*) FROM toolset_readings").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Create the file so that only its owner can read it: it has texts of chats, and SQLite uses the umask.

    Its journal gets the same mode.  The file itself is never opened here: POSIX drops all locks of a process on a file
    when it closes any of its descriptors, also those of a connection in another thread (sqlite.org/howtocorrupt.html,
    2.2; ``test_to_open_the_index_again_keeps_the_locks_of_other_connections``).
    """
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except FileNotFoundError:
        draft = path.with_name(f".{path.name}-{new_id()}")
        try:
            os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            # A rename would replace the file of a process that was first, under its open connection.
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)


def _create_once(connection: sqlite3.Connection) -> None:
    # DROP TABLE deletes the rows first, and the rows of other tables that refer to them, one by one.  The pragma has
    # no effect within a transaction.
    connection.execute("PRAGMA foreign_keys = OFF")
    with transaction(connection):
        if _version(connection) != VERSION:  # another process may have been first
            _create_schema(connection)
    connection.execute("PRAGMA foreign_keys = ON")


def _create_schema(connection: sqlite3.Connection) -> None:
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
