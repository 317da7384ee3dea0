"""Prompts of toolsets in the form of MCP (MCP specification, "Prompts" and "Completion")."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import mcp_types as types

from covalt_git.catalog import tool_names
from covalt_git.catalog.prompt_content import prompt_messages
from covalt_git.errors import CovaltError
from covalt_git.gateway.offers import server_offers
from covalt_git.gateway.resources import toolset_resources
from covalt_git.gateway.resources.toolset_resources import contents, title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from covalt_git.catalog.prompt_content import PromptText
    from covalt_git.models.prompts import Prompt, ToolsetItem
    from covalt_git.project import Project
    from covalt_git.toolsets.offers import ServerOffer


class NoSuchPromptError(CovaltError):
    """No prompt of that name exists for the client."""

    code = "unknown_prompt"
    http_status = 404


class MissingArgumentError(CovaltError):
    """A prompt is requested without a required argument."""

    code = "missing_argument"


class Prompts(NamedTuple):
    """The prompts of a project for one client, with names in its style."""

    project: Project
    style: tool_names.Style

    def listed(self) -> dict[str, Callable[[], types.Prompt]]:
        """Return a dict, sorted by prompt id, of functions that each describe one prompt."""
        return {
            prompt.id: partial(_described, name, prompt)
            for name, prompt in self._named(server_offers.visible(self.project, "prompt")).items()
        }

    def find(self, name: str) -> ToolsetItem[Prompt]:
        """Return the prompt with a name.

        Raises:
            NoSuchPromptError: if it does not exist for the client.
        """
        # Also one whose acceptance is not trusted here: the answer then says what its user has to trust.
        prompt = self._named(server_offers.usable(self.project, "prompt")).get(name)
        if prompt is None:
            raise NoSuchPromptError(f"unknown prompt {name!r}")
        return prompt

    def get(self, prompt: ToolsetItem[Prompt], args: Mapping[str, str]) -> types.GetPromptResult:
        """Return the messages of a prompt with its arguments.

        Raises:
            MissingArgumentError: if required arguments are missing; it names them.
        """
        missing = [
            argument.name
            for argument in prompt.what.arguments
            if argument.required and argument.name not in args
        ]
        if missing:
            raise MissingArgumentError(f"the prompt {prompt.id!r} needs {', '.join(missing)}")
        if isinstance(prompt, server_offers.ServerPrompt):
            return server_offers.get_prompt(self.project, prompt, args)
        with self.project.tool_index() as index:
            messages = [
                types.PromptMessage(role=text.message.role, content=_block(text))
                for text in prompt_messages(self.project.root, index, prompt, args)
            ]
        return types.GetPromptResult(description=prompt.what.description or None, messages=messages)

    def _named(self, offers: Iterable[ServerOffer]) -> dict[str, ToolsetItem[Prompt]]:
        """Return the visible prompts of toolsets, and these of servers, by their names for clients."""
        with self.project.tool_index() as index:
            index.sync_toolsets()
            own = {prompt.id: prompt for prompt in self.project.catalog.prompts(index)}
        # A toolset of the project comes last: a server must not replace its prompt by one of the same id.
        by_id = dict(sorted({**server_offers.prompts(offers), **own}.items()))
        return {
            name: by_id[prompt_id]
            for name, prompt_id in tool_names.names([*by_id], self.style).items()
        }


def _described(name: str, prompt: ToolsetItem[Prompt]) -> types.Prompt:
    return types.Prompt(
        name=name,
        title=title(prompt),
        description=prompt.what.description or None,
        arguments=[
            types.PromptArgument(
                name=argument.name,
                description=argument.description or None,
                required=argument.required,
            )
            for argument in prompt.what.arguments
        ],
    )


def _block(prompt_text: PromptText) -> types.ContentBlock:
    content = prompt_text.content
    if prompt_text.uri is not None:
        return types.EmbeddedResource(resource=contents(prompt_text.uri, content))
    if prompt_text.message.text is not None:
        return types.TextContent(text=content.text or "")
    encoded = base64.b64encode(content.content).decode()
    if content.mime_type.startswith("audio/"):
        return types.AudioContent(data=encoded, mime_type=content.mime_type)
    return types.ImageContent(data=encoded, mime_type=content.mime_type)


MOST_VALUES = 100
"""Most values of a completion, a limit of MCP."""


def complete(
    prompts: Prompts, params: types.CompleteRequestParams, chat_id: str | None
) -> types.Completion:
    """Return the values of an argument that begin with the typed text; those of a server's are as the server proposes.

    ``chat_id`` is the chat in which the server runs, if any.

    Raises:
        NoSuchPromptError: if the prompt does not exist for the client.
        CovaltError: if the server is not granted or does not answer.
    """
    ref, argument = params.ref, params.argument
    offer = _offer(prompts, ref)
    if offer is not None:
        return server_offers.complete(prompts.project, offer, params, chat_id)
    values = [
        value
        for value in _values(prompts, ref, argument.name)
        if value.casefold().startswith(argument.value.casefold())
    ]
    return types.Completion(
        values=values[:MOST_VALUES], total=len(values), has_more=len(values) > MOST_VALUES
    )


def _offer(
    prompts: Prompts, ref: types.PromptReference | types.ResourceTemplateReference
) -> ServerOffer | None:
    """Return the prompt or resource template of an MCP server to which a completion refers; None if it is another's."""
    if isinstance(ref, types.PromptReference):
        prompt = prompts.find(ref.name)
        return prompt.offer if isinstance(prompt, server_offers.ServerPrompt) else None
    offers = server_offers.visible(prompts.project, "template")
    return next((offer for offer in offers if server_offers.uri_of(offer) == ref.uri), None)


def _values(
    prompts: Prompts,
    ref: types.PromptReference | types.ResourceTemplateReference,
    name: str,
) -> Sequence[str]:
    if isinstance(ref, types.PromptReference):
        declared = [
            (argument.name, argument.values) for argument in prompts.find(ref.name).what.arguments
        ]
    else:
        declared = [
            (argument.name, argument.values)
            for resource in toolset_resources.visible(prompts.project)
            if resource.what.uri_template == ref.uri
            for argument in resource.what.variables
        ]
    return next((values for declared_name, values in declared if declared_name == name), ())
