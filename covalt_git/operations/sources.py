"""The API's sources: the MCP servers of toolsets, asked for their tools again, and what is accepted of it."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue

from covalt_git.calls import mcp_calls
from covalt_git.calls.mcp_calls import listed
from covalt_git.credentials.command import SecretCommand
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.sources import refresh

if TYPE_CHECKING:
    from pathlib import Path

_LOG = logging.getLogger(__name__)

_MOST_TOOLS = 10_000


class ListSources(Request):
    """Which toolset's; all of them without one."""

    toolset_id: str | None = Field(None, max_length=200)


class RefreshSource(Request):
    """Which MCP server, by the namespace of its tools; with ``check`` nothing is written."""

    toolset_id: str = Field(max_length=200)
    namespace: str = Field(max_length=200)
    check: bool = False


class AcceptTools(Request):
    """What to accept: of each tool the digest that was shown, or null for one that is gone."""

    toolset_id: str = Field(max_length=200)
    namespace: str = Field(max_length=200)
    tools: dict[str, str | None] = Field(max_length=_MOST_TOOLS)


class DifferingPart(Result):
    """A part of a definition, such as its description, as it was and as it is; null where it is not there."""

    name: str
    before: JsonValue
    after: JsonValue


class DifferingTool(Result):
    """A tool that is new, changed or gone; ``digest`` is what would be accepted, null for one that is gone."""

    name: str
    kind: Literal["new", "changed", "gone"]
    digest: str | None
    kept: bool = Field(description="Whether what was accepted is there to compare with.")
    parts: tuple[DifferingPart, ...]


class ConnectionRow(Result):
    """How a server is, for one chat: each has its own; null is the one that was asked for its tools."""

    chat_id: str | None
    state: Literal["stopped", "starting", "ready", "failed"]
    starts: int = Field(description="How often it was started.")
    failures: int = Field(description="How often it failed in a row.")
    error: str = Field(description="What went wrong last.")
    last_words: str = Field(description="The end of its error stream.")
    server: str = Field(description="What it calls itself.")
    protocol: str = Field(description="The version of the protocol.")


class SourceRow(Result):
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


class SourceList(Result):
    """The MCP servers that toolsets declare."""

    sources: tuple[SourceRow, ...]


class SourceRefreshed(Result):
    """What a server gave now; ``drift`` is how that differs from what it gave before."""

    source: SourceRow
    drift: tuple[DifferingTool, ...]


@operation(errors=(404,), admin="see sources")
def list_sources(context: Context, request: ListSources) -> SourceList:
    """List the MCP servers of all toolsets or of one, and what they gave that is not accepted."""
    root = context.project.root
    return SourceList(
        sources=tuple(_row(context, one) for one in refresh.sources(root, request.toolset_id))
    )


@operation(changes=True, errors=(404, 409, 502), admin="ask sources")
def refresh_source(context: Context, request: RefreshSource) -> SourceRefreshed:
    """Ask an MCP server for its tools, and write them into its lock; nothing is accepted by that.

    A server whose program or address was not granted is not request, and the answer is ``grant_needed``.
    """
    root = context.project.root
    source = refresh.find_source(root, request.toolset_id, request.namespace)
    command = SecretCommand.of(root, context.project.config.secret_command)
    ask = partial(listed, root=root, command=command, tell=_LOG.info)
    found = refresh.refresh(root, source, ask, write=not request.check)
    context.index().sync_toolsets()
    return SourceRefreshed(source=_row(context, found.source), drift=_differing(found.drift))


@operation(changes=True, errors=(404, 409), admin="accept tools")
def accept_tools(context: Context, request: AcceptTools) -> SourceRow:
    """Accept definitions that an MCP server gave; where one is not what was shown, none is (``moved``)."""
    root = context.project.root
    found = refresh.accept(root, request.toolset_id, request.namespace, request.tools)
    context.index().sync_toolsets()
    return _row(context, found)


def connections(root: Path, toolset_id: str, server_id: str) -> list[ConnectionRow]:
    """Return how the connections to an MCP server are that this process has or had."""
    return [
        ConnectionRow(**{name: getattr(one, name) for name in ConnectionRow.model_fields})
        for one in mcp_calls.health(root)
        if (one.toolset_id, one.server_id) == (toolset_id, server_id)
    ]


def _row(context: Context, source: refresh.ToolSource) -> SourceRow:
    root = context.project.root
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
