"""Prompts of toolsets in the form of MCP (MCP specification, "Prompts" and "Completion")."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import mcp_types as types

from covalt_git.catalog import tool_names
from covalt_git.catalog.prompt_content import prompt_messages
from covalt_git.errors import CovaltError
from covalt_git.gateway import server_offers
from covalt_git.gateway.resources import toolset_resources
from covalt_git.gateway.resources.toolset_resources import contents, title

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from covalt_git.catalog.prompt_content import PromptText
    from covalt_git.models.prompts import Prompt, ToolsetItem
    from covalt_git.project import Project


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
            for name, prompt in self._visible_prompts().items()
        }

    def find(self, name: str) -> ToolsetItem[Prompt]:
        """Return the prompt with a name.

        Raises:
            NoSuchPromptError: if it does not exist for the client.
        """
        prompt = self._visible_prompts().get(name)
        if prompt is None:
            raise NoSuchPromptError(f"unknown prompt {name!r}")
        return prompt

    def get(self, prompt: ToolsetItem[Prompt], args: Mapping[str, str]) -> types.GetPromptResult:
        """Return the messages of a prompt with its arguments.

        Raises:
            MissingArgumentError: if required arguments are missing; it names them.
        """
        missing = [
            one.name for one in prompt.what.arguments if one.required and one.name not in args
        ]
        if missing:
            raise MissingArgumentError(f"the prompt {prompt.id!r} needs {', '.join(missing)}")
        if isinstance(prompt, server_offers.ServerPrompt):
            return server_offers.get_prompt(self.project, prompt, args)
        with self.project.tool_index() as index:
            messages = [
                types.PromptMessage(role=one.message.role, content=_block(one))
                for one in prompt_messages(self.project.root, index, prompt, args)
            ]
        return types.GetPromptResult(description=prompt.what.description or None, messages=messages)

    def _visible_prompts(self) -> dict[str, ToolsetItem[Prompt]]:
        with self.project.tool_index() as index:
            index.sync_toolsets()
            own = {prompt.id: prompt for prompt in self.project.catalog.prompts(index)}
        known = dict(sorted({**server_offers.prompts(self.project), **own}.items()))
        return {name: known[one] for name, one in tool_names.names([*known], self.style).items()}


def _described(name: str, prompt: ToolsetItem[Prompt]) -> types.Prompt:
    return types.Prompt(
        name=name,
        title=title(prompt),
        description=prompt.what.description or None,
        arguments=[
            types.PromptArgument(
                name=one.name, description=one.description or None, required=one.required
            )
            for one in prompt.what.arguments
        ],
    )


def _block(one: PromptText) -> types.ContentBlock:
    content = one.content
    if one.uri is not None:
        return types.EmbeddedResource(resource=contents(one.uri, content))
    if one.message.text is not None:
        return types.TextContent(text=content.text or "")
    encoded = base64.b64encode(content.content).decode()
    if content.mime_type.startswith("audio/"):
        return types.AudioContent(data=encoded, mime_type=content.mime_type)
    return types.ImageContent(data=encoded, mime_type=content.mime_type)


MOST_VALUES = 100
"""Most values of a completion, a limit of MCP."""


def complete(
    prompts: Prompts,
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
) -> types.Completion:
    """Return the values of an argument that begin with the typed text.

    Raises:
        NoSuchPromptError: if the prompt does not exist for the client.
    """
    values = [
        value
        for value in _values(prompts, ref, argument.name)
        if value.casefold().startswith(argument.value.casefold())
    ]
    return types.Completion(
        values=values[:MOST_VALUES], total=len(values), has_more=len(values) > MOST_VALUES
    )


def _values(
    prompts: Prompts,
    ref: types.PromptReference | types.ResourceTemplateReference,
    name: str,
) -> Sequence[str]:
    if isinstance(ref, types.PromptReference):
        declared = [(one.name, one.values) for one in prompts.find(ref.name).what.arguments]
    else:
        declared = [
            (one.name, one.values)
            for resource in toolset_resources.visible(prompts.project)
            if resource.what.uri_template == ref.uri
            for one in resource.what.variables
        ]
    return next((values for one, values in declared if one == name), ())
