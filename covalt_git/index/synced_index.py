"""Connection to the index of a project, which rebuilds a damaged index.

Queries are in :mod:`tool_queries` and :mod:`chat_queries`.  The index never decides about access.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import ValidationError

from covalt_git.index import database
from covalt_git.json_values import canonical_json
from covalt_git.system.fork_pool import ignore_progress
from covalt_git.system.node_folder import data_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import WorkspaceConfig

    Value = str | int | None

Result = TypeVar("Result")

_MOST_TRIES = 3

_BOOLEANS = {"enabled", "requires_confirmation", "sound"}
_JSON = {
    "args",
    "forked_from",
    "result",
    "reasons",
    "headers",
    "env",
    "input_schema",
    "renderer_config",
}


@dataclass(slots=True)
class SyncedIndex:
    """Connection to the index of a project; one thread at a time.

    Subclasses have the queries, and synchronize the rows for them.  So a command that reads no chats does not
    load the chat store.
    """

    root: Path
    workspace: WorkspaceConfig
    path: Path
    connection: sqlite3.Connection
    on_progress: Callable[[int, int], None] = ignore_progress

    @classmethod
    def open(
        cls,
        root: Path,
        workspace: WorkspaceConfig,
        on_progress: Callable[[int, int], None] = ignore_progress,
        *,
        path: Path | None = None,
    ) -> Self:
        """Open the index of the project at ``root``; rebuild it if it is missing, damaged or of another version.

        ``on_progress`` is called during a sync with the numbers of toolsets read, and of toolsets to read.
        ``path`` is the file of another index of the project.
        """
        file = path or data_of(root) / "index.db"
        return cls(root, workspace, file, database.connect(file), on_progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def synchronize(self) -> None:
        """Update the rows that the queries of the class read."""
        raise NotImplementedError

    def read(
        self,
        query: str,
        values: Sequence[Value] | Mapping[str, Value] = (),
        *,
        convert: Callable[[sqlite3.Row], Result],
    ) -> list[Result]:
        """Return the converted rows of a query; a row that cannot be converted counts as damage."""

        def read() -> list[Result]:
            rows = self.connection.execute(query, values).fetchall()
            try:
                return [convert(row) for row in rows]
            except (canonical_json.NotJsonError, ValidationError) as error:
                raise database.DamagedError(f"an invalid row: {error}") from None

        return self.with_recovery(read)

    def with_recovery(self, work: Callable[[], Result]) -> Result:
        """Run ``work``; if the index is damaged or deleted, rebuild it and run ``work`` again.

        Raises:
            IndexUnusableError: if the index cannot be read or written for another reason.
        """
        failed: sqlite3.DatabaseError | None = None
        for _ in range(_MOST_TRIES):
            try:
                if failed is not None:  # the index was renewed and has no rows
                    self.synchronize()
                return work()
            except sqlite3.IntegrityError:
                raise  # a row that the schema rejects is a bug
            except (sqlite3.DatabaseError, MemoryError) as why:
                if failed is not None and isinstance(why, MemoryError):
                    raise  # a new index has no garbage
                failed = error = database.as_damage(why)
                if not database.is_damage(error) and not database.is_deleted(error):
                    break
                self.connection.close()
                self.connection = database.connect(self.path, renew=database.is_damage(error))
        assert failed is not None
        raise database.unusable(self.path, failed)

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        names = self.with_recovery(lambda: database.tables(self.connection))
        query = " UNION ALL ".join(
            f"SELECT '{name}' AS name, count(*) AS rows FROM {name}"  # noqa: S608 - names of our schema
            for name in names
        )
        return dict(self.read(query, convert=lambda row: (row["name"], row["rows"])))


def row_values(row: sqlite3.Row) -> JsonObject:
    """Return the columns of a row, with booleans and JSON decoded."""
    values: dict[str, Any] = dict(row)
    for name in values.keys() & _BOOLEANS:
        values[name] = None if values[name] is None else bool(values[name])
    for name in values.keys() & _JSON:
        values[name] = None if values[name] is None else canonical_json.loads(values[name])
    return values


def row_id(row: sqlite3.Row) -> str:
    return str(row["id"])
