"""The account of a conversion: what becomes of each value of the input.

A consumed value is in the output, in the form of its format.  A carried value is in the output unchanged, mostly in
``extensions``.  A lost value is not in the output, and has a reason.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.formats.model import leaves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from covalt_git.formats.carried import Carried
    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Format, Imported
    from covalt_git.json_values.pointer import Loc

CONSUMED: Final = ""

_EXTENSION: Final = 3
"""Length of the place of an extension: that of the toolset, ``extensions`` and its name."""

_EXAMPLE: Final = 5
"""Length of the place of an example: that of the toolset, ``tools``, a tool, ``examples`` and its own."""


class DocumentReading(NamedTuple):
    """A document, corrected and without credentials, and the toolsets that it becomes.

    If it ``is_complete``, the toolsets and what is carried are all of the document.
    """

    format: Format
    document: Document
    imported: Imported
    carried: Carried
    is_complete: bool


class _Target(NamedTuple):
    """A part of a toolset, and whether the writer uses it: CONSUMED, a reason why not, or None."""

    loc: Loc
    value: Any
    fate: str | None = None


def account(
    reading: DocumentReading, used: Mapping[Loc, str], target: Format
) -> dict[Loc, str | None]:
    """Return for each value of the input: CONSUMED, None if it is carried, or the reason why it is lost.

    A part that the reader cannot import is one value.

    ``used`` has the parts of the toolsets that the writer has read, or the reasons why it cannot write them.  An
    extension or an example that the writer does not read is one value.
    """
    imported = reading.imported
    toolsets = [
        _Target(
            (), [part.value for part in imported.parts({}, with_settings=target.is_host_config)]
        )
    ]
    stored_at = reading.carried.places
    # Not written again: the document itself is the output, so no value can be lost.
    if target is reading.format and reading.is_complete and not used:
        return {
            loc: None if any(loc[:end] in stored_at for end in range(len(loc) + 1)) else CONSUMED
            for loc in leaves(reading.document.value)
        }
    read = {loc[:end] for loc in used for end in (_EXTENSION, _EXAMPLE)}
    above = {place[:end] for place in imported.places for end in range(len(place) + 1)}
    fates: dict[Loc, str | None] = {}

    def inner(parts: Sequence[_Target], key: str | int) -> list[_Target]:
        """Return the parts at a key that exist; a text has all parts of its origin."""
        result = []
        for part in parts:
            if not isinstance(part.value, dict | list):
                result.append(part)
            elif key in (part.value if isinstance(part.value, dict) else range(len(part.value))):
                loc = (*part.loc, key)
                value: Any = part.value
                result.append(_Target(loc, value[key], used.get(loc, part.fate)))
        return result

    def visit(value: Any, loc: Loc, parts: Sequence[_Target], lost: str, *, stored: bool) -> None:
        if loc in imported.places:
            result = [functools.reduce(inner, item, toolsets) for item in imported.places[loc]]
            parts = [part for item in result for part in item]
        lost = imported.lost.get(loc, lost)
        is_carried = (stored or loc in stored_at) and target is reading.format
        # One line for the part, not one for each value in it, unless a part of it was imported.
        is_imported = loc in above and not (loc in imported.places and not parts)
        if loc in imported.lost and not is_imported and not is_carried:
            fates[loc] = lost
            return
        stored = stored or loc in stored_at
        if not _has_parts(value):
            parts = [item for item in parts if not _has_parts(item.value)]
        elif not any(map(is_one_value, parts)):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                visit(item, (*loc, key), inner(parts, key), lost, stored=stored)
            return
        # The format and the toolsets imply a value that has no part, as the ``schema`` of CJSON.
        is_implied = reading.is_complete and not parts and not stored
        if is_implied or any(item.fate == CONSUMED for item in parts):
            fates[loc] = CONSUMED
        elif stored and (target.name == "toolset" or target is reading.format):
            fates[loc] = None
        else:
            reasons = [item.fate for item in parts if item.fate]
            is_needed = lost or reasons or loc not in imported.implied
            fates[loc] = lost or min(reasons, default=no_field(target)) if is_needed else CONSUMED

    def is_one_value(part: _Target) -> bool:
        loc = part.loc
        if loc[1:2] == ("extensions",):
            return len(loc) >= _EXTENSION and loc[:_EXTENSION] not in read
        is_example = loc[1:2] == ("tools",) and loc[3:4] == ("examples",)
        return is_example and len(loc) >= _EXAMPLE and loc[:_EXAMPLE] not in read

    visit(reading.document.value, (), (), "", stored=False)
    return fates


def no_field(target: Format) -> str:
    """Return the reason why a format cannot have a value that no other reason is known for."""
    return f"{target.title} has no field for it"


def _has_parts(value: Any) -> bool:
    return bool(value) and isinstance(value, dict | list)
