"""The MCP server: what clients ask in either era, answered by a :class:`Gateway` in threads."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import anyio
import mcp_types as types
from anyio.to_thread import run_sync
from mcp import MCPError
from mcp.server import CacheHint, NotificationOptions, Server
from mcp.server.apps import client_supports_apps
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.inbound import x_mcp_header_map

from covalt_git import __version__
from covalt_git.errors import CovaltError
from covalt_git.gateway import (
    agent_hints,
    elicitation,
    meta_tools,
    resource_uris,
    results,
    subscriptions,
    tool_listing,
    tool_names,
)
from covalt_git.gateway.client_chats import STATELESS, Client
from covalt_git.gateway.following import Calls
from covalt_git.gateway.mcp_apps import EXTENSION
from covalt_git.gateway.meta_tools import Mode
from covalt_git.gateway.prompts import MissingArgumentError, NoSuchPromptError, completed
from covalt_git.gateway.protocol import is_modern
from covalt_git.gateway.resources import NoSuchResourceError
from covalt_git.gateway.results import SHOWN
from covalt_git.gateway.service import ClientCall, Gateway, NoSuchToolError
from covalt_git.gateway.subscriptions import Listeners, OfferChanges
from covalt_git.gateway.tool_names import STYLES
from covalt_git.names import suggest_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from mcp.server import InitializationOptions, ServerRequestContext
    from mcp.server.caching import CacheableMethod
    from mcp.server.subscriptions import ServerEvent

    from covalt_git.gateway.resources import Resources
    from covalt_git.gateway.subscriptions import Offer
    from covalt_git.json_values import JsonObject
    from covalt_git.models.outcomes import Log
    from covalt_git.models.tool import Tool


_logger = logging.getLogger(__name__)

Result = TypeVar("Result")

END_S = 2.0
"""How long calls have to end when the server does, in seconds."""

TTL_MS = 5_000
"""How long a client may take a list for fresh, in milliseconds; every call is decided anew."""

CACHEABLE: tuple[CacheableMethod, ...] = (
    *("server/discover", "tools/list", "prompts/list"),
    *("resources/list", "resources/templates/list", "resources/read"),
)
"""What clients may keep for so long."""

_NOT_THERE = frozenset({403, 404})
"""The statuses of HTTP of errors over what a client names and is not there for it."""

CHAT = results.CHAT
"""Where a request may name the chat that it is about, in ``_meta``."""


class McpServer(Server[None]):
    """The SDK's server, which tells the clients of every transport that lists may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return what the handshake tells."""
        told = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(told, experimental_capabilities, extensions)


class Faces:
    """What the server answers to each request, and what it tells unasked.

    ``only_client`` is the key of the one client that there is, as on stdio: an agent with the name that it
    gives.  Without it, clients are distinguished by their sessions, which do not exist since 2026-07-28.
    """

    def __init__(self, gateway: Gateway, *, only_client: str | None = None) -> None:
        self._gateway = gateway
        self._only_client = only_client
        self._seal = elicitation.boundary(gateway.role)
        self._listeners = Listeners()
        self._calls = Calls(self._log)
        self._follows = anyio.Event()
        self._mirrored: dict[str, JsonObject] = {}
        # Of its own: it is waited for without an end, and there may be many servers.
        self._watching = anyio.CapacityLimiter(1)

    def server(self) -> McpServer:
        """Return the server, for any transport."""
        soon = CacheHint(ttl_ms=TTL_MS, scope="private")
        server = McpServer(
            "covalt-git",
            version=__version__,
            title="covalt-git",
            description="An AI assistant's tools, and its work in Git",
            instructions=self._instructions(),
            cache_hints=dict.fromkeys(CACHEABLE, soon),
            lifespan=self._life,
            get_tool_input_schema=self._mirrored_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_subscriptions_listen=self._listeners.streams,
        )
        # Not by the constructor, which warns that it is no more since 2026-07-28.
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.middleware.append(self._seal)
        server.extensions[EXTENSION] = {}
        return server

    async def end(self, grace_s: float) -> None:
        """End the calls that run, and wait until they have ended, at most so many seconds."""
        await self._calls.end(grace_s)

    def _instructions(self) -> str:
        only = self._gateway.only
        where = (
            f"the chat {only.id}"
            if only
            else "a chat of its own, which its first call that needs one creates"
        )
        return (
            f"The tools work on the files of a workspace in Git. This client works in {where}. "
            "Every call is a commit there, so that nothing is lost. A call that waits for a person "
            "returns an execution_id: tell the person, who alone can approve it."
        )

    # Requests

    async def _list_tools(
        self, ctx: ServerRequestContext[None], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._register_session(ctx)
        await self._follows.wait()  # so that what changes after this is told
        listed = await self._read_project(
            partial(
                self._gateway_of(ctx).listed,
                modern=is_modern(ctx),
                chat_asked=self._key(ctx) == STATELESS and _chat_named(ctx) is None,
                apps=client_supports_apps(ctx),
            )
        )
        told, following = tool_listing.page_of(listed, params)
        return types.ListToolsResult(tools=told, next_cursor=following)

    async def _call_tool(
        self, ctx: ServerRequestContext[None], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        self._register_session(ctx)
        asked = ClientCall(
            self._client(ctx),
            params.name,
            params.arguments or {},
            modern=is_modern(ctx),
            chat_id=_chat_named(ctx),
        )
        try:
            result = await self._calls.run(ctx, partial(self._gateway_of(ctx).call, asked))
        except NoSuchToolError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        except CovaltError as error:
            return results.of_error(error)
        except MCPError:
            raise
        except Exception:
            # Before 2026-07-28 the SDK would tell the client its words, whatever is in them.
            _logger.exception("a call of %r ended in an error of ours", params.name)
            return results.of_error(_broken())
        if isinstance(result, types.CallToolResult):
            await self._notify_of_files(result)
        return result

    async def _list_resources(
        self, ctx: ServerRequestContext[None], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        self._register_session(ctx)
        listed = await self._read_project(lambda: self._resources(ctx).listed())
        told, following = tool_listing.page_of(listed, params)
        return types.ListResourcesResult(resources=told, next_cursor=following)

    async def _list_templates(
        self, ctx: ServerRequestContext[None], _: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        told = await self._read_project(lambda: self._resources(ctx).templates())
        return types.ListResourceTemplatesResult(resource_templates=told)

    async def _read_resource(
        self, ctx: ServerRequestContext[None], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        self._register_session(ctx)
        found = await self._read_project(lambda: self._resources(ctx).read(params.uri))
        return types.ReadResourceResult(contents=[found])

    async def _subscribe(
        self, ctx: ServerRequestContext[None], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        await self._read_project(lambda: self._resources(ctx).read(params.uri))
        self._listeners.subscribe(self._register_session(ctx), params.uri)
        return types.EmptyResult()

    async def _unsubscribe(
        self, ctx: ServerRequestContext[None], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._listeners.unsubscribe(self._register_session(ctx), params.uri)
        return types.EmptyResult()

    async def _set_level(
        self, ctx: ServerRequestContext[None], params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self._listeners.set_level(self._register_session(ctx), params.level)
        return types.EmptyResult()

    async def _list_prompts(
        self, ctx: ServerRequestContext[None], params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        self._register_session(ctx)
        listed = await self._read_project(lambda: self._gateway_of(ctx).prompts().listed())
        told, following = tool_listing.page_of(listed, params)
        return types.ListPromptsResult(prompts=told, next_cursor=following)

    async def _get_prompt(
        self, ctx: ServerRequestContext[None], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        prompts = await self._read_project(self._gateway_of(ctx).prompts)
        given = await self._read_project(partial(prompts.find, params.name))
        args = await elicitation.prompt_arguments(ctx, given.what, params.arguments or {})
        if isinstance(args, types.InputRequiredResult):
            return args
        return await self._read_project(partial(prompts.get, given, args))

    async def _complete(
        self, ctx: ServerRequestContext[None], params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        found = await self._read_project(
            lambda: completed(self._gateway_of(ctx).prompts(), params.ref, params.argument)
        )
        return types.CompleteResult(completion=found)

    def _resources(self, ctx: ServerRequestContext[None]) -> Resources:
        apps = client_supports_apps(ctx)
        return self._gateway_of(ctx).resources(self._client(ctx), _chat_named(ctx), apps=apps)

    async def _read_project(self, look: Callable[[], Result]) -> Result:
        """Return what a look at the project finds.

        Raises:
            MCPError: in place of an error of ours.
        """
        try:
            return await run_sync(look)
        except (NoSuchResourceError, NoSuchPromptError, MissingArgumentError) as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        except CovaltError as error:
            named_wrongly = error.http_status in _NOT_THERE
            code = types.INVALID_PARAMS if named_wrongly else types.INTERNAL_ERROR
            raise MCPError(code, error.message, agent_hints.error_facts(error)) from None
        except MCPError:
            raise
        except Exception:
            _logger.exception("a look at the project ended in an error of ours")
            raise MCPError(types.INTERNAL_ERROR, _broken().message) from None

    def _gateway_of(self, ctx: ServerRequestContext[None]) -> Gateway:
        """Return the gateway with the options in the query of the URL, ``/mcp?names=underscore&mode=search``.

        Raises:
            MCPError: when an option has another value than it may.
        """
        query = {} if ctx.request is None else ctx.request.query_params
        chosen: dict[str, Any] = {}
        for key, field, known in (("names", "style", STYLES), ("mode", "mode", get_args(Mode))):
            value = query.get(key)
            if value not in (None, *known):
                told = f"the address says {key}={value!r}, which is none of {', '.join(known)}"
                raise MCPError(types.INVALID_PARAMS, told)
            if value is not None:
                chosen[field] = value
        if self._only_client is not None:
            chosen["by"] = f"agent:{suggest_id(self._client(ctx).name) or 'mcp-client'}"
        return replace(self._gateway, **chosen)

    def _client(self, ctx: ServerRequestContext[None]) -> Client:
        told = ctx.session.client_params
        if told is None:
            return Client(self._key(ctx))
        return Client(self._key(ctx), told.client_info.name, told.client_info.title or "")

    def _key(self, ctx: ServerRequestContext[None]) -> str:
        if self._only_client is not None:
            return self._only_client
        if is_modern(ctx) or ctx.request is None:
            return STATELESS
        session: str = ctx.request.headers.get("mcp-session-id", STATELESS)
        return session

    # What is told unasked

    @asynccontextmanager
    async def _life(self, _: Server[None]) -> AsyncIterator[None]:
        """Tell of what changes for as long as the server is there, and end what runs at its end."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._notify_of_changes)
            try:
                yield
            finally:
                self._listeners.close()
                with anyio.CancelScope(shield=True):
                    await self._calls.end(END_S)  # those that wait for an answer wait in vain now
                group.cancel_scope.cancel()

    async def _notify_of_changes(self) -> None:
        # Kept by the thread that makes them: who is cancelled meanwhile never has what it returns.
        made: list[OfferChanges] = []
        try:
            try:
                root, offered = self._gateway.root, self._gateway.offer
                await run_sync(lambda: made.append(OfferChanges(root, offered)))
                (changes,) = made
                self._mirrored = await run_sync(schemas, changes.offer.tools.values())
            finally:
                self._follows.set()
            wait = partial(run_sync, changes.wait, abandon_on_cancel=True, limiter=self._watching)
            while (changed := await wait()) is not None:
                tools = changes.offer.tools.values()
                self._mirrored = await run_sync(schemas, tools)
                for event in _events(*changed):
                    await self._listeners.tell(event)
        finally:
            for changes in made:
                changes.close()

    async def _notify_of_files(self, result: types.CallToolResult) -> None:
        """Tell whoever listens of the files that a result links to because they changed."""
        links = [
            one
            for one in result.content
            if isinstance(one, types.ResourceLink) and one.description != SHOWN
        ]
        for link in links:
            uri = resource_uris.file((result.meta or {})[CHAT], link.name)
            await self._listeners.tell(ResourceUpdated(uri=uri))
        if links:
            await self._listeners.tell(ResourcesListChanged())

    def _mirrored_schema(self, name: str) -> JsonObject | None:
        return self._mirrored.get(name)

    async def _log(self, ctx: ServerRequestContext[None], log: Log) -> None:
        await subscriptions.tell(ctx, log, self._listeners.level(self._key(ctx)))

    def _register_session(self, ctx: ServerRequestContext[None]) -> str:
        """Take note of a client that is told of changes without a stream for it; return its key."""
        key = self._key(ctx)
        if key and not is_modern(ctx):
            self._listeners.seen(key, ctx.session)
        return key


def _events(before: Offer, now: Offer) -> Iterator[ServerEvent]:
    """Yield what clients are told when something else is offered."""
    if before.tools != now.tools:
        yield ToolsListChanged()
    if before.prompts != now.prompts:
        yield PromptsListChanged()
    if before.resources.keys() != now.resources.keys():
        yield ResourcesListChanged()
    for uri in before.resources.keys() & now.resources.keys():
        if before.resources[uri] != now.resources[uri]:
            yield ResourceUpdated(uri=uri)


def _chat_named(ctx: ServerRequestContext[None]) -> str | None:
    """Return the chat that a request names: in its ``_meta``, else in its address, ``/mcp?chat=c1``."""
    named = (ctx.meta or {}).get(CHAT)
    if named is None and ctx.request is not None:
        named = ctx.request.query_params.get("chat")
    return named if isinstance(named, str) else None


def _broken() -> CovaltError:
    error = CovaltError("something is broken in covalt-git; its error stream tells more")
    error.code = "internal_error"
    return error


def schemas(tools: Iterable[Tool]) -> dict[str, JsonObject]:
    """Return the schemas of such tools by every name that a client may call them by.

    A name that stands for another tool in another style is that of none: nothing is refused for it.
    """
    known = {tool.tool_id: tool for tool in tools}
    mirroring = {one for one, tool in known.items() if x_mcp_header_map(tool.input_schema)}
    if not mirroring:
        return {}
    meant: dict[str, set[str]] = {}
    for style in tool_names.STYLES:
        named = tool_names.names(sorted(known), style, taken=meta_tools.NAMES)
        for name, tool_id in named.items():
            meant.setdefault(name, set()).add(tool_id)
    return {
        name: known[tool_id].input_schema
        for name, (tool_id, *others) in meant.items()
        if not others and tool_id in mirroring
    }
