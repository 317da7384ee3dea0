"""The prompts of toolsets as MCP clients have them (MCP specification, "Prompts" and "Completion")."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import mcp_types as types

from covalt_git.catalog.prompt_content import prompt_messages
from covalt_git.errors import CovaltError
from covalt_git.gateway import tool_names, toolset_resources
from covalt_git.gateway.toolset_resources import contents, title

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
    """A prompt is asked for without what it cannot do without."""

    code = "missing_argument"


class Prompts(NamedTuple):
    """The prompts of a project for one client, under the names that it takes."""

    project: Project
    style: tool_names.Style

    def listed(self) -> dict[str, Callable[[], types.Prompt]]:
        """Return what lists have, sorted by the keys, each as what describes it."""
        return {
            given.id: partial(_described, name, given)
            for name, given in self._visible_prompts().items()
        }

    def find(self, name: str) -> ToolsetItem[Prompt]:
        """Return the prompt of a name.

        Raises:
            NoSuchPromptError: when none of that name exists for the client.
        """
        given = self._visible_prompts().get(name)
        if given is None:
            raise NoSuchPromptError(f"unknown prompt {name!r}")
        return given

    def get(self, given: ToolsetItem[Prompt], args: Mapping[str, str]) -> types.GetPromptResult:
        """Return the messages of a prompt, filled in.

        Raises:
            MissingArgumentError: naming what it cannot do without.
        """
        missing = [
            one.name for one in given.what.arguments if one.required and one.name not in args
        ]
        if missing:
            raise MissingArgumentError(f"the prompt {given.id!r} needs {', '.join(missing)}")
        with self.project.index() as index:
            told = [_message(one) for one in prompt_messages(self.project.root, index, given, args)]
        return types.GetPromptResult(description=given.what.description or None, messages=told)

    def _visible_prompts(self) -> dict[str, ToolsetItem[Prompt]]:
        with self.project.index() as index:
            index.sync_toolsets()
            known = {given.id: given for given in self.project.catalog.prompts(index)}
        return {name: known[one] for name, one in tool_names.names([*known], self.style).items()}


def _described(name: str, given: ToolsetItem[Prompt]) -> types.Prompt:
    return types.Prompt(
        name=name,
        title=title(given),
        description=given.what.description or None,
        arguments=[
            types.PromptArgument(
                name=one.name, description=one.description or None, required=one.required
            )
            for one in given.what.arguments
        ],
    )


def _message(one: PromptText) -> types.PromptMessage:
    return types.PromptMessage(role=one.message.role, content=_block(one))


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
"""How many values one answer may have, as the protocol says."""


def completed(
    prompts: Prompts,
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
) -> types.Completion:
    """Return the values of an argument that go on from what was typed.

    Raises:
        NoSuchPromptError: when no prompt of that name exists for the client.
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
            for given in toolset_resources.known(prompts.project)
            if given.what.uri_template == ref.uri
            for one in given.what.variables
        ]
    return next((values for one, values in declared if one == name), ())
