"""Fields of a form that a call asks its user to fill in.

MCP restricts a form to an object of flat fields (specification, "Elicitation", section "Requested
Schema"): strings, numbers, booleans, and choices of one or several.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Mapping

FieldKind = Literal["string", "number", "integer", "boolean", "choice", "choices"]

MOST_FIELDS = 64

_COMMON = frozenset({"type", "title", "description", "default"})
_KEYWORDS: dict[FieldKind, frozenset[str]] = {
    "string": _COMMON | {"minLength", "maxLength", "format", "pattern"},
    "number": _COMMON | {"minimum", "maximum"},
    "integer": _COMMON | {"minimum", "maximum"},
    "boolean": _COMMON,
    "choice": _COMMON | {"enum", "enumNames", "oneOf"},
    "choices": _COMMON | {"items", "minItems", "maxItems"},
}
_SAYS_SO = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|token|secret|password|passwd|passphrase|credentials?)(?:$|[_-])",
    re.IGNORECASE,
)


class BadFormError(CovaltError):
    """A form that a user cannot be asked to fill in."""

    code = "bad_form"


class FormField(NamedTuple):
    """A field of a form; ``options`` are the values to choose from, each with its title."""

    name: str
    kind: FieldKind
    title: str
    description: str
    is_required: bool
    default: Any
    options: tuple[tuple[str, str], ...] = ()
    format: str = ""


def form_fields(schema: object) -> tuple[FormField, ...]:
    """Return the fields of a requested schema, in order.

    Raises:
        BadFormError: if a field is not flat, or asks for a secret.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise BadFormError("the schema of a form is an object with properties")
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise BadFormError("the schema of a form is an object with properties")
    if len(properties) > MOST_FIELDS:
        raise BadFormError(f"a form has at most {MOST_FIELDS} fields")
    return tuple(
        _field(name, told, is_required=name in required) for name, told in properties.items()
    )


def _field(name: str, told: object, *, is_required: bool) -> FormField:
    if _SAYS_SO.search(name):
        raise BadFormError(
            f"the field {name!r} asks for a secret, which a form may not",
            hint="declare it under secrets of toolset.yaml, or ask by an address (elicit_url)",
        )
    if not isinstance(told, dict):
        raise _more_than_flat(name)
    kind, options = _kind(name, told)
    if unknown := sorted(set(told) - _KEYWORDS[kind]):
        raise BadFormError(
            f"the field {name!r} has {unknown[0]!r}, which forms do not",
            hint=f"one of: {', '.join(sorted(_KEYWORDS[kind]))}",
        )
    return FormField(
        name,
        kind,
        title=str(told.get("title") or name),
        description=str(told.get("description") or ""),
        is_required=is_required,
        default=told.get("default"),
        options=options,
        format=str(told.get("format") or ""),
    )


def _kind(name: str, told: Mapping[str, Any]) -> tuple[FieldKind, tuple[tuple[str, str], ...]]:
    match told.get("type"):
        case "string" if "enum" in told or "oneOf" in told:
            return "choice", _options(name, told, "oneOf")
        case "array" if isinstance(told.get("items"), dict):
            return "choices", _options(name, told["items"], "anyOf")
        case "string" | "number" | "integer" | "boolean" as kind:
            return kind, ()
    raise _more_than_flat(name)


def _options(name: str, told: Mapping[str, Any], key: str) -> tuple[tuple[str, str], ...]:
    """Return the values to choose from, written as a plain list or each with a title."""
    values, words = told.get("enum"), told.get("enumNames")
    if key in told:
        titled = told[key] if isinstance(told[key], list) else []
        values = [one.get("const") for one in titled if isinstance(one, dict)]
        words = [one.get("title") for one in titled if isinstance(one, dict)]
    if not isinstance(values, list) or not values or not all(isinstance(v, str) for v in values):
        raise _more_than_flat(name)
    if not isinstance(words, list) or len(words) != len(values):
        words = values
    return tuple((value, str(word or value)) for value, word in zip(values, words, strict=True))


def _more_than_flat(name: str) -> BadFormError:
    return BadFormError(
        f"the field {name!r} is no text, number, truth or choice of texts",
        hint="the fields of a form are flat: string, number, integer, boolean, enum, array of enum",
    )
