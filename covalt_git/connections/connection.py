"""Connection to one MCP server: started at the first use, owned by one task, stopped when idle.

The next use restarts a server that failed, after a pause that grows with each failure.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import mcp_types as types
from mcp import Client, MCPError
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from covalt_git import __version__
from covalt_git.connections import errors as failures
from covalt_git.connections.answers import DISCOVER, ToolResults, sound_page
from covalt_git.connections.server_tasks import (
    ServerTasks,
    TaskAnswerError,
    TaskState,
    UnknownServerTaskError,
    cancel,
    read,
)
from covalt_git.connections.server_texts import message_of, notes_of_a_listing
from covalt_git.connections.skill_listing import listed_skills
from covalt_git.connections.stderr_tail import StderrTail
from covalt_git.connections.token_refresh import StoredTokens
from covalt_git.connections.token_store import mask_of
from covalt_git.connections.transports import transport
from covalt_git.errors import CovaltError
from covalt_git.json_values.levels import has_more_levels
from covalt_git.models.outcomes import UNKNOWN_EFFECT
from covalt_git.models.sources.tool_lock import MOST_LEVELS, locked_tool
from covalt_git.system.daemon_thread import in_daemon_thread
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp.client.session import ClientRequestContext

    from covalt_git.connections.definition import Definition
    from covalt_git.connections.event_handlers import EventHandlers
    from covalt_git.credentials.values import Mask
    from covalt_git.json_values import JsonObject
    from covalt_git.models.sources.tool_lock import OfferKind

_logger = logging.getLogger(__name__)

START_S = 180.0
"""Time limit of a start in seconds; its packages may have to be installed again first."""

IDLE_S = 300.0
"""Seconds without use after which a server is stopped."""

HUNG_S = 5.0
"""Seconds in which a program must answer after a request that exceeded its time limit; otherwise it is ended."""

TICK_S = 1.0
"""Seconds between two checks whether a server is still wanted."""

PAUSES_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a restart, by the number of consecutive failures."""

# A server whose last page never comes must not hold the chat forever.
MOST_PAGES = 1000
_MOST_STRAY = 200
_MOST_NOTED = 5
_SILENT = (
    f"the server did not answer {DISCOVER}, so its start took 10 s longer; "
    "a server must answer a method that it does not know with the error -32601"
)
QUIET_S = 2.0
"""Seconds until the user learns what a server that starts does not answer."""

STRAY_LINE = "the server printed a line that is not a protocol message"
# See `client`: the end of a process is an event of the loop, which has to run to deliver it.
_TURNS = 10
"""Iterations of the event loop until the end of a program's output is noticed, with a margin."""

_OF_TASKS = frozenset(
    {types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.MISSING_REQUIRED_CLIENT_CAPABILITY}
)
"""Codes of errors with which a server says that it has no such task."""

_NAMES = ("name", "uri", "uriTemplate")
"""Keys of a definition by which requests, roles and rules name it."""

Kind = TypeVar("Kind", bound=str)


class Offers(NamedTuple):
    """What a server offers besides its tools.

    Attributes:
        listed: the definitions, with their kinds.
        failed: the kinds whose list the server did not return.
    """

    listed: list[tuple[OfferKind, JsonObject]]
    failed: tuple[OfferKind, ...]


State = Literal["stopped", "starting", "ready", "failed"]


class ChangedError(CovaltError):
    """A tool of a server that changed, or was removed, since it was accepted."""

    code = "definition_changed"
    http_status = 409


class CallTimeoutError(TimeoutError):
    """A call that exceeded its time limit.

    ``is_sent`` if the server may have received it; ``stray_line`` is the last line during it that was no message.
    """

    def __init__(self, *, is_sent: bool, stray_line: str = "") -> None:
        super().__init__()
        self.is_sent = is_sent
        self.stray_line = stray_line


class ServerCall(NamedTuple):
    """Call of a server's tool: its name there, its accepted digest, the arguments and the time limit.

    A ``repeatable`` call is sent once more if the server ends during it.
    """

    tool: str
    digest: str
    args: JsonObject
    timeout_s: float
    repeatable: bool = False


class Health(NamedTuple):
    """State of a connection, the number of its starts and consecutive failures, and its last error."""

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
    """Connection to a server for one chat; only the thread of the event loop may use it."""

    def __init__(self, definition: Definition, wanted: Callable[[], bool]) -> None:
        self.definition = definition
        self._wanted = wanted
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Client] | None = None
        self._stop = asyncio.Event()
        self._closed = asyncio.Event()
        self._request_lock = asyncio.Lock()
        self._caller: EventHandlers | None = None
        self._clock: asyncio.Timeout | None = None
        self._task_messages = 0
        self._wanted_answers: set[Future[None]] = set()
        self._is_unsent = False
        self._results = self._new_results()
        self._tools: list[JsonObject] | None = None
        self._unlisted: list[str] = []
        self._check: asyncio.Task[None] | None = None
        self._stderr = StderrTail(self._log_stderr, self._note_report)
        self._waiting_callers: set[EventHandlers] = set()
        self._last_used = 0.0
        self._status: int | None = None
        self._tokens = (
            StoredTokens(definition.name, definition.url, definition.reach)
            if definition.may_sign_in
            else None
        )
        self._earliest_start = 0.0
        self._failures = 0
        self._starts = 0
        self._error = ""
        self._server_info = ("", "")
        self._is_silent = False

    @property
    def idle(self) -> bool:
        """Whether the server is stopped, without an error to report."""
        return (self._owner is None or self._owner.done()) and not self._error

    def health(self) -> Health:
        """Return the state for a health report."""
        name = self.definition.name
        state: State = "failed" if self._error else "stopped"
        if self._owner is not None and not self._owner.done():
            is_ready = self._ready is not None and self._ready.done()
            state = "ready" if is_ready else "starting"
        mask = mask_of(self.definition)
        return Health(
            name.toolset_id,
            name.server_id,
            name.chat_id,
            state,
            self._starts,
            self._failures,
            self._error,
            mask.text(self._stderr.text),
            *self._server_info,
        )

    async def stop(self) -> None:
        """Stop the server; a running call fails."""
        self._stop.set()
        if self._owner is not None:
            await asyncio.wait({self._owner})

    async def tools(self, caller: EventHandlers) -> list[JsonObject]:
        """Return the server's current tool definitions.

        Raises:
            CovaltError: if the server cannot be started or reached, or answers with an error.
        """
        async with self._request_lock:
            try:
                return await self._refresh_tools(caller)
            except failures.ServerEndedError:
                # The server may have ended before the request, and its end was not noticed yet.
                if self._stop.is_set():
                    raise
            return await self._refresh_tools(caller)

    async def _refresh_tools(self, caller: EventHandlers) -> list[JsonObject]:
        client = await self.client(caller)
        self._tools = None
        self._reset_http_failure()
        tools = await self._definitions(client)
        _note(self._unlisted, caller)
        return tools

    async def offers(self, caller: EventHandlers) -> Offers:
        """Return the definitions of the server's resources, resource templates, prompts and skills.

        Raises:
            CovaltError: if the server cannot be started or reached.
        """
        async with self._request_lock:
            client = await self.client(caller)
            able = client.server_capabilities
            kinds: list[OfferKind] = []
            kinds += ["resource", "template"] if able.resources is not None else []
            kinds += ["prompt"] if able.prompts is not None else []
            kinds += ["skill"]
            definitions: list[tuple[OfferKind, JsonObject]] = []
            left_out: list[str] = []
            failed: list[OfferKind] = []
            for kind in kinds:
                try:
                    definitions += await self._list(client, kind, left_out)
                except Exception as error:  # noqa: BLE001 - the SDK raises many types
                    problem = self._request_error(error).message
                    left_out.append(
                        f"its {kind}s cannot be listed, so those of the last refresh stay: {problem}"
                    )
                    failed.append(kind)
            mask = mask_of(self.definition)
            listed, unlisted = _masked(mask, definitions)
            _note([*unlisted, *map(mask.text, left_out)], caller)
            return Offers(listed, (*failed,))

    async def _list(
        self, client: Client, kind: OfferKind, left_out: list[str]
    ) -> list[tuple[OfferKind, JsonObject]]:
        match kind:
            case "resource":
                return await self._pages(kind, client.list_resources, "resources", left_out)
            case "template":
                templates = client.list_resource_templates
                return await self._pages(kind, templates, "resource_templates", left_out)
            case "prompt":
                return await self._pages(kind, client.list_prompts, "prompts", left_out)
            case "skill":
                skills, others = await listed_skills(client, MOST_PAGES)
                left_out += others
                return [(kind, entry) for entry in skills]

    async def _pages(
        self,
        kind: Kind,
        request: Callable[..., Awaitable[types.PaginatedResult]],
        name: str,
        left_out: list[str],
    ) -> list[tuple[Kind, JsonObject]]:
        async def page(**params: Any) -> types.PaginatedResult:
            try:
                return await request(**params)
            except ValidationError:
                # For one invalid entry, the SDK rejects all.
                sound, unsound = sound_page(kind, self._results.pages)
                left_out.extend(unsound)
                return sound

        return await _pages(kind, page, name, left_out)

    async def get_prompt(
        self,
        name: str,
        args: Mapping[str, str],
        timeout_s: float,
        caller: EventHandlers,
        check_again: Callable[[], None],
    ) -> JsonObject:
        """Return a prompt with its arguments as the protocol has it.

        Raises:
            CovaltError: as :meth:`read_resource`.
        """
        return await self._read(
            lambda client: client.get_prompt(name, {**args}), timeout_s, caller, check_again
        )

    async def complete(
        self,
        request: JsonObject,
        timeout_s: float,
        caller: EventHandlers,
        check_again: Callable[[], None],
    ) -> JsonObject:
        """Return the completion of an argument as the protocol has it; without values if the server completes nothing.

        ``request`` has the parameters of ``completion/complete``.

        Raises:
            CovaltError: as :meth:`read_resource`.
        """
        params = types.CompleteRequestParams.model_validate(request)
        argument, context = params.argument, params.context

        async def complete(client: Client) -> types.CompleteResult:
            if client.server_capabilities.completions is None:
                return types.CompleteResult(completion=types.Completion(values=[]))
            return await client.complete(
                params.ref,
                {"name": argument.name, "value": argument.value},
                context.arguments if context else None,
            )

        answer = await self._read(complete, timeout_s, caller, check_again)
        completion: JsonObject = answer["completion"]
        return completion

    async def read_resource(
        self, uri: str, timeout_s: float, caller: EventHandlers, check_again: Callable[[], None]
    ) -> list[JsonObject]:
        """Return the contents of a resource as the protocol has them.

        ``check_again`` is called after each wait, in another thread; the request is not sent if it raises an error.

        Raises:
            CallTimeoutError: if it takes longer than ``timeout_s``, without the start of the server.
            CovaltError: as ``check_again``; if the server cannot be started, ends, or answers with an error.
        """
        answer = await self._read(
            lambda client: client.read_resource(uri, cache_mode="bypass"),
            timeout_s,
            caller,
            check_again,
        )
        contents: list[JsonObject] = answer["contents"]
        return contents

    async def _read(
        self,
        read: Callable[[Client], Awaitable[types.Result]],
        timeout_s: float,
        caller: EventHandlers,
        check_again: Callable[[], None],
    ) -> JsonObject:
        async with self._request_lock:
            client = await self.client(caller)
            await asyncio.to_thread(check_again)
            self._reset_http_failure()
            try:
                async with asyncio.timeout(timeout_s):
                    answer = await read(client)
            except TimeoutError:
                self._begin_check(client)
                raise CallTimeoutError(is_sent=True) from None
            except Exception as error:  # noqa: BLE001 - the SDK raises many types
                raise self._request_error(error) from None
            finally:
                self._last_used = asyncio.get_running_loop().time()
        return answer.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def call(self, call: ServerCall, caller: EventHandlers) -> JsonObject:
        """Return the result of a call as the server sent it, unchecked.

        Raises:
            ChangedError: if the tool's digest is not the accepted one.
            CallTimeoutError: if the call exceeds its time limit, which excludes waiting for elicitations.
            CovaltError: if the server cannot be started, ends, or answers with an error.
        """
        async with self._request_lock:
            try:
                return await self._call_once(call, caller)
            except failures.ServerEndedError:
                may_repeat = call.repeatable or self._is_unsent
                if not may_repeat or self._stop.is_set():
                    raise
            return await self._call_once(call, caller)

    async def _call_once(self, call: ServerCall, caller: EventHandlers) -> JsonObject:
        self._is_unsent = False
        client = await self.client(caller)
        loop = asyncio.get_running_loop()
        self._caller, self._task_messages = caller, 0
        self._is_unsent = True  # the server may have ended, and its end was not noticed yet
        self._reset_http_failure()
        try:
            async with asyncio.timeout(call.timeout_s) as clock:
                self._clock = clock
                await self._check_digest(client, call)
                self._is_unsent = False
                try:
                    return await self._request(client, call)
                except MCPError as error:
                    if not await self._open_required_urls(error):
                        raise
                    return await self._request(client, call)
        except TimeoutError:
            self._begin_check(client)
            # Lines from before the request cannot be the answer that the caller misses.
            stray = [""] if self._is_unsent else ["", *self._results.stray_lines]
            raise CallTimeoutError(is_sent=not self._is_unsent, stray_line=stray[-1]) from None
        except asyncio.CancelledError:
            self._begin_check(client)
            raise
        except Exception as error:  # noqa: BLE001 - the SDK raises many types
            has_effect = not (self._is_unsent or call.repeatable)
            effect = UNKNOWN_EFFECT if has_effect else ""
            raise self._request_error(error, effect) from None
        finally:
            if self._is_silent:
                self._is_silent = False
                caller.log("info", f"note: {_SILENT}")
            if not self._is_unsent:
                self._note_stray_lines(caller)
            self._caller = self._clock = None
            # The server waits no longer, so the user must not be asked any more
            # (test_an_elicitation_is_withdrawn_when_its_server_ends).
            for need in self._wanted_answers:
                need.cancel()
            self._last_used = loop.time()

    async def task(
        self, task_id: str, timeout_s: float, caller: EventHandlers
    ) -> tuple[TaskState, JsonObject | None]:
        """Return the state of a task from an earlier process, and its result if it is completed.

        Raises:
            UnknownServerTaskError: if the server does not know the task.
            TaskAnswerError: if the task is completed, and its result cannot be read.
            CovaltError: if the server cannot be started or reached, or answers with another error.
        """
        async with self._request_lock:
            client = await self.client(caller)
            self._reset_http_failure()
            try:
                async with asyncio.timeout(timeout_s):
                    state = await read(client.session, task_id)
            except MCPError as error:
                if error.code in _OF_TASKS:
                    raise UnknownServerTaskError(error.error.message) from None
                raise self._request_error(error) from None
            except Exception as error:  # noqa: BLE001 - the SDK raises many types
                raise self._request_error(error) from None
            finally:
                self._last_used = asyncio.get_running_loop().time()
            if state.status != "completed":
                return state, None
            try:
                return state, self._results.take()
            except MCPError as error:
                raise TaskAnswerError(error.error.message) from None

    async def cancel_task(self, task_id: str, timeout_s: float, caller: EventHandlers) -> None:
        """Ask the server to cancel a task from an earlier process.

        Raises:
            CovaltError: if the server cannot be started or reached, or answers with an error.
        """
        async with self._request_lock:
            client = await self.client(caller)
            self._reset_http_failure()
            try:
                async with asyncio.timeout(timeout_s):
                    await cancel(client.session, task_id)
            except Exception as error:  # noqa: BLE001 - the SDK raises many types
                raise self._request_error(error) from None
            finally:
                self._last_used = asyncio.get_running_loop().time()

    def _begin_check(self, client: Client) -> None:
        """Let the program answer a request, or end it; the next request waits for this."""
        # Calls have no limit of processor time: a loop would never end, and each later call would wait for it.
        if self.definition.transport == "stdio":
            self._check = asyncio.create_task(self._end_if_hung(client, self._closed))

    async def _end_if_hung(self, client: Client, closed: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(HUNG_S):
                await client.list_tools(cache_mode="bypass")
        except TimeoutError:
            self._error = (
                f"it answered no request for {HUNG_S:g} s after a call that exceeded its time limit"
            )
            closed.set()
        except Exception:  # noqa: BLE001, S110 - it answered, or has ended
            pass

    async def _request(self, client: Client, call: ServerCall) -> JsonObject:
        """Return the result of a call as the server sent it, unchecked."""
        await client.call_tool(call.tool, call.args, progress_callback=self._on_progress)
        # Only a result shows that the server works; a successful start does not.
        self._failures, self._error = 0, ""
        return self._results.take()

    async def _open_required_urls(self, error: MCPError) -> bool:
        """Elicit the URLs that a server requires before a call; return whether the user accepted all.

        Source: MCP specification 2025-11-25, "Elicitation", section "URL Elicitation Required Error".
        """
        if error.code != types.URL_ELICITATION_REQUIRED:
            return False
        for elicitation in UrlElicitationRequiredError.from_error(error.error).elicitations:
            answer = await self._on_elicitation(None, elicitation)
            if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
                return False
        return True

    def _request_error(self, error: Exception, effect: str = "") -> CovaltError:
        # The SDK would keep the lost session, and fail at each later request.
        if failures.needs_new_session(failures.first_cause(error), self._status):
            self._closed.set()
        return failures.of_request(
            self.definition, error, self._stderr.text, self._http_failure, effect=effect
        )

    @property
    def _http_failure(self) -> failures.HttpFailure:
        tokens = self._tokens
        if tokens is None:
            return failures.HttpFailure(self._status)
        return failures.HttpFailure(self._status, tokens.needs_token, tokens.why)

    def _reset_http_failure(self) -> None:
        self._status = None
        if self._tokens is not None:
            self._tokens.reset()

    async def _check_digest(self, client: Client, call: ServerCall) -> None:
        """Compare the digest of a tool with the accepted one."""
        # Before each call: a server may replace a tool after the user has accepted it
        # (test_a_tool_that_changed_since_it_was_accepted_is_not_called).
        tools = await self._definitions(client)
        digests = {locked_tool(tool).digest for tool in tools if tool["name"] == call.tool}
        if digests == {call.digest}:
            return
        name = self.definition.name
        what = "has changed since it was accepted" if digests else "no longer exists"
        raise ChangedError(
            f"the tool {call.tool!r} of the MCP server {name} {what}",
            hint=f"covalt-git source refresh {name}",
        )

    async def _definitions(self, client: Client) -> list[JsonObject]:
        if self._tools is not None:
            return self._tools
        left_out: list[str] = []

        try:
            tools = await self._pages("tool", client.list_tools, "tools", left_out)
        except Exception as error:  # noqa: BLE001 - the SDK raises many types
            raise self._request_error(error) from None
        listed, unlisted = _masked(mask_of(self.definition), tools)
        self._unlisted = [*unlisted, *map(self._shown_line, left_out)]
        self._tools = [tool for _, tool in listed]
        self._last_used = asyncio.get_running_loop().time()
        return self._tools

    # Start and stop

    async def client(self, caller: EventHandlers) -> Client:
        """Return the connected client; start the server if it does not run.

        Raises:
            CovaltError: if it cannot be started or reached.
        """
        loop = asyncio.get_running_loop()
        self._waiting_callers.add(caller)
        try:
            if self._check is not None:
                await asyncio.wait({self._check})
            # See test_a_server_that_was_killed_or_changed_between_calls_is_restarted.
            for _ in range(_TURNS if self._owner is not None else 0):
                await asyncio.sleep(0)  # notice an end of the server before the request
            if self._owner is not None and self._closed.is_set():
                await asyncio.wait({self._owner})  # it is stopping
            if self._owner is None or self._owner.done():
                pause = self._earliest_start - loop.time()
                if pause > 0:
                    name = self.definition.name
                    caller.starting(f"waiting {pause:.2g} s before {name} is restarted")
                    await asyncio.sleep(pause)
            if self._owner is None or self._owner.done():
                self._ready = loop.create_future()
                # anyio requires that the task that opens a transport also closes it, and callers come from many
                # tasks.
                self._owner = asyncio.create_task(self._run(self._ready))
            assert self._ready is not None
            # The start is shared: a caller that is cancelled must not end it for the others that wait.
            return await asyncio.shield(self._ready)
        finally:
            self._waiting_callers.discard(caller)

    async def _run(self, ready: asyncio.Future[Client]) -> None:
        """Connect, wait until the connection is unused, and close it, all in one task."""
        closed = self._closed = asyncio.Event()
        self._tools = None
        self._reset_http_failure()
        by_itself = True
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(START_S):
                    quiet = asyncio.get_running_loop().call_later(QUIET_S, self._report_silence)
                    stack.callback(quiet.cancel)
                    client = await stack.enter_async_context(self._new_client(closed))
                    await self._request_logs(client)
                self._connected(client)
                # After the client, so that it ends first: it reads from the connection that the client closes.
                stack.push_async_callback(_end_task, asyncio.create_task(self._follow(client)))
                ready.set_result(client)
                by_itself = await self._wait_until_unused(closed)
        except Exception as error:  # noqa: BLE001 - raised in the waiting calls
            failed = failures.of_start(
                self.definition, error, self._stderr.text, self._http_failure
            )
            self._error = failed.message
            if not ready.done():
                ready.set_exception(failed)
                ready.exception()  # marks it as retrieved, if no call waits for it any more
        finally:
            if not ready.done():
                # A start that is cancelled would leave its callers waiting without an end.
                ready.cancel()
            if by_itself and not self._stop.is_set():
                # The pause grows until a call succeeds: a server may start well and end at each request.
                self._error = self._error or "it exited"
                pause = PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
                self._failures += 1
                self._earliest_start = asyncio.get_running_loop().time() + pause

    def _report_silence(self) -> None:
        """Report that a server has not answered the first request, which servers of older protocols do not know.

        The SDK waits for 10 seconds, and then uses an older protocol.
        """
        if not self._results.is_waiting(DISCOVER):
            return
        self._is_silent = True
        name = self.definition.name
        for caller in self._waiting_callers:
            caller.starting(
                f"{name} has not answered {DISCOVER} yet: it is starting, or ignores methods that it does not know"
            )

    def _connected(self, client: Client) -> None:
        self._starts += 1
        self._error = ""
        self._last_used = asyncio.get_running_loop().time()
        server = client.server_info
        version = "" if server is None else f"{server.title or server.name} {server.version}"
        self._server_info = version, client.protocol_version
        # A server that has answered it by now was only slow.
        self._is_silent &= not self._results.has_answered(DISCOVER)

    async def _wait_until_unused(self, closed: asyncio.Event) -> bool:
        """Wait until the connection is unused; return whether the server closed it."""
        loop = asyncio.get_running_loop()
        ends = [asyncio.create_task(event.wait()) for event in (closed, self._stop)]
        try:
            while True:
                await asyncio.wait(ends, timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED)
                if closed.is_set() or self._stop.is_set():
                    return closed.is_set()
                # A call may be longer than the idle time, or wait for its user.
                if self._caller is None and loop.time() - self._last_used > IDLE_S:
                    return False
                # In a thread: it reads files, and the loop serves all connections of the process.
                if not await asyncio.to_thread(self._wanted):
                    return False
        finally:
            for end in ends:
                end.cancel()

    def _new_results(self) -> ToolResults:
        return ToolResults(self._shown_line, self._on_stray_line)

    def _new_client(self, closed: asyncio.Event) -> Client:
        self._results = self._new_results()
        return Client(
            transport(
                self.definition,
                self._stderr,
                closed,
                self._on_response,
                self._tokens,
                results=self._results,
            ),
            client_info=types.Implementation(name="covalt-git", version=__version__),
            log_level="info",
            logging_callback=self._on_log,
            list_roots_callback=None if self.definition.workspace is None else self._on_list_roots,
            elicitation_callback=self._on_elicitation,
            extensions=[
                ServerTasks(
                    self._on_task,
                    self._on_task_end,
                    self._leaves_task,
                    self._on_task_message,
                    self._on_task_question,
                )
            ],
            message_handler=self._on_message,
            cache=None,
        )

    async def _request_logs(self, client: Client) -> None:
        """Request log messages from a server with sessions, if it can send them."""
        old = client.protocol_version not in MODERN_PROTOCOL_VERSIONS
        if not old or client.server_capabilities.logging is None:
            return
        with suppress(MCPError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await client.set_logging_level("info")

    async def _follow(self, client: Client) -> None:
        """Subscribe to changes of the tools; servers with sessions notify without a subscription."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None:
            return
        if not tools.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._tools = None
        except Exception as error:  # noqa: BLE001 - the next call reports the failure
            _logger.info(
                "the subscription to tool changes of %s ended: %r", self.definition.name, error
            )

    # Messages from the server

    def _log_stderr(self, line: str) -> None:
        masked = mask_of(self.definition).text(line)
        for caller in self._waiting_callers:
            caller.starting(masked)

    def _note_report(self, text: str) -> None:
        """Log what the sandbox reports during a call: it may be why the call fails."""
        if self._caller is not None:
            self._caller.log("warning", f"note: {self._shown_line(text)}")

    def _on_response(self, status: int) -> None:
        self._status = status

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._tools = None

    def _shown_line(self, line: str) -> str:
        # Masked before it is shortened: the mask does not recognize the beginning of a secret.
        masked = mask_of(self.definition).text(line)
        return display.in_line(display.shorten(masked, _MOST_STRAY))

    def _note_stray_lines(self, caller: EventHandlers) -> None:
        """Log the lines during a call that are not messages: they may have been its answer."""
        lines = self._results.stray_lines if self.definition.transport == "stdio" else []
        for line in lines[:_MOST_NOTED]:
            caller.log("warning", f"note: {STRAY_LINE}: '{line}'")
        if len(lines) > _MOST_NOTED:
            caller.log("warning", f"note: {len(lines) - _MOST_NOTED} more such lines")

    def _on_stray_line(self, line: str) -> None:
        if self.definition.transport == "stdio":
            self._stderr.add_stray_line(mask_of(self.definition).text(line))

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self._caller is not None:
            text = message_of(self.definition, message or "")
            self._caller.progress(progress, total, text)

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        message = params.data if isinstance(params.data, str) else str(params.data)
        masked = mask_of(self.definition).text(message)
        if self._caller is not None:
            self._caller.log(params.level, masked)

    async def _on_task(self, task_id: str) -> None:
        caller = self._caller
        if caller is not None:
            await asyncio.to_thread(caller.held, task_id)

    def _on_task_end(self) -> None:
        if self._caller is not None:
            self._caller.ended()

    def _leaves_task(self) -> bool:
        return self._caller is not None and self._caller.leaves()

    def _on_task_message(self, message: str) -> None:
        if self._caller is not None:
            self._task_messages += 1
            text = message_of(self.definition, message)
            self._caller.progress(self._task_messages, None, text)

    async def _on_task_question(
        self, request: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        if isinstance(request, types.ElicitRequest):
            return await self._on_elicitation(None, request.params)
        if isinstance(request, types.ListRootsRequest) and self.definition.workspace is not None:
            return self._roots()
        return types.ErrorData(
            code=types.METHOD_NOT_FOUND, message=f"{request.method} is not supported"
        )

    async def _on_list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:  # noqa: ARG002 - as the SDK calls it
        return self._roots()

    def _roots(self) -> types.ListRootsResult:
        assert self.definition.workspace is not None
        root = types.Root(uri=self.definition.workspace.as_uri(), name="workspace")
        return types.ListRootsResult(roots=[root])

    async def _on_elicitation(
        self,
        context: ClientRequestContext | None,  # noqa: ARG002 - as the SDK calls it
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        """Send an elicitation to the caller, and stop the clock of the call until the answer."""
        ask, clock = self._caller and self._caller.ask, self._clock
        if ask is None or clock is None:
            return types.ErrorData(
                code=types.INVALID_REQUEST, message="no user can answer an elicitation"
            )
        loop = asyncio.get_running_loop()
        ends, began = clock.when(), loop.time()
        # The time limit is for the server, and a user may need minutes
        # (test_time_that_an_elicitation_takes_does_not_count).
        clock.reschedule(None)
        need: Future[None] = Future()
        self._wanted_answers.add(need)
        fields = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            # The loop serves all connections; a daemon thread does not keep the process alive after an answer
            # is useless.
            answer = await in_daemon_thread(
                lambda: ask("elicitation/create", fields, need), "elicitation"
            )
            return types.ElicitResult.model_validate(answer)
        except CovaltError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=error.message)
        finally:
            need.cancel()
            self._wanted_answers.discard(need)
            # Not the clock of a call that was cancelled meanwhile: it has ended, and cannot be set.
            if ends is not None and self._clock is clock and not clock.expired():
                clock.reschedule(ends + loop.time() - began)


def _masked(
    mask: Mask, definitions: Iterable[tuple[Kind, JsonObject]]
) -> tuple[list[tuple[Kind, JsonObject]], list[str]]:
    """Return definitions without secrets, which are written to a file that is checked in, and notes.

    One that contains a secret where requests name it is left out, because no request could name it.
    """
    listed, notes = [], []
    for kind, definition in definitions:
        masked: JsonObject = mask.value(definition)
        if any(masked.get(key) != definition.get(key) for key in _NAMES):
            notes.append(f"a {kind} is not listed, because its name or URI contains a secret")
        elif kind == "skill" and masked != definition:
            # With other texts or URIs than its files have, none of them could be read.
            notes.append("a skill is not listed, because its entry contains a secret")
        else:
            listed.append((kind, masked))
    return listed, notes


def _note(notes: Iterable[str], caller: EventHandlers) -> None:
    for note in notes_of_a_listing([*notes]):
        caller.starting(note)


async def _pages(
    kind: Kind, request: Callable[..., Awaitable[Any]], name: str, left_out: list[str]
) -> list[tuple[Kind, JsonObject]]:
    """Return all definitions of a paginated list, with their kind; add to ``left_out`` why others are not returned."""
    definitions: list[tuple[Kind, JsonObject]] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        # An answer from a cache would hide that a definition has changed.
        page = await request(cursor=cursor, cache_mode="bypass")
        for definition in getattr(page, name):
            try:
                plain = definition.model_dump(mode="json", by_alias=True, exclude_none=True)
            except (ValueError, RecursionError):  # pydantic's limit of levels
                plain = None
            # All that reads them later is recursive.
            if plain is None or has_more_levels(plain, MOST_LEVELS):
                left_out.append(
                    f"the {kind} {definition.name!r} is not listed: it has more than {MOST_LEVELS} "
                    "lists and objects inside each other"
                )
            else:
                definitions.append((kind, plain))
        cursor = page.next_cursor
        if cursor is None:
            break
    return definitions


async def _end_task(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
