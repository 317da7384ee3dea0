"""Filling the index from the toolsets' files: only those that changed, in one transaction.

The same files give the same rows, whichever way they came in.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from covalt_git.files.tools_in_force import override_key
from covalt_git.files.toolsets import Toolset, read_toolset, toolset_ids
from covalt_git.index.database import Row, as_text, put, transaction
from covalt_git.index.search import put_text
from covalt_git.index.signatures import Seen, is_as_seen, see
from covalt_git.models.toolset_manifest import ToolOverride

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path


def sync_toolsets(connection: sqlite3.Connection, root: Path) -> None:
    """Bring in the toolsets whose files changed, and forget those that are gone."""
    known = {
        row["toolset_id"]: Seen(row["paths"], row["signature"])
        for row in connection.execute("SELECT toolset_id, paths, signature FROM toolset_readings")
    }
    ids = toolset_ids(root / "toolsets")
    changed = _changed(root / "toolsets", ids, known)
    gone = known.keys() - set(ids)
    if not changed and not gone:
        return
    # What changes while it is read changes its signature too.
    seen = {toolset_id: see(root / "toolsets", toolset_id) for toolset_id in changed}
    toolsets = [read_toolset(root, toolset_id) for toolset_id in changed]
    with transaction(connection):
        for name in gone:
            connection.execute("DELETE FROM toolsets WHERE id = ?", (name,))
            connection.execute("DELETE FROM toolset_readings WHERE toolset_id = ?", (name,))
        for toolset in toolsets:
            put_toolset(connection, toolset, seen[toolset.id])


def _changed(toolsets: Path, ids: list[str], known: dict[str, Seen]) -> list[str]:
    if not ids:
        return []
    folder = os.open(toolsets, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return [name for name in ids if name not in known or not is_as_seen(folder, known[name])]
    finally:
        os.close(folder)


def put_toolset(connection: sqlite3.Connection, toolset: Toolset, seen: Seen) -> None:
    """Write the rows of one toolset; an unsound one keeps those it had, and its problems."""
    problems = [problem.as_json() for problem in toolset.problems]
    put(
        connection,
        "toolset_readings",
        {
            "toolset_id": toolset.id,
            "signature": seen.signature,
            "sound": toolset.sound,
            "enabled": toolset.enabled,
            "problems": as_text(problems),
            "tool_ids": as_text(toolset.tool_ids),
            "paths": seen.paths,
        },
    )
    if not toolset.sound or toolset.manifest is None:
        return
    connection.execute("DELETE FROM toolsets WHERE id = ?", (toolset.id,))
    manifest, state = toolset.manifest, toolset.state
    put(
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
        put(
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
        row_id = put(
            connection,
            "tools",
            {
                "tool_id": tool.tool_id,
                "toolset_id": toolset.id,
                "name": tool.name,
                "description": tool.description,
                "input_schema": as_text(tool.input_schema),
                "requires_confirmation": tool.requires_confirmation,
                "enabled": tool.enabled,
                "entrypoint": tool.entrypoint,
                "path": tool.path,
                "definition": as_text(definition),
            },
        )
        put_text(connection, row_id, tool, manifest.name)
    for row in _override_rows(toolset):
        put(connection, "tool_overrides", row)
    for server in manifest.mcp_servers:
        put(
            connection,
            "toolset_mcp_servers",
            {
                "id": server.id,
                "toolset_id": toolset.id,
                "server_type": server.server_type,
                "enabled": toolset.enabled and server.enabled,
                "command": server.command,
                "args": as_text(list(server.args)),
                "cwd": server.cwd,
                "url": server.url,
                "headers": as_text(server.headers),
                "env": as_text(server.env),
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
            row["renderer_config"] = as_text(row["renderer_config"])
        own = key.removeprefix(f"{toolset.id}:")
        rows.append({"id": f"{toolset.id}/{own}", "toolset_id": toolset.id, "tool_id": key, **row})
    return rows
