"""Definitions that several JSON Schemas share: each refers to them as ``#/$defs/NAME``.

A schema of an API's operation refers to the same object as hundreds of others.  So a definition is stored once, and a
schema gets those that it reaches when it is used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import unquote

from covalt_git.json_values import canonical_json
from covalt_git.json_values.pointer import REF

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.json_values import JsonObject

PREFIX = "#/$defs/"
"""Beginning of a reference to a shared definition."""

_NAME = re.compile(r"[A-Za-z_]\w*")


class Definitions:
    """Definitions by name, with the references of each, which are searched once."""

    def __init__(self, schemas: Mapping[str, JsonObject]) -> None:
        self._schemas = schemas
        self._references: dict[str, frozenset[str]] = {}
        self._digests: dict[str, str] = {}

    def reached(self, *schemas: JsonObject | None) -> dict[str, JsonObject]:
        """Return the definitions that schemas refer to, directly or through others, sorted by name."""
        reached: set[str] = set()
        names = {name for schema in schemas for name in _references(schema)}
        while names := names & self._schemas.keys() - reached:
            reached |= names
            names = {other for name in names for other in self._of(name)}
        return {name: self._schemas[name] for name in sorted(reached)}

    def within(self, schema: JsonObject) -> JsonObject:
        """Return a schema with the definitions that it reaches under ``$defs``."""
        reached = self.reached(schema)
        # The definitions are the same objects in every schema, not copies.
        return schema | {"$defs": reached | schema.get("$defs", {})} if reached else schema

    def opened(self, schema: JsonObject) -> JsonObject:
        """Return a schema with the definition that it is a reference to in place of the reference.

        Clients want the type of a schema at its root.
        """
        seen = set[str]()
        while schema.keys() == {REF} and (names := [*_references(schema)]):
            target = self._schemas.get(names[0])
            if target is None or names[0] in seen or schema[REF].count("/") > PREFIX.count("/"):
                break
            seen.add(names[0])
            schema = target
        return schema

    def digest(self, *schemas: JsonObject | None) -> str | None:
        """Return the digest of the definitions that schemas reach, or None for none."""
        reached = self.reached(*schemas)
        for name, schema in reached.items():
            if name not in self._digests:
                self._digests[name] = canonical_json.digest(schema)
        digests = {name: self._digests[name] for name in reached}
        return canonical_json.digest(digests) if digests else None

    def _of(self, name: str) -> frozenset[str]:
        if name not in self._references:
            self._references[name] = frozenset(_references(self._schemas[name]))
        return self._references[name]


class Types:
    """Types of a GraphQL schema by name, in the form of :mod:`covalt_git.http_tools.selections`."""

    def __init__(self, types: Mapping[str, JsonObject]) -> None:
        self._types = types
        self._digests: dict[str, str] = {}

    def digest(self, name: str) -> str | None:
        """Return the digest of a type and of those that it refers to; None if there is no such type."""
        if name not in self._types:
            return None
        if name not in self._digests:
            reached: set[str] = set()
            names = {name}
            while names := names & self._types.keys() - reached:
                reached |= names
                texts = canonical_json.dumps([self._types[other] for other in names]).decode()
                # A word that is the name of a field and of a type only makes the digest cover more.
                names = set(_NAME.findall(texts))
            types = {other: self._types[other] for other in sorted(reached)}
            self._digests[name] = canonical_json.digest(types)
        return self._digests[name]


class Shared(NamedTuple):
    """What the tools of a lock share."""

    definitions: Definitions
    types: Types

    @classmethod
    def of(cls, definitions: Mapping[str, JsonObject], types: Mapping[str, JsonObject]) -> Self:
        """Return what a lock has for all of its tools."""
        return cls(Definitions(definitions), Types(types))

    def digest(self, request: JsonObject, *schemas: JsonObject | None) -> str | None:
        """Return the digest of the shared parts that a tool with a request and schemas reaches, or None for none."""
        of_schemas = self.definitions.digest(*schemas)
        body = request.get("body")
        graphql = body.get("graphql") if isinstance(body, dict) else None
        select = graphql.get("select") if isinstance(graphql, dict) else None
        named = select.get("type") if isinstance(select, dict) else None
        of_types = self.types.digest(named) if isinstance(named, str) else None
        return of_schemas if of_types is None else canonical_json.digest([of_schemas, of_types])


def _references(schema: Any) -> Iterable[str]:
    """Yield the names of the shared definitions that a schema refers to itself."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get(REF)
            if isinstance(reference, str) and reference.startswith(PREFIX):
                name = unquote(reference.removeprefix(PREFIX).partition("/")[0])
                yield name.replace("~1", "/").replace("~0", "~")
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
