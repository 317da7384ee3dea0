"""Catalog of the effective tools that a principal may see.

A tool that the principal's role may not call is reported as unknown, with the same error as a missing one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access import NamedTool, Visibility, sees_everything
from covalt_git.access.security import security_refusal
from covalt_git.access.visibility import HiddenTargetError
from covalt_git.catalog import toolset_cache
from covalt_git.checks.effects import may_destroy
from covalt_git.errors import CovaltError, UnknownNameError, nearest_name
from covalt_git.index.database import IndexUnusableError
from covalt_git.index.tool_queries import ToolQueries
from covalt_git.json_values import canonical_json
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.held_back import CORRECTS_SCHEMA, WHY_HELD_BACK
from covalt_git.names import BUILTIN_NAMESPACE, REGISTRY_NAMESPACE, BadNameError, ToolId
from covalt_git.toolsets.builtin_tools import BUILTINS

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from covalt_git.errors import Problem
    from covalt_git.models.prompts import Prompt, Resource, ToolsetItem
    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset


class BrokenToolsetError(CovaltError):
    """A tool cannot be called because its toolset has errors."""

    code = "broken_toolset"
    http_status = 409


class DisabledToolError(CovaltError):
    """A tool is disabled."""

    code = "tool_disabled"
    http_status = 403


class Found(NamedTuple):
    """A tool and its toolset, both read from the files.

    ``alias`` is the registered tool that was found and forwards its calls to ``tool``.
    """

    tool: Tool
    toolset: Toolset
    alias: Tool | None = None

    @property
    def tool_id(self) -> str:
        """The id by which it is called."""
        return (self.alias or self.tool).tool_id

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The alias, if any, and the tool."""
        return (self.tool,) if self.alias is None else (self.alias, self.tool)

    @property
    def definition_digest(self) -> str:
        """Digest of the definition and the code, for approvals."""
        if self.alias is None:
            return self.tool.definition_digest
        both = [self.alias.definition_digest, self.tool.definition_digest]
        return canonical_json.digest(both)


def _toolset_of(root: Path, tool_id: ToolId) -> Toolset | None:
    """Return the toolset that has the namespace of a tool id: the toolset's id, or the namespace of a server in it.

    The toolset need not have the tool.
    """
    ids = toolset_ids(root / "toolsets")
    named = tool_id.namespace
    if named == BUILTIN_NAMESPACE:
        return toolset_cache.toolset(root, named)
    # A toolset with this id comes first: the server of another toolset must not take over the names of its tools.
    owner = named if named in ids else toolset_cache.owner_of(root, named)
    return None if owner is None or owner not in ids else toolset_cache.toolset(root, owner, ids)


def _disabled(entry: Found) -> DisabledToolError:
    tool, toolset = entry.tool, entry.toolset
    what, hint = f"{tool.tool_id} is disabled", f"covalt-git tool enable {tool.tool_id}"
    if not toolset.enabled:
        hint = f"covalt-git toolset enable {toolset.id}"
    elif _source_is_off(entry):
        key = "mcp_servers" if tool.server else "sources"
        owner = f"MCP server {tool.server!r}" if tool.server else f"source {tool.source!r}"
        what += f": its {owner} is off"
        hint = f"set enabled: true for it under {key} in toolsets/{toolset.id}/toolset.yaml"
    elif tool.held_back is not None and toolset.id == REGISTRY_NAMESPACE:
        what += f": {WHY_HELD_BACK[tool.held_back]}"
        hint = f"covalt-git grant add {toolset.id} tool {tool.id.name}"
        if tool.held_back == "no_request":
            hint = "add protocol_meta.http.url or protocol_meta.mcp.tool to the entry"
    elif tool.held_back == "schema":
        what += f": {WHY_HELD_BACK[tool.held_back]}"
        hint = CORRECTS_SCHEMA
    elif tool.held_back is not None:
        what += f": {WHY_HELD_BACK[tool.held_back]}"
        source = f"{toolset.id}/{tool.id.namespace}"
        hint = f"covalt-git source diff {source}"
        if tool.held_back != "task":
            hint += f"\ncovalt-git source accept {source} {tool.id.name}"
    return DisabledToolError(what, hint=hint)


def _source_is_off(entry: Found) -> bool:
    manifest = entry.toolset.manifest
    sources = manifest.tool_sources if manifest is not None else ()
    named = entry.tool.server or entry.tool.source
    return any(source.id == named and not source.enabled for source in sources)


@dataclass(frozen=True, slots=True)
class Catalog(Visibility):
    """The tools of a project that one principal may see and call."""

    root: Path

    def search(
        self, index: ToolQueries, text: str, *, limit: int, toolset_id: str = ""
    ) -> list[Tool]:
        """Return at most ``limit`` visible tools that match a query, best first; the index is not synced.

        With a ``toolset_id``, only tools of that toolset.
        """
        own = {tool.tool_id for tool in index.tools(toolset_id)} if toolset_id else None

        def is_candidate(tool_id: str) -> bool:
            return (own is None or tool_id in own) and self.sees(tool_id)

        tools = [index.tool(tool_id) for tool_id in index.search(text, is_candidate, limit)]
        return self.visible(tool for tool in tools if tool is not None)

    def prompts(self, index: ToolQueries) -> list[ToolsetItem[Prompt]]:
        """Return the prompts that the principal may see, by their ids."""
        return [item for item in index.prompts() if self.sees(item.id)]

    def resources(self, index: ToolQueries) -> list[ToolsetItem[Resource]]:
        """Return the resources that the principal may see, by their ids."""
        return [item for item in index.resources() if self.sees(item.id)]

    def find_toolset(self, toolset_id: str) -> Toolset:
        """Return a toolset from the files.

        Raises:
            UnknownNameError: with the most similar name among the visible toolsets.
        """
        if toolset_id in toolset_ids(self.root / "toolsets"):
            toolset = toolset_cache.toolset(self.root, toolset_id)
            if self.sees_one_of(toolset_id, toolset.tool_ids):
                return toolset
        visible = [name for name, ids in self._tool_ids().items() if self.sees_one_of(name, ids)]
        raise UnknownNameError("toolset", toolset_id, visible, list_with="covalt-git toolset list")

    def find(self, text: str, *, despite: Collection[str] = ()) -> Found:
        """Return the tool that ``text`` names, from the files.

        ``despite`` are the codes of errors that its toolset may have.

        Raises:
            UnknownNameError: with the most similar id among the visible tools.
            BrokenToolsetError: if the toolset has errors; lists them if all its tools are visible.
        """
        try:
            tool_id = ToolId.parse(text)
        except BadNameError:
            raise self._unknown(text) from None
        toolset = _toolset_of(self.root, tool_id)
        if toolset is None:
            raise self._unknown(text)
        tool = toolset.tool(str(tool_id))
        # If the tool would not be visible, its toolset's errors are not shown either.
        seen = self.decide("see", tool or NamedTool(str(tool_id))).allowed
        errors = toolset.error_codes
        if not seen or (tool is None and not errors):
            is_gone = seen and str(tool_id) in toolset.state.accepted
            raise self._unknown(text, accepted_in=toolset.id if is_gone else "")
        if tool is None or not errors <= {*despite}:
            raise BrokenToolsetError(
                f"the toolset {toolset.id!r} has errors, so none of its tools can be used",
                hint="covalt-git validate",
                problems=self._visible_errors(toolset),
            )
        return Found(tool, toolset)

    def title_of(self, text: str) -> str | None:
        """Return the name of the tool that ``text`` names; None if it is not visible or cannot be read."""
        try:
            tool_id = ToolId.parse(text)
        except BadNameError:
            return None
        toolset = _toolset_of(self.root, tool_id)
        tool = toolset.tool(text) if toolset is not None else None
        return tool.name if tool is not None and self.decide("see", tool).allowed else None

    def find_called(self, text: str) -> Found:
        """Return the tool that ``text`` names; for an alias, the tool to which it forwards calls.

        Raises:
            CovaltError: as :meth:`find`, for the alias or its tool.
        """
        entry = self.find(text)
        if entry.tool.alias_of is None:
            return entry
        return self.find(self._target(entry.tool))._replace(alias=entry.tool)

    def target(self, tool: Tool) -> str | None:
        """Return the id of the tool to which an alias forwards calls, if the principal may see a tool of that id."""
        return tool.alias_of if tool.alias_of is not None and self.sees(tool.alias_of) else None

    def sees_all_in(self, toolset: Toolset) -> bool:
        """Return whether the principal may see all tools of a toolset, and those that its aliases call.

        Only then may the toolset's files, grants and errors be shown, which name them.
        """
        aliases = [tool for tool in toolset.tools if tool.alias_of is not None]
        return self.sees_all_of(toolset.id, toolset.tool_ids) and all(map(self.target, aliases))

    def called(self, tool: Tool) -> tuple[Tool, ...]:
        """Return a tool and, for an alias, the tool to which it forwards calls, if that is visible."""
        if tool.alias_of is None:
            return (tool,)
        try:
            return self.find_called(tool.tool_id).tools
        except CovaltError:
            return (tool,)

    def with_target(self, tool: Tool) -> Tool:
        """Return a tool; an alias without a schema of its own has the schemas of the tool that it calls."""
        *aliases, target = self.called(tool)
        if not aliases or tool.schema_is_declared:
            return tool
        fields = ("input_schema", "output_schema", "annotations")
        return tool.model_copy(update={name: getattr(target, name) for name in fields})

    def find_callable(self, text: str, *, despite: Collection[str] = ()) -> Found:
        """Return the tool that ``text`` names, if the principal may call it; for an alias, both must be callable.

        ``despite`` are the codes of errors that its toolset may have.

        Raises:
            DisabledToolError: if the tool or its toolset is disabled.
            TokenRefusedError: if the ``security`` block of the tool refuses the principal's protocol or token.
            CovaltError: as :meth:`find`.
        """
        entry = self.find(text, despite=despite)
        if not self.may_call(entry.tool).allowed:
            refusal = security_refusal(entry.tool, self.principal.protocol, self.principal.token)
            raise (entry.tool.enabled and refusal) or _disabled(entry)
        if entry.tool.alias_of is None:
            return entry
        # The target is found as if the principal called it: an alias must not make a tool callable that the role may
        # not call.
        target = self._target(entry.tool)
        return self.find_callable(target, despite=despite)._replace(alias=entry.tool)

    def _target(self, alias: Tool) -> str:
        """Return the id of the tool that an alias calls.

        Raises:
            HiddenTargetError: if that tool is hidden; the error does not name it.
        """
        target = self.target(alias)
        if target is None:
            raise HiddenTargetError(
                f"{alias.tool_id} forwards its calls to a tool that does not exist",
                hint="list the tools that exist with `covalt-git tool list`",
            )
        return target

    def _visible_errors(self, toolset: Toolset) -> list[Problem]:
        """Return the toolset's errors; none if one of them may name a hidden tool."""
        if not self.sees_all_in(toolset):
            return []
        return [problem for problem in toolset.problems if problem.severity == "error"]

    def _tool_ids(self) -> dict[str, list[str] | None]:
        """Return the tool ids of each toolset from the index, for suggestions in error messages."""
        try:
            with ToolQueries.open(self.root, self.config.workspace) as index:
                index.sync_toolsets()
                return index.toolset_tools()
        except IndexUnusableError:
            return {}

    def _unknown(self, text: str, *, accepted_in: str = "") -> UnknownNameError:
        """Return the error of an unknown tool; ``accepted_in`` is the toolset in which it is still accepted."""
        every = [tool_id for ids in self._tool_ids().values() for tool_id in ids or ()]
        every += BUILTINS
        visible = [tool_id for tool_id in every if self.sees(tool_id)]
        # Usually one half of the id is right, which leaves few ids to compare.
        namespace, _, name = text.partition(":")
        likely = [
            tool_id
            for tool_id in visible
            if tool_id.startswith(f"{namespace}:") or tool_id.endswith(f":{name}")
        ]
        namespaces = {tool_id.partition(":")[0] for tool_id in visible}
        if not likely and name and namespace not in namespaces:
            # A tool of another namespace is a guess, such as for a source that was removed.
            near = nearest_name(namespace, namespaces)
            likely = [tool_id for tool_id in visible if tool_id.startswith(f"{near}:")]
        elif not likely:
            likely = visible
        error = UnknownNameError(
            "tool",
            text,
            likely,
            list_with="covalt-git tool list",
            is_harmless=self._is_harmless,
        )
        # The command names the toolset of the server, which other roles may not see.
        is_admin = sees_everything(self.config, self.principal)
        if accepted_in:
            error.message += ": its source does not list it any more"
            error.hint = f"covalt-git source diff {accepted_in}/{namespace}" if is_admin else ""
        elif is_admin and (hint := self._refresh_hint(namespace)):
            error.message += ": its MCP server was not asked for its tools yet"
            error.hint = hint
        return error

    def _is_harmless(self, tool_id: str) -> bool:
        """Return whether a tool may be proposed; from the index, because finding a tool can end here again."""
        if tool_id in BUILTINS:
            return not may_destroy(BUILTINS[tool_id])
        with ToolQueries.open(self.root, self.config.workspace) as index:
            return not any(may_destroy(tool) for tool in index.tools() if tool.tool_id == tool_id)

    def _refresh_hint(self, namespace: str) -> str:
        """Return the command that lists the tools of an MCP server that was not asked for them yet."""
        if toolset_cache.is_listed(self.root, namespace):
            return ""
        try:
            with ToolQueries.open(self.root, self.config.workspace) as index:
                owners = index.toolsets_with_server(namespace)
        except IndexUnusableError:
            return ""
        return f"covalt-git source refresh {owners[0]}/{namespace}" if owners else ""
