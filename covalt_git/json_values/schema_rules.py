"""The rule of a schema that a refused value broke, beside the message about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from covalt_git.json_values.pointer import reference_of
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 200
_FOR_READERS = frozenset({"title", "description", "default", "examples"})


def with_rule(message: str, part: Mapping[str, Any]) -> str:
    """Return a message with the part of the schema at its place, unless the message says all of it.

    The message about a key that is missing or unknown names it; the whole schema of the object would hide it.  A union
    of classes is a list of references, which says nothing; its message names what each of them lacks.
    """
    rule = {name: inner for name, inner in part.items() if name not in _FOR_READERS}
    branches = [*part.get("anyOf", ()), *part.get("oneOf", ())]
    if any(reference_of(branch) is not None for branch in branches):
        return message
    if rule.keys() <= {"type"} or "properties" in rule:
        return message
    text = shorten(json.dumps(rule, ensure_ascii=False), _MOST)
    return f"{message} (schema: {text})"
