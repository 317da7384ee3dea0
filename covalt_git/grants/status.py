"""Whether what was granted still holds, what has changed where it does not, and which servers lack it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access.grants import GrantNeededError, granted, is_of
from covalt_git.models.server_definition import command_line, process_facts, server_facts
from covalt_git.models.toolset_state import ProcessGrant, ServerGrant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.toolset_state import Grant
    from covalt_git.toolsets.toolset import Toolset


class MissingGrant(NamedTuple):
    """An MCP server that may not be used: which, why, and the command that grants it."""

    server: str
    why: str
    command: str


def changes(toolset: Toolset, grant: Grant) -> tuple[str, ...]:
    """Return in words what is otherwise than when something was granted; nothing where it holds."""
    if not isinstance(grant, ProcessGrant | ServerGrant):
        return () if grant.digest == toolset.digest else ("a file has changed",)
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    server = next((one for one in servers if one.id == grant.server), None)
    if server is None:
        return (f"there is no MCP server {grant.server!r} any more",)
    if (grant.kind == "process") != (server.command is not None):
        return ("it is at an address now" if server.url else "it is a program now",)
    if isinstance(grant, ProcessGrant):
        facts = process_facts(server, toolset.files.hashes)
        told = tuple(_of_process(grant, facts))
    else:
        facts = server_facts(server)
        told = tuple(_of_server(grant, facts))
    if is_of(grant, facts):
        return ()
    what = "a variable" if isinstance(grant, ProcessGrant) else "a header"
    return told or (f"what {what} says has changed",)


def missing_grants(toolset: Toolset) -> list[MissingGrant]:
    """Return the MCP servers of a toolset that its grants do not cover, in their order."""
    may = granted(toolset.id, toolset.state, toolset.digest)
    found = []
    for server in toolset.manifest.mcp_servers if toolset.manifest else ():
        try:
            if server.command is not None:
                may.check_process(server, toolset.files.hashes)
            else:
                may.check_server(server)
        except GrantNeededError as error:
            found.append(MissingGrant(server.id, error.message, error.hint))
    return found


def _of_process(grant: ProcessGrant, facts: JsonObject) -> Iterator[str]:
    if grant.argv != facts["argv"]:
        yield f"the command was {command_line(grant.argv)}, and is {command_line(facts['argv'])}"
    if grant.cwd != facts["cwd"]:
        yield f"its folder was {_path(grant.cwd)}, and is {_path(facts['cwd'])}"
    yield from _names("variable", grant.env, facts["env"])
    yield from _of_files(grant.files, facts["files"])


def _of_server(grant: ServerGrant, facts: JsonObject) -> Iterator[str]:
    if grant.url != facts["url"]:
        yield f"the address was {command_line([grant.url])}, and is {command_line([facts['url']])}"
    if grant.transport != facts["transport"]:
        yield f"the transport was {grant.transport}, and is {facts['transport']}"
    yield from _names("header", grant.headers, facts["headers"])


def _path(path: str | None) -> str:
    return "none" if path is None else command_line([path])


def _names(kind: str, then: tuple[str, ...], now: tuple[str, ...]) -> Iterator[str]:
    for name in sorted({*then, *now}):
        if name not in then:
            yield f"the {kind} {command_line([name])} is new"
        elif name not in now:
            yield f"the {kind} {command_line([name])} is gone"


def _of_files(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for path in sorted(then.keys() | now.keys()):
        if then.get(path) == now.get(path):
            continue
        what = "has changed" if path in then and path in now else "is gone"
        yield f"{command_line([path])} {what if path in then else 'is new'}"
