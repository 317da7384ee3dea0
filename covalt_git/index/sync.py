"""Filling the index from the files and the chat stores: only what changed, one transaction each.

The same files and stores give the same rows, whichever way they came in.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git import canonical_json
from covalt_git.files.tools_in_force import override_key
from covalt_git.files.toolsets import (
    STATE_FOLDER,
    Toolset,
    read_toolset,
    toolset_ids,
)
from covalt_git.git_objects import BrokenStoreError
from covalt_git.index.database import DamagedError, transaction
from covalt_git.models.toolset_manifest import ToolOverride
from covalt_git.workspaces.chats import HEADS, finished_call, waiting_call

if TYPE_CHECKING:
    import sqlite3

    from covalt_git.models.calls import ToolCall
    from covalt_git.models.chats import WorkspaceManifest
    from covalt_git.workspaces.chats import Chats, ChatStore

Row = dict[str, Any]
Damaged = tuple[str, BrokenStoreError]

_TICK_NS = 20_000_000
"""More than the ticks of any kernel that we run on."""

_MOST_WAITS = 5


def sync_toolsets(connection: sqlite3.Connection, root: Path) -> None:
    """Bring in the toolsets whose files changed, and forget those that are gone."""
    known = {
        row["toolset_id"]: row["signature"]
        for row in connection.execute("SELECT toolset_id, signature FROM toolset_readings")
    }
    ids = toolset_ids(root / "toolsets")
    signatures = {toolset_id: _signature(root, toolset_id) for toolset_id in ids}
    changed = [name for name in ids if known.get(name) != signatures[name]]
    gone = known.keys() - set(ids)
    if not changed and not gone:
        return
    toolsets = [read_toolset(root, name) for name in changed]
    with transaction(connection):
        for name in gone:
            connection.execute("DELETE FROM toolsets WHERE id = ?", (name,))
            connection.execute("DELETE FROM toolset_readings WHERE toolset_id = ?", (name,))
        for toolset in toolsets:
            put_toolset(connection, toolset, signatures[toolset.id])


def put_toolset(connection: sqlite3.Connection, toolset: Toolset, signature: str) -> None:
    """Write the rows of one toolset; an unsound one keeps those it had, and its problems."""
    problems = [problem.as_json() for problem in toolset.problems]
    _put(
        connection,
        "toolset_readings",
        {
            "toolset_id": toolset.id,
            "signature": signature,
            "sound": toolset.sound,
            "problems": _json(problems),
        },
    )
    if not toolset.sound or toolset.manifest is None:
        return
    connection.execute("DELETE FROM toolsets WHERE id = ?", (toolset.id,))
    manifest, state = toolset.manifest, toolset.state
    _put(
        connection,
        "toolsets",
        {
            "id": toolset.id,
            "name": manifest.name,
            "version": manifest.version,
            "description": manifest.description,
            "enabled": toolset.enabled,
            "installed_at": state.installed_at,
            "source_type": state.source_type,
            "source_ref": state.source_ref,
            "manifest_version": manifest.manifest_version,
            "digest": toolset.digest,
        },
    )
    for file in toolset.files.files:
        _put(
            connection,
            "toolset_files",
            {
                "toolset_id": toolset.id,
                "path": file.path,
                "kind": file.kind,
                "sha256": file.sha256,
                "size": file.size,
                "stored_path": f"toolsets/{toolset.id}/{file.path}",
            },
        )
    for tool in toolset.tools:
        definition = tool.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        _put(
            connection,
            "tools",
            {
                "tool_id": tool.tool_id,
                "toolset_id": toolset.id,
                "name": tool.name,
                "description": tool.description,
                "input_schema": _json(tool.input_schema),
                "requires_confirmation": tool.requires_confirmation,
                "enabled": tool.enabled,
                "entrypoint": tool.entrypoint,
                "path": tool.path,
                "definition": _json(definition),
            },
        )
    for row in _override_rows(toolset):
        _put(connection, "tool_overrides", row)
    for server in manifest.mcp_servers:
        _put(
            connection,
            "toolset_mcp_servers",
            {
                "id": server.id,
                "toolset_id": toolset.id,
                "server_type": server.server_type,
                "enabled": toolset.enabled and server.enabled,
                "command": server.command,
                "args": _json(list(server.args)),
                "cwd": server.cwd,
                "url": server.url,
                "headers": _json(server.headers),
                "env": _json(server.env),
                "requires_confirmation": server.requires_confirmation,
                "created_at": state.installed_at,
            },
        )


def _override_rows(toolset: Toolset) -> list[Row]:
    """Return the toolset's overrides, the old ``tools[].renderer`` among them, under the project's."""
    assert toolset.manifest is not None
    merged: dict[str, Row] = {}
    for tool in toolset.manifest.tools:
        if tool.renderer is not None:
            key = override_key(toolset.id, tool.id)
            merged[key] = {"renderer": tool.renderer.type, "renderer_config": tool.renderer.config}
    written: list[tuple[str, Any]] = [
        (override.tool_id, override) for override in toolset.manifest.tool_overrides
    ]
    written += toolset.state.overrides.items()
    for tool_id, override in written:
        facts = override.model_dump(exclude_none=True, exclude={"tool_id"})
        if "renderer" in facts:  # it comes without what configured the one before
            facts.setdefault("renderer_config", None)
        key = override_key(toolset.id, tool_id)
        merged[key] = merged.get(key, {}) | facts
    fields = [name for name in ToolOverride.model_fields if name != "tool_id"]
    rows = []
    for key, facts in sorted(merged.items()):
        row: Row = {name: facts.get(name) for name in fields}
        if row["renderer_config"] is not None:
            row["renderer_config"] = _json(row["renderer_config"])
        own = key.removeprefix(f"{toolset.id}:")
        rows.append({"id": f"{toolset.id}/{own}", "toolset_id": toolset.id, "tool_id": key, **row})
    return rows


def _signature(root: Path, toolset_id: str) -> str:
    """Return a digest of what the file system says of a toolset's files without reading them.

    File systems keep time in ticks of some milliseconds: of a file that changed in this very tick,
    nothing would tell the next change.  So it waits until the newest of them is older than that.
    """
    lines, newest = _statuses(root, toolset_id)
    for _ in range(_MOST_WAITS):
        age = time.time_ns() - newest
        if not 0 <= age < _TICK_NS:
            break
        time.sleep((_TICK_NS - age) / 1e9)
        lines, newest = _statuses(root, toolset_id)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _statuses(root: Path, toolset_id: str) -> tuple[list[str], int]:
    """Return a line for everything that a toolset is read from, and when the newest changed."""
    folder = root / "toolsets" / toolset_id
    paths = [folder, root / "toolsets" / STATE_FOLDER / f"{toolset_id}.yaml"]
    for place, folders, files in os.walk(folder) if not folder.is_symlink() else ():
        folders[:] = [name for name in folders if name != "__pycache__"]
        paths += [Path(place, name) for name in (*folders, *files)]
    lines, newest = [], 0
    for path in sorted(paths):
        with contextlib.suppress(OSError):  # gone, or where nobody can look
            status = path.lstat()
            facts = [status.st_mode]
            if not stat.S_ISDIR(status.st_mode):  # what is in a folder has lines of its own
                facts += [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
                newest = max(newest, status.st_ctime_ns)
            lines.append(f"{path} {facts}")
    return lines, newest


def sync_chats(connection: sqlite3.Connection, chats: Chats) -> list[Damaged]:
    """Bring in the chats whose refs moved, and forget those that are gone.

    Returns the chats whose store is damaged, with why; they keep the rows they had.
    """
    ids = chats.ids()
    for row in connection.execute("SELECT id FROM chats").fetchall():
        if row["id"] not in ids:
            with transaction(connection):
                connection.execute("DELETE FROM chats WHERE id = ?", (row["id"],))
    damaged = []
    for chat_id in ids:
        try:
            with chats.open(chat_id) as chat:
                sync_chat(connection, chat)
        except BrokenStoreError as error:
            damaged.append((chat_id, error))
    return damaged


def sync_chat(connection: sqlite3.Connection, chat: ChatStore) -> None:
    """Bring in what happened in one chat since its refs were read last."""
    refs = {"HEAD": chat.store.head(), **chat.store.refs("refs/")}
    row = connection.execute("SELECT refs FROM chats WHERE id = ?", (chat.id,)).fetchone()
    before = _refs_read_last(row)
    if before == refs:
        return
    with transaction(connection):
        new = _new_manifests(connection, chat, refs, before)
        if new is None:
            connection.execute("DELETE FROM chats WHERE id = ?", (chat.id,))
            new = _new_manifests(connection, chat, refs, {}) or []
        _put_chat(connection, chat, refs)
        for manifest in reversed(new):
            _put_manifest(connection, chat, manifest)
        _put_waiting(connection, chat)


def _refs_read_last(row: sqlite3.Row | None) -> dict[str, str]:
    try:
        return dict(canonical_json.loads(row["refs"])) if row else {}
    except canonical_json.NotJsonError as error:
        raise DamagedError(f"refs that nobody wrote: {error}") from None


def _new_manifests(
    connection: sqlite3.Connection, chat: ChatStore, refs: dict[str, str], before: dict[str, str]
) -> list[WorkspaceManifest] | None:
    """Return the manifests that are not in the index, children first.

    None when some that are in it cannot be reached any more: then the chat is read anew.
    """
    known = {
        row["id"]
        for row in connection.execute(
            "SELECT id FROM workspace_manifests WHERE chat_id = ?", (chat.id,)
        )
    }
    heads = [oid for ref, oid in refs.items() if ref.startswith(HEADS)]
    met = set(heads)
    waiting, found = list(heads), {}
    while waiting:
        oid = waiting.pop()
        if oid in known or oid in found:
            continue
        found[oid] = chat.manifest(oid)
        met.update(found[oid].parents)
        waiting.extend(found[oid].parents)
    old_heads = {oid for ref, oid in before.items() if ref.startswith(HEADS)}
    if not old_heads <= met:
        return None
    return _children_first(found)


def _children_first(found: dict[str, WorkspaceManifest]) -> list[WorkspaceManifest]:
    """Return the manifests so that every child stands before its parents."""
    children = dict.fromkeys(found, 0)
    for manifest in found.values():
        for parent in manifest.parents:
            if parent in children:
                children[parent] += 1
    ready = sorted(oid for oid, count in children.items() if count == 0)
    ordered = []
    while ready:
        manifest = found[ready.pop()]
        ordered.append(manifest)
        for parent in manifest.parents:
            if parent in children:
                children[parent] -= 1
                if children[parent] == 0:
                    ready.append(parent)
    return ordered


def _put_chat(connection: sqlite3.Connection, chat: ChatStore, refs: dict[str, str]) -> None:
    about = chat.about()
    row = about.model_dump() | {"refs": _json(refs)}
    columns = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    changes = ", ".join(f"{name} = excluded.{name}" for name in row)
    connection.execute(
        f"INSERT INTO chats ({columns}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {changes}",  # noqa: S608 - names of our own model
        list(row.values()),
    )


def _put_manifest(
    connection: sqlite3.Connection, chat: ChatStore, manifest: WorkspaceManifest
) -> None:
    _put(
        connection,
        "workspace_manifests",
        {
            "id": manifest.id,
            "chat_id": chat.id,
            "parent_id": manifest.parent_id,
            "tree_id": manifest.tree_id,
            "created_at": manifest.created_at,
            "source": manifest.source,
            "source_ref": manifest.source_ref,
        },
    )
    for change in chat.changes(manifest.parent_id, manifest.id):
        if change.new is not None:
            _put_blob(connection, chat, change.new.oid)
    call = finished_call(manifest)
    if call is not None:
        _put_call(connection, call)


def _put_call(connection: sqlite3.Connection, call: ToolCall) -> None:
    row = call.as_json()
    for name in ("args", "result", "render_plan"):
        row[name] = None if row[name] is None else _json(row[name])
    _put(connection, "tool_calls", row)


def _put_blob(connection: sqlite3.Connection, chat: ChatStore, oid: str) -> None:
    query = "SELECT 1 FROM blobs WHERE chat_id = ? AND oid = ?"
    if connection.execute(query, (chat.id, oid)).fetchone():
        return
    content = chat.store.read_blob(oid)
    digest = hashlib.sha256(content).hexdigest()
    row = {"chat_id": chat.id, "oid": oid, "sha256": digest, "size": len(content)}
    _put(connection, "blobs", row)


def _put_waiting(connection: sqlite3.Connection, chat: ChatStore) -> None:
    """Write the calls that wait or run, and all approvals, in place of those that were there."""
    connection.execute(
        "DELETE FROM tool_calls WHERE chat_id = ? AND status IN ('pending', 'running')", (chat.id,)
    )
    connection.execute("DELETE FROM approvals WHERE chat_id = ?", (chat.id,))
    done = "SELECT 1 FROM tool_calls WHERE chat_id = ? AND id = ?"
    for call in chat.calls():
        if connection.execute(done, (chat.id, call.id)).fetchone():
            continue  # its commit is there, only the process died before it forgot the ref
        _put_call(connection, waiting_call(call))
    for approval in chat.approvals():
        _put(
            connection,
            "approvals",
            {
                "execution_id": approval.execution_id,
                "call_id": approval.call_id,
                "chat_id": chat.id,
                "tool_id": approval.tool_id,
                "args": _json(approval.args),
                "reasons": _json(list(approval.reasons)),
                "state": approval.state,
                "requested_by": approval.by,
                "created_at": approval.created_at,
                "expires_at": approval.expires_at,
                "decided_by": approval.decided_by,
                "decided_at": approval.decided_at,
            },
        )


def _put(connection: sqlite3.Connection, table: str, row: Row) -> None:
    columns = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    statement = f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 - our own names
    connection.execute(statement, list(row.values()))


def _json(value: Any) -> str:
    return canonical_json.dumps(value).decode()
