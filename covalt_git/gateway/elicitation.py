"""Elicitation from an MCP client, for calls and for the arguments of prompts, in both protocol versions.

Up to 2025-11-25 the server sends requests of its own while the client's request is open.  Since 2026-07-28
the response contains the questions, and the client repeats its request with the answers (MCP specification,
"Multi Round-Trip Requests").
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.message import ServerMessageMetadata
from pydantic import TypeAdapter, ValidationError

from covalt_git.elicitation.requests import (
    CannotAskError,
    Inquiry,
    InvalidAnswerError,
    NoOpenQuestionError,
)
from covalt_git.gateway.protocol import is_modern
from covalt_git.gateway.results import ERROR
from covalt_git.models.elicitation import Question
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp.server import ServerRequestContext

    from covalt_git.errors import CovaltError
    from covalt_git.json_values import JsonObject
    from covalt_git.models.elicitation import QuestionKind
    from covalt_git.models.prompts import Prompt, PromptArgument

STATE_S = 86_400.0
"""Time within which a client may answer, in seconds."""

MOST_TRIES = 3
"""Number of times that a client of 2025-11-25 and older is asked, if its answers are invalid."""

CAPABILITIES: dict[str, str] = {
    "form": "elicitation",
    "url": "elicitation",
    "sampling": "sampling",
    "roots": "roots",
}
"""Capability that a client declares for each kind of question."""

_REQUEST: TypeAdapter[types.InputRequest] = TypeAdapter(types.InputRequest)


def kinds_of(ctx: ServerRequestContext[Any, Any]) -> frozenset[QuestionKind]:
    """Return the kinds of questions that a client declares to support."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None:
        return frozenset()
    kinds: set[QuestionKind] = set()
    if (elicitation := capabilities.elicitation) is not None:
        if elicitation.url is not None:
            kinds.add("url")
        # The empty capability is that of 2025-06-18, which has forms only.
        if elicitation.form is not None or elicitation.url is None:
            kinds.add("form")
    if capabilities.sampling is not None:
        kinds.add("sampling")
    if capabilities.roots is not None:
        kinds.add("roots")
    return frozenset(kinds)


# Up to 2025-11-25


async def send(ctx: ServerRequestContext[Any, Any], inquiry: Inquiry) -> None:
    """Send all open questions as requests to the client; return when the inquiry is over."""
    loop = asyncio.get_running_loop()
    async with anyio.create_task_group() as group:

        def end() -> None:
            with suppress(RuntimeError):  # the loop is closed, so that no request is open
                loop.call_soon_threadsafe(group.cancel_scope.cancel)

        # A call that ends would otherwise leave its questions open at the client.
        inquiry.on_end(end)
        for key, question in inquiry.open().items():
            group.start_soon(_send_one, ctx, inquiry, key, question)


async def _send_one(
    ctx: ServerRequestContext[Any, Any], inquiry: Inquiry, key: str, question: Question
) -> None:
    why: CovaltError = CannotAskError("the client did not answer")
    # A client that always answers wrongly would hold the chat until the time limit.
    for _ in range(MOST_TRIES):
        try:
            inquiry.answer(key, await _send_request(ctx, question, f"{inquiry.id}/{key}"))
        except NoOpenQuestionError:
            return
        except InvalidAnswerError as error:
            why = error
        except ValidationError:
            why = InvalidAnswerError("the question or its answer does not conform to MCP")
        except MCPError as error:
            inquiry.fail(CannotAskError(f"the client did not answer: {error.error.message}"))
            return
        else:
            return
    inquiry.fail(why)


async def _send_request(
    ctx: ServerRequestContext[Any, Any], question: Question, name: str
) -> JsonObject:
    more = {"elicitationId": name} if question.kind == "url" else {}
    request = _request(question, **more)
    answers: dict[str, type[types.Result]] = {
        "elicitation/create": types.ElicitResult,
        "roots/list": types.ListRootsResult,
        "sampling/createMessage": types.CreateMessageResultWithTools
        if "tools" in question.params
        else types.CreateMessageResult,
    }
    # Over HTTP, a message that is related to no request goes to a stream that the client may not have open.
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    result = await ctx.session.send_request(request, answers[question.method], metadata=related)
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


# Since 2026-07-28


def boundary(role: str | None) -> RequestStateBoundary:
    """Return the middleware that signs the request state that clients send back, with a key of this process.

    The state is bound to the method, the tool, its arguments and the role.  The SDK rejects any other state
    with -32602 before it is parsed.
    """
    # The state passes through the client, which could forge it
    # (test_a_forged_state_and_one_of_another_call_are_refused).
    security = RequestStateSecurity.ephemeral(ttl=STATE_S)
    security.bind_principal = lambda _: f"role {role}"
    return RequestStateBoundary(security, default_audience="covalt-git")


def check_capabilities(outcome: object, lacking: Collection[QuestionKind]) -> None:
    """Report the capabilities that a client lacks, if a call failed because of them.

    Raises:
        MCPError: MISSING_REQUIRED_CLIENT_CAPABILITY, with all missing capabilities.
    """
    meta = outcome.meta if isinstance(outcome, types.CallToolResult) else None
    error = (meta or {}).get(ERROR, {})
    # A tool that gets along without the answer has a result, which the client gets.
    if not lacking or error.get("error") != CannotAskError.code:
        return
    needed = {CAPABILITIES[kind] for kind in lacking}
    raise MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"the tool needs capabilities that the client did not declare: {', '.join(sorted(needed))}",
        {"requiredCapabilities": {name: {} for name in sorted(needed)}},
    )


def input_required(inquiry: Inquiry, call: str | None = None) -> types.InputRequiredResult | None:
    """Return the open questions, with a state that identifies the ``call`` in the client's next request.

    If a question does not conform to the protocol, the inquiry fails and the result is None.
    """
    try:
        requests = {key: _request(question) for key, question in inquiry.open().items()}
    except ValidationError:
        inquiry.fail(CannotAskError("the question does not conform to MCP"))
        return None
    state = None if call is None else json.dumps({"call": call, "inquiry": inquiry.id})
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def request_objects(inquiry: Inquiry) -> dict[str, JsonObject]:
    """Return the open questions in the form of the protocol, by their keys; if one does not conform, the inquiry fails."""
    needed = input_required(inquiry)
    requests = {} if needed is None else needed.input_requests or {}
    return {
        key: request.model_dump(mode="json", by_alias=True, exclude_none=True)
        for key, request in requests.items()
    }


def _request(question: Question, **more: str) -> Any:
    params = {**more, **question.params}
    if question.method == "elicitation/create":
        params = {name: _shown(name, value) for name, value in params.items()}
    return _REQUEST.validate_python({"method": question.method, "params": params})


_LABELS = frozenset({"message", "title", "description"})
_VALUES = frozenset({"const", "enum", "default"})


def _shown(name: str, value: Any) -> Any:
    """Return a question's field with hidden characters escaped in what a user reads, not in what the answer repeats."""
    match value:
        case str() if name in _LABELS:
            return display.in_lines(value)
        case list() if name == "enumNames":
            return [_shown("title", label) for label in value]
        case list() if name not in _VALUES:
            return [_shown("", item) for item in value]
        case dict() if name == "properties":  # its keys are names of fields
            return {key: _shown("", field) for key, field in value.items()}
        case dict() if name not in _VALUES:
            return {key: _shown(key, item) for key, item in value.items()}
    return value


def state_of(ctx: ServerRequestContext[Any, Any]) -> tuple[str, str] | None:
    """Return the ids of the call and the inquiry that a request continues; the SDK has verified them."""
    state = (ctx.params or {}).get("requestState")
    if not isinstance(state, str):
        return None
    ids = json.loads(state)
    return ids["call"], ids["inquiry"]


def responses_of(ctx: ServerRequestContext[Any, Any]) -> Mapping[str, Any]:
    """Return the answers of a client by the keys of the questions."""
    found = (ctx.params or {}).get("inputResponses")
    return found if isinstance(found, dict) else {}


def deliver(inquiry: Inquiry, responses: Mapping[str, Any]) -> None:
    """Deliver the valid answers; other questions stay open, and unknown keys are ignored."""
    for key, answer in responses.items():
        try:
            inquiry.answer(key, answer)
        # Who answers is the client, so a wrong answer is as if it had none: the question is asked again.
        except (NoOpenQuestionError, InvalidAnswerError):
            continue


# Prompts


async def prompt_arguments(
    ctx: ServerRequestContext[Any, Any], prompt: Prompt, args: dict[str, str]
) -> dict[str, str] | types.InputRequiredResult:
    """Return the arguments of a prompt with the arguments that the user fills in, or the questions for them.

    They stay missing if the client cannot ask the user, or the user does not answer.
    """
    missing = [
        argument for argument in prompt.arguments if argument.ask and argument.name not in args
    ]
    if not missing or "form" not in kinds_of(ctx):
        return args
    inquiry = Inquiry({argument.name: _question(argument) for argument in missing})
    if not is_modern(ctx):
        await send(ctx, inquiry)
    else:
        deliver(inquiry, responses_of(ctx))
        # Without a state, answers of earlier requests are not stored, so all questions are asked again.
        if inquiry.open() and (needed := input_required(Inquiry(inquiry.questions))):
            return needed
    accepted = {
        key: argument
        for key, argument in inquiry.answers().items()
        if argument["action"] == "accept"
    }
    return args | {name: argument["content"][name] for name, argument in accepted.items()}


def _question(argument: PromptArgument) -> Question:
    field: JsonObject = {"type": "string"}
    if argument.description:
        field["description"] = argument.description
    if argument.values:
        field["enum"] = [*argument.values]
    name = argument.name
    form = {"type": "object", "properties": {name: field}, "required": [name]}
    params = {"message": argument.ask, "requestedSchema": form}
    return Question(method="elicitation/create", params=params)
