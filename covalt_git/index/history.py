"""Rows of a chat's history for lists and graphs, and the SQL of their order: newest first.

A commit is always before its parents, even if clocks were wrong; see the table ``workspace_manifests``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.json_values import canonical_json
from covalt_git.models.commit_record import commit_origin

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from covalt_git.models.calls import CallStatus
    from covalt_git.models.commit_record import CommitOrigin, Source

ALL_BRANCHES = """
history AS (
    SELECT id, parents, moment, generation FROM workspace_manifests WHERE chat_id = :chat_id
)
"""
"""All manifests of ``:chat_id``."""

# CROSS JOIN prevents the planner from a scan of the whole chat at every step.  UNION without ALL visits the common
# ancestors of merged branches once.  ORDER BY makes the recursion take the newest commit first, so that it can end
# after :steps commits.
ANCESTORS = """
history AS (
    SELECT id, parents, moment, generation FROM workspace_manifests
    WHERE chat_id = :chat_id AND id = :head
    UNION
    SELECT m.id, m.parents, m.moment, m.generation
    FROM history AS h CROSS JOIN json_each(h.parents) AS p
    CROSS JOIN workspace_manifests AS m ON m.chat_id = :chat_id AND m.id = p.value
    WHERE p.key < :parents
    ORDER BY moment DESC, generation DESC, id DESC LIMIT :steps
)
"""
"""The manifest ``:head`` and its ancestors: the newest ``:steps``, or all if it is -1.

``:parents`` limits the parents of each manifest that are followed.
"""

ALL_PARENTS = 1 << 31

NEWEST_FIRST = "ORDER BY h.moment DESC, h.generation DESC, h.id DESC"


class HistoryNode(NamedTuple):
    """Id of a commit and of its parents, for a graph of the history."""

    id: str
    parents: tuple[str, ...]


class HistoryRow(NamedTuple):
    """Commit in a list of a chat's history.

    ``previous_message_id`` is of a message.  ``tool_id`` to ``renderer`` are of the call that it records.
    ``undone_call`` to ``undone_object`` are of the call that it undoes, and ``undone_by`` is the newest commit that undoes
    its own call.  ``branches`` are the branches that point to it.  ``changed_files`` counts the paths that differ from its
    first parent, ``added_lines`` and ``deleted_lines`` the lines of its text files; None until they are counted.
    """

    id: str
    parents: tuple[str, ...]
    tree_id: str
    created_at: str
    source: Source
    source_ref: str | None
    message_id: str | None
    previous_message_id: str | None
    title: str
    by: str
    tool_id: str | None
    status: CallStatus | None
    error: str | None
    object: str | None
    started_at: str | None
    finished_at: str | None
    renderer: str | None
    approved_at: str | None
    undone_by: str | None
    undone_call: str | None
    undone_tool_id: str | None
    undone_object: str | None
    changed_files: int
    added_lines: int | None
    deleted_lines: int | None
    branches: tuple[str, ...]

    @property
    def made(self) -> CommitOrigin:
        """Where the commit was created."""
        return commit_origin(self.source)


class HistoryPage(NamedTuple):
    """Page of a chat's history; ``more`` is whether older commits follow."""

    rows: tuple[HistoryRow, ...]
    more: bool


def read_node(row: sqlite3.Row) -> HistoryNode:
    return HistoryNode(row["id"], tuple(canonical_json.loads(row["parents"])))


def read_history_row(row: sqlite3.Row, heads: Mapping[str, Sequence[str]]) -> HistoryRow:
    """Convert a row; ``heads`` has the names of branches by commit."""
    columns = {name: row[name] for name in HistoryRow._fields if name != "branches"}
    parents = tuple(canonical_json.loads(row["parents"]))
    branches = tuple(heads.get(row["id"], ()))
    return HistoryRow(**columns | {"parents": parents, "branches": branches})
