"""The result of compiling an API document: its tools, and everything of it that became no tool.

A compiler is a function of the document's text alone.  It opens no file but those that it is given, sends
no request, and returns equal results for equal documents, whatever the hash seed of the process is.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject

    ArgumentPlace = Callable[[], tuple[str, int, int]]
    """Finds path, line and column of an argument's description: only reports need them."""


class NameClash(NamedTuple):
    """The name that several operations would have, and how the document names all of these."""

    name: str
    upstreams: tuple[str, ...]


def name_clashes(
    first: Sequence[str], names: Sequence[str], upstreams: Sequence[str]
) -> dict[str, NameClash]:
    """Return the clashes by the names that solved them; ``first`` are the names that operations would have."""
    alike: dict[str, list[str]] = {}
    for name, upstream in zip(first, upstreams, strict=True):
        alike.setdefault(name, []).append(upstream)
    clashes = {name: NameClash(name, tuple(group)) for name, group in alike.items() if group[1:]}
    return {
        name: clashes[plain] for plain, name in zip(first, names, strict=True) if plain in clashes
    }


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
        clashes: the names that operations do not have because several would have them, by the names of their tools.
        argument_places: places of arguments in the document, by the ``upstream`` of their tool and by argument.
        types: types of a GraphQL schema, with which the fields that a caller selects are checked
            (:mod:`covalt_git.http_tools.selections`); a lock has them once for all of its tools.
        sign_ins: the entries of ``auth`` for security schemes that tools use, by their ids, without clients and hosts.
    """

    title: str
    tools: Mapping[str, CompiledTool]
    definitions: Mapping[str, JsonObject]
    left_out: tuple[LeftOut, ...]
    problems: tuple[Problem, ...]
    secrets: Mapping[str, tuple[str, ...]]
    types: Mapping[str, JsonObject] = MappingProxyType({})
    clashes: Mapping[str, NameClash] = MappingProxyType({})
    argument_places: Mapping[str, Mapping[str, ArgumentPlace]] = MappingProxyType({})
    sign_ins: Mapping[str, JsonObject] = MappingProxyType({})
