"""Tools, resources and prompts of a project for MCP clients, and calls of tools in their chats.

All functions block; :mod:`.mcp_server` implements the protocol and runs them in threads.  Hidden and disabled
tools are reported as missing.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access.security import TokenRefusedError
from covalt_git.calls.engine import CallRequest
from covalt_git.calls.running import RUNNING
from covalt_git.catalog import tool_names
from covalt_git.catalog.accepted_tools import without_pulled
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.checks.effects import may_destroy
from covalt_git.errors import CovaltError, UnknownNameError, nearest_harmless
from covalt_git.gateway import (
    approvals,
    call_access,
    large_results,
    mcp_apps,
    meta_tools,
    results,
    tool_listing,
)
from covalt_git.gateway.client_chats import Client, ClientChat, ClientChats, NoChatError
from covalt_git.gateway.mcp_apps import AppPages
from covalt_git.gateway.offers import server_offers
from covalt_git.gateway.prompts import Prompts
from covalt_git.gateway.resources import resource_uris
from covalt_git.gateway.resources.handlers import Resources
from covalt_git.gateway.skills import offered_skills
from covalt_git.gateway.subscriptions import Offer
from covalt_git.gateway.tasks.task import TaskPlace
from covalt_git.index.database import IndexUnusableError
from covalt_git.manifests.followed_project import current_root
from covalt_git.names import LOCAL_USER, new_id
from covalt_git.operations.calls.calls import make_call
from covalt_git.operations.context import Context
from covalt_git.project import Project
from covalt_git.system.file_cache import FileCache
from covalt_git.toolsets.builtin_tools import CREATE_CHATS, READ_FILE, RUN_SCRIPT, is_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import mcp_types as types

    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.calls.running import Follower
    from covalt_git.catalog.catalog import Found
    from covalt_git.gateway.client_calls import Begin
    from covalt_git.gateway.large_results import Delivery
    from covalt_git.gateway.meta_tools import Mode
    from covalt_git.json_values import JsonObject
    from covalt_git.models.access_token import AccessToken
    from covalt_git.models.calls import ToolCall
    from covalt_git.models.tool import Tool
    from covalt_git.workspaces.registry import OneChat


class NoSuchToolError(CovaltError):
    """No tool of that name exists for the client."""

    code = "unknown_tool"
    http_status = 404


class TaskNeededError(CovaltError):
    """The client has to declare that it supports tasks, because the tool takes too long to wait for."""

    code = "task_needed"
    http_status = 409


class ClientCall(NamedTuple):
    """A call as a client requests it.

    Attributes:
        name: the tool's name in the client's style.
        chat_id: the chat that the request names, if any.
        delivery: what the client can receive.
        on_found: is called with the id of the tool, before it runs.
    """

    client: Client
    name: str
    args: JsonObject
    delivery: Delivery
    chat_id: str | None = None
    on_found: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Gateway:
    """The project at ``root`` for clients with a role; thread-safe.

    Attributes:
        by: the user of this machine, or an agent, which has its own chats.
        only: the only chat of the clients, if there is one.
        token: the facts of the issuer's token that the request has.
        pages: returns the URL of the page for an approval, by its execution id; None without a page.
    """

    root: Path
    role: str | None = None
    style: tool_names.Style = "dots"
    mode: Mode = "direct"
    chats: ClientChats = field(default_factory=ClientChats)
    pages: Callable[[str], str | None] = lambda _: None
    by: str = LOCAL_USER
    only: OneChat | None = None
    token: AccessToken | None = None
    _cache: FileCache = field(default_factory=FileCache, repr=False, compare=False)

    @property
    def current_root(self) -> Path:
        """The root of the project for new calls, which on a node is that of a commit."""
        return current_root(self.root)

    def project(self) -> Project:
        """Return the project with the current ``covalt.yaml``.

        Raises:
            BrokenConfigError: if ``covalt.yaml`` cannot be used.
        """
        opened = Project.cached(self.root, self.role)
        principal = opened.principal._replace(id=self.by, protocol="mcp", token=self.token)
        return replace(opened, principal=principal, only_chat=self.only)

    def tools(self) -> dict[str, Tool]:
        """Return the callable tools by their names, sorted by their ids."""
        # Made anew for each page, a list of 10,000 tools took 2.5 times as long as that of FastMCP.
        return self._cache.get(("tools", self.style, self._scope), self._files(), self._tools)

    def shown_tools(self) -> dict[str, Tool]:
        """Return the tools whose descriptions agents get: without those that only a pull has accepted.

        A call of one of them is refused with what its user has to trust.
        """
        return self._cache.get(("shown", self.style, self._scope), self._files(), self._shown_tools)

    def _shown_tools(self) -> dict[str, Tool]:
        tools = self.tools()
        shown = {tool.tool_id for tool in without_pulled(self.current_root, tools.values())}
        return {name: tool for name, tool in tools.items() if tool.tool_id in shown}

    @property
    def _scope(self) -> tuple[object, ...] | None:
        return None if self.token is None else self.token.scope

    def _files(self) -> tuple[Path, ...]:
        """Return the files that determine the tools."""
        return server_offers.access_files(self.current_root)

    def _tools(self) -> dict[str, Tool]:
        project = self.project()
        with project.tool_index() as index:
            index.sync_toolsets()
            tools = project.catalog.visible(index.tools())
        catalog = project.catalog
        callable_tools = {
            tool.tool_id: tool
            for tool in tools
            if catalog.may_call(tool).allowed and "direct" in tool.callers
        }
        callable_tools = {
            tool_id: catalog.with_target(tool)
            for tool_id, tool in callable_tools.items()
            # An alias must not show what its hidden target does.
            if tool.alias_of is None or tool.alias_of in callable_tools
        }
        first = tool_names.named_first(self.current_root, callable_tools)
        names = tool_names.names(
            sorted(callable_tools), self.style, reserved=meta_tools.NAMES, first=first
        )
        return {name: callable_tools[tool_id] for name, tool_id in names.items()}

    def offer(self) -> Offer:
        """Return all tools, prompts, resources and skills for clients."""
        project = self.project()
        with project.tool_index() as index:
            index.sync_toolsets()
            prompts = {prompt.id: prompt.what for prompt in project.catalog.prompts(index)}
            resources = {
                item.what.uri or item.what.uri_template or "": item.digest
                for item in project.catalog.resources(index)
            }
        of_servers = server_offers.prompts(server_offers.visible(project, "prompt"))
        prompts |= {prompt_id: prompt.what for prompt_id, prompt in of_servers.items()}
        for kind in ("resource", "template"):
            resources |= {
                server_offers.uri_of(offer): offer.locked.digest
                for offer in server_offers.visible(project, kind)
            }
        return Offer(self.shown_tools(), prompts, resources, offered_skills.versions(project))

    def listed(
        self, *, needs_chat: bool = False, apps: bool = False
    ) -> dict[str, Callable[[], types.Tool]]:
        """Return a function that describes each tool, by keys in the order of the list.

        With ``needs_chat``, the tools that work in a chat have an argument for it; with ``apps``, the tools
        are described for hosts of MCP Apps.
        """
        load = partial(self._listed, needs_chat=needs_chat, apps=apps)
        return self._cache.get(
            (self.style, self.mode, needs_chat, apps, self._scope), self._files(), load
        )

    def _listed(self, *, needs_chat: bool, apps: bool) -> dict[str, Callable[[], types.Tool]]:
        listed: dict[str, Callable[[], types.Tool]] = {}
        for name, own in meta_tools.own_tools(self.mode).items():
            # The key is sorted before all ids.
            listed[f"!{name}"] = partial(meta_tools.describe, own, needs_chat=needs_chat)
        names = self.shown_tools()
        if self.mode == "search":
            names = {name: names[name] for name in self._search_names()}
        for name, tool in names.items():
            describe = partial(
                tool_listing.describe, tool, name, root=self.current_root, needs_chat=needs_chat
            )
            listed[tool.tool_id] = cache(describe)
        if not apps:
            return listed
        tools = {tool.tool_id: tool for tool in names.values()}
        for_pages = mcp_apps.tools_of_pages(tools.values())
        return {
            key: cache(
                partial(mcp_apps.with_page, describe, tools.get(key), for_pages=key in for_pages)
            )
            for key, describe in listed.items()
        }

    def call(
        self, call: ClientCall, follower: Follower, begin: Begin | None = None
    ) -> types.CallToolResult | TaskPlace:
        """Call a tool, and return its result or error.

        ``begin`` is called when the call may become a task, which its result is while it is pending.  Without it, its
        client does not support tasks.

        Raises:
            NoSuchToolError: if the tool does not exist for the client.
            TaskNeededError: if the client does not support tasks, and has to.
        """
        project = self.project()
        own = meta_tools.own_tools(self.mode).get(call.name)
        with self._recording(project, call.name, call.args):
            if own is None and self.mode == "search" and call.name not in self._search_names():
                raise NoSuchToolError(f"{call.name!r} is not a listed tool; call it with call_tool")
            tool = None if own else self._find(project, call.name)
        if tool is not None:
            schema = tool.tool.output_schema
            call = call._replace(delivery=call.delivery._replace(schema=schema))
        try:
            if own is not None:
                return self._call_meta_tool(project, own, call, follower, begin)
            assert tool is not None
            call = _with_chat(call, tool.tool.input_schema)
            return self._call_tool(project, tool, call, follower, begin)
        except (TokenRefusedError, TaskNeededError):
            raise  # they have error codes of JSON-RPC
        except CovaltError as error:
            return results.of_error(error, call.delivery, self.style)

    def check_access(self, tool_id: str) -> None:
        """Check that the principal may still call a tool, as it could when the call began.

        Raises:
            CovaltError: as :func:`.call_access.check`.
        """
        key = ("access", tool_id, self.role, self._scope)
        call_access.check(self.project, tool_id, self._files(), partial(self._cache.get_by, key))

    def _search_names(self) -> set[str]:
        """Return the names of the tools of the project that are listed in search mode: of scripts, if the role may run them."""
        return {name for name, tool in self.tools().items() if tool.tool_id == RUN_SCRIPT}

    def _call_meta_tool(
        self,
        project: Project,
        own: types.Tool,
        call: ClientCall,
        follower: Follower,
        begin: Begin | None,
    ) -> types.CallToolResult | TaskPlace:
        if own.name == meta_tools.CALL.name:
            call = _with_chat(call, own.input_schema)
        args = meta_tools.check(own, call.args)
        match own.name:
            case "search_tools":
                matches = self._search(project, args["query"], args["limit"])
                return results.of_value({"tools": matches})
            case "read_tool":
                tool = self._find(project, args["name"]).tool
                if args["name"] not in self.shown_tools():
                    raise NoSuchToolError(f"no tool has the name {args['name']!r}")
                described = tool_listing.describe(tool, args["name"], root=self.current_root)
                facts = described.model_dump(mode="json", by_alias=True, exclude_none=True)
                return results.of_value(facts)
            case "call_tool":
                with self._recording(project, args["name"], args["arguments"]):
                    target = self._find(project, args["name"])
                inner = call._replace(name=args["name"], args=args["arguments"])
                return self._call_tool(project, target, inner, follower, begin)
            case "read_result":
                resources = self.resources(call.client, call.chat_id)
                text, pages = resources.read_page(args["resource"], args["page"])
                return results.of_page(text, args["page"], pages)
        execution_id, approved = args["execution_id"], args.get("approved")
        if approved is None:
            outcome = approvals.resume(project, execution_id)
        else:
            outcome = approvals.decide(
                project, execution_id, follower, approved=approved, pages=self.pages
            )
        outcome = approvals.of_its_script(project, outcome, self.pages)
        return self._result(project, call, outcome, ClientChat(outcome.call.chat_id))

    def _result(
        self,
        project: Project,
        call: ClientCall,
        outcome: CallOutcome,
        chat: ClientChat,
        resource: str | None = None,
        *,
        tool: Tool | None = None,
    ) -> types.CallToolResult:
        """Return the outcome of a call of a tool for its client."""
        read = results.reader(project, outcome.call)
        delivery = call.delivery._replace(
            most_bytes=project.config.limits.result_kb << 10,
            wraps=tool is not None and large_results.is_wrapped(tool.output_schema),
        )
        return results.of_outcome(
            outcome,
            chat,
            read,
            delivery=delivery,
            style=self.style,
            resource=resource,
            of_server=tool is not None and tool.kind == "mcp",
            page_calls=self._page_calls(call, outcome.call),
        )

    def _page_calls(self, call: ClientCall, record: ToolCall) -> JsonObject | None:
        """Return the tools that the page of a result may call, for a host of MCP Apps.

        A host refuses calls of tools that are not listed, as in search mode.
        """
        plan = record.render_plan
        if (
            not call.delivery.apps
            or self.mode == "search"
            or plan is None
            or plan.renderer != "html"
        ):
            return None
        tools = self.tools()
        tool = next((tool for tool in tools.values() if tool.tool_id == record.tool_id), None)
        if tool is None:
            return None
        chat_id = record.chat_id if call.delivery.names_chat else None
        return mcp_apps.page_calls(tool, tools, chat_id)

    def task_result(
        self, project: Project, outcome: CallOutcome, delivery: Delivery
    ) -> types.CallToolResult:
        """Return the outcome of a call that its client fetches as a task."""
        tool = None
        with suppress(CovaltError):  # the tool was deleted since, or cannot be called now
            tool = project.catalog.find_callable(outcome.call.tool_id).tool
        schema = {} if tool is None else tool.output_schema
        client = ClientCall(Client(""), outcome.call.tool_id, {}, delivery._replace(schema=schema))
        return self._result(project, client, outcome, ClientChat(outcome.call.chat_id), tool=tool)

    def _search(self, project: Project, query: str, limit: int) -> list[JsonObject]:
        """Return the callable tools that match a query, the best match first."""
        names = {tool.tool_id: name for name, tool in self.shown_tools().items()}
        with project.tool_index() as index:
            index.sync_toolsets()
            # The search also finds disabled tools; half of the results are assumed to be enabled.
            candidates = project.catalog.search(index, query, limit=2 * limit)
        matches = [tool for tool in candidates if tool.tool_id in names][:limit]
        return [
            {"name": names[tool.tool_id], "title": tool.name, "description": tool.description}
            for tool in matches
        ]

    def resources(
        self, client: Client, chat_id: str | None = None, *, apps: bool = False
    ) -> Resources:
        """Return the resources of a client, in the chat that its request names, if any.

        With ``apps``, the list includes the pages of MCP Apps.
        """
        project = self.project()
        pages = AppPages(project, self.tools)
        return Resources(project, self.chats, client, chat_id, pages, list_pages=apps)

    def prompts(self) -> Prompts:
        """Return the prompts of the project."""
        return Prompts(self.project(), self.style)

    def _call_tool(
        self,
        project: Project,
        target: Found,
        call: ClientCall,
        follower: Follower,
        begin: Begin | None,
    ) -> types.CallToolResult | TaskPlace:
        tool = target.tool
        call.on_found((target.alias or tool).tool_id)
        if tool.task_support == "required" and begin is None:
            raise TaskNeededError(f"{tool.tool_id} takes too long to wait for its result")
        request = CallRequest(target.tool_id, call.args, call_id=new_id(), fresh=True)
        with Context.of(project, follower=follower, page=self.pages) as context:
            # Before the chat: an invalid call must not create one
            # (test_invalid_arguments_are_all_reported_and_make_no_chat).
            target = context.engine().check(request, target)
            self.chats.check_known(project, call.client, call.chat_id)
            # Only valid calls that change the workspace create a chat.
            if (
                tool.kind == "builtin"
                and tool.tool_id not in CREATE_CHATS
                and self.chats.find(project, call.client, call.chat_id) is None
            ):
                raise NoChatError
            client_chat = self.chats.find_or_create(project, call.client, call.chat_id)
            chat = context.chat(client_chat.id)
            assert request.call_id is not None
            owner = (project.principal.id, project.principal.role)
            place = TaskPlace(
                chat.id, request.call_id, target.tool_id, owner, tool.task_support == "required"
            )
            # The result of a call that is not recorded could not be fetched after a restart.
            if begin is not None and (is_recorded(tool.tool_id) or tool.tool_id == RUN_SCRIPT):
                begin(place)
            follower.cancel.client = (project.principal.id, call.client.anonymous)
            # A call that its client left with a question holds the chat, and this one would wait for it
            # (test_another_call_of_the_client_cancels_one_that_it_left_with_a_question).
            RUNNING.end_left(chat.id, follower.cancel.client)
            outcome = make_call(context, chat, request, target)
            resource = None
            if tool.tool_id == READ_FILE:
                name = call.args.get("manifest")
                manifest_id = context.commit_id(chat, name) if name else None
                resource = resource_uris.file(chat.id, call.args["path"], manifest_id=manifest_id)
        if outcome.approval is not None and begin is not None:
            return place
        # After the context is closed: a user may need minutes, and other calls use the chat meanwhile.
        if outcome.approval is not None:
            outcome = approvals.request_approval(
                project, outcome, follower, pages=self.pages, ask_again=call.delivery.modern
            )
            outcome = approvals.of_its_script(project, outcome, self.pages)
        return self._result(project, call, outcome, client_chat, resource, tool=tool)

    @contextmanager
    def _recording(self, project: Project, name: str, args: JsonObject) -> Iterator[None]:
        """Record a refusal of a call whose tool is found by its name in the client's style."""
        try:
            yield
        except CovaltError as error:
            tool_id = tool_names.path_of(name) or self._id_of_any(project, name)
            if tool_id is not None:
                project.engine().decisions.refused(error, tool_id, args)
            raise

    def _id_of_any(self, project: Project, name: str) -> str | None:
        """Return the id of a tool with a name, which may be hidden from the client; None if no tool has it."""
        with suppress(IndexUnusableError), project.tool_index() as index:
            for tool in index.tools():
                if name in tool_names.names([tool.tool_id], self.style):
                    return tool.tool_id
        return None

    def _find(self, project: Project, name: str) -> Found:
        """Return the tool with a name; if its toolset has errors, from the last valid version of the toolset.

        Raises:
            NoSuchToolError: if it does not exist for the client; the same for hidden, disabled and missing tools.
        """
        if self.style == "dots":
            tool_id = tool_names.path_of(name)
        else:
            tool = self.tools().get(name)
            tool_id = None if tool is None else tool.tool_id
        if tool_id is not None:
            # The same answer for all: another one would reveal which tools a role does not have
            # (test_hidden_disabled_and_missing_tools_get_one_answer).
            with suppress(UnknownNameError, DisabledToolError):
                return project.catalog.find_callable(tool_id)
        tools = self.tools()
        nearest = nearest_harmless(name, tools, lambda near: not may_destroy(tools[near]))
        hint = f"did you mean {nearest!r}?" if nearest else ""
        raise NoSuchToolError(f"unknown tool {name!r}", hint=hint)


def _with_chat(call: ClientCall, schema: JsonObject) -> ClientCall:
    """Return a call with the chat from its arguments, if they name one."""
    chat_id = call.args.get(tool_listing.CHAT_ARGUMENT)
    # A page of an MCP App also names the chat that its host may name in ``_meta`` or the URL.
    is_possible = (
        call.client.stateless
        and call.chat_id in (None, chat_id)
        and tool_listing.can_name_chat(schema)
    )
    if not is_possible or not isinstance(chat_id, str):
        return call
    rest = {name: value for name, value in call.args.items() if name != tool_listing.CHAT_ARGUMENT}
    return call._replace(args=rest, chat_id=chat_id)
