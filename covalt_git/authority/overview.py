"""What each toolset can do today: its facts, gathered by toolset and tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.access import Principal, decide
from covalt_git.access.grants import holds
from covalt_git.authority.approval_rules import always
from covalt_git.authority.kinds import KINDS, origin
from covalt_git.authority.toolset_facts import tools_of
from covalt_git.credentials.leaks import blotted
from covalt_git.hosts import Reach

if TYPE_CHECKING:
    from collections.abc import Collection

    from covalt_git.authority.facts import Fact
    from covalt_git.authority.snapshots import State
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool import Tool

_ASKS = {True: "always", False: "never", None: "for some arguments"}


@dataclass(frozen=True, slots=True)
class ToolOverview:
    """What one tool can do, whether a person is asked before, and the roles that may call it."""

    tool_id: str
    does: str
    asks: str
    writes: bool
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolsetOverview:
    """What one toolset can do.

    Attributes:
        toolset_id: its id.
        enabled: whether it is on; one that is off does nothing.
        own: whether it is the project's own, and not imported.
        broken: whether it has errors, so that none of its tools can be called.
        hosts: what it was granted to reach.
        secrets: the secrets it may ask for, each with the hosts it was granted to send them to.
        granted_secrets: the secrets that were granted to it, which its Python may use.
        processes: what it says or was granted to start, or to connect to.
        packages: what its Python needs.
        unsandboxed: whether it was granted to run without a sandbox.
        stale_grants: the grants that hold no longer, because a file has changed.
        tools: its tools that can be called.
        more: what else holds of it, in words.
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
    tools: tuple[ToolOverview, ...]
    more: tuple[str, ...]


def overview(state: State, visible: Collection[str] | None = None) -> tuple[ToolsetOverview, ...]:
    """Return what each toolset can do; with ``visible``, as far as these tools tell.

    What is about a toolset as a whole is left out where not all its tools are visible.
    """
    config = state.config.value
    assert config is not None
    parts = state.parts(config)
    callable_tools = state.tools()
    found = []
    for read in state.toolsets:
        toolset = read.toolset
        servers = toolset.manifest.mcp_servers if toolset.manifest else ()
        part = parts[f"toolsets/{toolset.id}"]
        tools = tuple(
            _tool(callable_tools[fact.subject], config, part.facts)
            for fact in part.facts
            if fact.kind == "tool" and (visible is None or fact.subject in visible)
        )
        if visible is not None and not tools:
            continue
        whole = visible is None or all(one.tool_id in visible for one in tools_of(read))
        about = part.facts if whole else ()
        found.append(
            ToolsetOverview(
                toolset.id,
                enabled=toolset.enabled,
                own=not toolset.state.imported,
                broken=not toolset.sound,
                hosts=_items(about, "network"),
                secrets=_secrets(about),
                granted_secrets=_items(about, "secret_use"),
                processes=_processes(about),
                packages=tuple(str(one.value) for one in about if one.kind == "package"),
                unsandboxed=any(one.kind == "unsandboxed" for one in about),
                stale_grants=tuple(
                    key
                    for key, grant in sorted(toolset.state.grants.items())
                    if whole
                    and not holds(
                        grant, toolset.digest, servers, toolset.files.hashes, toolset.tools
                    )
                ),
                tools=tools,
                more=_more(about),
            )
        )
    return tuple(found)


def _tool(tool: Tool, config: ProjectConfig, facts: tuple[Fact, ...]) -> ToolOverview:
    of_tool = {fact.kind: fact for fact in facts if fact.subject == tool.tool_id}
    does = "is called over its server"
    if "entrypoint" in of_tool:
        does = str(of_tool["entrypoint"].value)
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
    """Return a note where a request would be refused, because its host was not granted."""
    assert tool.http is not None
    target = origin(tool.http.url)
    if target is None or Reach.of(*_items(facts, "network")).covers(target):
        return ""
    return ", which is not granted"


def _items(facts: tuple[Fact, ...], kind: str) -> tuple[str, ...]:
    return tuple(fact.item for fact in facts if fact.kind == kind)


def _secrets(facts: tuple[Fact, ...]) -> dict[str, tuple[str, ...]]:
    granted = [item.split(" to ", 1) for item in _items(facts, "secret_to")]
    asked = {*_items(facts, "secret"), *_items(facts, "secret_use")}
    return {name: tuple(host for other, host in granted if other == name) for name in sorted(asked)}


def _processes(facts: tuple[Fact, ...]) -> tuple[str, ...]:
    kinds = ("server", "process", "server_grant")
    return tuple(
        blotted(f"{fact.subject} {KINDS[fact.kind].words(fact)}")
        for fact in facts
        if fact.kind in kinds
    )


def _more(facts: tuple[Fact, ...]) -> tuple[str, ...]:
    """Return what has no place of its own above: sources, ways to sign in, and what they ask for."""
    kinds = ("source", "include", "exclude", "sign_in", "scope", "variable", "header", "alias")
    return tuple(
        blotted(f"{fact.subject} {KINDS[fact.kind].words(fact)}")
        for fact in facts
        if fact.kind in kinds
    )
