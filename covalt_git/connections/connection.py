"""One connection: begun when it is needed, owned by one task, ended when nobody needs it any more.

A server that fails is started again by the next use, after a pause that grows with each failure.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import mcp_types as types
from mcp import Client, MCPError
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from covalt_git import __version__
from covalt_git.connections import errors as failures
from covalt_git.connections.stderr_tail import LastWords
from covalt_git.connections.token_refresh import StoredTokens
from covalt_git.connections.token_store import mask_of
from covalt_git.connections.transports import transport
from covalt_git.errors import CovaltError
from covalt_git.models.tool_lock import locked_tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.client.session import ClientRequestContext

    from covalt_git.connections.definition import Definition
    from covalt_git.connections.thread_bridge import Voice
    from covalt_git.json_values import JsonObject

_logger = logging.getLogger(__name__)

START_S = 180.0
"""How long a server may take to start, in seconds: npx may have to fetch it first."""

IDLE_S = 300.0
"""After how many seconds without use a server is stopped."""

TICK_S = 1.0
"""How often it is looked whether a server is still wanted, in seconds."""

PAUSES_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""How long is waited before a server is started again, by how often it has failed in a row."""

MOST_PAGES = 1000
_TURNS = 10
"""How many turns of the loop the end of a program's output takes to be heard, and some more."""

State = Literal["stopped", "starting", "ready", "failed"]


class ChangedError(CovaltError):
    """A server's tool is not what was accepted any more."""

    code = "definition_changed"
    http_status = 409


class ServerCall(NamedTuple):
    """A call: the tool's name there, the digest that was accepted, and the most seconds it may take.

    One that is ``repeatable`` is made again, once, where the server ended under it.
    """

    tool: str
    digest: str
    args: JsonObject
    timeout_s: float
    repeatable: bool = False


class Health(NamedTuple):
    """How a connection is: its state, how often it was started, and what went wrong last."""

    toolset_id: str
    server_id: str
    chat_id: str | None
    state: State
    starts: int
    failures: int
    error: str
    last_words: str
    server: str
    protocol: str


class Connection:
    """A server for one chat; everything here is for the event loop's thread."""

    def __init__(self, definition: Definition, wanted: Callable[[], bool]) -> None:
        self.definition = definition
        self._wanted = wanted
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Client] | None = None
        self._stop = asyncio.Event()
        self._closed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._voice: Voice | None = None
        self._clock: asyncio.Timeout | None = None
        self._is_unasked = False
        self._tools: list[JsonObject] | None = None
        self._words = LastWords(self._log_stderr)
        self._waiting: set[Voice] = set()
        self._used = 0.0
        self._status: int | None = None
        self._tokens = StoredTokens(definition) if definition.may_sign_in else None
        self._not_before = 0.0
        self._failures = 0
        self._starts = 0
        self._error = ""
        self._told = ("", "")

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing went wrong that somebody might want to know."""
        return (self._owner is None or self._owner.done()) and not self._error

    def health(self) -> Health:
        """Return how it is."""
        name = self.definition.name
        state: State = "failed" if self._error else "stopped"
        if self._owner is not None and not self._owner.done():
            there = self._ready is not None and self._ready.done()
            state = "ready" if there else "starting"
        mask = mask_of(self.definition)
        return Health(
            name.toolset_id,
            name.server_id,
            name.chat_id,
            state,
            self._starts,
            self._failures,
            self._error,
            mask.text(self._words.text),
            *self._told,
        )

    async def stop(self) -> None:
        """End it; a call that runs ends with an error."""
        self._stop.set()
        if self._owner is not None:
            await asyncio.wait({self._owner})

    async def begin(self, voice: Voice) -> None:
        """Have it there.

        Raises:
            CovaltError: when it cannot be started or reached.
        """
        await self._client(voice)

    async def tools(self, voice: Voice) -> list[JsonObject]:
        """Return the definitions of its tools, as it gives them now.

        Raises:
            CovaltError: when it cannot be started, reached or understood.
        """
        async with self._one_at_a_time:
            try:
                return await self._listed(voice)
            except failures.ServerEndedError:
                # Perhaps before it was asked, and nobody had heard of that yet.
                if self._stop.is_set():
                    raise
            return await self._listed(voice)

    async def _listed(self, voice: Voice) -> list[JsonObject]:
        client = await self._client(voice)
        self._tools = None
        self._listen_anew()
        return await self._definitions(client)

    async def call(self, asked: ServerCall, voice: Voice) -> JsonObject:
        """Return the result of a call, as the protocol has it.

        Raises:
            ChangedError: when the tool is not what was accepted.
            TimeoutError: when it takes too long, not counting the time that somebody is asked.
            CovaltError: when the server cannot be started, ends, or answers with an error.
        """
        async with self._one_at_a_time:
            try:
                return await self._called(asked, voice)
            except failures.ServerEndedError:
                may_repeat = asked.repeatable or self._is_unasked
                if not may_repeat or self._stop.is_set():
                    raise
            return await self._called(asked, voice)

    async def _called(self, asked: ServerCall, voice: Voice) -> JsonObject:
        self._is_unasked = False
        client = await self._client(voice)
        loop = asyncio.get_running_loop()
        self._voice = voice
        self._is_unasked = True  # it may have ended, and nobody heard of that yet
        self._listen_anew()
        try:
            async with asyncio.timeout(asked.timeout_s) as clock:
                self._clock = clock
                await self._check(client, asked)
                self._is_unasked = False
                try:
                    result = await self._request(client, asked)
                except MCPError as error:
                    if not await self._were_opened(error):
                        raise
                    result = await self._request(client, asked)
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001 - the SDK's are of many kinds
            raise self._failed(error) from None
        finally:
            self._voice = self._clock = None
            self._used = loop.time()
        self._failures, self._error = 0, ""
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def _request(self, client: Client, asked: ServerCall) -> types.CallToolResult:
        return await client.call_tool(asked.tool, asked.args, progress_callback=self._progressed)

    async def _were_opened(self, error: MCPError) -> bool:
        """Show a person what a server wants opened before it does a call, and tell whether they did.

        MCP specification 2025-11-25, "Elicitation", section "URL Elicitation Required Error".
        """
        if error.code != types.URL_ELICITATION_REQUIRED:
            return False
        for one in UrlElicitationRequiredError.from_error(error.error).elicitations:
            answer = await self._elicited(None, one)
            if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
                return False
        return True

    def _failed(self, error: Exception) -> CovaltError:
        if failures.has_ended(failures.first_cause(error)):
            self._closed.set()
        return failures.of_request(self.definition, error, self._words.text, self._http_failure)

    @property
    def _http_failure(self) -> failures.HttpFailure:
        tokens = self._tokens
        if tokens is None:
            return failures.HttpFailure(self._status)
        return failures.HttpFailure(self._status, tokens.insufficient_now, tokens.why)

    def _listen_anew(self) -> None:
        self._status = None
        if self._tokens is not None:
            self._tokens.begin()

    async def _check(self, client: Client, asked: ServerCall) -> None:
        """Make sure that a tool is what was accepted."""
        given = await self._definitions(client)
        now = [locked_tool(one).digest for one in given if one["name"] == asked.tool]
        if now == [asked.digest]:
            return
        name = self.definition.name
        what = "has changed since it was accepted" if now else "is gone"
        raise ChangedError(
            f"the tool {asked.tool!r} of the MCP server {name} {what}",
            hint=f"covalt-git source refresh {name}",
        )

    async def _definitions(self, client: Client) -> list[JsonObject]:
        if self._tools is not None:
            return self._tools
        found: list[JsonObject] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            try:
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            except Exception as error:  # noqa: BLE001 - the SDK's are of many kinds
                raise self._failed(error) from None
            for tool in page.tools:
                said = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                found.append(said)
            cursor = page.next_cursor
            if cursor is None:
                break
        self._tools = found
        self._used = asyncio.get_running_loop().time()
        return found

    # Beginning and ending

    async def _client(self, voice: Voice) -> Client:
        """Return the client once it is connected; begin to connect where nobody has."""
        loop = asyncio.get_running_loop()
        self._waiting.add(voice)
        try:
            for _ in range(_TURNS if self._owner is not None else 0):
                await asyncio.sleep(0)  # what has ended by now is heard of before it is asked
            if self._owner is not None and self._closed.is_set():
                await asyncio.wait({self._owner})  # it is on its way out
            if self._owner is None or self._owner.done():
                pause = self._not_before - loop.time()
                if pause > 0:
                    name = self.definition.name
                    said = f"waiting {pause:.2g} s before {name} is started again"
                    voice.say(lambda hears: hears.starting(said))
                    await asyncio.sleep(pause)
            if self._owner is None or self._owner.done():
                self._ready = loop.create_future()
                self._owner = asyncio.create_task(self._run(self._ready))
            assert self._ready is not None
            return await asyncio.shield(self._ready)
        finally:
            self._waiting.discard(voice)

    async def _run(self, ready: asyncio.Future[Client]) -> None:
        """Connect, stay connected for as long as it is of use, and end: all of it in this task."""
        closed = self._closed = asyncio.Event()
        self._tools = None
        self._listen_anew()
        by_itself = True
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(START_S):
                    client = await stack.enter_async_context(self._new_client(closed))
                    await self._request_logs(client)
                self._connected(client)
                stack.push_async_callback(_end_task, asyncio.create_task(self._follow(client)))
                ready.set_result(client)
                by_itself = await self._over(closed)
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            failed = failures.of_start(self.definition, error, self._words.text, self._http_failure)
            self._error = failed.message
            if not ready.done():
                ready.set_exception(failed)
                ready.exception()  # somebody may have stopped waiting
        finally:
            if not ready.done():
                ready.cancel()
            if by_itself and not self._stop.is_set():
                self._error = self._error or "it ended by itself"
                pause = PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
                self._failures += 1
                self._not_before = asyncio.get_running_loop().time() + pause

    def _connected(self, client: Client) -> None:
        self._starts += 1
        self._error = ""
        self._used = asyncio.get_running_loop().time()
        server = client.server_info
        told = "" if server is None else f"{server.title or server.name} {server.version}"
        self._told = told, client.protocol_version

    async def _over(self, closed: asyncio.Event) -> bool:
        """Wait until it is of no use any more; tell whether the server ended by itself."""
        loop = asyncio.get_running_loop()
        ends = [asyncio.create_task(event.wait()) for event in (closed, self._stop)]
        try:
            while True:
                await asyncio.wait(ends, timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED)
                if closed.is_set() or self._stop.is_set():
                    return closed.is_set()
                if self._voice is None and loop.time() - self._used > IDLE_S:
                    return False
                if not await asyncio.to_thread(self._wanted):
                    return False
        finally:
            for end in ends:
                end.cancel()

    def _new_client(self, closed: asyncio.Event) -> Client:
        return Client(
            transport(self.definition, self._words, closed, self._answered, self._tokens),
            client_info=types.Implementation(name="covalt-git", version=__version__),
            log_level="info",
            logging_callback=self._logged,
            list_roots_callback=None if self.definition.workspace is None else self._roots,
            elicitation_callback=self._elicited,
            message_handler=self._noticed,
            cache=None,
        )

    async def _request_logs(self, client: Client) -> None:
        """Ask a server of the first era for what it logs; it may not know how."""
        old = client.protocol_version not in MODERN_PROTOCOL_VERSIONS
        if not old or client.server_capabilities.logging is None:
            return
        with suppress(MCPError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await client.set_logging_level("info")

    async def _follow(self, client: Client) -> None:
        """Hear of changed tools; in the first era they are told without being asked for."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None:
            return
        if not tools.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._tools = None
        except Exception as error:  # noqa: BLE001 - calls find out themselves what is wrong
            _logger.info("%s tells no more of changed tools: %r", self.definition.name, error)

    # What a server says and asks meanwhile

    def _log_stderr(self, line: str) -> None:
        told = mask_of(self.definition).text(line)
        for voice in self._waiting:
            voice.say(lambda hears: hears.starting(told))

    def _answered(self, status: int) -> None:
        self._status = status

    async def _noticed(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._tools = None
        if isinstance(message, ValidationError) and self.definition.transport == "stdio":
            self._words.stray(mask_of(self.definition).text(str(message.errors()[0]["input"])))

    async def _progressed(self, progress: float, total: float | None, message: str | None) -> None:
        told = mask_of(self.definition).text(message or "")
        if self._voice is not None:
            self._voice.say(lambda hears: hears.progress(progress, total, told))

    async def _logged(self, params: types.LoggingMessageNotificationParams) -> None:
        told = params.data if isinstance(params.data, str) else str(params.data)
        told = mask_of(self.definition).text(told)
        if self._voice is not None:
            self._voice.say(lambda hears: hears.log(params.level, told))

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult:  # noqa: ARG002 - as the SDK calls it
        assert self.definition.workspace is not None
        root = types.Root(uri=self.definition.workspace.as_uri(), name="workspace")
        return types.ListRootsResult(roots=[root])

    async def _elicited(
        self,
        context: ClientRequestContext | None,  # noqa: ARG002 - as the SDK calls it
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        """Have a person asked, while the call's time stands still; nobody here answers for one."""
        voice, clock = self._voice, self._clock
        if voice is None or clock is None or not voice.can_ask:
            return types.ErrorData(
                code=types.INVALID_REQUEST, message="nobody is there to be asked"
            )
        loop = asyncio.get_running_loop()
        ends, began = clock.when(), loop.time()
        clock.reschedule(None)
        try:
            told = params.model_dump(mode="json", by_alias=True, exclude_none=True)
            answer = await voice.ask("elicitation/create", told)
            return types.ElicitResult.model_validate(answer)
        except CovaltError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=error.message)
        finally:
            if ends is not None and not clock.expired():
                clock.reschedule(ends + loop.time() - began)


async def _end_task(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
