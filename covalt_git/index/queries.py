"""Asking the index: what there is, as models and rows; no decision is ever made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from covalt_git import canonical_json
from covalt_git.errors import Problem
from covalt_git.index import database, sync
from covalt_git.models.calls import RenderPlan, ToolCall
from covalt_git.models.tool import Tool

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from covalt_git.models.base import JsonObject
    from covalt_git.workspaces.chats import Chats, ChatStore

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
        """Delete the index and make every row again from the files and the chat stores."""
        self.connection.close()
        database.remove(self.path)
        self.connection = database.connect(self.path)
        self.sync()

    def sync(self) -> None:
        """Bring in everything that changed."""
        sync.sync_toolsets(self.connection, self.root)
        sync.sync_chats(self.connection, self.chats)

    def sync_toolsets(self) -> None:
        """Bring in the toolsets that changed."""
        sync.sync_toolsets(self.connection, self.root)

    def sync_chat(self, chat: ChatStore) -> None:
        """Bring in what happened in one chat."""
        sync.sync_chat(self.connection, chat)

    def counts(self) -> dict[str, int]:
        """Return how many rows each table has."""
        names = [
            row["name"]
            for row in self.connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
            )
        ]
        return {
            name: self.connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608 - names of our schema
            for name in names
        }

    # Toolsets

    def toolsets(self) -> list[JsonObject]:
        """Return every toolset's row, with how many tools it has and whether it is sound."""
        rows = self.connection.execute(
            """
            SELECT r.toolset_id AS id, t.name, t.version, t.description,
                   coalesce(t.enabled, 0) AS enabled, t.installed_at, t.source_type, t.source_ref,
                   t.manifest_version, t.digest, r.sound,
                   (SELECT count(*) FROM tools WHERE toolset_id = r.toolset_id) AS tools
            FROM toolset_readings AS r LEFT JOIN toolsets AS t ON t.id = r.toolset_id
            ORDER BY r.toolset_id
            """
        )
        return [_row(row) for row in rows]

    def tools(self) -> list[Tool]:
        """Return every tool by id; those of a broken toolset as they were when it was sound."""
        rows = self.connection.execute("SELECT definition FROM tools ORDER BY tool_id")
        return [Tool.model_validate(canonical_json.loads(row["definition"])) for row in rows]

    def toolset_files(self, toolset_id: str) -> list[JsonObject]:
        """Return the rows of a toolset's files."""
        rows = self.connection.execute(
            "SELECT * FROM toolset_files WHERE toolset_id = ? ORDER BY path", (toolset_id,)
        )
        return [_row(row) for row in rows]

    def problems(self) -> list[Problem]:
        """Return what was wrong with any toolset when it was read last."""
        rows = self.connection.execute("SELECT problems FROM toolset_readings ORDER BY toolset_id")
        return [
            Problem(**fields) for row in rows for fields in canonical_json.loads(row["problems"])
        ]

    # Chats

    def chat_rows(self) -> list[JsonObject]:
        """Return every chat's row, newest first, with how many manifests and calls it has."""
        rows = self.connection.execute(
            """
            SELECT id, title, created_at, active_branch, active_manifest_id, active_leaf_message_id,
                   (SELECT count(*) FROM workspace_manifests WHERE chat_id = c.id) AS manifests,
                   (SELECT count(*) FROM tool_calls WHERE chat_id = c.id) AS tool_calls
            FROM chats AS c ORDER BY created_at DESC, id
            """
        )
        return [dict(row) for row in rows]

    def call(self, chat_id: str, call_id: str) -> ToolCall | None:
        """Return one call, or None."""
        row = self.connection.execute(
            "SELECT * FROM tool_calls WHERE chat_id = ? AND id = ?", (chat_id, call_id)
        ).fetchone()
        return None if row is None else _call(row)

    def calls(self, chat_id: str) -> list[ToolCall]:
        """Return a chat's calls, oldest first."""
        rows = self.connection.execute(
            "SELECT * FROM tool_calls WHERE chat_id = ? ORDER BY started_at, id", (chat_id,)
        )
        return [_call(row) for row in rows]

    def approvals(self, state: str | None = None) -> list[JsonObject]:
        """Return approvals of all chats, oldest first; only those in ``state`` where it is given."""
        rows = self.connection.execute(
            """
            SELECT * FROM approvals WHERE ? IS NULL OR state = ?
            ORDER BY created_at, execution_id
            """,
            (state, state),
        )
        return [_row(row) for row in rows]

    def chat_of_approval(self, execution_id: str) -> str | None:
        """Return the chat that an approval belongs to, or None."""
        row = self.connection.execute(
            "SELECT chat_id FROM approvals WHERE execution_id = ?", (execution_id,)
        ).fetchone()
        return None if row is None else str(row["chat_id"])

    def manifest_files(self, chat: ChatStore, manifest_id: str) -> dict[str, str]:
        """Return a manifest's ``files``: the sha256, in hex, of every path (specification 1.6)."""
        digests = {
            row["oid"]: row["sha256"]
            for row in self.connection.execute(
                "SELECT oid, sha256 FROM blobs WHERE chat_id = ?", (chat.id,)
            )
        }
        return {path: digests[state.oid] for path, state in chat.files(manifest_id).items()}


def _row(row: sqlite3.Row) -> JsonObject:
    values: dict[str, Any] = dict(row)
    for name in values.keys() & _BOOLEANS:
        values[name] = None if values[name] is None else bool(values[name])
    for name in values.keys() & _JSON:
        values[name] = None if values[name] is None else canonical_json.loads(values[name])
    return values


def _call(row: sqlite3.Row) -> ToolCall:
    values = _row(row)
    plan = values.pop("render_plan")
    parsed = None if plan is None else RenderPlan.model_validate(canonical_json.loads(plan))
    return ToolCall(**values, render_plan=parsed)
