"""Fields of a form for elicitation.

The schema of a form is a flat object of strings, numbers, booleans, and single or multiple choices (MCP
specification, "Elicitation", section "Requested Schema").
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
# The client sees the answers of a form, so MCP forbids forms that ask for secrets ("Elicitation", "Security
# Considerations"): test_no_form_asks_for_a_secret.
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|token|secret|password|passwd|passphrase|credentials?)(?:$|[_-])",
    re.IGNORECASE,
)


class BadFormError(CovaltError):
    """The schema of a form is invalid, or the form asks for a secret."""

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
        raise BadFormError("the schema of a form must be an object with properties")
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise BadFormError("the schema of a form must be an object with properties")
    if len(properties) > MOST_FIELDS:
        raise BadFormError(f"a form can have at most {MOST_FIELDS} fields (got {len(properties)})")
    return tuple(
        _field(name, field, is_required=name in required) for name, field in properties.items()
    )


def _field(name: str, schema: object, *, is_required: bool) -> FormField:
    if _SECRET_NAME.search(name):
        raise BadFormError(
            f"the field {name!r} asks for a secret, which is not allowed in a form",
            hint="declare it under secrets of toolset.yaml, or open a URL for it (elicit_url)",
        )
    if not isinstance(schema, dict):
        raise _not_flat(name)
    kind, options = _kind(name, schema)
    # Answers are checked by the whole schema, so the user would break a rule that no form shows.
    if unknown := sorted(set(schema) - _KEYWORDS[kind]):
        raise BadFormError(
            f"the field {name!r} has the keyword {unknown[0]!r}, which forms do not support",
            hint=f"one of: {', '.join(sorted(_KEYWORDS[kind]))}",
        )
    return FormField(
        name,
        kind,
        title=str(schema.get("title") or name),
        description=str(schema.get("description") or ""),
        is_required=is_required,
        default=schema.get("default"),
        options=options,
        format=str(schema.get("format") or ""),
    )


def _kind(name: str, schema: Mapping[str, Any]) -> tuple[FieldKind, tuple[tuple[str, str], ...]]:
    match schema.get("type"):
        case "string" if "enum" in schema or "oneOf" in schema:
            return "choice", _options(name, schema, "oneOf")
        case "array" if isinstance(schema.get("items"), dict):
            return "choices", _options(name, schema["items"], "anyOf")
        case "string" | "number" | "integer" | "boolean" as kind:
            return kind, ()
    raise _not_flat(name)


def _options(name: str, schema: Mapping[str, Any], key: str) -> tuple[tuple[str, str], ...]:
    """Return the options with their titles, from ``enum`` or from the schemas under ``key``."""
    values, titles = schema.get("enum"), schema.get("enumNames")
    if key in schema:
        choices = schema[key] if isinstance(schema[key], list) else []
        values = [choice.get("const") for choice in choices if isinstance(choice, dict)]
        titles = [choice.get("title") for choice in choices if isinstance(choice, dict)]
    if not isinstance(values, list) or not values or not all(isinstance(v, str) for v in values):
        raise _not_flat(name)
    if not isinstance(titles, list) or len(titles) != len(values):
        titles = values
    return tuple((value, str(title or value)) for value, title in zip(values, titles, strict=True))


def _not_flat(name: str) -> BadFormError:
    return BadFormError(
        f"the field {name!r} is not a string, number, boolean or choice of strings",
        hint="use string, number, integer, boolean, enum or an array of enum",
    )
