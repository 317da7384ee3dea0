"""What an MCP client may do with a project: list its tools, and call them in a chat.

All of it is synchronous and takes its time; :mod:`.server` speaks the protocol and runs this in threads.
A tool that is hidden from the role, or switched off, is one that does not exist.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.calls.engine import Request
from covalt_git.calls.preconditions import check_arguments
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.errors import CovaltError, UnknownNameError, nearest_name
from covalt_git.gateway import approvals, mcp_apps, meta_tools, results, tool_listing, tool_names
from covalt_git.gateway import approvals as resuming
from covalt_git.gateway import results as contents
from covalt_git.gateway.client_chats import STATELESS, ClientChat, ClientChats, NoChatError
from covalt_git.gateway.mcp_apps import AppPages
from covalt_git.gateway.prompts import Prompts
from covalt_git.gateway.resources import Resources
from covalt_git.gateway.subscriptions import Offer
from covalt_git.gateway.workspace_tools import BUILTINS, CREATES_CHAT, run
from covalt_git.manifests.project_root import CONFIG
from covalt_git.names import PERSON, new_id
from covalt_git.operations.context import Context
from covalt_git.project import Project
from covalt_git.system.file_cache import FileCache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import mcp_types as types

    from covalt_git.calls.running import Follower
    from covalt_git.catalog.catalog import Found
    from covalt_git.gateway.client_chats import Client
    from covalt_git.gateway.meta_tools import Mode
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool
    from covalt_git.workspaces.registry import OneChat


class NoSuchToolError(CovaltError):
    """No tool of that name exists for the client."""

    code = "unknown_tool"
    http_status = 404


class ClientCall(NamedTuple):
    """A call as a client requests it.

    Attributes:
        name: what the client calls the tool.
        chat_id: the chat it names, if it does.
        modern: whether it speaks 2026-07-28 or later.
    """

    client: Client
    name: str
    args: JsonObject
    modern: bool
    chat_id: str | None = None


class _BuiltIn(NamedTuple):
    """A tool of ours, which no toolset has."""

    tool: Tool


@dataclass(frozen=True, slots=True)
class Gateway:
    """The project at ``root``, for clients under a role; for use by many threads.

    ``by`` is the user of this machine or an agent.  An agent has its own chats; with ``only``, there is that
    one chat.
    ``pages`` has the address of the page where a person settles an approval, by its execution id.
    """

    root: Path
    role: str | None = None
    style: tool_names.Style = "dots"
    mode: Mode = "direct"
    chats: ClientChats = field(default_factory=ClientChats)
    pages: Callable[[str], str | None] = lambda _: None
    by: str = PERSON
    only: OneChat | None = None
    _cache: FileCache = field(default_factory=FileCache, repr=False, compare=False)

    def project(self) -> Project:
        """Return the project as its ``covalt.yaml`` says now.

        Raises:
            BrokenConfigError: when that cannot be used.
        """
        opened = Project.cached(self.root, self.role)
        principal = opened.principal._replace(id=self.by)
        return replace(opened, principal=principal, only_chat=self.only)

    def tools(self) -> dict[str, Tool]:
        """Return the tools that may be called now by their names, sorted by their ids."""
        return self._cache.get(("tools", self.style), self._files(), self._tools)

    def _files(self) -> tuple[Path, ...]:
        """Return what the tools there are depend on."""
        return self.root / CONFIG, self.root / "toolsets"

    def _tools(self) -> dict[str, Tool]:
        project = self.project()
        with project.index() as index:
            index.sync_toolsets()
            tools = project.catalog.visible([*BUILTINS.values(), *index.tools()])
        known = {tool.tool_id: tool for tool in tools if project.catalog.may_call(tool).allowed}
        names = tool_names.names(sorted(known), self.style, taken=meta_tools.NAMES)
        return {name: known[tool_id] for name, tool_id in names.items()}

    def offer(self) -> Offer:
        """Return all that there is for clients, whatever they call it."""
        project = self.project()
        with project.index() as index:
            index.sync_toolsets()
            prompts = {one.id: one.what for one in project.catalog.prompts(index)}
            resources = {
                one.what.uri or one.what.uri_template or "": one.digest
                for one in project.catalog.resources(index)
            }
        return Offer(self.tools(), prompts, resources)

    def listed(
        self, *, modern: bool, chat_asked: bool = False, apps: bool = False
    ) -> dict[str, Callable[[], types.Tool]]:
        """Return what lists have, sorted by the keys, each as what describes it.

        With ``chat_asked``, the tools that work in a chat take it as an argument; with ``apps``, they
        are told as hosts of MCP Apps are.
        """
        make = partial(self._listed, modern=modern, chat_asked=chat_asked, apps=apps)
        return self._cache.get(
            (self.style, self.mode, modern, chat_asked, apps), self._files(), make
        )

    def _listed(
        self, *, modern: bool, chat_asked: bool, apps: bool
    ) -> dict[str, Callable[[], types.Tool]]:
        shown = mcp_apps.with_page if apps else mcp_apps.without_page
        how = {"modern": modern, "chat_asked": chat_asked}
        listed: dict[str, Callable[[], types.Tool]] = {}
        for name, own in self._gateway_tools().items():
            # Before the first of the ids.
            described = partial(meta_tools.described, own, chat_asked=chat_asked)
            listed[f"!{name}"] = partial(shown, described)
        if self.mode != "search":
            for name, tool in self.tools().items():
                described = partial(tool_listing.described, tool, name, root=self.root, **how)
                listed[tool.tool_id] = cache(partial(shown, described, tool))
        return listed

    def call(self, asked: ClientCall, follower: Follower) -> types.CallToolResult:
        """Make a call, and return what came of it or why it was not made.

        Raises:
            NoSuchToolError: when no tool of that name exists for the client.
        """
        project = self.project()
        own = self._gateway_tools().get(asked.name)
        if own is None and self.mode == "search":
            raise NoSuchToolError(f"{asked.name!r} is not a listed tool: call it by call_tool")
        named = None if own else self._find(project, asked.name)
        try:
            if own is not None:
                if own.name == meta_tools.CALL.name:
                    asked = _with_its_chat(asked, own.input_schema)
                args = meta_tools.check(own, asked.args)
                return self._call_gateway_tool(project, own.name, args, asked, follower)
            assert named is not None
            asked = _with_its_chat(asked, named.tool.input_schema)
            return self._called(project, named, asked, follower)
        except CovaltError as error:
            return results.of_error(error, self.style)

    def _gateway_tools(self) -> dict[str, types.Tool]:
        return meta_tools.own_tools(self.mode)

    def _call_gateway_tool(
        self, project: Project, name: str, args: JsonObject, asked: ClientCall, follower: Follower
    ) -> types.CallToolResult:
        match name:
            case "search_tools":
                found = self._searched(project, args["query"], args["limit"])
                return results.of_value({"tools": found})
            case "read_tool":
                tool = self._find(project, args["name"]).tool
                told = tool_listing.described(
                    tool, args["name"], root=self.root, modern=asked.modern
                )
                shown = told.model_dump(mode="json", by_alias=True, exclude_none=True)
                return results.of_value(shown)
            case "call_tool":
                named = self._find(project, args["name"])
                inner = asked._replace(name=args["name"], args=args["arguments"])
                return self._called(project, named, inner, follower)
        outcome = resuming.resumed(project, args["execution_id"])
        where = ClientChat(outcome.call.chat_id)
        read = contents.reader(project, outcome.call)
        return results.of_outcome(outcome, where, read, modern=asked.modern, style=self.style)

    def _searched(self, project: Project, query: str, limit: int) -> list[JsonObject]:
        """Return the tools most like a query that may be called now, the best first."""
        names = {tool.tool_id: name for name, tool in self.tools().items()}
        with project.index() as index:
            index.sync_toolsets()
            # One that is switched off takes a place; that so many are is not to be thought.
            found = project.catalog.search(index, query, limit=2 * limit)
        shown = [tool for tool in found if tool.tool_id in names][:limit]
        words = query.casefold().split()
        # They are few, and in no index.
        shown += [
            tool
            for tool in BUILTINS.values()
            if tool.tool_id in names and any(word in _words_of(tool) for word in words)
        ][: limit - len(shown)]
        return [
            {"name": names[tool.tool_id], "title": tool.name, "description": tool.description}
            for tool in shown
        ]

    def resources(
        self, client: Client, chat_id: str | None = None, *, apps: bool = False
    ) -> Resources:
        """Return the resources that a client has, who may name the chat that it means.

        With ``apps``, lists have the pages of MCP Apps as well.
        """
        project = self.project()
        pages = AppPages(project, self.tools)
        return Resources(project, self.chats, client, chat_id, pages, list_pages=apps)

    def prompts(self) -> Prompts:
        """Return the prompts that clients have."""
        return Prompts(self.project(), self.style)

    def _called(
        self, project: Project, named: Found | _BuiltIn, asked: ClientCall, follower: Follower
    ) -> types.CallToolResult:
        tool = named.tool
        request = Request(tool.tool_id, asked.args, call_id=new_id(), fresh=True)
        engine = project.engine(follower=follower)
        # A call that is refused creates no chat, and neither does one that only reads the workspace.
        if isinstance(named, _BuiltIn):
            check_arguments(tool, asked.args)
            known = self.chats.known(project, asked.client, asked.chat_id)
            if known is None and tool.tool_id != CREATES_CHAT:
                raise NoChatError
        else:
            engine.check(request, named)
        where = self.chats.needed(project, asked.client, asked.chat_id)
        if isinstance(named, _BuiltIn):
            with Context.of(project) as context:
                return results.of_workspace(run(context, where.id, tool, asked.args), where)
        with project.chats.open(where.id) as chat:
            # The index is brought up to date by whoever reads of a chat in it.
            outcome = engine.call(chat, request, named)
        if outcome.approval is not None:
            outcome = approvals.approved(
                project, outcome, follower, pages=self.pages, ask_again=asked.modern
            )
        read = contents.reader(project, outcome.call)
        return results.of_outcome(outcome, where, read, modern=asked.modern, style=self.style)

    def _find(self, project: Project, name: str) -> Found | _BuiltIn:
        """Return the tool of a name; one of a broken toolset is as it was when it was sound.

        Raises:
            NoSuchToolError: when no tool of that name exists for the client.
        """
        tool_id = tool_names.path_of(name) if self.style == "dots" else self._named(name)
        if tool_id in BUILTINS:
            tool = BUILTINS[tool_id]
            if project.catalog.visible([tool]):
                return _BuiltIn(tool)
        elif tool_id is not None:
            with suppress(UnknownNameError, DisabledToolError):
                return project.catalog.find_callable(tool_id)
        raise self._no_such_tool(name)

    def _no_such_tool(self, name: str) -> NoSuchToolError:
        """Return the same error for tools that are hidden, disabled or missing."""
        nearest = nearest_name(name, self.tools())
        hint = f"did you mean {nearest!r}?" if nearest else ""
        return NoSuchToolError(f"unknown tool {name!r}", hint=hint)

    def _named(self, name: str) -> str | None:
        tool = self.tools().get(name)
        return None if tool is None else tool.tool_id


def _with_its_chat(asked: ClientCall, schema: JsonObject) -> ClientCall:
    """Return a call whose chat is named among its arguments as one of that chat."""
    named = asked.args.get(tool_listing.CHAT_ARGUMENT)
    apart = (
        asked.client.key == STATELESS
        and asked.chat_id is None
        and tool_listing.has_room_for_chat(schema)
    )
    if not apart or not isinstance(named, str):
        return asked
    rest = {name: one for name, one in asked.args.items() if name != tool_listing.CHAT_ARGUMENT}
    return asked._replace(args=rest, chat_id=named)


def _words_of(tool: Tool) -> str:
    return f"{tool.tool_id} {tool.description}".casefold()
