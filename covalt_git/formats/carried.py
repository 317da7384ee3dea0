"""What a document has beyond its toolsets, which ``extensions`` of ``toolset.yaml`` carries.

It is the difference between the document and the one that the format's writer makes of the toolsets: a
value for each JSON pointer.  An item of a list is found by its ``id`` or ``name``, so that the rest of the
file can be edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.formats.model import pointer_text
from covalt_git.json_values.difference import same
from covalt_git.json_values.json_schema import value_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_LABELS: Final = ("id", "name", "tool_id")
_ABSENT: Final = object()
_STORED: Final[JsonObject] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "order": {"type": "integer"},
        "set": {"type": "object", "propertyNames": {"pattern": "^/"}},
        "absent": {"type": "array", "items": {"type": "string", "pattern": "^/"}},
        "names": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


class Carried(NamedTuple):
    """The values to set and the places to remove, by pointer; ``places`` are those in the document."""

    values: dict[str, Any]
    absent: tuple[str, ...]
    places: dict[str, Loc]

    def of_part(self, prefixes: Sequence[str]) -> JsonObject:
        """Return the entries below one of these pointers, for ``extensions``."""
        below = tuple(f"{prefix}/" for prefix in prefixes)
        values = {key: value for key, value in self.values.items() if key.startswith(below)}
        absent = [key for key in self.absent if key.startswith(below)]
        return {**({"set": values} if values else {}), **({"absent": absent} if absent else {})}


def difference(document: Any, plain: Any) -> Carried:
    """Return what has to be set in ``plain`` to get the document."""
    values: dict[str, Any] = {}
    absent: list[str] = []
    places: dict[str, Loc] = {}
    for pointer, loc, value in _differences(document, plain, (), ()):
        if value is _ABSENT:
            absent.append(pointer)
        else:
            values[pointer] = value
            places[pointer] = loc
    return Carried(values, tuple(absent), places)


def restore(plain: Any, carried: Carried) -> tuple[Any, list[str]]:
    """Return ``plain`` with the carried values, and the pointers whose place no longer exists."""
    missing: list[str] = []
    steps: list[tuple[Any, str | int, Any]] = []  # found before a value changes a name in a path
    for pointer, value in [*((one, _ABSENT) for one in carried.absent), *carried.values.items()]:
        if not pointer:
            return value, []
        parent, last = _parent(plain, pointer)
        key: str | int = last
        if isinstance(parent, list):
            labels = _labels(parent) or []
            key = labels.index(last) if last in labels else last
        if isinstance(parent, dict) or isinstance(key, int):
            steps.append((parent, key, value))
        elif value is not _ABSENT:
            missing.append(pointer)
    for parent, key, value in steps:
        if value is not _ABSENT:
            parent[key] = value
        elif isinstance(parent, dict):
            parent.pop(key, None)
    return plain, missing


def _differences(
    document: Any, plain: Any, path: tuple[str, ...], loc: Loc
) -> Iterator[tuple[str, Loc, Any]]:
    if isinstance(document, dict) and isinstance(plain, dict):
        for key in plain:
            if key not in document:
                yield pointer_text((*path, key)), (), _ABSENT
        for key, value in document.items():
            if key in plain:
                yield from _differences(value, plain[key], (*path, key), (*loc, key))
            else:
                yield pointer_text((*path, key)), (*loc, key), value
        return
    labels = _labels(plain)
    if labels and _is_aligned(document, plain):
        for position, label in enumerate(labels):
            inner = (document[position], plain[position])
            yield from _differences(*inner, (*path, label), (*loc, position))
    elif not same(document, plain):
        yield pointer_text(path), loc, document


def _is_aligned(document: Any, plain: list[Any]) -> bool:
    """Return whether the objects of two lists correspond to each other, by their positions."""
    fits = isinstance(document, list) and len(document) == len(plain)
    return fits and all(isinstance(one, dict) for one in document)


def _labels(items: Any) -> list[str] | None:
    """Return the unique names of the objects in a list; None if some have none."""
    if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
        return None
    found = [
        next((one[key] for key in _LABELS if isinstance(one.get(key), str)), None) for one in items
    ]
    labels = [one for one in found if one is not None]
    return labels if len(set(labels)) == len(items) else None


def _parent(plain: Any, pointer: str) -> tuple[Any, str]:
    """Return the object or list around the place of a pointer, and the place's key."""
    *path, last = (one.replace("~1", "/").replace("~0", "~") for one in pointer.split("/")[1:])
    for key in path:
        if isinstance(plain, dict) and key in plain:
            plain = plain[key]
        elif isinstance(plain, list) and key in (labels := _labels(plain) or []):
            plain = plain[labels.index(key)]
        else:
            return None, last
    return plain, last


def stored_extension(manifest: Mapping[str, Any], name: str) -> JsonObject:
    """Return what a toolset carries for a format; empty if it is not what covalt-git writes."""
    extensions = manifest.get("extensions")
    found = extensions.get(name) if isinstance(extensions, dict) else None
    return found if isinstance(found, dict) and not value_problems(_STORED, found) else {}


def of_extensions(stored: Sequence[Mapping[str, Any]]) -> Carried:
    """Return what the ``extensions`` of several toolsets carry for one format."""
    values: dict[str, Any] = {}
    absent: list[str] = []
    for one in stored:
        values.update(one.get("set") or {})
        absent += [key for key in one.get("absent") or () if key not in absent]
    return Carried(values, tuple(absent), {})
