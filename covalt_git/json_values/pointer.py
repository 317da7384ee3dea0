"""Places in JSON values, and local references of JSON Schemas: ``$ref`` with a JSON pointer or an anchor.

A fragment is percent-decoded and then split at ``/`` (RFC 6901, section 6), as in the validator of
:mod:`covalt_git.json_values.json_schema`.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, unquote

from covalt_git.errors import CovaltError

REF: Final = "$ref"
Loc = tuple[str | int, ...]
"""The keys and indexes of a part of a JSON value."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_MAX_REFERENCES = 50
"""The longest chain of references; longer ones are considered circular."""


class BadReferenceError(CovaltError):
    """A reference whose target is not in the document."""


def json_path(loc: Loc) -> str:
    """Return a place in a JSON value as JSONPath: ``$.rows[3].name``."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc]
    return "$" + "".join(parts)


def reference_to(*path: str) -> dict[str, Any]:
    """Return a schema that refers to the part at ``path`` of the document."""
    steps = (quote(step.replace("~", "~0").replace("/", "~1"), safe="$~") for step in path)
    return {REF: "/".join(["#", *steps])}


def embedded(schema: Any, *path: str, stays: str = "#//") -> Any:
    """Return a schema for the place ``path`` in another one: its local JSON pointers begin there.

    A schema with ``$id`` is a document of its own, so its references stay, as those do that begin with ``stays``.
    """
    if isinstance(schema, list):
        return [embedded(inner, *path, stays=stays) for inner in schema]
    if not isinstance(schema, dict) or "$id" in schema:
        return schema
    moved = {key: embedded(inner, *path, stays=stays) for key, inner in schema.items()}
    reference = reference_of(schema)
    if reference is None or reference.startswith(stays):
        return moved
    if reference == "#" or reference.startswith("#/"):
        moved[REF] = reference_to(*path)[REF] + reference[1:]
    return moved


def reference_of(schema: Any) -> str | None:
    """Return the ``$ref`` of a schema; None if it is missing or not a text."""
    reference = schema.get(REF) if isinstance(schema, dict) else None
    return reference if isinstance(reference, str) else None


def name_of(schema: Any) -> str:
    """Return the last name in the reference of a schema; empty without a reference."""
    return _decoded(unquote((reference_of(schema) or "")[1:]).rpartition("/")[2])


def target(root: Any, reference: str) -> Any:
    """Return the target of a local reference in the document ``root``.

    Raises:
        BadReferenceError: when the target is not in the document.
    """
    # Before it is split: `%2F` separates steps, `~1` does not (test_a_reference_is_decoded_before_it_is_split).
    fragment = unquote(reference[1:])
    if not reference.startswith("#"):
        raise BadReferenceError(f"{reference!r} is outside of this schema", hint="copy it to $defs")
    if fragment and not fragment.startswith("/"):
        return _anchored(root, fragment)
    part = root
    for step in fragment.split("/")[1:]:
        key = _decoded(step)
        if isinstance(part, dict) and key in part:
            part = part[key]
        elif isinstance(part, list) and _INDEX.fullmatch(key) and int(key) < len(part):
            part = part[int(key)]
        else:
            raise BadReferenceError(f"{reference!r} is not in this schema: there is no {key!r}")
    return part


def resolve(root: Any, schema: Any) -> Any:
    """Return the schema after following all its references; keywords next to ``$ref`` are ignored.

    Raises:
        BadReferenceError: when a target is not in the document, or the references are circular.
    """
    for _ in range(_MAX_REFERENCES):
        reference = reference_of(schema)
        if reference is None:
            return schema
        schema = target(root, reference)
    raise BadReferenceError(f"the reference {reference!r} is circular")


def _decoded(step: str) -> str:
    # In this order: `~01` is `~1`, not a slash (RFC 6901, section 4).
    return step.replace("~1", "/").replace("~0", "~")


def _anchored(root: Any, name: str) -> Any:
    definitions = root.get("$defs") if isinstance(root, dict) else None
    for definition in definitions.values() if isinstance(definitions, dict) else ():
        if isinstance(definition, dict) and definition.get("$anchor") == name:
            return definition
    raise BadReferenceError(f"$defs has no schema with the anchor {name!r}")
