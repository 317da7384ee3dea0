"""The rule of a schema that a refused value broke, beside the message about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from covalt_git.json_values.pointer import REF, BadReferenceError, reference_of, resolve
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 200
_FOR_READERS = frozenset({"title", "description", "default", "examples", "$defs", REF})
_VALUES = frozenset({"const", "enum"})


def with_rule(message: str, part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Return a message with the part of the schema at its place, unless the message says all of it.

    References to ``root`` are replaced by what they lead to, and those in it by its type: no reader of the message has
    the definitions.  The message about a key that is missing or unknown names it; the whole schema of the object would
    hide it.  A union of classes is a list of objects; its message names what each of them lacks.
    """
    branches = [*part.get("anyOf", ()), *part.get("oneOf", ())]
    if any(reference_of(branch) is not None for branch in branches):
        return message
    rule = _inlined(dict(part), root, levels=1)
    if rule.keys() <= {"type"} or "properties" in rule:
        return message
    text = shorten(json.dumps(rule, ensure_ascii=False), _MOST)
    return f"{message} (schema: {text})"


def _inlined(schema: Any, root: Mapping[str, Any], *, levels: int) -> Any:
    if isinstance(schema, list):
        return [_inlined(item, root, levels=levels) for item in schema]
    if not isinstance(schema, dict):
        return schema
    own = {
        name: inner if name in _VALUES else _inlined(inner, root, levels=levels)
        for name, inner in schema.items()
        if name not in _FOR_READERS
    }
    if reference_of(schema) is None:
        return own
    try:
        target = resolve(root, schema)
    except BadReferenceError:
        return own
    if not isinstance(target, dict):
        return own
    if levels == 0:  # a schema that refers to itself would have no end
        return {name: target[name] for name in ("type",) if name in target} | own
    return _inlined(target, root, levels=levels - 1) | own
