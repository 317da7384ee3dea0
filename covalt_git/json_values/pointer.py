"""Places in JSON values, and local references of JSON Schemas to them: a ``$ref`` whose fragment is a JSON pointer or an anchor.

A fragment is percent-decoded first and split at ``/`` after that (RFC 6901, section 6), as the
validator of :mod:`covalt_git.json_values.json_schema` does it.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, unquote

from covalt_git.errors import CovaltError

REF: Final = "$ref"
Loc = tuple[str | int, ...]
"""Keys and indexes that lead to a part of a JSON value."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_MAX_REFERENCES = 50
"""References that lead to one another; more of them probably lead in a circle."""


class BadReferenceError(CovaltError):
    """A reference that leads to no part of its document."""


def json_path(loc: Loc) -> str:
    """Return a place in a JSON value as people write it: ``$.rows[3].name``."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc]
    return "$" + "".join(parts)


def reference_to(*path: str) -> dict[str, Any]:
    """Return the schema that refers to the part at ``path`` of its document."""
    steps = (quote(step.replace("~", "~0").replace("/", "~1"), safe="$~") for step in path)
    return {REF: "/".join(["#", *steps])}


def reference_of(schema: Any) -> str | None:
    """Return the ``$ref`` of a schema; None where it has none that is a text."""
    found = schema.get(REF) if isinstance(schema, dict) else None
    return found if isinstance(found, str) else None


def name_of(schema: Any) -> str:
    """Return the name of the part that a schema refers to; an empty text without a reference."""
    return _decoded(unquote((reference_of(schema) or "")[1:]).rpartition("/")[2])


def target(root: Any, reference: str) -> Any:
    """Return the part of the document ``root`` that a local reference leads to.

    Raises:
        BadReferenceError: when it leads out of the document, or to nothing in it.
    """
    fragment = unquote(reference[1:])
    if not reference.startswith("#"):
        raise BadReferenceError(f"{reference!r} is outside this schema", hint="copy it to $defs")
    if fragment and not fragment.startswith("/"):
        return _anchored(root, fragment)
    found = root
    for step in fragment.split("/")[1:]:
        key = _decoded(step)
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and _INDEX.fullmatch(key) and int(key) < len(found):
            found = found[int(key)]
        else:
            raise BadReferenceError(f"{reference!r} leads to nothing in this schema: no {key!r}")
    return found


def resolve(root: Any, schema: Any) -> Any:
    """Return what a schema refers to, through all references, without the keywords beside them.

    Raises:
        BadReferenceError: when a reference leads nowhere, or all of them lead in a circle.
    """
    for _ in range(_MAX_REFERENCES):
        reference = reference_of(schema)
        if reference is None:
            return schema
        schema = target(root, reference)
    raise BadReferenceError(f"the references from {reference!r} on lead in a circle")


def _decoded(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _anchored(root: Any, name: str) -> Any:
    definitions = root.get("$defs") if isinstance(root, dict) else None
    for one in definitions.values() if isinstance(definitions, dict) else ():
        if isinstance(one, dict) and one.get("$anchor") == name:
            return one
    raise BadReferenceError(f"no part of $defs has the anchor {name!r}")
