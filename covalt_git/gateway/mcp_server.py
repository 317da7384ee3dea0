"""MCP server: handles the requests of both protocol versions with a :class:`Gateway`, in threads."""

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
from covalt_git.access.security import TokenRefusedError
from covalt_git.calls.running import STOPPED
from covalt_git.catalog import tool_names
from covalt_git.catalog.tool_names import STYLES
from covalt_git.errors import CovaltError
from covalt_git.gateway import (
    agent_hints,
    elicitation,
    meta_tools,
    results,
    subscriptions,
    tool_listing,
)
from covalt_git.gateway.call_access import OpenCall
from covalt_git.gateway.client_calls import Calls
from covalt_git.gateway.client_chats import Client
from covalt_git.gateway.large_results import Delivery
from covalt_git.gateway.mcp_apps import EXTENSION
from covalt_git.gateway.meta_tools import Mode
from covalt_git.gateway.plain_json import ANSWER
from covalt_git.gateway.prompts import MissingArgumentError, NoSuchPromptError, complete
from covalt_git.gateway.protocol import (
    CHECKED,
    DENIED,
    NO_TOKEN,
    OPEN_CALLS,
    has_structured_content,
    is_modern,
)
from covalt_git.gateway.resources import resource_uris
from covalt_git.gateway.resources.handlers import NoSuchResourceError
from covalt_git.gateway.results import SHOWN
from covalt_git.gateway.service import ClientCall, Gateway, NoSuchToolError, TaskNeededError
from covalt_git.gateway.skills import offered_skills, skill_requests
from covalt_git.gateway.stateless_clients import Sender, StatelessClients, conversation_of
from covalt_git.gateway.subscriptions import Listeners, OfferChanges
from covalt_git.gateway.tasks import left_tasks
from covalt_git.gateway.tasks.task import TaskPlace
from covalt_git.gateway.tasks.task_notices import TaskListener
from covalt_git.gateway.tasks.task_requests import TaskRequests, check_support, supports_tasks
from covalt_git.names import LOCAL_CLIENT, suggest_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from mcp.server import InitializationOptions, ServerRequestContext
    from mcp.server.caching import CacheableMethod
    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.subscriptions import ServerEvent

    from covalt_git.calls.running import Follower
    from covalt_git.gateway.client_calls import Begin
    from covalt_git.gateway.plain_json import HeldAnswer
    from covalt_git.gateway.resources.handlers import Resources
    from covalt_git.gateway.subscriptions import Offer
    from covalt_git.json_values import JsonObject
    from covalt_git.models.outcomes import Log
    from covalt_git.models.sources.skill_entry import SkillEntry
    from covalt_git.models.tool import Tool


_logger = logging.getLogger(__name__)

Result = TypeVar("Result")

END_S = 2.0
"""Time that running calls get when the server stops, in seconds."""

TTL_MS = 5_000
"""Time that clients may cache lists, in milliseconds; access is decided anew for each call."""

CACHEABLE: tuple[CacheableMethod, ...] = (
    *("server/discover", "tools/list", "prompts/list"),
    *("resources/list", "resources/templates/list", "resources/read"),
)
"""Methods whose results clients may cache for that time."""

_NOT_FOUND = frozenset({403, 404})
"""HTTP statuses of errors about things that do not exist for the client."""

_SENDER = "covalt_git.sender"
"""Key of an ASGI scope with the :class:`Sender` without a session."""

_PROXY_HEADERS = ("via", "forwarded", "x-forwarded-for")
"""Headers of a request that a proxy sent, which may send requests of several clients through one connection."""

_UNAUTHORIZED = 401

CHAT = results.CHAT
"""Key of a request's ``_meta`` with the id of its chat."""


class GatewayServer(Server[None]):
    """The SDK's server; declares on every transport that it notifies clients of changed lists."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the server's part of the handshake."""
        flags = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(flags, experimental_capabilities, extensions)


class RequestHandlers:
    """Handlers of all requests, and the notifications to clients.

    ``only_client`` is the key of the only client, as on stdio, which acts for the user of this machine; its name is a label.
    Without it, clients are distinguished by their sessions, and since protocol version 2026-07-28 as in
    :mod:`.stateless_clients`.  ``end_reason`` is why their calls are cancelled when the server ends.
    """

    def __init__(self, gateway: Gateway, *, only_client: str | None = None) -> None:
        self.end_reason = STOPPED
        self._gateway = gateway
        self._only_client = only_client
        self._seal = elicitation.boundary(gateway.role)
        self._listeners = Listeners()
        self._stateless = StatelessClients()
        self._calls = Calls(self._log)
        self._tasks = TaskRequests(
            self._calls, self._gateway_of, self._delivery, self._read_project
        )
        self._watch_started = anyio.Event()
        self._header_schemas: dict[str, JsonObject] = {}
        # An own thread: it waits until the server stops, and there may be many servers.
        self._watch_thread = anyio.CapacityLimiter(1)

    def server(self) -> GatewayServer:
        """Return the server, for any transport."""
        hint = CacheHint(ttl_ms=TTL_MS, scope="private")
        server = GatewayServer(
            "covalt-git",
            version=__version__,
            title="covalt-git",
            description="An AI assistant's tools, and its work in Git",
            instructions=self._instructions(),
            cache_hints=dict.fromkeys(CACHEABLE, hint),
            lifespan=self._lifespan,
            get_tool_input_schema=self._header_schema,
            on_list_tools=self._list_tools,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_subscriptions_listen=TaskListener(self._listeners.streams, self._tasks),
        )
        # The constructor takes no handler whose result may be that of an extension.
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        # The constructor would warn that the method is removed in 2026-07-28.
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.middleware += [self._seal, self._identify]
        server.extensions[EXTENSION] = {}
        skill_requests.add_to(server, self._visible_skills)
        self._tasks.add_to(server)
        return server

    async def end(self, grace_s: float) -> None:
        """Cancel the running calls, and wait at most ``grace_s`` seconds for their end."""
        await self._calls.end(grace_s, self.end_reason)

    def _instructions(self) -> str:
        only = self._gateway.only
        own = "its own chat, which its first call that needs one creates"
        where = f"the chat {only.id}" if only else own
        return (
            f"The tools work on the files of a workspace in Git. This client works in {where}. "
            "Each call is a commit, so that no change is lost. A call that needs approval returns an "
            "execution_id: ask the user to approve it, because only the user can."
        )

    # Requests

    async def _list_tools(
        self, ctx: ServerRequestContext[None], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._register_session(ctx)
        await self._watch_started.wait()  # so that the client is notified of every later change
        listed = await self._read_project(
            partial(
                self._gateway_of(ctx).listed,
                needs_chat=self._is_stateless(ctx) and _chat_named(ctx) is None,
                apps=client_supports_apps(ctx),
            )
        )
        page, cursor = tool_listing.page_of(listed, params)
        return types.ListToolsResult(tools=page, next_cursor=cursor)

    async def _call_tool(
        self, ctx: ServerRequestContext[None], params: types.CallToolRequestParams
    ) -> HandlerResult:
        self._register_session(ctx)
        delivery, gateway = self._delivery(ctx), self._gateway_of(ctx)
        with_tasks = supports_tasks(ctx)
        call = ClientCall(
            self._client(ctx),
            params.name,
            params.arguments or {},
            delivery,
            _chat_named(ctx),
            # What the call sends leaves only while its client may call the tool.
            lambda tool_id: _open_calls(ctx).append(
                OpenCall(ctx.request_id, partial(gateway.check_access, tool_id))
            ),
        )

        def work(follower: Follower, begin: Begin) -> types.CallToolResult | TaskPlace:
            return gateway.call(call, follower, begin if with_tasks else None)

        try:
            after_s = None
            if with_tasks:
                after_s = (await run_sync(gateway.project)).config.limits.task_after_s
            result = await self._calls.run(
                ctx, work, task_after_s=after_s, on_end=self._notify_of_files
            )
        except NoSuchToolError as error:
            hint = agent_hints.for_agent(error.hint)
            message = "; ".join(filter(None, (error.message, hint)))
            if self._gateway.token is None:
                raise MCPError(types.INVALID_PARAMS, message) from None
            data = {"error": error.code}
            raise MCPError(types.METHOD_NOT_FOUND, message, data) from None
        except TokenRefusedError as error:
            code = NO_TOKEN if error.http_status == _UNAUTHORIZED else DENIED
            raise MCPError(code, error.message, agent_hints.error_facts(error)) from None
        except TaskNeededError:
            check_support(ctx)
            raise
        except CovaltError as error:
            return results.of_error(error, delivery._replace(schema={}))
        except MCPError:
            raise
        except Exception:
            # Before 2026-07-28 the SDK would send the exception's text, which may be confidential.
            _logger.exception("a call of %r failed because of a bug in covalt-git", params.name)
            # Whether the tool was listed with an output schema is unknown here.
            return results.of_error(_broken(), delivery._replace(schema={}))
        if isinstance(result, TaskPlace):
            return await self._tasks.created(ctx, result.task_id)
        await self._notify_of_files(result)
        return result

    def _delivery(self, ctx: ServerRequestContext[None]) -> Delivery:
        return Delivery(
            has_structured_content(ctx),
            is_modern(ctx),
            apps=client_supports_apps(ctx),
            names_chat=self._is_stateless(ctx),
        )

    async def _list_resources(
        self, ctx: ServerRequestContext[None], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        self._register_session(ctx)
        listed = await self._read_project(lambda: self._resources(ctx).listed())
        page, cursor = tool_listing.page_of(listed, params)
        return types.ListResourcesResult(resources=page, next_cursor=cursor)

    async def _list_templates(
        self, ctx: ServerRequestContext[None], _: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        templates = await self._read_project(lambda: self._resources(ctx).templates())
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def _read_resource(
        self, ctx: ServerRequestContext[None], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        self._register_session(ctx)
        if (answer := _answer(ctx)) is not None:
            answer.silent = True  # a large file must not become an event
        contents = await self._read_project(lambda: self._resources(ctx).read_all(params.uri))
        return types.ReadResourceResult(contents=[*contents])

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
        page, cursor = tool_listing.page_of(listed, params)
        return types.ListPromptsResult(prompts=page, next_cursor=cursor)

    async def _get_prompt(
        self, ctx: ServerRequestContext[None], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        prompts = await self._read_project(self._gateway_of(ctx).prompts)
        prompt = await self._read_project(partial(prompts.find, params.name))
        args = await elicitation.prompt_arguments(ctx, prompt.what, params.arguments or {})
        if isinstance(args, types.InputRequiredResult):
            return args
        return await self._read_project(partial(prompts.get, prompt, args))

    async def _complete(
        self, ctx: ServerRequestContext[None], params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        def completed() -> types.Completion:
            prompts = self._gateway_of(ctx).prompts()
            return complete(prompts, params, self._resources(ctx).chat_id())

        completion = await self._read_project(completed)
        return types.CompleteResult(completion=completion)

    async def _visible_skills(self, ctx: ServerRequestContext[None]) -> Mapping[str, SkillEntry]:
        self._register_session(ctx)
        return await self._read_project(
            lambda: offered_skills.visible(self._gateway_of(ctx).project())
        )

    def _resources(self, ctx: ServerRequestContext[None]) -> Resources:
        apps = client_supports_apps(ctx)
        return self._gateway_of(ctx).resources(self._client(ctx), _chat_named(ctx), apps=apps)

    async def _read_project(self, read: Callable[[], Result]) -> Result:
        """Run ``read`` in a thread and return its result.

        Raises:
            MCPError: for each error of ``read``.
        """
        try:
            return await run_sync(read)
        except NoSuchResourceError as error:
            # SEP-2164: the URI is also data.
            raise MCPError(types.INVALID_PARAMS, error.message, {"uri": error.uri}) from None
        except (NoSuchPromptError, MissingArgumentError) as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        except CovaltError as error:
            not_found = error.http_status in _NOT_FOUND
            code = types.INVALID_PARAMS if not_found else types.INTERNAL_ERROR
            raise MCPError(code, error.message, agent_hints.error_facts(error)) from None
        except MCPError:
            raise
        except Exception:
            _logger.exception("reading the project failed because of a bug in covalt-git")
            raise MCPError(types.INTERNAL_ERROR, _broken().message) from None

    def _gateway_of(self, ctx: ServerRequestContext[None]) -> Gateway:
        """Return the gateway with the options in the query of the URL, ``/mcp?names=underscore&mode=search``.

        Raises:
            MCPError: if the value of an option is invalid.
        """
        query = {} if ctx.request is None else ctx.request.query_params
        # In the URL, because hosts differ in what names they accept, and one server answers all of them.
        chosen: dict[str, Any] = {}
        for key, field, values in (("names", "style", STYLES), ("mode", "mode", get_args(Mode))):
            value = query.get(key)
            if value not in (None, *values):
                problem = f"{key}={value!r} in the URL must be one of {', '.join(values)}"
                raise MCPError(types.INVALID_PARAMS, problem)
            if value is not None:
                chosen[field] = value
        if self._only_client is not None:
            # The client chooses its name, so the name is a label in records and never that of a token's agent.
            label = suggest_id(self._client(ctx).name) or "mcp-client"
            chosen["by"] = f"{LOCAL_CLIENT}{label}"
        if self._gateway.token is not None and ctx.request is not None:
            # That of this request: its holder's client may have a newer one than at the start of its session.
            chosen["token"] = ctx.request.scope[CHECKED]
        return replace(self._gateway, **chosen)

    def _client(self, ctx: ServerRequestContext[None]) -> Client:
        key = connected = self._key(ctx)
        is_certain = True
        if stateless := self._is_stateless(ctx):
            conversation = conversation_of(ctx.meta or {})
            key = conversation or connected
            is_certain = conversation != "" or _sender(ctx).is_certain
        params = ctx.session.client_params
        if params is None:
            return Client(key, "", "", stateless, connected, is_certain)
        name, title = params.client_info.name, params.client_info.title or ""
        return Client(key, name, title, stateless, connected, is_certain)

    def _key(self, ctx: ServerRequestContext[None]) -> str:
        """Return the key of a request's client; empty if it has no session, and several clients may have sent it."""
        if self._only_client is not None:
            return self._only_client
        if ctx.request is None:
            return ""
        if is_modern(ctx):
            return _sender(ctx).key
        session: str = ctx.request.headers.get("mcp-session-id", "")
        return session

    def _is_stateless(self, ctx: ServerRequestContext[None]) -> bool:
        """Return whether a request's client has no session, and is not the only client."""
        if self._only_client is not None:
            return False
        # A client without a session that names no chat could work in the files of another one.
        return is_modern(ctx) or not self._key(ctx)

    async def _identify(
        self, ctx: ServerRequestContext[None], call_next: CallNext
    ) -> HandlerResult:
        """Find out which client without a session sent a request; this counts all of its requests."""
        if ctx.request is not None and is_modern(ctx) and self._only_client is None:
            params, request = ctx.session.client_params, ctx.request
            info = None if params is None else params.client_info
            name = "" if info is None else f"{info.name} {info.version}"
            # The connection of a proxy says nothing about its clients.
            via_proxy = any(header in request.headers for header in _PROXY_HEADERS)
            connection = None if via_proxy else str(request.client)
            request.scope[_SENDER] = self._stateless.sender(name, ctx.request_id, connection)
        return await call_next(ctx)

    # Notifications

    @asynccontextmanager
    async def _lifespan(self, _: Server[None]) -> AsyncIterator[None]:
        """Notify clients of changes while the server runs, and end its calls when it stops."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._notify_of_changes)
            group.start_soon(left_tasks.collect, self._gateway)
            try:
                yield
            finally:
                # First: an open stream would keep its request, and with it the server, from ending.
                self._listeners.close()
                with anyio.CancelScope(shield=True):
                    await self._calls.end(
                        END_S, self.end_reason
                    )  # also calls that wait for an answer
                group.cancel_scope.cancel()

    async def _notify_of_changes(self) -> None:
        # The thread stores its result: a task that is cancelled meanwhile does not get the returned value.
        created: list[OfferChanges] = []
        try:
            try:
                root, load = self._gateway.root, self._gateway.offer
                await run_sync(lambda: created.append(OfferChanges(root, load)))
                (changes,) = created
                tools = changes.offer.tools.values()
                self._header_schemas = await run_sync(
                    header_schemas, self._gateway.current_root, tools
                )
            finally:
                # Also after an error, or each list would wait forever.
                self._watch_started.set()
            wait = partial(
                # The thread waits for a change of files, which may never come; `close` ends it.
                run_sync,
                changes.wait,
                abandon_on_cancel=True,
                limiter=self._watch_thread,
            )
            while (changed := await wait()) is not None:
                tools = changes.offer.tools.values()
                self._header_schemas = await run_sync(
                    header_schemas, self._gateway.current_root, tools
                )
                for event in _events(*changed):
                    await self._listeners.notify(event)
        finally:
            # A watch that is not closed keeps its queue of events, of which a user has 128.
            for changes in created:
                changes.close()

    async def _notify_of_files(self, result: object) -> None:
        """Notify subscribers of the changed files that a result links to."""
        if not isinstance(result, types.CallToolResult):
            return
        links = [
            block
            for block in result.content
            if isinstance(block, types.ResourceLink) and block.description != SHOWN
        ]
        for link in links:
            uri = resource_uris.file((result.meta or {})[CHAT], link.name)
            await self._listeners.notify(ResourceUpdated(uri=uri))
        if links:
            await self._listeners.notify(ResourcesListChanged())

    def _header_schema(self, name: str) -> JsonObject | None:
        return self._header_schemas.get(name)

    async def _log(self, ctx: ServerRequestContext[None], log: Log) -> None:
        await subscriptions.send_log(ctx, log, self._listeners.level(self._key(ctx)))

    def _register_session(self, ctx: ServerRequestContext[None]) -> str:
        """Register a client with a session, which gets notifications without a stream; return its key."""
        key = self._key(ctx)
        if key and not is_modern(ctx):
            self._listeners.register(key, ctx.session)
        return key


def _events(earlier: Offer, current: Offer) -> Iterator[ServerEvent]:
    """Yield the events for the differences of two offers."""
    if earlier.tools != current.tools:
        yield ToolsListChanged()
    if earlier.prompts != current.prompts:
        yield PromptsListChanged()
    # The extension for skills has no notification of its own: a skill is its resources.
    if (earlier.resources.keys(), earlier.skills) != (current.resources.keys(), current.skills):
        yield ResourcesListChanged()
    old, new = {**earlier.resources, **earlier.skills}, {**current.resources, **current.skills}
    for uri in old.keys() & new.keys():
        if old[uri] != new[uri]:
            yield ResourceUpdated(uri=uri)


def _answer(ctx: ServerRequestContext[None]) -> HeldAnswer | None:
    """Return the answer to a request over HTTP."""
    return None if ctx.request is None else ctx.request.scope.get(ANSWER)


def _open_calls(ctx: ServerRequestContext[None]) -> list[OpenCall]:
    """Return the list for the calls of a request over HTTP; any other list if it came over stdio."""
    return [] if ctx.request is None else ctx.request.scope.get(OPEN_CALLS, [])


def _sender(ctx: ServerRequestContext[None]) -> Sender:
    """Return the client of a request without a session."""
    sender: Sender | None = ctx.request and ctx.request.scope.get(_SENDER)
    return sender or Sender()


def _chat_named(ctx: ServerRequestContext[None]) -> str | None:
    """Return the chat that a request names in its ``_meta`` or its URL, ``/mcp?chat=c1``."""
    named = (ctx.meta or {}).get(CHAT)
    if named is None and ctx.request is not None:
        named = ctx.request.query_params.get("chat")
    return named if isinstance(named, str) else None


def _broken() -> CovaltError:
    error = CovaltError("this is a bug in covalt-git; the details are on its stderr")
    error.code = "internal_error"
    return error


def header_schemas(root: Path, tools: Iterable[Tool]) -> dict[str, JsonObject]:
    """Return the schemas of tools with ``x-mcp-header`` arguments, by their names in all styles.

    A name that means different tools in different styles is left out, so that the SDK does not check the headers
    of its calls.
    """
    by_id = {tool.tool_id: tool for tool in tools}
    with_headers = {
        tool_id for tool_id, tool in by_id.items() if x_mcp_header_map(tool.input_schema)
    }
    if not with_headers:
        return {}
    ids: dict[str, set[str]] = {}
    for style in tool_names.STYLES:
        first = tool_names.named_first(root, by_id)
        names = tool_names.names(sorted(by_id), style, reserved=meta_tools.NAMES, first=first)
        # The SDK looks a schema up by the name alone, and a client may use the names of any style.
        for name, tool_id in names.items():
            ids.setdefault(name, set()).add(tool_id)
    return {
        name: by_id[tool_id].input_schema
        for name, (tool_id, *others) in ids.items()
        if not others and tool_id in with_headers
    }
