"""Published JSON Schemas of hand-written files, for completion and checks in editors.

They are generated from the models.  A schema cannot express all checks of ``validate``, such as unique
ids and existing files; ``tests/manifests/test_published_schemas.py`` lists these.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from covalt_git.json_values import pointer
from covalt_git.models.base import (
    FORMS,
    AnyToolName,
    Entrypoint,
    FullToolId,
    Id,
    Pattern,
    ToolName,
)
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.renderers import CONFIGS, RENDERER_TYPES, NoConfig
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.models.toolset_state import GrantedHost, ToolsetState
from covalt_git.names import MAX_ID, MAX_TOOL_PATH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import core_schema

    from covalt_git.json_values import JsonObject
    from covalt_git.models.base import StrictModel

_MODELS: Mapping[str, tuple[type[StrictModel], str]] = {
    "toolset": (ToolsetManifest, "toolset.yaml"),
    "covalt": (ProjectConfig, "covalt.yaml"),
    "state": (ToolsetState, "toolsets/state/<id>.yaml"),
}
NAMES = tuple(_MODELS)

_PART = r"[^\s:./\\-]"
_NAMESPACE = "[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*"
_TOOL_NAME = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_TEXT_RULES: Mapping[Any, JsonObject] = {
    Id: {
        "pattern": f"^{_NAMESPACE}$",
        "maxLength": MAX_ID,
        "examples": ["app-builder"],
    },
    ToolName: {
        "pattern": f"^{_TOOL_NAME}$",
        "maxLength": MAX_TOOL_PATH - MAX_ID - 1,
        "examples": ["write_file"],
    },
    FullToolId: {
        "pattern": f"^{_NAMESPACE}:{_TOOL_NAME}$",
        "maxLength": MAX_TOOL_PATH,
        "examples": ["github:create_issue"],
    },
    AnyToolName: {
        "pattern": f"^(?:{_NAMESPACE}:)?{_TOOL_NAME}$",
        "maxLength": MAX_TOOL_PATH,
        "examples": ["write_file", "github:create_issue"],
    },
    Pattern: {
        "pattern": r"^(?:\*\*|[A-Za-z0-9_*-]+)(?:\.[A-Za-z0-9_*-]+)*$",
        "not": {"pattern": r"[^.*]\*\*|\*\*[^.]"},
        "examples": ["app-builder.*", "app-builder.read_*", "**"],
    },
    Entrypoint: {
        "pattern": rf"^{_PART}+(?:\.{_PART}+)*:{_PART}+$",
        "examples": ["tools.files:write_file"],
    },
    GrantedHost: {"pattern": r"^[^\s/@]+$", "examples": ["api.example.com", "*.example.com"]},
}
_OF_VALIDATOR = {get_args(kind)[1].func: rules for kind, rules in _TEXT_RULES.items()}
"""The schema of the texts that a validator function checks, by that function."""

_EXAMPLES: Mapping[str, JsonObject] = {
    "toolset": {
        "manifest_version": "1",
        "id": "app-builder",
        "name": "App Builder",
        "version": "1.0.0",
        "tools": [{"id": "write_file", "entrypoint": "tools.files:write_file"}],
    },
    "covalt": {"version": 1, "rules": [{"effect": "ask", "pattern": "app-builder.*"}]},
    "state": {"enabled": False, "overrides": {"write_file": {"requires_confirmation": True}}},
}


def _exactly_one(*keys: str) -> JsonObject:
    """Return the schema that requires exactly one of these keys."""
    return {"oneOf": [_has(key) for key in keys]}


def _has(key: str) -> JsonObject:
    return {"required": [key], "properties": {key: {"not": {"type": "null"}}}}


def _config_of(renderer: str) -> JsonObject:
    return pointer.reference_to("$defs", CONFIGS.get(renderer, NoConfig).__name__)


_RULES: Mapping[str, JsonObject] = {
    "ToolDeclaration": _exactly_one("entrypoint", "http"),
    "McpServer": {
        **_exactly_one("command", "url"),
        "allOf": [
            {
                "if": {"required": ["transport"], "properties": {"transport": {"const": "stdio"}}},
                "then": {"required": ["command"]},
            },
            {
                "if": {
                    "required": ["transport"],
                    "properties": {"transport": {"enum": ["sse", "streamable-http"]}},
                },
                "then": {"required": ["url"]},
            },
            {"if": _has("command"), "then": {"properties": {"headers": {"maxProperties": 0}}}},
            {
                "if": _has("url"),
                "then": {
                    "properties": {
                        "args": {"maxItems": 0},
                        "cwd": {"enum": [None, ""]},
                        "env": {"maxProperties": 0},
                    }
                },
            },
        ],
    },
    "HttpBody": _exactly_one("json", "form", "multipart", "text", "file"),
    "ToolOverride": {
        "allOf": [
            {
                "if": {"required": ["renderer"], "properties": {"renderer": {"const": kind}}},
                "then": {
                    "properties": {
                        "renderer_config": {"anyOf": [_config_of(kind), {"type": "null"}]}
                    }
                },
            }
            for kind in RENDERER_TYPES
        ]
    },
}
"""The schemas of checks of several keys together, by model."""


class _Published(GenerateJsonSchema):
    """Schema generator that adds the rules of our validator functions."""

    def function_after_schema(
        self, schema: core_schema.AfterValidatorFunctionSchema
    ) -> dict[str, Any]:
        """Return the schema of a text, with the rules of its validator."""
        function: Any = schema["function"]["function"]
        return super().function_after_schema(schema) | _OF_VALIDATOR.get(function, {})


def file_name(name: str) -> str:
    return f"{name}.schema.json"


def modeline(path: str) -> str:
    """Return the comment that names the schema of a file for YAML language servers."""
    return f"# yaml-language-server: $schema={path}"


def published_schema(name: str) -> JsonObject:
    """Return the JSON Schema (draft 2020-12) of a file, by its name in :data:`NAMES`."""
    model, file = _MODELS[name]
    models: list[type[StrictModel]] = [model]
    if name == "toolset":
        models += [*dict.fromkeys(CONFIGS.values()), NoConfig]
    keys, generated = models_json_schema(
        [(each_model, "validation") for each_model in models], schema_generator=_Published
    )
    definitions: JsonObject = generated["$defs"]
    root = definitions.pop(pointer.name_of(keys[model, "validation"]))
    for key, rules in _RULES.items():
        if key in definitions:
            definitions[key] |= rules
    if name == "toolset":
        # The model also reads 1, by a function that pydantic cannot express.
        root["properties"]["manifest_version"] = {
            key: value
            for key, value in root["properties"]["manifest_version"].items()
            if key not in {"const", "type"}
        } | {"enum": ["1", 1]}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:covalt-git:schema:{name}:1",
        **root,
        "title": file,
        "examples": [_EXAMPLES[name]],
        "$defs": dict(sorted(definitions.items())),
    }
    return {key: _tidy(value) for key, value in schema.items()}


@cache  # Pydantic takes 15 ms for a schema, which is the same for all projects that a process creates.
def schema_text(name: str) -> str:
    """Return a published schema as the text of its file."""
    return json.dumps(published_schema(name), indent=2, ensure_ascii=False) + "\n"


def _tidy(schema: Any) -> Any:
    """Return a schema without trivial defaults and discriminators, with an example for each pattern.

    Objects with ``patternProperties`` accept no other keys.
    """
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tidied: JsonObject = {}
    for key, value in schema.items():
        # Their keys are names, such as that of a property called "default".
        if key in {"properties", "patternProperties", "$defs"}:
            tidied[key] = {name: _tidy(part) for name, part in value.items()}
        elif key in {"const", "enum", "examples"}:
            tidied[key] = value
        elif key != "discriminator" and not (key == "default" and _is_trivial(value)):
            tidied[key] = _tidy(value)
    if "patternProperties" in tidied:
        tidied.setdefault("additionalProperties", False)
    pattern = tidied.get("pattern", "")
    example = FORMS[pattern][1].partition(";")[0].strip('"') if pattern in FORMS else ""
    if example and re.search(pattern, example):
        tidied.setdefault("examples", [example])
    return tidied


def _is_trivial(default: Any) -> bool:
    """Return whether a default value is not worth showing: null, or all fields of an inner model."""
    return default is None or isinstance(default, dict)
