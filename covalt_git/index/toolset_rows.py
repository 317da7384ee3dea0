"""Rows of toolsets in the index: synchronized from their files, in one transaction.

Only changed toolsets are read.  The rows depend on the files alone, not on the order of synchronizations.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from covalt_git.grants.status import missing_grants
from covalt_git.index.database import Row, as_text, put, put_new, transaction
from covalt_git.index.search_text import searchable_text
from covalt_git.index.toolset_signatures import (
    ToolsetSignature,
    changed_toolsets,
    read_with_signature,
)
from covalt_git.manifests.override_keys import (
    declared_with_aliases,
    overridden_tool,
    override_key,
)
from covalt_git.manifests.toolset_files import toolset_folder, toolset_ids
from covalt_git.models.toolset_state import LocalOverride
from covalt_git.names import BUILTIN_NAMESPACE, ToolId
from covalt_git.system.fork_pool import each, ignore_progress
from covalt_git.toolsets.builtin_tools import BUILTINS, NAME

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.prompts import Prompt, Resource
    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset

_IS_BUILTIN = f"tool_id BETWEEN '{BUILTIN_NAMESPACE}:' AND '{BUILTIN_NAMESPACE};'"
"""SQL condition for the built-in tools, by the primary key, which also gives their order."""

Reading = tuple[Row, list[tuple[str, Row]]]
"""Row of a toolset in ``toolset_readings``, and its other rows by table; none if it has errors.

All values can be pickled, because processes exchange them.
"""


def sync_toolsets(
    connection: sqlite3.Connection,
    root: Path,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> None:
    """Update the rows of toolsets whose files changed, and delete the rows of deleted toolsets.

    ``on_progress`` is called with the number of changed toolsets that were read, and of all changed ones.
    """
    indexed = {
        row["toolset_id"]: ToolsetSignature(row["paths"], row["signature"])
        for row in connection.execute("SELECT toolset_id, paths, signature FROM toolset_readings")
    }
    ids = toolset_ids(root / "toolsets")
    changed = changed_toolsets(root / "toolsets", ids, indexed)
    deleted = indexed.keys() - set(ids)
    builtin = _builtin_rows()
    has_builtin = _stored_builtin(connection) == [row["definition"] for _, row in builtin[::2]]
    if not changed and not deleted and has_builtin:
        return
    # Before the transaction: the files of thousands of toolsets take seconds, and other writers would wait.
    readings: list[Reading] = []
    for reading in each(lambda toolset_id: _read(root, toolset_id), changed):
        readings.append(reading)
        on_progress(len(readings), len(changed))
    with transaction(connection):
        if not has_builtin:
            connection.execute(f"DELETE FROM tools WHERE {_IS_BUILTIN}")  # noqa: S608 - our own words
            put_rows(connection, builtin)
        for name in deleted:
            connection.execute("DELETE FROM toolsets WHERE id = ?", (name,))
            connection.execute("DELETE FROM toolset_readings WHERE toolset_id = ?", (name,))
        for of_readings, of_toolset in readings:
            _write(connection, of_readings, of_toolset)


def _stored_builtin(connection: sqlite3.Connection) -> list[str]:
    """Return the definitions of the built-in tools in the index, which another version may have written."""
    query = f"SELECT definition FROM tools WHERE {_IS_BUILTIN} ORDER BY tool_id"  # noqa: S608 - our own words
    return [str(row["definition"]) for row in connection.execute(query)]


@cache
def _builtin_rows() -> list[tuple[str, Row]]:
    """Return the rows of the built-in tools: for each tool its row, and its searchable text."""
    every = sorted(BUILTINS.values(), key=lambda tool: tool.tool_id)
    return [row for tool in every for row in tool_rows(tool, NAME, toolset_id=None)]


def _read(root: Path, toolset_id: str) -> Reading:
    signature, toolset = read_with_signature(root, toolset_id)
    return _reading_row(toolset, signature), _rows(toolset) if toolset.sound else []


def _write(connection: sqlite3.Connection, reading: Row, rows: list[tuple[str, Row]]) -> None:
    """Write the rows of a toolset; a toolset with errors keeps its old rows, except in ``toolset_readings``."""
    put(connection, "toolset_readings", reading)
    if not rows:
        return
    # Its tools, files and servers are deleted with it (ON DELETE CASCADE), also those that it does not have any more.
    connection.execute("DELETE FROM toolsets WHERE id = ?", (reading["toolset_id"],))
    put_rows(connection, rows)


def put_rows(connection: sqlite3.Connection, rows: Iterable[tuple[str, Row]]) -> None:
    """Write rows to their tables; the rows of a tool are in the order of :func:`tool_rows`."""
    row_id = 0
    for table, row in rows:
        # The searchable text of a tool is the next row, with the same row id: a trigger deletes it by that id.
        key = {"rowid": row_id} if table == "tool_search" else {}
        row_id = put_new(connection, table, key | row)


def _reading_row(toolset: Toolset, signature: ToolsetSignature) -> Row:
    return {
        "toolset_id": toolset.id,
        "signature": signature.signature,
        "sound": toolset.sound,
        "enabled": toolset.enabled,
        "lacks_grants": toolset.sound and bool(missing_grants(toolset)),
        "problems": as_text([asdict(problem) for problem in toolset.problems]),
        "tool_ids": as_text(toolset.tool_ids),
        "paths": signature.paths,
        "namespaces": as_text(declared_with_aliases(toolset.manifest, toolset.state)),
        "installed_at": toolset.state.installed_at,
    }


def tool_rows(tool: Tool, owner: str, *, toolset_id: str | None) -> list[tuple[str, Row]]:
    """Return the rows of a tool; ``owner`` is searchable, and ``toolset_id`` None for a builtin tool."""
    tool = _as_listed(tool)
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
    return [("tools", row), ("tool_search", searchable_text(tool, owner))]


def _as_listed(tool: Tool) -> Tool:
    """Return a tool of a document with schemas of the size of a list: calls, ``tool show`` and ``read_tool`` have the whole.

    Its definitions would otherwise be stored and sent once for each of hundreds of tools.
    """
    if tool.source is None:
        return tool
    from covalt_git.compilers.schema_cut import MAX_INPUT, MAX_OUTPUT, cut_schema  # noqa: PLC0415 - only documents need it

    def cut(schema: JsonObject, limit: int) -> JsonObject:
        body = {key: value for key, value in schema.items() if key != "$defs"}
        return cut_schema(body, schema.get("$defs", {}), limit)

    output = tool.output_schema
    return tool.model_copy(
        update={
            "input_schema": cut(tool.input_schema, MAX_INPUT),
            "output_schema": None if output is None else cut(output, MAX_OUTPUT),
        }
    )


def _rows(toolset: Toolset) -> list[tuple[str, Row]]:
    """Return the rows of a toolset without errors and their tables, in the order of foreign keys."""
    assert toolset.manifest is not None
    manifest, state = toolset.manifest, toolset.state
    rows: list[tuple[str, Row]] = []

    def add(table: str, row: Row) -> None:
        rows.append((table, row))

    add(
        "toolsets",
        {
            **manifest.model_dump(include={"name", "version", "description", "manifest_version"}),
            **state.model_dump(include={"installed_at", "source_type", "source_ref"}),
            "id": toolset.id,
            "enabled": toolset.enabled,
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
                "stored_path": f"toolsets/{toolset_folder(toolset.id)}/{file.path}",
            },
        )
    for tool in toolset.tools:
        rows += tool_rows(tool, manifest.name, toolset_id=toolset.id)
    for row in _override_rows(toolset):
        add("tool_overrides", row)
    declarations: dict[str, tuple[Prompt | Resource, ...]] = {
        "toolset_prompts": manifest.prompts,
        "toolset_resources": toolset.resources,
    }
    for table, declared in declarations.items():
        for item in declared:
            definition = as_text(item.model_dump(mode="json", exclude_defaults=True))
            row = {"id": str(ToolId(toolset.id, item.id)), "toolset_id": toolset.id}
            add(table, row | {"definition": definition})
    for server in manifest.mcp_servers:
        add(
            "toolset_mcp_servers",
            {
                **server.model_dump(
                    include={"id", "command", "cwd", "url", "requires_confirmation"}
                ),
                "toolset_id": toolset.id,
                "server_type": server.server_type,
                "enabled": toolset.enabled and server.enabled,
                "args": as_text(list(server.args)),
                "headers": as_text(server.headers),
                "env": as_text(server.env),
                "created_at": state.installed_at,
            },
        )
    return rows


def _override_rows(toolset: Toolset) -> list[Row]:
    """Return the merged overrides: old ``tools[].renderer``, then the toolset's, then the project's."""
    assert toolset.manifest is not None
    merged: dict[str, Row] = {}
    for tool in toolset.manifest.tools:
        if tool.renderer is not None:
            key = override_key(toolset.id, tool.id)
            merged[key] = {"renderer": tool.renderer.type, "renderer_config": tool.renderer.config}
    overrides: list[tuple[str, Any]] = [
        (overridden_tool(toolset.id, override.tool_id, toolset.state), override)
        for override in toolset.manifest.tool_overrides
    ]
    overrides += [
        (override_key(toolset.id, name), override)
        for name, override in toolset.state.overrides.items()
    ]
    for key, override in overrides:
        values = override.model_dump(exclude_none=True, exclude={"tool_id"})
        if "renderer" in values:  # it resets the configuration of the previous renderer
            values.setdefault("renderer_config", None)
        merged[key] = merged.get(key, {}) | values
    rows = []
    for key, values in sorted(merged.items()):
        row: Row = {name: values.get(name) for name in LocalOverride.model_fields}
        for name in ("renderer_config", "callers"):
            if row[name] is not None:
                row[name] = as_text(row[name])
        own = key.removeprefix(f"{toolset.id}:")
        rows.append({"id": f"{toolset.id}/{own}", "toolset_id": toolset.id, "tool_id": key, **row})
    return rows
