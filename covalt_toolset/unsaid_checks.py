"""Parameters of which a call checks more than their schema says, such as by a validator.

Pydantic's core schema has all that it checks.  What is not known to be in the JSON Schema counts as not said.
"""

from __future__ import annotations

import operator
from enum import Enum
from typing import TYPE_CHECKING, Any

from covalt_toolset.signature import read_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAID = _words(
    "any none bool int float str bytes list tuple set frozenset deque dict ordered-dict counter literal enum uuid url "
    "date time datetime timedelta nullable union tagged-union default definitions definition-ref model model-fields "
    "model-field typed-dict typed-dict-field dataclass dataclass-args dataclass-field lax-or-strict json-or-python"
)
"""Types of core schemas that JSON Schema has words for."""

_CHECKS = _words(
    "strip_whitespace to_lower to_upper regex_engine custom_init now_op tz_constraint allowed_schemes "
    "host_required validate_default"
)
"""Keywords that refuse or change values, and have no word in JSON Schema."""

_SETTINGS = _words(
    "strict str_strip_whitespace str_to_lower str_to_upper str_min_length str_max_length coerce_numbers_to_str"
)
"""The same, of the settings of a class."""

_BY_NAME = _words("populate_by_name validate_by_name")
_LENGTHS = _words("min_length max_length pattern")

_BOUNDS = {
    **dict.fromkeys(("date", "time", "datetime", "timedelta"), frozenset({"gt", "ge", "lt", "le"})),
    "bytes": frozenset({"min_length", "max_length"}),
    "int": frozenset({"strict"}),
}
"""Conditions that JSON Schema has for other types only; it counts 1.0 as an integer."""

_PLAIN_KEYS = frozenset({"str", "any", "date", "datetime", "time", "timedelta", "uuid"})
_ITEMS_OF_SETS = _PLAIN_KEYS - {"any"} | {"int", "float", "bool", "literal", "enum", "url", "bytes"}

_NO_SCHEMAS = frozenset({"function", "serialization", "metadata", "cls", "default", "config"})

_OF_PRIVATE = "init_private_attributes"
"""The method with which pydantic fills the private attributes of a model."""

_PARSERS = frozenset({"path_validator", "pattern_str_validator", "pattern_bytes_validator"})
"""Functions of pydantic itself that read a text of the format which the schema names."""


def unsaid_parameters(function: Callable[..., object]) -> list[str]:
    """Return the public names of the parameters whose schema does not say all that a call checks.

    Raises:
        ToolSignatureError: for a parameter that cannot be passed by name and as JSON.
    """
    signature = read_signature(function)
    core: Any = signature.model.__pydantic_core_schema__
    definitions = {definition["ref"]: definition for definition in core.get("definitions", ())}
    fields = next(node["fields"] for node in _nodes(core) if node["type"] == "model-fields")
    return [
        parameter.public
        for parameter in signature.parameters
        # A Final parameter with a default is a constant: neither the schema nor a call takes it.
        if parameter.field in fields
        and _is_unsaid(fields[parameter.field]["schema"], definitions, set())
    ]


def _is_unsaid(schema: Any, definitions: dict[str, Any], reached: set[str]) -> bool:
    for node in _nodes(schema):
        if _checks_more(node):
            return True
        reference = node.get("schema_ref") if node["type"] == "definition-ref" else None
        if reference is not None and reference not in reached:
            reached.add(reference)
            if _is_unsaid(definitions.get(reference, {"type": "unknown"}), definitions, reached):
                return True
    return False


def _checks_more(node: dict[str, Any]) -> bool:
    """Return whether a core schema, without those in it, has a check that JSON Schema does not say."""
    kind: str = node["type"]
    if kind not in _SAID and not _is_parser(node):
        return True
    if any(node.get(key) for key in _CHECKS | _BOUNDS.get(kind, frozenset())):
        return True
    if any(node.get("config", {}).get(key) for key in _SETTINGS):
        return True
    if node.get("metadata", {}).get("pydantic_js_annotation_functions"):  # WithJsonSchema
        return True
    if _has_further_names(node):
        return True
    match kind:
        case "dict":
            keys = node.get("keys_schema", {"type": "str"})
            return keys["type"] not in _PLAIN_KEYS and keys != {"type": "int"}
        case "set" | "frozenset":
            return node.get("items_schema", {"type": "any"})["type"] not in _ITEMS_OF_SETS
        case "enum":
            return "_missing_" in {
                name for base in node["cls"].mro() if base is not Enum for name in vars(base)
            }
        case "union":
            choices = [
                choice[0] if isinstance(choice, tuple) else choice for choice in node["choices"]
            ]
            # If "5" has a length that the text does not accept, pydantic reads it as the number 5.
            is_limited = any(
                choice["type"] == "str" and choice.keys() & _LENGTHS for choice in choices
            )
            return is_limited and any(
                choice["type"] in {"int", "float", "bool"} for choice in choices
            )
        case "tagged-union":
            return not isinstance(node["discriminator"], str)
    after = getattr(node.get("cls"), str(node.get("post_init")), None)
    return bool(node.get("post_init")) and getattr(after, "__name__", "") != _OF_PRIVATE


def _has_further_names(node: dict[str, Any]) -> bool:
    """Return whether a field, or one of a class, can be given under other names than the listed one."""
    if isinstance(node.get("validation_alias"), list):  # AliasChoices or AliasPath
        return True
    takes_names = any(node.get("config", {}).get(key) for key in _BY_NAME)
    return takes_names and any("validation_alias" in inner for inner in _nodes(node))


def _is_parser(node: dict[str, Any]) -> bool:
    function = node.get("function")
    called = function.get("function") if isinstance(function, dict) else None
    if isinstance(called, operator.attrgetter):  # use_enum_values
        return True
    module, name = str(getattr(called, "__module__", "")), str(getattr(called, "__name__", ""))
    is_address = name.startswith("ip_v") and name.endswith("_validator")
    return module.startswith("pydantic._internal.") and (name in _PARSERS or is_address)


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas in a core schema; definitions are followed by their references."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("type"), str):
                yield part
            if part.get("type") == "json-or-python":  # arguments are JSON
                waiting.append(part["json_schema"])
            elif part.get("type") == "lax-or-strict":
                waiting.append(part["lax_schema"])
            else:
                waiting += [
                    inner for key, inner in part.items() if key not in _NO_SCHEMAS | {"definitions"}
                ]
        elif isinstance(part, list | tuple):
            waiting += part
