"""Values of a document that its toolsets cannot hold, which ``extensions`` of ``toolset.yaml`` carries.

It is the difference between the document and the one that the format's writer makes of the toolsets: a
value for each JSON pointer, and the order of keys where the writer's order differs.  An item of a list is
found by its ``id`` or ``name``, so that the rest of the file can be edited.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.model import pointer_text
from covalt_git.json_values.difference import same
from covalt_git.json_values.json_schema import value_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_LABELS: Final = ("id", "name", "tool_id")
_ABSENT: Final = object()
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_STORED: Final[JsonObject] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "order": {"type": "integer"},
        "set": {"type": "object", "propertyNames": {"pattern": "^/"}},
        "absent": {"type": "array", "items": {"type": "string", "pattern": "^/"}},
        "keys": {"type": "object", "additionalProperties": _TEXTS},
        "secrets": _TEXTS,
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["at", "value"],
                "properties": {"at": {"type": "integer", "minimum": 0}, "value": {}},
            },
        },
        "names": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


class Carried:
    """Edits that turn a writer's document into another one.

    Attributes:
        values: the values to set, by pointer.
        absent: the pointers to remove.
        keys: the order of the keys of objects, by pointer.
        places: the places of the values in that document, and the pointer of each.
    """

    def __init__(self, stored: Sequence[Mapping[str, Any]] = ()) -> None:
        self.values: dict[str, Any] = {}
        self.absent: list[str] = []
        self.keys: dict[str, list[str]] = {}
        self.places: dict[Loc, str] = {}
        for edits in stored:
            self.values |= edits.get("set", {})
            self.absent += [key for key in edits.get("absent", ()) if key not in self.absent]
            self.keys |= edits.get("keys", {})

    def stored(self, ids: Sequence[str]) -> list[JsonObject]:
        """Return the edits as extensions of the toolsets with these ids.

        A value goes to the toolset whose id is in its pointer, by default to the first.  ``order`` is the
        toolset's position in the document.
        """
        several = len(ids) > 1
        extensions: list[JsonObject] = [{"order": at} if several else {} for at in range(len(ids))]

        def owner(pointer: str) -> JsonObject:
            parts = pointer.split("/")[:4] if several else ()
            return extensions[next((ids.index(part) for part in parts if part in ids), 0)]

        for name, entries in (("set", self.values), ("keys", self.keys)):
            for pointer, value in entries.items():
                owner(pointer).setdefault(name, {})[pointer] = value
        for pointer in self.absent:
            owner(pointer).setdefault("absent", []).append(pointer)
        return extensions


def difference(document: Any, plain: Any) -> Carried:
    """Return the edits that turn ``plain`` into the document."""
    edits = Carried()
    _compare(document, plain, (), (), edits)
    return edits


def restore(plain: Any, carried: Carried) -> tuple[Any, list[str]]:
    """Return ``plain`` with the carried values, and the pointers whose place no longer exists."""
    missing: list[str] = []
    steps: list[tuple[Any, str | int, Any]] = []  # found before a value changes a name in a path
    for pointer, value in [
        *((absent, _ABSENT) for absent in carried.absent),
        *carried.values.items(),
    ]:
        if not pointer:
            return value, []
        *path, last = _path(pointer)
        parent = _at(plain, path)
        key = _index(parent, last)
        if key is not None:
            steps.append((parent, key, value))
        elif value is not _ABSENT:
            missing.append(pointer)
    # Found first, as the steps are: a value that is set may be the name of an item in a path.
    ordered = [(_at(plain, _path(pointer)), keys) for pointer, keys in carried.keys.items()]
    for parent, key, value in steps:
        if value is not _ABSENT:
            parent[key] = value
        elif isinstance(parent, dict):
            parent.pop(key, None)
    for target, keys in ordered:
        if isinstance(target, dict):
            items = {key: target.pop(key) for key in keys if key in target}
            rest = dict(target)
            target.clear()
            target.update(items | rest)
    return plain, missing


def _compare(document: Any, plain: Any, path: tuple[str, ...], loc: Loc, edits: Carried) -> None:
    # A writer shares unchanged parts with the document, so most of them need no comparison.
    if document is plain:
        return
    if isinstance(document, dict) and isinstance(plain, dict):
        common = [key for key in plain if key in document]
        added = [key for key in document if key not in plain]
        edits.absent += [pointer_text((*path, key)) for key in plain if key not in document]
        for key in added:
            _set(document[key], (*path, key), (*loc, key), edits)
        for key in common:
            _compare(document[key], plain[key], (*path, key), (*loc, key), edits)
        # A document that comes back has to be the same file, byte by byte.
        if [*common, *added] != [*document]:
            edits.keys[pointer_text(path)] = [*document]
        return
    fits = isinstance(document, list) and isinstance(plain, list) and len(document) == len(plain)
    # By name, not by position: a user may edit the toolset before it is converted back.
    labels = _labels(plain) if fits else None
    if labels:
        for position, label in enumerate(labels):
            inner = (document[position], plain[position])
            _compare(*inner, (*path, label), (*loc, position), edits)
    elif not same(document, plain) or json.dumps(document) != json.dumps(plain):
        _set(document, path, loc, edits)  # another value, or other keys in the objects of a list


def _set(value: Any, path: tuple[str, ...], loc: Loc, edits: Carried) -> None:
    pointer = pointer_text(path)
    edits.values[pointer] = value
    edits.places[loc] = pointer


def _labels(items: list[Any]) -> list[str] | None:
    """Return the unique names of the objects in a list; None if some have none."""
    if not all(isinstance(item, dict) for item in items):
        return None
    names = [
        next((item[key] for key in _LABELS if isinstance(item.get(key), str)), None)
        for item in items
    ]
    labels = [name for name in names if name is not None]
    return labels if len(set(labels)) == len(items) else None


def _at(value: Any, path: Sequence[str]) -> Any:
    """Return the value at a path; None if it does not exist."""
    for key in path:
        at = _index(value, key)
        if at is None or (isinstance(value, dict) and at not in value):
            return None
        value = value[at]
    return value


def _index(value: Any, key: str) -> str | int | None:
    """Return the key in an object, or the position of the item with this name in a list."""
    if isinstance(value, list):
        labels = _labels(value) or []
        return labels.index(key) if key in labels else None
    return key if isinstance(value, dict) else None


def _path(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def stored_extension(manifest: Mapping[str, Any], name: str) -> JsonObject:
    """Return what a toolset carries for a format; empty if it is not what covalt-git writes."""
    extensions = manifest.get("extensions")
    stored = extensions.get(name) if isinstance(extensions, dict) else None
    return stored if isinstance(stored, dict) and not value_problems(_STORED, stored) else {}
