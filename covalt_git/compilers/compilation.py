"""The result of compiling an API document: its tools, and everything of it that became no tool.

A compiler is a function of the document's text alone.  It opens no file but those that it is given, sends
no request, and returns equal results for equal documents, whatever the hash seed of the process is.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject


class CompiledTool(NamedTuple):
    """A tool of an operation.

    Attributes:
        upstream: how the document names the operation: its operationId, ``GET /pets`` or ``Query.film``.
        title: a short name for people; None if the document has none.
        description: what it does; a deprecated operation says so first.
        input_schema: JSON Schema 2020-12; ``$ref`` names a definition of the compilation, ``#/$defs/NAME``.
        output_schema: likewise, of a successful answer; None if the document does not describe it.
        read_only: whether it is a safe method of HTTP, or a query.
        idempotent: whether a second equal call has no further effect, by the method.
        request: the ``http`` of a tool in a manifest, which makes the request.
        hosts: hosts that its requests can go to.
        place: line and column of the operation in the document, from 1.
    """

    upstream: str
    title: str | None
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None
    read_only: bool
    idempotent: bool
    request: JsonObject
    hosts: tuple[str, ...]
    place: tuple[int, int]


class LeftOut(NamedTuple):
    """A part of the document that is no tool, with the reason in a sentence for the user."""

    upstream: str
    reason: str
    place: tuple[int, int]


class Compilation(NamedTuple):
    """What a document gives.

    Attributes:
        title: title of the document, or its file name.
        tools: the tools by their names within the namespace, such as ``pets.list``.
        definitions: schemas that the tools' schemas refer to as ``#/$defs/NAME``; they can refer to each other.
        left_out: operations and other parts that are no tools.
        problems: faults of the document, with line and column, such as a broken ``$ref``.
        secrets: names of the secrets that requests contain, with the hosts that receive them.
        types: types of a GraphQL schema, with which the fields that a caller selects are checked
            (:mod:`covalt_git.http_tools.selections`); a lock has them once for all of its tools.
    """

    title: str
    tools: Mapping[str, CompiledTool]
    definitions: Mapping[str, JsonObject]
    left_out: tuple[LeftOut, ...]
    problems: tuple[Problem, ...]
    secrets: Mapping[str, tuple[str, ...]]
    types: Mapping[str, JsonObject] = MappingProxyType({})
