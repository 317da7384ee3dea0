"""What an argument may be, while a person types it (MCP specification, "Completion")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mcp_types as types

from covalt_git.gateway import toolset_resources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.gateway.prompts import Prompts

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
