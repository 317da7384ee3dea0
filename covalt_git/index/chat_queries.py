"""Queries of the index about chats: their history, calls and approvals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.conversations import commit_names
from covalt_git.errors import UnknownNameError
from covalt_git.index import chat_rows, chat_search, content_facts, file_rows
from covalt_git.index.content_facts import LineCounts
from covalt_git.index.history import (
    ALL_BRANCHES,
    ALL_PARENTS,
    ANCESTORS,
    NEWEST_FIRST,
    HistoryNode,
    HistoryPage,
    HistoryRow,
    read_history_row,
    read_node,
)
from covalt_git.index.synced_index import SyncedIndex, row_id, row_values
from covalt_git.json_values import canonical_json
from covalt_git.merging.branch_merge import STOPPED
from covalt_git.models.calls import RenderPlan, ToolCall
from covalt_git.system.node_folder import data_of
from covalt_git.workspaces.chat import HEADS
from covalt_git.workspaces.registry import Chats

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Mapping, Sequence

    from covalt_git.index.chat_rows import Damaged
    from covalt_git.index.chat_search import SearchedTexts, TextMatch
    from covalt_git.index.content_facts import Blob
    from covalt_git.index.search_words import Query
    from covalt_git.index.synced_index import Result, Value
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import CallStatus
    from covalt_git.workspaces.chat import ChatStore


_HISTORY_ROW = """
    m.*, l.added_lines, l.deleted_lines, c.tool_id, c.status, c.error, c.object, c.started_at, c.finished_at,
    c.render_plan ->> 'renderer' AS renderer,
    (SELECT max(a.decided_at) FROM approvals AS a
     WHERE a.chat_id = m.chat_id AND a.call_id = c.id AND a.state = 'approved') AS approved_at,
    (SELECT u.id FROM workspace_manifests AS u WHERE u.chat_id = m.chat_id AND u.undone_call = c.id
     ORDER BY u.moment DESC, u.generation DESC, u.id DESC LIMIT 1) AS undone_by,
    o.tool_id AS undone_tool_id, o.object AS undone_object
"""
# Edits and restores have a call if a built-in tool made them.
_ITS_FACTS = """
    LEFT JOIN tool_calls AS c
    ON m.source IN ('tool_run', 'edit', 'restore') AND c.chat_id = m.chat_id AND c.id = m.source_ref
    LEFT JOIN tool_calls AS o ON o.chat_id = m.chat_id AND o.id = m.undone_call
    LEFT JOIN line_counts AS l ON l.chat_id = m.chat_id AND l.manifest_id = m.id
"""


class ChatPosition(NamedTuple):
    """The refs of a chat, and the sort key of its newest commit: moment, generation and id."""

    refs: dict[str, str]
    newest: tuple[str, int, str]


class LastCall(NamedTuple):
    """The last call of a chat; ``object`` is the argument that names what it works on."""

    chat_id: str
    id: str
    tool_id: str
    status: CallStatus
    error: str | None
    object: str
    started_at: str
    result: Any


@dataclass(slots=True)
class ChatQueries(SyncedIndex):
    """Queries about the chats of a project: commits, calls and approvals."""

    @property
    def chats(self) -> Chats:
        return Chats(data_of(self.root) / "chats", self.workspace)

    def synchronize(self) -> None:
        """Update the rows of changed chats; the rows of a damaged one stay."""
        chat_rows.sync_chats(self.connection, self.chats, self.on_progress)

    def sync_chats(self) -> list[Damaged]:
        """Update the rows of changed chats; return the chats with a damaged store, and the errors."""
        return self.with_recovery(
            lambda: chat_rows.sync_chats(self.connection, self.chats, self.on_progress)
        )

    def sync_chat(self, chat: ChatStore) -> None:
        self.with_recovery(lambda: chat_rows.sync_chat(self.connection, chat, self.on_progress))

    def sync_new_chats(self) -> None:
        """Add the chats that have no row yet, except damaged ones."""
        self.with_recovery(lambda: chat_rows.sync_new_chats(self.connection, self.chats))

    def chat_rows(self) -> list[JsonObject]:
        """Return the rows of all chats, with their numbers of commits and calls; the newest chat is first."""
        return self._chats("TRUE", ())

    def chat_row(self, chat_id: str) -> JsonObject | None:
        """Return the row of a chat as in :meth:`chat_rows`, or None."""
        return next(iter(self._chats("id = ?", (chat_id,))), None)

    def _chats(self, where: str, values: Sequence[Value]) -> list[JsonObject]:
        return self.read(
            f"""
            SELECT id, title, created_at, active_branch, active_manifest_id, active_leaf_message_id,
                   forked_from, made_by,
                   (SELECT count(*) FROM workspace_manifests WHERE chat_id = c.id) AS manifests,
                   (SELECT count(*) FROM tool_calls WHERE chat_id = c.id) AS tool_calls,
                   max(created_at,
                       ifnull((SELECT max(moment) || 'Z' FROM workspace_manifests WHERE chat_id = c.id), ''),
                       ifnull((SELECT max(started_at) FROM tool_calls WHERE chat_id = c.id), '')
                   ) AS active_at
            FROM chats AS c WHERE {where} ORDER BY created_at DESC, id
            """,  # noqa: S608 - our own words
            values,
            convert=row_values,
        )

    def heads(self, chat_id: str) -> dict[str, str]:
        """Return the newest commit of each branch by its name, without empty branches."""
        query = "SELECT refs FROM chats WHERE id = ?"
        rows = self.read(query, (chat_id,), convert=lambda row: canonical_json.loads(row["refs"]))
        return {
            ref.removeprefix(HEADS): oid
            for refs in rows
            for ref, oid in sorted(refs.items())
            if ref.startswith(HEADS)
        }

    def chat_position(self, chat_id: str) -> ChatPosition | None:
        """Return the position of a chat, which :meth:`commits_after` continues from; None without a row."""
        positions = self.read(
            """
            SELECT c.refs, m.moment, m.generation, m.id FROM chats AS c LEFT JOIN (
                SELECT chat_id, moment, generation, id FROM workspace_manifests WHERE chat_id = :chat_id
                ORDER BY moment DESC, generation DESC, id DESC LIMIT 1
            ) AS m ON m.chat_id = c.id WHERE c.id = :chat_id
            """,
            {"chat_id": chat_id},
            convert=lambda row: ChatPosition(
                canonical_json.loads(row["refs"]),
                (row["moment"] or "", row["generation"] or 0, row["id"] or ""),
            ),
        )
        return next(iter(positions), None)

    def commits_after(
        self, chat_id: str, position: ChatPosition, *, limit: int
    ) -> list[HistoryRow]:
        """Return the commits of a chat that are newer than a position, oldest first, at most ``limit``."""
        rows = self.read(
            f"""
            SELECT {_HISTORY_ROW} FROM workspace_manifests AS m {_ITS_FACTS}
            WHERE m.chat_id = ? AND (m.moment, m.generation, m.id) > (?, ?, ?)
            ORDER BY m.moment, m.generation, m.id LIMIT ?
            """,  # noqa: S608 - our own words
            (chat_id, *position.newest, limit),
            convert=lambda row: read_history_row(row, {}),
        )
        return self._counted(chat_id, rows)

    def resolve(self, chat: ChatStore, text: str) -> str:
        """Return the commit of a name, as :func:`covalt_git.conversations.commit_names.resolve` does.

        A full id is found in the index, without reading the history; the chat is synchronized first.
        """
        if commit_names.is_full_id(text):
            self.sync_chat(chat)
            if self.has_manifest(chat.id, text):
                return text
        return commit_names.resolve(chat, text)

    def manifest_of_record(self, chat_id: str, record_id: str) -> str | None:
        """Return the commit of a call, or of another record, in a chat; or None."""
        query = "SELECT id FROM workspace_manifests WHERE chat_id = ? AND source_ref = ?"
        return next(iter(self.read(query, (chat_id, record_id), convert=row_id)), None)

    def has_manifest(self, chat_id: str, manifest_id: str) -> bool:
        """Return whether a chat has a commit."""
        query = "SELECT id FROM workspace_manifests WHERE chat_id = ? AND id = ?"
        return bool(self.read(query, (chat_id, manifest_id), convert=row_id))

    def chats_of_record(self, record_id: str) -> list[str]:
        """Return the chats with a call, finished or not, or another record of that id."""
        return self.read(
            """
            SELECT id FROM chats AS c WHERE EXISTS (
                SELECT 1 FROM workspace_manifests WHERE chat_id = c.id AND source_ref = :id)
            OR EXISTS (SELECT 1 FROM tool_calls WHERE chat_id = c.id AND id = :id)
            ORDER BY id
            """,
            {"id": record_id},
            convert=row_id,
        )

    def ended_calls(self, tool_id: str, *, limit: int = -1) -> list[tuple[str, str]]:
        """Return the chats and the ids of the newest ended calls of a tool, newest first."""
        return self.read(
            """
            SELECT chat_id, id FROM tool_calls WHERE tool_id = ? AND status IN ('success', 'error')
            ORDER BY started_at DESC, id DESC LIMIT ?
            """,
            (tool_id, limit),
            convert=lambda row: (row["chat_id"], row["id"]),
        )

    def message_manifest(self, chat_id: str, message_id: str) -> str | None:
        """Return the last commit of a message: its own, or the commit of its last call.

        A commit of the active branch takes precedence over commits of other branches.
        """
        row = self.chat_row(chat_id)
        head = None if row is None else row["active_manifest_id"]
        ids = self.read(
            f"""
            WITH RECURSIVE {ANCESTORS}
            SELECT id FROM workspace_manifests
            WHERE chat_id = :chat_id AND (message_id = :message_id OR source_ref = :message_id)
            ORDER BY id IN (SELECT id FROM history) DESC, moment DESC, generation DESC, id DESC
            LIMIT 1
            """,  # noqa: S608 - our own words
            {
                "chat_id": chat_id,
                "message_id": message_id,
                "head": head,
                "steps": -1,
                "parents": ALL_PARENTS,
            },
            convert=row_id,
        )
        return next(iter(ids), None)

    def manifests(
        self,
        chat_id: str,
        *,
        head: str | None = None,
        limit: int = 100,
        before: str | None = None,
        first_parents: bool = False,
    ) -> HistoryPage:
        """Return a page of a chat's history, newest first.

        The history is that of all branches, or the commit ``head`` and its ancestors.  With ``first_parents``
        only first parents are followed.  ``before`` is the last commit of the previous page.

        Raises:
            UnknownNameError: if the chat has no commit ``before``.
        """
        rows = self._history(
            f"""
            SELECT {_HISTORY_ROW} FROM history AS h
            CROSS JOIN workspace_manifests AS m ON m.chat_id = :chat_id AND m.id = h.id
            {_ITS_FACTS}
            """,  # noqa: S608 - our own words
            {
                "chat_id": chat_id,
                "head": head,
                "before": before,
                "parents": 1 if first_parents else ALL_PARENTS,
            },
            compare="<",
            limit=limit + 1,  # the row after the page shows whether there is a next one
            convert=self._history_row(chat_id),
        )
        return HistoryPage(tuple(self._counted(chat_id, rows[:limit])), len(rows) > limit)

    def _history_row(self, chat_id: str) -> Callable[[sqlite3.Row], HistoryRow]:
        """Return the function that converts the rows of a chat's history."""
        heads: dict[str, list[str]] = {}
        for name, oid in self.heads(chat_id).items():
            heads.setdefault(oid, []).append(name)
        return partial(read_history_row, heads=heads)

    def message_rows(self, chat_id: str, message_id: str) -> list[HistoryRow]:
        """Return the commits of a message and of the calls for it in all branches, oldest first."""
        rows = self.read(
            f"""
            SELECT {_HISTORY_ROW} FROM (
                SELECT id FROM workspace_manifests
                WHERE chat_id = :chat_id AND source = 'message' AND source_ref = :message_id
                UNION ALL
                SELECT id FROM workspace_manifests
                WHERE chat_id = :chat_id AND source IN ('tool_run', 'edit', 'restore')
                AND message_id = :message_id
            ) AS f
            CROSS JOIN workspace_manifests AS m ON m.chat_id = :chat_id AND m.id = f.id {_ITS_FACTS}
            ORDER BY m.moment, m.generation, m.id
            """,  # noqa: S608 - our own words
            {"chat_id": chat_id, "message_id": message_id},
            convert=self._history_row(chat_id),
        )
        return self._counted(chat_id, rows)

    def following_messages(self, chat_id: str, message_id: str | None) -> list[str]:
        """Return the messages after one, or the first ones, from the oldest on: they are siblings."""
        # Without INDEXED BY, the planner searches the whole chat by its key: 7 ms a message instead of 0.01 in a
        # chat of 5,000 commits (bench/server_pages.py).
        query = """
            SELECT source_ref AS id FROM workspace_manifests INDEXED BY messages_by_previous
            WHERE chat_id = ? AND source = 'message' AND previous_message_id IS ?
            ORDER BY created_at, source_ref
        """
        return list(dict.fromkeys(self.read(query, (chat_id, message_id), convert=row_id)))

    def first_parents(self, chat_id: str, head: str | None) -> set[str]:
        """Return a commit and its ancestors along first parents."""
        query = f"WITH RECURSIVE {ANCESTORS} SELECT id FROM history"  # noqa: S608 - our own words
        values = {"chat_id": chat_id, "head": head, "parents": 1, "steps": -1}
        return set(self.read(query, values, convert=row_id))

    def history_nodes(
        self, chat_id: str, *, head: str | None = None, limit: int = 100, before: str | None = None
    ) -> list[HistoryNode]:
        """Return the ids and parents of the commits of a page, and of all previous pages.

        A graph that is drawn from them continues from page to page.

        Raises:
            UnknownNameError: if the chat has no commit ``before``.
        """
        values = {"chat_id": chat_id, "head": head, "before": before, "parents": ALL_PARENTS}
        query = "SELECT h.id, h.parents FROM history AS h"
        previous = []
        if before is not None:
            previous = self._history(query, values, compare=">=", limit=-1, convert=read_node)
        return previous + self._history(query, values, compare="<", limit=limit, convert=read_node)

    def _history(
        self,
        select: str,
        values: Mapping[str, Value],
        *,
        compare: str,
        limit: int,
        convert: Callable[[sqlite3.Row], Result],
    ) -> list[Result]:
        """Return the commits on one side of ``before``, newest first, at most ``limit``."""
        cursor = values["before"]
        condition, steps = "", limit
        if cursor is not None:
            exists = "SELECT id FROM workspace_manifests WHERE chat_id = ? AND id = ?"
            if not self.read(exists, (values["chat_id"], cursor), convert=row_id):
                raise commit_names.UnknownCommitError(str(values["chat_id"]), str(cursor))
            condition = f"""
                WHERE (h.moment, h.generation, h.id) {compare} (
                    SELECT moment, generation, id FROM workspace_manifests
                    WHERE chat_id = :chat_id AND id = :before)
            """  # noqa: S608 - our own words
            steps = -1  # the number of newer commits, which do not count for the limit, is unknown
        history = ALL_BRANCHES if values["head"] is None else ANCESTORS
        return self.read(
            f"""
            WITH RECURSIVE {history} {select} {condition}
            {NEWEST_FIRST} LIMIT :limit
            """,
            {**values, "limit": limit, "steps": steps},
            convert=convert,
        )

    # Calls and approvals

    def call(self, chat_id: str, call_id: str) -> ToolCall | None:
        query = "SELECT * FROM tool_calls WHERE chat_id = ? AND id = ?"
        return next(iter(self.read(query, (chat_id, call_id), convert=_call)), None)

    def calls(
        self,
        chat_id: str,
        *,
        limit: int | None = None,
        before: str | None = None,
        tool_id: str | None = None,
    ) -> list[ToolCall]:
        """Return the calls of a chat, or of one tool in it, newest first; with ``before``, the earlier ones.

        Raises:
            UnknownNameError: if the chat has no call ``before``.
        """
        if before is not None and self.call(chat_id, before) is None:
            list_with = f"covalt-git chat log {chat_id} --all"
            raise UnknownNameError("call", before, (), list_with=list_with)
        return self.read(
            """
            SELECT * FROM tool_calls WHERE chat_id = :chat_id
            AND (:tool_id IS NULL OR tool_id = :tool_id) AND (
                :before IS NULL OR (started_at, id) < (
                    SELECT started_at, id FROM tool_calls
                    WHERE chat_id = :chat_id AND id = :before))
            ORDER BY started_at DESC, id DESC LIMIT :limit
            """,
            {
                "chat_id": chat_id,
                "before": before,
                "tool_id": tool_id,
                "limit": -1 if limit is None else limit,
            },
            convert=_call,
        )

    def last_calls(self) -> list[LastCall]:
        """Return the last call of each chat that has one, by chat."""
        return self.read(
            """
            SELECT c.chat_id, c.id, c.tool_id, c.status, c.error, c.object, c.started_at, c.result
            FROM chats AS h CROSS JOIN tool_calls AS c ON c.chat_id = h.id AND c.id = (
                SELECT id FROM tool_calls WHERE chat_id = h.id ORDER BY started_at DESC, id DESC LIMIT 1)
            ORDER BY h.id
            """,
            convert=lambda row: LastCall(**row_values(row)),
        )

    def chats_with_merges(self) -> list[str]:
        """Return the chats that have a merge, or one that conflicts stopped."""
        return self.read(
            """
            SELECT id FROM chats AS h WHERE refs LIKE ? OR EXISTS (
                SELECT 1 FROM workspace_manifests WHERE chat_id = h.id AND source = 'merge')
            ORDER BY id
            """,
            (f'%"{STOPPED}"%',),
            convert=row_id,
        )

    def merges(self, chat_id: str) -> list[str]:
        """Return the merges on the branches of a chat."""
        query = "SELECT id FROM workspace_manifests WHERE chat_id = ? AND source = 'merge'"
        return self.read(query, (chat_id,), convert=row_id)

    def recent_calls(self, limit: int) -> list[ToolCall]:
        """Return the last calls of all chats, newest first."""
        return self.read(
            "SELECT * FROM tool_calls ORDER BY started_at DESC, id DESC LIMIT ?",
            (limit,),
            convert=_call,
        )

    def recorded_arguments(self, tool_id: str, limit: int) -> list[JsonObject]:
        """Return the arguments of the last successful calls of a tool in all chats, newest first."""
        return self.read(
            """
            SELECT args FROM tool_calls WHERE tool_id = ? AND status = 'success'
            ORDER BY started_at DESC, id DESC LIMIT ?
            """,
            (tool_id, limit),
            convert=lambda row: canonical_json.loads(row["args"]),
        )

    def approvals(
        self, state: str | None = None, *, chat_id: str | None = None
    ) -> list[JsonObject]:
        """Return approvals, oldest first; with ``state`` or ``chat_id``, only matching ones."""
        return self.read(
            """
            SELECT * FROM approvals
            WHERE (:state IS NULL OR state = :state) AND (:chat_id IS NULL OR chat_id = :chat_id)
            ORDER BY created_at, execution_id
            """,
            {"state": state, "chat_id": chat_id},
            convert=row_values,
        )

    def blobs(self, chat: ChatStore, oids: Collection[str]) -> dict[str, Blob]:
        """Return the content hashes and sizes of a chat's files, by git blob id."""
        return self.with_recovery(lambda: content_facts.blobs(self.connection, chat, oids))

    # Search

    def sync_files(self, *, limit: int | None = file_rows.MOST_NEW_FILES) -> None:
        """Update the files of active branches that are searched, at most ``limit`` of them; sync the chats first."""
        self.with_recovery(
            lambda: file_rows.sync_files(
                self.connection, self.chats, limit=limit, on_progress=self.on_progress
            )
        )

    def search_texts(
        self,
        texts: SearchedTexts,
        query: Query,
        is_wanted: Callable[[TextMatch], bool],
        limit: int,
    ) -> list[TextMatch]:
        """Return at most ``limit`` rows that match a query, as :func:`.chat_search.find` does."""
        return self.with_recovery(
            lambda: chat_search.find(self.connection, texts, query, is_wanted, limit)
        )

    def titles(self) -> list[tuple[str, str, str]]:
        """Return the id, title and creation time of each chat, newest first."""
        query = "SELECT id, title, created_at FROM chats ORDER BY created_at DESC, id"
        return self.read(query, convert=tuple)

    def unsearched_files(self) -> list[tuple[str, str, int]]:
        """Return the chat, the reason and the number of files whose text is not searched."""
        return self.read(
            """
            SELECT chat_id, reason, count(*) FROM active_files WHERE reason IS NOT NULL
            GROUP BY chat_id, reason
            UNION ALL SELECT chat_id, 'pending', pending FROM active_trees WHERE pending
            UNION ALL SELECT chat_id, 'full', left_out FROM active_trees WHERE left_out
            """,
            convert=tuple,
        )

    def _counted(self, chat_id: str, rows: list[HistoryRow]) -> list[HistoryRow]:
        """Return rows of a chat's history with the numbers of their changed lines."""
        missing = [row.id for row in rows if row.changed_files and row.added_lines is None]
        counts: dict[str, LineCounts] = {}
        if missing:
            with self.chats.as_left(chat_id) as chat:
                counts = self.with_recovery(
                    lambda: content_facts.line_counts(self.connection, chat, missing)
                )
        nothing = LineCounts(0, 0)
        return [
            row
            if row.added_lines is not None
            else row._replace(
                added_lines=counts.get(row.id, nothing).added,
                deleted_lines=counts.get(row.id, nothing).deleted,
            )
            for row in rows
        ]


def _call(row: sqlite3.Row) -> ToolCall:
    values = row_values(row)
    del values["object"]  # computed from the arguments
    plan = values.pop("render_plan")
    parsed = None if plan is None else RenderPlan.model_validate(canonical_json.loads(plan))
    return ToolCall(**values, render_plan=parsed)
