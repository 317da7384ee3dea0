"""What a person is asked for a prompt: the arguments with a question that were not given.

Since 2026-07-28 the request is answered with the questions and comes again with the answers (MCP
specification, "Input Required Results"); before, the client is asked while it waits.  A client that
cannot ask a person goes on without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as types

from covalt_git.gateway.client_questions import kinds_of
from covalt_git.gateway.eras import is_modern
from covalt_git.text import display

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

    from covalt_git.models.prompts import Given, Prompt, PromptArgument

    Args = dict[str, str]


async def answered(
    ctx: ServerRequestContext[Any, Any], given: Given[Prompt], params: types.GetPromptRequestParams
) -> Args | types.InputRequiredResult:
    """Return the arguments with those that a person has told, or what has to be asked first."""
    args = {**(params.arguments or {})}
    open_ones = [one for one in given.what.arguments if one.ask and one.name not in args]
    if not open_ones or "form" not in kinds_of(ctx):
        return args
    if not is_modern(ctx):
        for one in open_ones:
            answer = await ctx.session.elicit_form(
                one.ask or "", _form(one), related_request_id=ctx.request_id
            )
            args |= _told(one, answer)
        return args
    responses = params.input_responses or {}
    unanswered = {one.name: _question(one) for one in open_ones if one.name not in responses}
    if unanswered:
        return types.InputRequiredResult(input_requests=unanswered)
    for one in open_ones:
        args |= _told(one, responses[one.name])
    return args


def _question(argument: PromptArgument) -> types.ElicitRequest:
    params = types.ElicitRequestFormParams(
        message=display.in_lines(argument.ask or ""), requested_schema=_form(argument)
    )
    return types.ElicitRequest(params=params)


def _form(argument: PromptArgument) -> dict[str, Any]:
    field: dict[str, Any] = {"type": "string"}
    if argument.description:
        field["description"] = argument.description
    if argument.values:
        field["enum"] = [*argument.values]
    return {"type": "object", "properties": {argument.name: field}, "required": [argument.name]}


def _told(argument: PromptArgument, answer: object) -> Args:
    """Return the argument as a person told it; nothing where they would not, or said no text."""
    if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
        return {}
    told = (answer.content or {}).get(argument.name)
    return {argument.name: told} if isinstance(told, str) else {}
