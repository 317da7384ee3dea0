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
        self.schemas = schemas
        self._references: dict[str, frozenset[str]] = {}
        self._closures: dict[str, frozenset[str]] = {}
        self._digests: dict[str, str] = {}
        self._digests_of_sets: dict[frozenset[str], str] = {}

    def reached(self, *schemas: JsonObject | None) -> dict[str, JsonObject]:
        """Return the definitions that schemas refer to, directly or through others, sorted by name."""
        return {name: self.schemas[name] for name in sorted(self._reached_names(*schemas))}

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
            target = self.schemas.get(names[0])
            if target is None or names[0] in seen or schema[REF].count("/") > PREFIX.count("/"):
                break
            seen.add(names[0])
            schema = target
        return schema

    def digest(self, *schemas: JsonObject | None) -> str | None:
        """Return the digest of the definitions that schemas reach, or None for none."""
        names = self._reached_names(*schemas)
        if names and names not in self._digests_of_sets:
            for name in names - self._digests.keys():
                self._digests[name] = canonical_json.digest(self.schemas[name])
            digests = {name: self._digests[name] for name in sorted(names)}
            self._digests_of_sets[names] = canonical_json.digest(digests)
        return self._digests_of_sets.get(names)

    def _reached_names(self, *schemas: JsonObject | None) -> frozenset[str]:
        roots = {name for schema in schemas for name in _references(schema)} & self.schemas.keys()
        for name in roots - self._closures.keys():
            self._close(name)
        closures = {self._closures[name] for name in roots}
        return closures.pop() if len(closures) == 1 else frozenset().union(*closures)

    def _close(self, root: str) -> None:
        """Store the closure of a definition and of all that it reaches.

        Definitions in a circle have the same closure (Tarjan's algorithm).  In large documents, most are in one
        circle, and a search from each of their tools would take quadratic time.
        """
        index, lowest = {root: 0}, {root: 0}
        unfinished = [root]
        path = [(root, iter(self._of(root)))]
        while path:
            name, others = path[-1]
            for other in others:
                if other in index and other not in self._closures:
                    lowest[name] = min(lowest[name], index[other])
                elif other in self.schemas and other not in self._closures:
                    index[other] = lowest[other] = len(index)
                    unfinished.append(other)
                    path.append((other, iter(self._of(other))))
                    break
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[name])
                if lowest[name] == index[name]:
                    start = len(unfinished) - 1
                    while unfinished[start] != name:
                        start -= 1
                    self._store(unfinished[start:])
                    del unfinished[start:]

    def _store(self, circle: list[str]) -> None:
        """Store the closure of a circle whose other references have closures."""
        others = {other for name in circle for other in self._of(name)}
        closures = {self._closures[other] for other in others & self._closures.keys()}
        closure = frozenset(circle).union(*closures)
        self._closures |= dict.fromkeys(circle, closure)

    def _of(self, name: str) -> frozenset[str]:
        if name not in self._references:
            self._references[name] = frozenset(_references(self.schemas[name]))
        return self._references[name]


class Types:
    """Types of a GraphQL schema by name, in the form of :mod:`covalt_git.http_tools.selections`."""

    def __init__(self, types: Mapping[str, JsonObject]) -> None:
        self._types = types
        self._digests: dict[str, str] = {}

    def digest(self, name: str) -> str | None:
        """Return the digest of the type with this name and of all types that it refers to; None if it does not exist."""
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
