"""Asking the index: what there is, as models and rows; no decision is ever made from it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from pydantic import ValidationError

from covalt_git import canonical_json
from covalt_git.errors import Problem, UnknownNameError
from covalt_git.forked import unheard
from covalt_git.git_objects.revisions import write_folder
from covalt_git.index import chat_rows, database, search, toolset_rows
from covalt_git.index.history import (
    ALL_BRANCHES,
    ANCESTORS,
    NEWEST_FIRST,
    HistoryPage,
    Line,
    read_history_row,
    read_line,
)
from covalt_git.models.calls import RenderPlan, ToolCall
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.models.prompts import Given, Prompt, Resource
from covalt_git.models.tool import Tool
from covalt_git.workspaces import commit_names
from covalt_git.workspaces.chats import HEADS, Chats

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from covalt_git.index.chat_rows import Damaged
    from covalt_git.models.base import JsonObject
    from covalt_git.models.prompts import What
    from covalt_git.workspaces.chats import ChatStore

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

_MOST_TOOLS = 1 << 14
"""How many tools, and problems of toolsets, a process keeps parsed."""


class Blob(NamedTuple):
    """A file's content: its sha256 in hex, and its size in bytes."""

    sha256: str
    size: int


@dataclass(slots=True)
class Index:
    """The open index of one project.  Close it after use; one thread at a time."""

    root: Path
    chats: Chats
    path: Path
    connection: sqlite3.Connection
    told: Callable[[int, int], None] = unheard

    @classmethod
    def open(
        cls, root: Path, chats: Chats, path: Path, told: Callable[[int, int], None] = unheard
    ) -> Self:
        """Open the index at ``path``, made anew where it is missing, damaged or of another version.

        ``told`` hears during a sync how many toolsets have been read, and how many there are to read.
        """
        return cls(root, chats, path, database.connect(path), told)

    @classmethod
    def of_project(
        cls, root: Path, workspace: WorkspaceConfig, told: Callable[[int, int], None] = unheard
    ) -> Self:
        """Open the index of the project at ``root``; ``told`` as of :meth:`open`."""
        data = root / "data"
        return cls.open(root, Chats(data / "chats", workspace), data / "index.db", told)

    @classmethod
    def at_revision(
        cls, root: Path, revision: str, file: Path, told: Callable[[int, int], None] = unheard
    ) -> tuple[str, dict[str, int]]:
        """Write an index of the project's toolsets as they were at a commit into a new file.

        Chats are not checked in, so it has none.  Return the commit's id, and how many rows each
        table has.  The project's own index and files are not touched; the same commit gives the same
        rows, whenever and wherever it is asked for.

        Raises:
            UnknownRevisionError: when there is no such commit.
            FileExistsError: when there is a file in that place.
        """
        with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
            past = Path(name)
            commit = write_folder(root / "toolsets", revision, past / "toolsets")
            made = past / "index.db"
            with cls.open(past, Chats(past / "chats", WorkspaceConfig()), made, told) as index:
                index.sync_toolsets()
                # What this file system said of the files tells nothing of the commit.
                index.connection.execute("UPDATE toolset_readings SET signature = '', paths = x''")
                counts = index.counts()
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as target, made.open("rb") as source:
                shutil.copyfileobj(source, target)
        return commit, counts

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
        self._trusted(self._sync_toolsets)

    def sync_chats(self) -> list[Damaged]:
        """Bring in what happened in the chats; return those whose store is damaged, with why."""
        return self._trusted(lambda: chat_rows.sync_chats(self.connection, self.chats))

    def sync_chat(self, chat: ChatStore) -> None:
        """Bring in what happened in one chat."""
        self._trusted(lambda: chat_rows.sync_chat(self.connection, chat))

    def sync_new_chats(self) -> None:
        """Bring in the chats that the index knows nothing of; damaged ones stay out."""
        self._trusted(lambda: chat_rows.sync_new_chats(self.connection, self.chats))

    def _rebuild(self) -> None:
        with database.transaction(self.connection):
            database.empty(self.connection)
            self._sync()

    def _sync_toolsets(self) -> None:
        toolset_rows.sync_toolsets(self.connection, self.root, self.told)

    def _sync(self) -> list[Damaged]:
        self._sync_toolsets()
        return chat_rows.sync_chats(self.connection, self.chats)

    def _read(
        self,
        query: str,
        values: Sequence[Value] | Mapping[str, Value] = (),
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
            except (sqlite3.DatabaseError, MemoryError) as why:
                if failed is not None and isinstance(why, MemoryError):
                    raise  # it was no garbage that asked for so much
                failed = error = database.as_damage(why)
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
        names = self._trusted(lambda: database.tables(self.connection))
        query = " UNION ALL ".join(
            f"SELECT '{name}' AS name, count(*) AS rows FROM {name}"  # noqa: S608 - names of our schema
            for name in names
        )
        return dict(self._read(query, convert=lambda row: (row["name"], row["rows"])))

    # Toolsets

    def toolsets(self) -> list[JsonObject]:
        """Return every toolset's row.

        With it come how many tools it has, whether it is sound, and how many errors and warnings
        there are; of an unsound one the rest is as it was when it was sound.
        """
        return self._toolsets("TRUE", ())

    def toolset_row(self, toolset_id: str) -> JsonObject | None:
        """Return one toolset's row as :meth:`toolsets` does, or None."""
        return next(iter(self._toolsets("r.toolset_id = ?", (toolset_id,))), None)

    def _toolsets(self, where: str, values: Sequence[str]) -> list[JsonObject]:
        return self._read(
            f"""
            SELECT r.toolset_id AS id, t.name, t.version, t.description,
                   r.enabled, t.installed_at, t.source_type, t.source_ref,
                   t.manifest_version, t.digest, r.sound, r.problems,
                   (SELECT count(*) FROM tools WHERE toolset_id = r.toolset_id) AS tools
            FROM toolset_readings AS r LEFT JOIN toolsets AS t ON t.id = r.toolset_id
            WHERE {where} ORDER BY r.toolset_id
            """,  # noqa: S608 - our own words
            values,
            convert=_toolset_row,
        )

    def toolset_tools(self) -> dict[str, list[str] | None]:
        """Return the ids of the tools that each toolset declares in its files now, sound or not.

        None stands for those of a toolset whose manifest cannot be read.
        """
        found = self._read(
            "SELECT toolset_id, tool_ids FROM toolset_readings ORDER BY toolset_id",
            convert=lambda row: (row["toolset_id"], canonical_json.loads(row["tool_ids"])),
        )
        return dict(found)

    def toolsets_with_server(self, server_id: str) -> list[str]:
        """Return the toolsets that declare an MCP server of that id."""
        query = "SELECT toolset_id FROM toolset_mcp_servers WHERE id = ? ORDER BY toolset_id"
        return self._read(query, (server_id,), convert=lambda row: str(row["toolset_id"]))

    def tools(self, toolset_id: str | None = None) -> list[Tool]:
        """Return every tool by id, or those of one toolset.

        Those of a broken toolset are as they were when it was sound.
        """
        query = "SELECT definition FROM tools WHERE ? IN (toolset_id, '') ORDER BY tool_id"
        return self._read(query, (toolset_id or "",), convert=_tool)

    def tool(self, tool_id: str) -> Tool | None:
        """Return one tool, or None."""
        query = "SELECT definition FROM tools WHERE tool_id = ?"
        return next(iter(self._read(query, (tool_id,), convert=_tool)), None)

    def search(self, text: str, is_wanted: Callable[[str], bool], limit: int) -> list[str]:
        """Return the ids of the tools that are most like a query, the best first, at most ``limit``.

        Only those that ``is_wanted`` accepts; it is asked in the order of their rank.
        """
        return self._trusted(lambda: search.find(self.connection, text, is_wanted, limit))

    def prompts(self) -> list[Given[Prompt]]:
        """Return the prompts of the toolsets that are on and sound, by their ids."""
        return self._given("toolset_prompts", Prompt)

    def resources(self) -> list[Given[Resource]]:
        """Return the resources of the toolsets that are on and sound, by their ids."""
        return self._given("toolset_resources", Resource)

    def _given(self, table: str, model: type[What]) -> list[Given[What]]:
        return self._read(
            f"""
            SELECT g.*, t.digest FROM {table} AS g
            JOIN toolset_readings AS r USING (toolset_id) JOIN toolsets AS t ON t.id = toolset_id
            WHERE r.enabled AND r.sound ORDER BY g.id
            """,  # noqa: S608 - our own words
            convert=lambda row: Given(
                row["id"],
                row["toolset_id"],
                row["digest"],
                model.model_validate_json(row["definition"]),
            ),
        )

    def mcp_servers(self, toolset_id: str | None = None) -> list[JsonObject]:
        """Return the MCP servers that toolsets declare, or that one does; their secrets unresolved."""
        return self._read(
            """
            SELECT * FROM toolset_mcp_servers WHERE ? IN (toolset_id, '') ORDER BY toolset_id, id
            """,
            (toolset_id or "",),
            convert=_row,
        )

    def toolset_files(self, toolset_id: str) -> list[JsonObject]:
        """Return the rows of a toolset's files."""
        query = "SELECT * FROM toolset_files WHERE toolset_id = ? ORDER BY path"
        return self._read(query, (toolset_id,), convert=_row)

    def problems(self, toolset_id: str | None = None) -> list[Problem]:
        """Return what was wrong with any toolset, or with one, when it was read last."""
        query = """
            SELECT problems FROM toolset_readings WHERE ? IN (toolset_id, '') ORDER BY toolset_id
        """
        found = self._read(query, (toolset_id or "",), convert=_problems)
        return [problem for told in found for problem in told]

    # Chats

    def chat_rows(self, limit: int | None = None) -> list[JsonObject]:
        """Return every chat's row, or the newest ones, with how many manifests and calls it has.

        The newest comes first.
        """
        return self._chats("TRUE", (-1 if limit is None else limit,))

    def chat_row(self, chat_id: str) -> JsonObject | None:
        """Return one chat's row as :meth:`chat_rows` does, or None."""
        return next(iter(self._chats("id = ?", (chat_id, 1))), None)

    def _chats(self, where: str, values: Sequence[Value]) -> list[JsonObject]:
        return self._read(
            f"""
            SELECT id, title, created_at, active_branch, active_manifest_id, active_leaf_message_id,
                   forked_from, made_by,
                   (SELECT count(*) FROM workspace_manifests WHERE chat_id = c.id) AS manifests,
                   (SELECT count(*) FROM tool_calls WHERE chat_id = c.id) AS tool_calls
            FROM chats AS c WHERE {where} ORDER BY created_at DESC, id LIMIT ?
            """,  # noqa: S608 - our own words
            values,
            convert=_row,
        )

    def heads(self, chat_id: str) -> dict[str, str]:
        """Return the manifest of each branch that has one, by the branch's name."""
        query = "SELECT refs FROM chats WHERE id = ?"
        found = self._read(query, (chat_id,), convert=lambda row: canonical_json.loads(row["refs"]))
        return {
            ref.removeprefix(HEADS): oid
            for refs in found
            for ref, oid in sorted(refs.items())
            if ref.startswith(HEADS)
        }

    def resolve(self, chat: ChatStore, text: str) -> str:
        """Return the commit that a name means, as :func:`covalt_git.workspaces.commit_names.resolve` does.

        For a full id the history need not be read; the chat is brought in first.
        """
        if text not in {branch.name for branch in chat.branches()}:
            self.sync_chat(chat)
            if self.has_manifest(chat.id, text):
                return text
        return commit_names.resolve(chat, text)

    def manifest_of_record(self, chat_id: str, record_id: str) -> str | None:
        """Return the manifest that a call, or anything else, of that id made in a chat, or None."""
        query = "SELECT id FROM workspace_manifests WHERE chat_id = ? AND source_ref = ?"
        return next(iter(self._read(query, (chat_id, record_id), convert=_id)), None)

    def has_manifest(self, chat_id: str, manifest_id: str) -> bool:
        """Tell whether a chat has a manifest."""
        query = "SELECT id FROM workspace_manifests WHERE chat_id = ? AND id = ?"
        return bool(self._read(query, (chat_id, manifest_id), convert=_id))

    def chats_of_record(self, record_id: str) -> list[str]:
        """Return the chats in which a call, or anything else, has that id, finished or not."""
        return self._read(
            """
            SELECT id FROM chats AS c WHERE EXISTS (
                SELECT 1 FROM workspace_manifests WHERE chat_id = c.id AND source_ref = :id)
            OR EXISTS (SELECT 1 FROM tool_calls WHERE chat_id = c.id AND id = :id)
            ORDER BY id
            """,
            {"id": record_id},
            convert=_id,
        )

    def message_manifest(self, chat_id: str, message_id: str) -> str | None:
        """Return the last manifest of a message: its own, or that of the last call made for it.

        Where several branches have one, it is that of the active branch.
        """
        row = self.chat_row(chat_id)
        head = None if row is None else row["active_manifest_id"]
        found = self._read(
            f"""
            WITH RECURSIVE {ANCESTORS}
            SELECT id FROM workspace_manifests
            WHERE chat_id = :chat_id AND (message_id = :message_id OR source_ref = :message_id)
            ORDER BY id IN (SELECT id FROM history) DESC, moment DESC, generation DESC, id DESC
            LIMIT 1
            """,  # noqa: S608 - our own words
            {"chat_id": chat_id, "message_id": message_id, "head": head, "steps": -1},
            convert=_id,
        )
        return next(iter(found), None)

    def manifests(
        self, chat_id: str, *, head: str | None = None, limit: int = 100, before: str | None = None
    ) -> HistoryPage:
        """Return a part of a chat's history, newest first.

        It is that of all branches, or of the manifest ``head`` alone: itself and its ancestors.
        ``before`` is the last manifest of the part before.

        Raises:
            UnknownNameError: when the chat has no manifest ``before``.
        """
        heads: dict[str, list[str]] = {}
        for name, oid in self.heads(chat_id).items():
            heads.setdefault(oid, []).append(name)
        rows = self._history(
            """
            SELECT m.*, c.tool_id, c.status, c.error FROM history AS h
            CROSS JOIN workspace_manifests AS m ON m.chat_id = :chat_id AND m.id = h.id
            LEFT JOIN tool_calls AS c
            ON m.source = 'tool_run' AND c.chat_id = :chat_id AND c.id = m.source_ref
            """,
            {"chat_id": chat_id, "head": head, "before": before},
            compare="<",
            limit=limit + 1,
            convert=lambda row: read_history_row(row, heads),
        )
        return HistoryPage(tuple(rows[:limit]), len(rows) > limit)

    def lines(
        self, chat_id: str, *, head: str | None = None, limit: int = 100, before: str | None = None
    ) -> list[Line]:
        """Return the ids and parents of the same part of the history, and of everything above it.

        A picture of it goes on from page to page when it is drawn from there.

        Raises:
            UnknownNameError: when the chat has no manifest ``before``.
        """
        values = {"chat_id": chat_id, "head": head, "before": before}
        query = "SELECT h.id, h.parents FROM history AS h"
        above = []
        if before is not None:
            above = self._history(query, values, compare=">=", limit=-1, convert=read_line)
        return above + self._history(query, values, compare="<", limit=limit, convert=read_line)

    def _history(
        self,
        select: str,
        values: Mapping[str, Value],
        *,
        compare: str,
        limit: int,
        convert: Callable[[sqlite3.Row], Result],
    ) -> list[Result]:
        """Return the manifests on one side of ``before``, newest first, at most ``limit``."""
        before = values["before"]
        which, steps = "", limit
        if before is not None:
            known = "SELECT id FROM workspace_manifests WHERE chat_id = ? AND id = ?"
            if not self._read(known, (values["chat_id"], before), convert=_id):
                list_with = f"covalt-git chat log {values['chat_id']} --all"
                raise UnknownNameError("manifest", str(before), (), list_with=list_with)
            which = f"""
                WHERE (h.moment, h.generation, h.id) {compare} (
                    SELECT moment, generation, id FROM workspace_manifests
                    WHERE chat_id = :chat_id AND id = :before)
            """  # noqa: S608 - our own words
            steps = -1
        whole = ALL_BRANCHES if values["head"] is None else ANCESTORS
        return self._read(
            f"""
            WITH RECURSIVE {whole} {select} {which}
            {NEWEST_FIRST} LIMIT :limit
            """,
            {**values, "limit": limit, "steps": steps},
            convert=convert,
        )

    # Calls and approvals

    def call(self, chat_id: str, call_id: str) -> ToolCall | None:
        """Return one call, or None."""
        query = "SELECT * FROM tool_calls WHERE chat_id = ? AND id = ?"
        return next(iter(self._read(query, (chat_id, call_id), convert=_call)), None)

    def calls(
        self, chat_id: str, *, limit: int | None = None, before: str | None = None
    ) -> list[ToolCall]:
        """Return a chat's calls, newest first; only those that began before the call ``before``.

        Raises:
            UnknownNameError: when the chat has no call ``before``.
        """
        if before is not None and self.call(chat_id, before) is None:
            list_with = f"covalt-git chat log {chat_id} --all"
            raise UnknownNameError("call", before, (), list_with=list_with)
        return self._read(
            """
            SELECT * FROM tool_calls WHERE chat_id = :chat_id AND (
                :before IS NULL OR (started_at, id) < (
                    SELECT started_at, id FROM tool_calls
                    WHERE chat_id = :chat_id AND id = :before))
            ORDER BY started_at DESC, id DESC LIMIT :limit
            """,
            {"chat_id": chat_id, "before": before, "limit": -1 if limit is None else limit},
            convert=_call,
        )

    def approvals(
        self, state: str | None = None, *, chat_id: str | None = None
    ) -> list[JsonObject]:
        """Return approvals, oldest first; only those in ``state`` or of a chat where it is given."""
        return self._read(
            """
            SELECT * FROM approvals
            WHERE (:state IS NULL OR state = :state) AND (:chat_id IS NULL OR chat_id = :chat_id)
            ORDER BY created_at, execution_id
            """,
            {"state": state, "chat_id": chat_id},
            convert=_row,
        )

    def manifest_files(self, chat: ChatStore, manifest_id: str) -> dict[str, str]:
        """Return a manifest's ``files``: the sha256, in hex, of every path (specification 1.6)."""
        files = chat.files(manifest_id)
        blobs = self.blobs(chat.id, {state.oid for state in files.values()})
        return {path: blobs[state.oid].sha256 for path, state in files.items()}

    def blobs(self, chat_id: str, oids: Collection[str]) -> dict[str, Blob]:
        """Return what is known of the content of a chat's files, by git's ids of it."""
        query = """
            SELECT oid, sha256, size FROM blobs
            WHERE chat_id = ? AND oid IN (SELECT value FROM json_each(?))
        """
        found = self._read(
            query,
            (chat_id, canonical_json.dumps(sorted(oids)).decode()),
            convert=lambda row: (row["oid"], Blob(row["sha256"], row["size"])),
        )
        return dict(found)


def _row(row: sqlite3.Row) -> JsonObject:
    values: dict[str, Any] = dict(row)
    for name in values.keys() & _BOOLEANS:
        values[name] = None if values[name] is None else bool(values[name])
    for name in values.keys() & _JSON:
        values[name] = None if values[name] is None else canonical_json.loads(values[name])
    return values


def _toolset_row(row: sqlite3.Row) -> JsonObject:
    values = _row(row)
    severities = [problem.severity for problem in _parsed_problems(values.pop("problems"))]
    return values | {name + "s": severities.count(name) for name in ("error", "warning")}


def _id(row: sqlite3.Row) -> str:
    return str(row["id"])


def _tool(row: sqlite3.Row) -> Tool:
    return _parsed_tool(row["definition"])


@lru_cache(maxsize=_MOST_TOOLS)
def _parsed_tool(definition: str) -> Tool:
    """Return the tool that a text defines; the same text is always the same tool."""
    return Tool.model_validate(canonical_json.loads(definition))


def _problems(row: sqlite3.Row) -> tuple[Problem, ...]:
    return _parsed_problems(row["problems"])


@lru_cache(maxsize=_MOST_TOOLS)
def _parsed_problems(problems: str) -> tuple[Problem, ...]:
    return tuple(Problem(**fields) for fields in canonical_json.loads(problems))


def _call(row: sqlite3.Row) -> ToolCall:
    values = _row(row)
    plan = values.pop("render_plan")
    parsed = None if plan is None else RenderPlan.model_validate(canonical_json.loads(plan))
    return ToolCall(**values, render_plan=parsed)
