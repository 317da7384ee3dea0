"""The API's sources: the MCP servers of toolsets, asked for their tools again, and what is accepted of it."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue

from covalt_git.calls import mcp_calls
from covalt_git.calls.mcp_calls import listed
from covalt_git.credentials.command import SecretCommand
from covalt_git.sources import refresh
from covalt_server import request_context
from covalt_server.api.http import Answer, Asked, operation
from covalt_server.request_context import as_admin

if TYPE_CHECKING:
    from pathlib import Path

_LOG = logging.getLogger(__name__)

_MOST_TOOLS = 10_000


class ListSources(Asked):
    """Which toolset's; all of them without one."""

    toolset_id: str | None = Field(None, max_length=200)


class RefreshSource(Asked):
    """Which MCP server, by the namespace of its tools; with ``check`` nothing is written."""

    toolset_id: str = Field(max_length=200)
    namespace: str = Field(max_length=200)
    check: bool = False


class AcceptTools(Asked):
    """What to accept: of each tool the digest that was shown, or null for one that is gone."""

    toolset_id: str = Field(max_length=200)
    namespace: str = Field(max_length=200)
    tools: dict[str, str | None] = Field(max_length=_MOST_TOOLS)


class DifferingPart(Answer):
    """A part of a definition, such as its description, as it was and as it is; null where it is not there."""

    name: str
    before: JsonValue
    after: JsonValue


class DifferingTool(Answer):
    """A tool that is new, changed or gone; ``digest`` is what would be accepted, null for one that is gone."""

    name: str
    kind: Literal["new", "changed", "gone"]
    digest: str | None
    kept: bool = Field(description="Whether what was accepted is there to compare with.")
    parts: tuple[DifferingPart, ...]


class ConnectionRow(Answer):
    """How a server is, for one chat: each has its own; null is the one that was asked for its tools."""

    chat_id: str | None
    state: Literal["stopped", "starting", "ready", "failed"]
    starts: int = Field(description="How often it was started.")
    failures: int = Field(description="How often it failed in a row.")
    error: str = Field(description="What went wrong last.")
    last_words: str = Field(description="The end of its error stream.")
    server: str = Field(description="What it calls itself.")
    protocol: str = Field(description="The version of the protocol.")


class SourceRow(Answer):
    """An MCP server of a toolset, and what of its tools is accepted."""

    toolset_id: str
    namespace: str = Field(description="What the ids of its tools begin with.")
    server: str = Field(description="Its id in the manifest.")
    enabled: bool
    reference: str = Field(description="Its command or address, as it is written.")
    asked: bool = Field(description="Whether it was asked for its tools.")
    tools: int
    accepted: int
    to_accept: tuple[DifferingTool, ...]
    connections: tuple[ConnectionRow, ...] = Field(description="Those that this server has now.")


class SourceList(Answer):
    """The MCP servers that toolsets declare."""

    sources: tuple[SourceRow, ...]


class SourceRefreshed(Answer):
    """What a server gave now; ``drift`` is how that differs from what it gave before."""

    source: SourceRow
    drift: tuple[DifferingTool, ...]


@operation("GET", errors=(404,))
def list_sources(asked: ListSources) -> SourceList:
    """List the MCP servers of all toolsets or of one, and what they gave that is not accepted."""
    root = as_admin("see sources").root
    return SourceList(sources=tuple(_row(one) for one in refresh.sources(root, asked.toolset_id)))


@operation("POST", errors=(404, 409, 502))
def refresh_source(asked: RefreshSource) -> SourceRefreshed:
    """Ask an MCP server for its tools, and write them into its lock; nothing is accepted by that.

    A server whose program or address was not granted is not asked, and the answer is ``grant_needed``.
    """
    root = as_admin("ask sources").root
    source = refresh.find_source(root, asked.toolset_id, asked.namespace)
    command = SecretCommand.of(root, request_context.project().config.secret_command)
    ask = partial(listed, root=root, command=command, tell=_LOG.info)
    found = refresh.refresh(root, source, ask, write=not asked.check)
    request_context.index().sync_toolsets()
    return SourceRefreshed(source=_row(found.source), drift=_differing(found.drift))


@operation("POST", errors=(404, 409))
def accept_tools(asked: AcceptTools) -> SourceRow:
    """Accept definitions that an MCP server gave; where one is not what was shown, none is (``moved``)."""
    root = as_admin("accept tools").root
    found = refresh.accept(root, asked.toolset_id, asked.namespace, asked.tools)
    request_context.index().sync_toolsets()
    return _row(found)


def connections(root: Path, toolset_id: str, server_id: str) -> list[ConnectionRow]:
    """Return how the connections to an MCP server are that this process has or had."""
    return [
        ConnectionRow(**{name: getattr(one, name) for name in ConnectionRow.model_fields})
        for one in mcp_calls.health(root)
        if (one.toolset_id, one.server_id) == (toolset_id, server_id)
    ]


def _row(source: refresh.ToolSource) -> SourceRow:
    root = request_context.project().root
    live = tuple(connections(root, source.toolset.id, source.server.id))
    more = {"to_accept": _differing(source.to_accept), "connections": live}
    return SourceRow(**source.as_json() | more)


def _differing(found: tuple[refresh.ToolDifference, ...]) -> tuple[DifferingTool, ...]:
    return tuple(
        DifferingTool(
            name=one.name,
            kind=one.kind,
            digest=one.digest,
            kept=one.kind == "new" or one.before is not None,
            parts=tuple(
                DifferingPart.model_validate({"name": name, "before": old, "after": new})
                for name, (old, new) in one.fields.items()
            ),
        )
        for one in found
    )


OPERATIONS = (list_sources, refresh_source, accept_tools)
