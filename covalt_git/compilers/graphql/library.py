"""graphql-core, imported when a schema is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from types import ModuleType

    from graphql import ValueNode

INSTALL = "pip install 'covalt-git[graphql]'"
"""The command that installs graphql-core."""


class NotInstalledError(CovaltError):
    """graphql-core is not installed."""

    code = "not_installed"
    http_status = 501


def graphql_core() -> ModuleType:
    """Return graphql-core.

    Raises:
        NotInstalledError: if it is not installed; the hint is the command that installs it.
    """
    # Imported here: it takes a quarter of a second, and installations without GraphQL sources lack it.
    try:
        import graphql  # noqa: PLC0415
    except ImportError:
        raise NotInstalledError("GraphQL schemas need graphql-core", hint=INSTALL) from None
    return graphql


def json_of(literal: ValueNode) -> Any:
    """Return the JSON value of a literal, with the names of enum values as texts.

    Raises:
        ValueError: if JSON has no such value.
    """
    value = graphql_core().value_from_ast_untyped(literal)
    try:
        canonical_json.dumps(value)
    except canonical_json.NotJsonError as error:
        raise ValueError(error.message) from None
    return value
