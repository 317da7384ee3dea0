"""Permissions of each toolset and its tools, for ``authority show`` and the pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.access import Principal, decide
from covalt_git.authority.approval_rules import always
from covalt_git.authority.kinds import KINDS
from covalt_git.authority.toolset_facts import tools_of
from covalt_git.credentials.leaks import blotted
from covalt_git.grants.status import shown_changes, shown_key
from covalt_git.hosts import Reach
from covalt_git.templating.url_templates import origin_of_template

if TYPE_CHECKING:
    from collections.abc import Collection

    from covalt_git.authority.facts import Fact
    from covalt_git.authority.snapshots import ProjectSnapshot
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool import Tool

_ASKS = {
    "ask": "always",
    "allow": "never",
    "deny": "never: it is denied",
    None: "for some arguments",
}


@dataclass(frozen=True, slots=True)
class ToolOverview:
    """What one tool does, when it requires approval, and the roles that may call it."""

    tool_id: str
    does: str
    asks: str
    writes: bool
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolsetOverview:
    """Permissions of one toolset.

    Attributes:
        toolset_id: its id.
        enabled: whether it is enabled; tools of a disabled toolset cannot be called.
        own: whether it is the project's own, not imported.
        broken: whether it has errors, so that none of its tools can be called.
        hosts: the hosts that it may reach by its grants.
        secrets: the secrets that it declares, each with the hosts to which it may send it.
        granted_secrets: the granted secrets, which its Python may use.
        processes: the declared and granted MCP servers: commands and URLs.
        packages: the Python packages that it requires.
        unsandboxed: whether it may run without a sandbox.
        stale_grants: the grants that are no longer valid, because a file or an entry has changed.
        grant_changes: the changes that ended each of these, in the words of ``grant list``.
        tools: its tools that can be called.
        more: its other facts, a line each.
    """

    toolset_id: str
    enabled: bool
    own: bool
    broken: bool
    hosts: tuple[str, ...]
    secrets: dict[str, tuple[str, ...]]
    granted_secrets: tuple[str, ...]
    processes: tuple[str, ...]
    packages: tuple[str, ...]
    unsandboxed: bool
    stale_grants: tuple[str, ...]
    grant_changes: dict[str, tuple[str, ...]]
    tools: tuple[ToolOverview, ...]
    more: tuple[str, ...]


def overview(
    snapshot: ProjectSnapshot, visible: Collection[str] | None = None
) -> tuple[ToolsetOverview, ...]:
    """Return the permissions of each toolset; with ``visible``, only of the tools with these ids.

    Permissions of a toolset are left out unless all its tools are visible.
    """
    config = snapshot.settings
    parts = snapshot.parts(config)
    callable_tools = snapshot.tools()
    overviews = []
    for toolset in snapshot.toolsets:
        part = parts[f"toolsets/{toolset.id}"]
        tools = tuple(
            _tool(callable_tools[fact.subject], config, part.facts, visible)
            for fact in part.facts
            if fact.kind == "tool" and (visible is None or fact.subject in visible)
        )
        if visible is not None and not tools:
            continue
        complete = visible is None or all(tool.tool_id in visible for tool in tools_of(toolset))
        # Its hosts and secrets would reveal to a role what hidden tools do.
        facts = part.facts if complete else ()
        grants = sorted(toolset.state.grants.items()) if complete else ()
        changes = {key: shown_changes(toolset, key, grant) for key, grant in grants}
        ended = [key for key, changed in changes.items() if changed]
        overviews.append(
            ToolsetOverview(
                toolset.id,
                enabled=toolset.enabled,
                own=not toolset.state.imported,
                broken=not toolset.sound,
                hosts=_items(facts, "network"),
                secrets=_secrets(facts),
                granted_secrets=_items(facts, "secret_use"),
                processes=_lines(facts, "server", "process", "server_grant", "server_use"),
                packages=tuple(str(fact.value) for fact in facts if fact.kind == "package"),
                unsandboxed=any(fact.kind == "unsandboxed" for fact in facts),
                stale_grants=tuple(ended),
                grant_changes={
                    shown_key(key, toolset.state.grants[key]): changes[key] for key in ended
                },
                tools=tools,
                more=_lines(facts, "variable", "header", "alias"),
            )
        )
    return tuple(overviews)


def _tool(
    tool: Tool,
    config: ProjectConfig,
    facts: tuple[Fact, ...],
    visible: Collection[str] | None,
) -> ToolOverview:
    of_tool = {fact.kind: fact for fact in facts if fact.subject == tool.tool_id}
    does = "is called over its server"
    if "entrypoint" in of_tool:
        does = str(of_tool["entrypoint"].value)
    elif tool.alias_of is not None and visible is not None and tool.alias_of not in visible:
        does = "forwards its calls to another tool"  # which does not exist for the role
    elif tool.alias_of is not None:
        does = KINDS["forwards"].words(of_tool["forwards"])
    elif tool.http is not None:
        does = KINDS["request"].show(of_tool["request"].value) + _grant_needed(tool, facts)
    roles = [
        name for name in config.roles if decide(config, Principal("", name), "see", tool).allowed
    ]
    return ToolOverview(
        tool.tool_id,
        does=blotted(does),
        asks=_ASKS[always(of_tool["confirmation"].value["rules"])],
        writes=not tool.annotations.read_only,
        roles=tuple(roles) if config.roles else ("everybody",),
    )


def _grant_needed(tool: Tool, facts: tuple[Fact, ...]) -> str:
    """Return a note if a tool's requests fail because their host is not granted."""
    assert tool.http is not None
    target = origin_of_template(tool.http.url)
    # A grant that has ended for other tools names those that still have it.
    hosts = [
        fact.item
        for fact in facts
        if fact.kind == "network"
        and tool.name_in_state in fact.value.get("only", [tool.name_in_state])
    ]
    if target is None or Reach.of(*hosts).covers(target):
        return ""
    return ", which is not granted"


def _items(facts: tuple[Fact, ...], kind: str) -> tuple[str, ...]:
    return tuple(fact.item for fact in facts if fact.kind == kind)


def _secrets(facts: tuple[Fact, ...]) -> dict[str, tuple[str, ...]]:
    granted = [item.split(" to ", 1) for item in _items(facts, "secret_to")]
    names = {*_items(facts, "secret"), *_items(facts, "secret_use")}
    return {name: tuple(host for other, host in granted if other == name) for name in sorted(names)}


def _lines(facts: tuple[Fact, ...], *kinds: str) -> tuple[str, ...]:
    """Return a line for each fact of these kinds."""
    return tuple(
        blotted(f"{fact.subject} {KINDS[fact.kind].words(fact)}")
        for fact in facts
        if fact.kind in kinds
    )
