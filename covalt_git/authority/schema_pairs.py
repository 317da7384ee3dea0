"""Two JSON Schemas of one value, side by side, as comparing them needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git import canonical_json

if TYPE_CHECKING:
    from covalt_git.authority.facts import Loc
    from covalt_git.models.base import JsonObject

MAX_DEPTH = 40

NOTES = frozenset(
    [
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$schema",
        "$id",
        "$anchor",
        "$defs",
        "definitions",
        "$vocabulary",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    ]
)
"""Keywords that accept and refuse nothing."""


class Pair:
    """Two schemas of one value, each with the document that it is part of.

    ``above`` are the pairs that it is part of: what is met again within itself differs in nothing else.
    """

    def __init__(
        self, old: Any, new: Any, roots: tuple[Any, Any], loc: Loc, above: frozenset[str]
    ) -> None:
        self.roots = roots
        self.old = _resolved(old, roots[0])
        self.new = _resolved(new, roots[1])
        self.loc = loc
        self.above = above
        self.key = f"{canonical(self.old)}\0{canonical(self.new)}"

    def inner(self, old: Any, new: Any, *steps: str | int) -> Pair:
        """Return a part of both."""
        return Pair(old, new, self.roots, (*self.loc, *steps), self.above | {self.key})

    def alike(self, old: Any, new: Any) -> bool:
        """Tell whether two parts are one, what they refer to included."""
        if not same(old, new):
            return False
        return '"$ref"' not in canonical(old) or same(*self.roots)

    @property
    def name(self) -> str:
        """The value as people call it: ``rows[].name``."""
        return value_name(self.loc)


def value_name(loc: Loc) -> str:
    """Return the value that a place in a schema is about: ``rows[].name``, or ``the arguments``."""
    words = ""
    steps = iter(loc)
    for step in steps:
        if step == "properties":
            words += f".{next(steps, '')}"
        elif step in {"items", "prefixItems"}:
            words += "[]"
        elif step in {"additionalProperties", "patternProperties"}:
            words += ".*"
    return repr(words.removeprefix(".")) if words else "the arguments"


def _resolved(schema: Any, root: Any) -> JsonObject:
    """Return a schema as an object, what a lone local ``$ref`` leads to in its place."""
    for _ in range(MAX_DEPTH):
        if schema is False:
            return {"enum": []}
        if not isinstance(schema, dict):
            return {}
        if not isinstance(schema.get("$ref"), str) or set(schema) - NOTES != {"$ref"}:
            return schema
        target = target_of(root, schema["$ref"])
        if target is None:
            return schema
        schema = target
    return {"$ref": "#"}


def target_of(root: Any, reference: str) -> Any:
    """Return what a local ``$ref`` leads to in its document; None where it leads elsewhere."""
    if not reference.startswith("#/"):
        return root if reference == "#" else None
    found = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found


def canonical(value: Any) -> str:
    """Return a value as canonical JSON: equal values are equal texts."""
    return canonical_json.dumps(value).decode()


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal as JSON."""
    return canonical(one) == canonical(other)


def listed_text(texts: set[str]) -> str:
    """Return texts as they stand in a sentence, sorted."""
    return ", ".join(sorted(texts))
