"""Differences in meaning between two schemas of a tool, of which one may be read from its source, and one may have run.

Both can describe the same function, but not in the same words: the reader has its own formats, and writes ``enum``
where pydantic writes ``const``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covalt_git.authority.schema_diff import judge_schemas

if TYPE_CHECKING:
    from covalt_git.authority.facts import Judgement
    from covalt_git.json_values import JsonObject

_OWN_FORMATS: Final = frozenset({"decimal", "complex", "byte-size"})
"""Formats of the reader that pydantic's schemas do not have."""

_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
"""Keywords whose values are schemas by name."""

_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are not schemas."""


def judge_meaning(old: JsonObject, new: JsonObject) -> list[Judgement]:
    """Return the differences between two schemas of a function; none if both accept the same values."""
    return judge_schemas(_in_plain_words(old), _in_plain_words(new))


def _in_plain_words(schema: Any) -> Any:
    """Return a schema without the words that make no difference."""
    if isinstance(schema, list):
        return [_in_plain_words(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain: JsonObject = {}
    for keyword, value in schema.items():
        if keyword == "const" and "enum" not in schema:
            plain["enum"] = [value]
        elif keyword in _NAMED and isinstance(value, dict):
            plain[keyword] = {name: _in_plain_words(item) for name, item in value.items()}
        elif keyword in _VALUES:
            plain[keyword] = value
        elif keyword == "propertyNames" and value == {}:
            continue  # the reader's word for keys that are parsed
        elif keyword != "format" or value not in _OWN_FORMATS:
            plain[keyword] = _in_plain_words(value)
    return plain
