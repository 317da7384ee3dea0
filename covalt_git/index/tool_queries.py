"""Queries of the index about toolsets and their tools."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from covalt_git.errors import Problem
from covalt_git.index import search, toolset_rows
from covalt_git.index.synced_index import SyncedIndex, row_values
from covalt_git.json_values import canonical_json
from covalt_git.manifests.override_keys import Claimant
from covalt_git.models.prompts import Prompt, Resource, ToolsetItem
from covalt_git.models.tool import Tool
from covalt_git.names import BUILTIN_NAMESPACE

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.override_keys import Namespace
    from covalt_git.models.prompts import Item

_MOST_TOOLS = 1 << 14
"""Maximum number of parsed tools, and of parsed lists of problems, in memory."""


@dataclass(slots=True)
class ToolQueries(SyncedIndex):
    """Queries about toolsets: tools, prompts, resources, MCP servers, files and problems."""

    def synchronize(self) -> None:
        """Update the rows of changed toolsets."""
        toolset_rows.sync_toolsets(self.connection, self.root, self.on_progress)

    def sync_toolsets(self) -> None:
        """Update the rows of changed toolsets; rebuild the index if it is damaged."""
        self.with_recovery(lambda: ToolQueries.synchronize(self))

    def toolsets(self) -> list[JsonObject]:
        """Return the rows of all toolsets, with their numbers of tools, errors and warnings.

        If a toolset has errors, its other columns are from its last version without errors.
        """
        return self._toolsets("TRUE", ())

    def toolset_row(self, toolset_id: str) -> JsonObject | None:
        """Return the row of a toolset as in :meth:`toolsets`, or None."""
        return next(iter(self._toolsets("r.toolset_id = ?", (toolset_id,))), None)

    def _toolsets(self, where: str, values: Sequence[str]) -> list[JsonObject]:
        return self.read(
            f"""
            SELECT r.toolset_id AS id, t.name, t.version, t.description,
                   r.enabled, r.lacks_grants, t.installed_at, t.source_type, t.source_ref,
                   t.manifest_version, t.digest, r.sound, r.problems,
                   (SELECT count(*) FROM tools WHERE toolset_id = r.toolset_id) AS tools
            FROM toolset_readings AS r LEFT JOIN toolsets AS t ON t.id = r.toolset_id
            WHERE {where} ORDER BY r.toolset_id
            """,  # noqa: S608 - our own words
            values,
            convert=_toolset_row,
        )

    def toolset_tools(self) -> dict[str, list[str] | None]:
        """Return the ids of the tools that each toolset declares now, with errors or not.

        They are None if the manifest of a toolset cannot be read.
        """
        pairs = self.read(
            "SELECT toolset_id, tool_ids FROM toolset_readings ORDER BY toolset_id",
            convert=lambda row: (row["toolset_id"], canonical_json.loads(row["tool_ids"])),
        )
        return dict(pairs)

    def namespaces(self) -> list[tuple[str, tuple[Namespace, ...]]]:
        """Return the ids of all toolsets with the namespaces of their servers and sources."""
        return [(claimant.id, claimant.namespaces) for claimant in self.claimants()]

    def claimants(self) -> list[Claimant]:
        """Return all toolsets with the namespaces of their servers and sources."""
        return self.read(
            """
            SELECT toolset_id, enabled, installed_at, namespaces
            FROM toolset_readings ORDER BY toolset_id
            """,
            convert=lambda row: Claimant(
                row["toolset_id"],
                bool(row["enabled"]),
                row["installed_at"],
                tuple(
                    (tuple(place), name, named)
                    for place, name, named in canonical_json.loads(row["namespaces"])
                ),
            ),
        )

    def toolsets_with_server(self, server_id: str) -> list[str]:
        query = "SELECT toolset_id FROM toolset_mcp_servers WHERE id = ? ORDER BY toolset_id"
        return self.read(query, (server_id,), convert=lambda row: str(row["toolset_id"]))

    def tools(self, toolset_id: str | None = None) -> list[Tool]:
        """Return the tools of all toolsets or of one, and the built-in ones, sorted by id.

        If a toolset has errors, its tools are from its last version without errors.
        """
        query = (
            "SELECT definition FROM tools WHERE ? IN (ifnull(toolset_id, ?), '') ORDER BY tool_id"
        )
        return self.read(query, (toolset_id or "", BUILTIN_NAMESPACE), convert=_tool)

    def tool(self, tool_id: str) -> Tool | None:
        query = "SELECT definition FROM tools WHERE tool_id = ?"
        return next(iter(self.read(query, (tool_id,), convert=_tool)), None)

    def search(self, text: str, is_wanted: Callable[[str], bool], limit: int) -> list[str]:
        """Return the ids of at most ``limit`` tools that match a query, as :func:`.search.find` does."""
        return self.with_recovery(lambda: search.find(self.connection, text, is_wanted, limit))

    def prompts(self) -> list[ToolsetItem[Prompt]]:
        """Return the prompts of enabled toolsets without errors, sorted by id."""
        return self._read_declarations("toolset_prompts", Prompt)

    def resources(self) -> list[ToolsetItem[Resource]]:
        """Return the resources of enabled toolsets without errors, sorted by id."""
        return self._read_declarations("toolset_resources", Resource)

    def _read_declarations(self, table: str, model: type[Item]) -> list[ToolsetItem[Item]]:
        return self.read(
            f"""
            SELECT g.*, t.digest FROM {table} AS g
            JOIN toolset_readings AS r USING (toolset_id) JOIN toolsets AS t ON t.id = toolset_id
            WHERE r.enabled AND r.sound ORDER BY g.id
            """,  # noqa: S608 - our own words
            convert=lambda row: ToolsetItem(
                row["id"],
                row["toolset_id"],
                row["digest"],
                model.model_validate_json(row["definition"]),
            ),
        )

    def mcp_servers(self) -> list[JsonObject]:
        """Return the declared MCP servers of all toolsets, with references instead of secrets."""
        query = "SELECT * FROM toolset_mcp_servers ORDER BY toolset_id, id"
        return self.read(query, convert=row_values)

    def toolset_files(self, toolset_id: str) -> list[JsonObject]:
        query = "SELECT * FROM toolset_files WHERE toolset_id = ? ORDER BY path"
        return self.read(query, (toolset_id,), convert=row_values)

    def problems(self, toolset_id: str | None = None) -> list[Problem]:
        """Return the problems of all toolsets or of one, from the last read."""
        query = """
            SELECT problems FROM toolset_readings WHERE ? IN (toolset_id, '') ORDER BY toolset_id
        """
        lists = self.read(
            query,
            (toolset_id or "",),
            convert=lambda row: _parsed_problems(row["problems"]),
        )
        return [problem for problems in lists for problem in problems]


def _toolset_row(row: sqlite3.Row) -> JsonObject:
    values = row_values(row)
    severities = [problem.severity for problem in _parsed_problems(values.pop("problems"))]
    return values | {name + "s": severities.count(name) for name in ("error", "warning")}


def _tool(row: sqlite3.Row) -> Tool:
    return _parsed_tool(row["definition"])


# By the text itself: a changed row has another text, so no entry can be outdated.
@lru_cache(maxsize=_MOST_TOOLS)
def _parsed_tool(definition: str) -> Tool:
    """Parse a tool; the same text returns the same object."""
    return Tool.model_validate(canonical_json.loads(definition))


@lru_cache(maxsize=_MOST_TOOLS)
def _parsed_problems(problems: str) -> tuple[Problem, ...]:
    return tuple(Problem(**fields) for fields in canonical_json.loads(problems))
