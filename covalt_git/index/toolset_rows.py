"""Filling the index from the toolsets' files: only those that changed, in one transaction.

The same files give the same rows, whichever way they came in.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from covalt_git.grants.status import missing_grants
from covalt_git.index.database import Row, as_text, put, put_new, transaction
from covalt_git.index.search_text import searched_text
from covalt_git.index.toolset_signatures import ToolsetSignature, is_unchanged, read_with_signature
from covalt_git.manifests.override_keys import overridden_tool, override_key
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.toolset_state import LocalOverride
from covalt_git.names import ToolId
from covalt_git.system.fork_pool import each, ignore_progress

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from covalt_git.models.prompts import Prompt, Resource
    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset

Reading = tuple[Row, list[tuple[str, Row]]]
"""What was seen of a toolset, and its rows by their tables; none of an unsound one.

All of it is plain values: processes hand it to each other.
"""


def sync_toolsets(
    connection: sqlite3.Connection, root: Path, told: Callable[[int, int], None] = ignore_progress
) -> None:
    """Bring in the toolsets whose files changed, and forget those that are gone.

    ``told`` hears how many of those that changed have been read, and how many there are.
    """
    known = {
        row["toolset_id"]: ToolsetSignature(row["paths"], row["signature"])
        for row in connection.execute("SELECT toolset_id, paths, signature FROM toolset_readings")
    }
    ids = toolset_ids(root / "toolsets")
    changed = _changed(root / "toolsets", ids, known)
    gone = known.keys() - set(ids)
    if not changed and not gone:
        return
    readings: list[Reading] = []
    for reading in each(lambda toolset_id: _read(root, toolset_id), changed):
        readings.append(reading)
        told(len(readings), len(changed))
    with transaction(connection):
        for name in gone:
            connection.execute("DELETE FROM toolsets WHERE id = ?", (name,))
            connection.execute("DELETE FROM toolset_readings WHERE toolset_id = ?", (name,))
        for of_readings, of_toolset in readings:
            _write(connection, of_readings, of_toolset)


def _read(root: Path, toolset_id: str) -> Reading:
    seen, toolset = read_with_signature(root, toolset_id)
    return _reading_row(toolset, seen), _rows(toolset) if toolset.sound else []


def _changed(toolsets: Path, ids: list[str], known: dict[str, ToolsetSignature]) -> list[str]:
    if not ids:
        return []
    folder = os.open(toolsets, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return [name for name in ids if name not in known or not is_unchanged(folder, known[name])]
    finally:
        os.close(folder)


def _write(connection: sqlite3.Connection, reading: Row, rows: list[tuple[str, Row]]) -> None:
    """Write the rows of one toolset; an unsound one keeps those it had, and its problems."""
    put(connection, "toolset_readings", reading)
    if not rows:
        return
    connection.execute("DELETE FROM toolsets WHERE id = ?", (reading["toolset_id"],))
    put_rows(connection, rows)


def put_rows(connection: sqlite3.Connection, rows: Iterable[tuple[str, Row]]) -> None:
    """Write rows by their tables, those of a tool in the order of :func:`tool_rows`."""
    row_id = 0
    for table, row in rows:
        # What is searched of a tool comes next to it, and is found by the same row id.
        found_by = {"rowid": row_id} if table == "tool_search" else {}
        row_id = put_new(connection, table, found_by | row)


def _reading_row(toolset: Toolset, seen: ToolsetSignature) -> Row:
    return {
        "toolset_id": toolset.id,
        "signature": seen.signature,
        "sound": toolset.sound,
        "enabled": toolset.enabled,
        "lacks_grants": toolset.sound and bool(missing_grants(toolset)),
        "problems": as_text([asdict(problem) for problem in toolset.problems]),
        "tool_ids": as_text(toolset.tool_ids),
        "paths": seen.paths,
    }


def tool_rows(tool: Tool, owner: str, *, toolset_id: str | None) -> list[tuple[str, Row]]:
    """Return the rows of a tool, which is found by its owner's name too; None where no toolset has it."""
    definition = tool.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    row: Row = {
        "tool_id": tool.tool_id,
        "toolset_id": toolset_id,
        "name": tool.name,
        "description": tool.description,
        "input_schema": as_text(tool.input_schema),
        "requires_confirmation": tool.requires_confirmation,
        "enabled": tool.enabled,
        "entrypoint": tool.entrypoint,
        "path": tool.path,
        "definition": as_text(definition),
    }
    return [("tools", row), ("tool_search", searched_text(tool, owner))]


def _rows(toolset: Toolset) -> list[tuple[str, Row]]:
    """Return the rows of a sound toolset by their tables, those first that others refer to."""
    assert toolset.manifest is not None
    manifest, state = toolset.manifest, toolset.state
    rows: list[tuple[str, Row]] = []

    def add(table: str, row: Row) -> None:
        rows.append((table, row))

    add(
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
        add(
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
        rows += tool_rows(tool, manifest.name, toolset_id=toolset.id)
    for row in _override_rows(toolset):
        add("tool_overrides", row)
    given: dict[str, tuple[Prompt | Resource, ...]] = {
        "toolset_prompts": manifest.prompts,
        "toolset_resources": manifest.resources,
    }
    for table, declared in given.items():
        for one in declared:
            definition = as_text(one.model_dump(mode="json", exclude_defaults=True))
            row = {"id": str(ToolId(toolset.id, one.id)), "toolset_id": toolset.id}
            add(table, row | {"definition": definition})
    for server in manifest.mcp_servers:
        add(
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
    return rows


def _override_rows(toolset: Toolset) -> list[Row]:
    """Return the toolset's overrides, the old ``tools[].renderer`` among them, under the project's."""
    assert toolset.manifest is not None
    merged: dict[str, Row] = {}
    for tool in toolset.manifest.tools:
        if tool.renderer is not None:
            key = override_key(toolset.id, tool.id)
            merged[key] = {"renderer": tool.renderer.type, "renderer_config": tool.renderer.config}
    written: list[tuple[str, Any]] = [
        (overridden_tool(toolset.id, override.tool_id, toolset.state), override)
        for override in toolset.manifest.tool_overrides
    ]
    written += [
        (override_key(toolset.id, name), override)
        for name, override in toolset.state.overrides.items()
    ]
    for key, override in written:
        facts = override.model_dump(exclude_none=True, exclude={"tool_id"})
        if "renderer" in facts:  # it comes without what configured the one before
            facts.setdefault("renderer_config", None)
        merged[key] = merged.get(key, {}) | facts
    rows = []
    for key, facts in sorted(merged.items()):
        row: Row = {name: facts.get(name) for name in LocalOverride.model_fields}
        if row["renderer_config"] is not None:
            row["renderer_config"] = as_text(row["renderer_config"])
        own = key.removeprefix(f"{toolset.id}:")
        rows.append({"id": f"{toolset.id}/{own}", "toolset_id": toolset.id, "tool_id": key, **row})
    return rows
