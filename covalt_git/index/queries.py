"""Asking the index: what there is, as models and rows; no decision is ever made from it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import ValidationError

from covalt_git import canonical_json
from covalt_git.errors import Problem
from covalt_git.index import database, sync
from covalt_git.models.calls import RenderPlan, ToolCall
from covalt_git.models.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from covalt_git.index.sync import Damaged
    from covalt_git.models.base import JsonObject
    from covalt_git.workspaces.chats import Chats, ChatStore

Result = TypeVar("Result")

_MOST_TRIES = 3

_BOOLEANS = {"enabled", "requires_confirmation", "sound"}
_JSON = {"args", "result", "reasons", "headers", "env", "input_schema", "renderer_config"}


@dataclass(slots=True)
class Index:
    """The open index of one project.  Close it after use; one thread at a time."""

    root: Path
    chats: Chats
    path: Path
    connection: sqlite3.Connection

    @classmethod
    def open(cls, root: Path, chats: Chats, path: Path) -> Self:
        """Open the index at ``path``, made anew where it is missing, damaged or of another version."""
        return cls(root, chats, path, database.connect(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def rebuild(self) -> None:
        """Make every row again from the files and the chat stores; others see the old ones till then."""
        self._trusted(self._rebuild)

    def sync(self) -> list[Damaged]:
        """Bring in everything that changed; return the chats whose store is damaged, with why."""
        return self._trusted(self._sync)

    def sync_toolsets(self) -> None:
        """Bring in the toolsets that changed."""
        self._trusted(lambda: sync.sync_toolsets(self.connection, self.root))

    def sync_chat(self, chat: ChatStore) -> None:
        """Bring in what happened in one chat."""
        self._trusted(lambda: sync.sync_chat(self.connection, chat))

    def _rebuild(self) -> None:
        with database.transaction(self.connection):
            database.empty(self.connection)
            self._sync()

    def _sync(self) -> list[Damaged]:
        sync.sync_toolsets(self.connection, self.root)
        return sync.sync_chats(self.connection, self.chats)

    def _read(
        self,
        query: str,
        values: Sequence[str | None] = (),
        *,
        convert: Callable[[sqlite3.Row], Result],
    ) -> list[Result]:
        """Return what a query answers; a row that is not what was written is damage too."""

        def read() -> list[Result]:
            rows = self.connection.execute(query, values).fetchall()
            try:
                return [convert(row) for row in rows]
            except (canonical_json.NotJsonError, ValidationError) as error:
                raise database.DamagedError(f"a row that nobody wrote: {error}") from None

        return self._trusted(read)

    def _trusted(self, work: Callable[[], Result]) -> Result:
        """Do what needs the index; where it turns out to be damaged or gone, with a new one.

        Raises:
            IndexUnusableError: when it is neither, and yet cannot be read or written.
        """
        failed: sqlite3.DatabaseError | None = None
        for _ in range(_MOST_TRIES):
            try:
                if failed is not None:
                    self._sync()
                return work()
            except sqlite3.IntegrityError:
                raise  # a row that the schema refuses is a mistake of ours
            except sqlite3.DatabaseError as error:
                failed = error
                if not database.is_damage(error) and not database.is_gone(error):
                    break
                self.connection.close()
                if database.is_damage(error):
                    database.remove(self.path)
                self.connection = database.connect(self.path)
        assert failed is not None
        raise database.unusable(self.path, failed)

    def counts(self) -> dict[str, int]:
        """Return how many rows each table has."""
        names = self._read(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
            convert=lambda row: str(row["name"]),
        )
        query = " UNION ALL ".join(
            f"SELECT '{name}' AS name, count(*) AS rows FROM {name}"  # noqa: S608 - names of our schema
            for name in names
        )
        return dict(self._read(query, convert=lambda row: (row["name"], row["rows"])))

    # Toolsets

    def toolsets(self) -> list[JsonObject]:
        """Return every toolset's row, with how many tools it has and whether it is sound."""
        return self._read(
            """
            SELECT r.toolset_id AS id, t.name, t.version, t.description,
                   coalesce(t.enabled, 0) AS enabled, t.installed_at, t.source_type, t.source_ref,
                   t.manifest_version, t.digest, r.sound,
                   (SELECT count(*) FROM tools WHERE toolset_id = r.toolset_id) AS tools
            FROM toolset_readings AS r LEFT JOIN toolsets AS t ON t.id = r.toolset_id
            ORDER BY r.toolset_id
            """,
            convert=_row,
        )

    def tools(self) -> list[Tool]:
        """Return every tool by id; those of a broken toolset as they were when it was sound."""
        return self._read("SELECT definition FROM tools ORDER BY tool_id", convert=_tool)

    def toolset_files(self, toolset_id: str) -> list[JsonObject]:
        """Return the rows of a toolset's files."""
        query = "SELECT * FROM toolset_files WHERE toolset_id = ? ORDER BY path"
        return self._read(query, (toolset_id,), convert=_row)

    def problems(self) -> list[Problem]:
        """Return what was wrong with any toolset when it was read last."""
        query = "SELECT problems FROM toolset_readings ORDER BY toolset_id"
        return [problem for told in self._read(query, convert=_problems) for problem in told]

    # Chats

    def chat_rows(self) -> list[JsonObject]:
        """Return every chat's row, newest first, with how many manifests and calls it has."""
        return self._read(
            """
            SELECT id, title, created_at, active_branch, active_manifest_id, active_leaf_message_id,
                   (SELECT count(*) FROM workspace_manifests WHERE chat_id = c.id) AS manifests,
                   (SELECT count(*) FROM tool_calls WHERE chat_id = c.id) AS tool_calls
            FROM chats AS c ORDER BY created_at DESC, id
            """,
            convert=_row,
        )

    def call(self, chat_id: str, call_id: str) -> ToolCall | None:
        """Return one call, or None."""
        query = "SELECT * FROM tool_calls WHERE chat_id = ? AND id = ?"
        return next(iter(self._read(query, (chat_id, call_id), convert=_call)), None)

    def calls(self, chat_id: str) -> list[ToolCall]:
        """Return a chat's calls, oldest first."""
        query = "SELECT * FROM tool_calls WHERE chat_id = ? ORDER BY started_at, id"
        return self._read(query, (chat_id,), convert=_call)

    def approvals(self, state: str | None = None) -> list[JsonObject]:
        """Return approvals of all chats, oldest first; only those in ``state`` where it is given."""
        return self._read(
            """
            SELECT * FROM approvals WHERE ? IS NULL OR state = ?
            ORDER BY created_at, execution_id
            """,
            (state, state),
            convert=_row,
        )

    def manifest_files(self, chat: ChatStore, manifest_id: str) -> dict[str, str]:
        """Return a manifest's ``files``: the sha256, in hex, of every path (specification 1.6)."""
        query = "SELECT oid, sha256 FROM blobs WHERE chat_id = ?"
        digests = dict(
            self._read(query, (chat.id,), convert=lambda row: (row["oid"], row["sha256"]))
        )
        return {path: digests[state.oid] for path, state in chat.files(manifest_id).items()}


def _row(row: sqlite3.Row) -> JsonObject:
    values: dict[str, Any] = dict(row)
    for name in values.keys() & _BOOLEANS:
        values[name] = None if values[name] is None else bool(values[name])
    for name in values.keys() & _JSON:
        values[name] = None if values[name] is None else canonical_json.loads(values[name])
    return values


def _tool(row: sqlite3.Row) -> Tool:
    return Tool.model_validate(canonical_json.loads(row["definition"]))


def _problems(row: sqlite3.Row) -> list[Problem]:
    return [Problem(**fields) for fields in canonical_json.loads(row["problems"])]


def _call(row: sqlite3.Row) -> ToolCall:
    values = _row(row)
    plan = values.pop("render_plan")
    parsed = None if plan is None else RenderPlan.model_validate(canonical_json.loads(plan))
    return ToolCall(**values, render_plan=parsed)
