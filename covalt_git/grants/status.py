"""Validity of grants: which are valid, which changes ended the others, and which are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.access.grants import (
    GrantNeededError,
    granted,
    holds,
    is_of,
    is_of_tool,
    keeping,
    tool_facts,
)
from covalt_git.grants.requested import requested
from covalt_git.models.sources.server_definition import command_line, grant_facts
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
    UnsandboxedGrant,
)
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.toolsets.permissions import is_left_over, is_trusted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from covalt_git.access.grants import Granted
    from covalt_git.json_values import JsonObject
    from covalt_git.models.held_back import HeldBack
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import Grant
    from covalt_git.toolsets.toolset import Toolset


WHY: dict[HeldBack | None, str] = {
    "not_granted": "is not granted",
    "entry_changed": "has changed since it was granted",
}
"""The states of a registered tool that lacks its grant."""


UNDESCRIBED = "it is for something else than the toolset has now"
"""Why a grant ended that the user of this machine has not trusted."""


class MissingGrant(NamedTuple):
    """A grant that a toolset lacks: its kind, the secret, MCP server or registered tool, the host, and the reason.

    One that ``has_changed`` was granted for something earlier, and can be renewed with what that grant had.
    """

    toolset_id: str
    kind: Literal["network", "secret", "server", "tool"]
    name: str | None
    host: str | None
    why: str
    has_changed: bool = False

    @property
    def server(self) -> str:
        """The MCP server; empty for a host or a secret."""
        return self.name or "" if self.kind == "server" else ""

    @property
    def command(self) -> str:
        """The command that grants it."""
        words = ("--again",) if self.has_changed else (self.kind, self.name, self.host)
        return " ".join(filter(None, ("covalt-git grant add", self.toolset_id, *words)))


def acting_grants(toolset: Toolset, tool: Tool | None = None) -> Granted:
    """Return the grants of a toolset, or of one ``tool`` of it, that act on this machine.

    They are for its current files, and the user of this machine has trusted them.  A call checks both before it
    runs.  Everything else that acts by a grant asks here: the author of the state file chose its hosts.

    Raises:
        BadHostError: if a grant contains an invalid host.
    """
    trusted = {
        key: grant for key, grant in toolset.state.grants.items() if is_trusted(toolset, key)
    }
    state = toolset.state.model_copy(update={"grants": trusted})
    return granted(toolset.id, state, toolset.digest, tool)


def changes(toolset: Toolset, grant: Grant) -> tuple[str, ...]:
    """Return the changes that ended a grant, as phrases; empty if it is valid."""
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    if isinstance(grant, ToolGrant):
        return tuple(_of_tool(grant, toolset))
    if not isinstance(grant, ProcessGrant | ServerGrant):
        return _of_toolset(grant, toolset, servers)
    server = next((server for server in servers if server.id == grant.server), None)
    if server is None:
        return (f"the MCP server {grant.server!r} no longer exists",)
    facts = grant_facts(server, toolset.files.hashes)
    if grant.kind != facts["kind"]:
        return ("it is at a URL now" if server.url else "it is a program now",)
    if is_of(grant, facts):
        return ()
    if isinstance(grant, ProcessGrant):
        # The digest has more than the fields of the grant: it covers the values, of which the state file has only the
        # names.
        return tuple(_of_process(grant, facts)) or ("the value of a variable has changed",)
    return tuple(_of_server(grant, facts)) or ("the value of a header has changed",)


def shown_key(key: str, grant: Grant) -> str:
    """Return the key of a grant as its users read it; ``grant revoke`` takes its kind and name."""
    return grant.shown_key if isinstance(grant, ProcessGrant) else key


def shown_changes(toolset: Toolset, key: str, grant: Grant) -> tuple[str, ...]:
    """Return the changes that ended a grant for a user, who may decide by them whether to renew it.

    The author of the state file wrote what the grant was for.  Only a grant that its user has trusted says what the
    user knows, so a change since any other grant is not described.
    """
    texts = changes(toolset, grant)
    # That the toolset has lost a server can be seen in its files, so it does not depend on who wrote the grant.
    is_told = not texts or is_left_over(toolset, key) or is_trusted(toolset, key)
    return texts if is_told else (UNDESCRIBED,)


def missing_grants(toolset: Toolset) -> list[MissingGrant]:
    """Return the requests of a toolset that its grants do not cover: hosts, secrets, then MCP servers."""
    if toolset.id == REGISTRY_NAMESPACE:
        held_back = ((tool, WHY.get(tool.held_back)) for tool in toolset.tools)
        return [
            MissingGrant(
                toolset.id,
                "tool",
                tool.id.name,
                None,
                f"{tool.tool_id} {why}: it would {_use(tool)}",
            )
            for tool, why in held_back
            if why is not None
        ]
    may = granted(toolset.id, toolset.state, toolset.digest)
    ended = {
        (grant.kind, getattr(grant, "name", None)): grant.hosts
        for grant in toolset.state.grants.values()
        if isinstance(grant, NetworkGrant | SecretGrant) and changes(toolset, grant)
    }
    missing = []
    for request in requested(toolset):
        if not request.needed or request.granted:
            continue
        hosts = ended.get((request.kind, request.name))
        has_changed = hosts is not None and (request.host is None or request.host in hosts)
        since = "; it has changed since that was granted" if has_changed else ""
        why = f"the toolset {toolset.id!r} may not {request.what}{since}"
        missing.append(
            MissingGrant(
                toolset.id, request.kind, request.name, request.host, why, has_changed=has_changed
            )
        )
    for server in toolset.manifest.mcp_servers if toolset.manifest else ():
        try:
            may.check_server(server, toolset.files.hashes)
        except GrantNeededError as error:
            has_changed = error.hint.endswith("--again")
            missing.append(
                MissingGrant(toolset.id, "server", server.id, None, error.message, has_changed)
            )
    return missing


def _of_toolset(
    grant: NetworkGrant | SecretGrant | UnsandboxedGrant,
    toolset: Toolset,
    servers: Collection[McpServer],
) -> tuple[str, ...]:
    if holds(grant, toolset.digest, servers, toolset.files.hashes, toolset.tools):
        return ()
    names = () if isinstance(grant, UnsandboxedGrant) else keeping(grant, toolset.tools)
    tools = f"; only HTTP tools may use it: {', '.join(names)}" if names else ""
    if grant.digest == toolset.digest:
        return (f"a tool of a document was accepted later{tools}",)
    return (f"a file has changed{tools}",)


def _use(tool: Tool) -> str:
    """Return what a grant of a registered tool permits, as a phrase."""
    if tool.alias_of is not None:
        return f"forward its calls to {tool.alias_of}"
    facts = tool_facts(tool)
    secrets = f" with {', '.join(facts['secrets'])}" if facts["secrets"] else ""
    request = tool.http
    target = f"{request.method} {request.url}" if request else ", ".join(facts["hosts"])
    return f"send {target}{secrets}"


def _of_tool(grant: ToolGrant, toolset: Toolset) -> Iterator[str]:
    tool = toolset.tool(f"{toolset.id}:{grant.tool}")
    if tool is None:
        yield f"the tool {grant.tool!r} no longer exists"
    elif not is_of_tool(grant, tool):
        yield "its entry has changed"


def _of_process(grant: ProcessGrant, facts: JsonObject) -> Iterator[str]:
    if grant.argv != facts["argv"]:
        yield f"the command was {_line(grant.argv)}, and is {_line(facts['argv'])}"
    if grant.cwd != facts["cwd"]:
        yield f"its folder was {_path(grant.cwd)}, and is {_path(facts['cwd'])}"
    yield from _of_names("the variable ", dict.fromkeys(grant.env), dict.fromkeys(facts["env"]))
    yield from _of_names("", grant.files, facts["files"])


def _of_server(grant: ServerGrant, facts: JsonObject) -> Iterator[str]:
    if grant.url != facts["url"]:
        yield f"the URL was {_line([grant.url])}, and is {_line([facts['url']])}"
    if grant.transport != facts["transport"]:
        yield f"the transport was {grant.transport}, and is {facts['transport']}"
    headers = dict.fromkeys(grant.headers)
    yield from _of_names("the header ", headers, dict.fromkeys(facts["headers"]))


def _line(argv: Sequence[str]) -> str:
    """Return a command on one line, with stars in place of credentials: models and logs get this text too."""
    from covalt_git.credentials.leaks import blotted  # noqa: PLC0415 - its expressions take 20 ms

    return blotted(command_line(argv))


def _path(path: str | None) -> str:
    return "none" if path is None else command_line([path])


def _of_names(
    what: str, old: Mapping[str, str | None], new: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield the differences of variables, headers or files with their digests; ``what`` precedes each name."""
    for name in sorted({*old, *new}):
        subject = f"{what}{command_line([name])}"
        if name not in old:
            yield f"{subject} is new"
        elif name not in new:
            yield f"{subject} is removed"
        elif old[name] != new[name]:
            yield f"{subject} has changed"
