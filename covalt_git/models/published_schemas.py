"""The published JSON Schemas of the files that people write: for editors, which complete and check by them.

They are made from the models, so that neither says what the other does not.  What only our own
readers check (that ids differ, that files exist, that an id is its folder's name) no schema can say;
``tests/models/test_published_schemas.py`` lists it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, get_args

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from covalt_git.json_values import pointer
from covalt_git.models.base import (
    FORMS,
    AnyToolName,
    Entrypoint,
    Id,
    Pattern,
    ToolName,
    WholeToolId,
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
_WORDS: Mapping[Any, JsonObject] = {
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
    WholeToolId: {
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
        "not": {"anyOf": [{"const": "*"}, {"pattern": r"[^.*]\*\*|\*\*[^.]"}]},
        "examples": ["app-builder.*", "app-builder.read_*", "**"],
    },
    Entrypoint: {
        "pattern": rf"^{_PART}+(?:\.{_PART}+)*:{_PART}+$",
        "examples": ["tools.files:write_file"],
    },
    GrantedHost: {"pattern": r"^[^\s/@]+$", "examples": ["api.example.com", "*.example.com"]},
}
_OF_VALIDATOR = {get_args(kind)[1].func: rules for kind, rules in _WORDS.items()}
"""What a schema says of the texts that a function of ours checks."""

_EXAMPLES: Mapping[str, JsonObject] = {
    "toolset": {
        "manifest_version": "1",
        "id": "app-builder",
        "name": "App Builder",
        "version": "1.0.0",
        "tools": [{"id": "write_file", "entrypoint": "tools.files:write_file"}],
    },
    "covalt": {"version": 1, "approvals": [{"pattern": "app-builder.*", "require": True}]},
    "state": {"enabled": False, "overrides": {"write_file": {"requires_confirmation": True}}},
}


def _exactly_one(*keys: str) -> JsonObject:
    """Return what a schema says where one of these keys is given and the others are not."""
    given = [{"required": [key], "properties": {key: {"not": {"type": "null"}}}} for key in keys]
    return {"oneOf": given}


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
"""What the models check of several keys together."""


class _Published(GenerateJsonSchema):
    """Says of a text what the function that checks it would."""

    def function_after_schema(
        self, schema: core_schema.AfterValidatorFunctionSchema
    ) -> dict[str, Any]:
        """Add the rules of our own validators."""
        function: Any = schema["function"]["function"]
        return super().function_after_schema(schema) | _OF_VALIDATOR.get(function, {})


def file_name(name: str) -> str:
    """Return the name of the file that holds a published schema."""
    return f"{name}.schema.json"


def modeline(path: str) -> str:
    """Return the line that tells an editor's YAML language server which schema a file follows."""
    return f"# yaml-language-server: $schema={path}"


def published_schema(name: str) -> JsonObject:
    """Return the JSON Schema (draft 2020-12) of a file, by its name in :data:`NAMES`."""
    model, file = _MODELS[name]
    wanted: list[type[StrictModel]] = [model]
    if name == "toolset":
        wanted += [*dict.fromkeys(CONFIGS.values()), NoConfig]
    keys, found = models_json_schema(
        [(one, "validation") for one in wanted], schema_generator=_Published
    )
    definitions: JsonObject = found["$defs"]
    root = definitions.pop(pointer.name_of(keys[model, "validation"]))
    for key, rules in _RULES.items():
        if key in definitions:
            definitions[key] |= rules
    if name == "toolset":
        root["properties"]["manifest_version"] = {
            key: value
            for key, value in root["properties"]["manifest_version"].items()
            if key not in {"const", "type"}
        } | {"enum": ["1", 1]}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:covalt-git:schema:{name}:1",
        **root,
        "title": file,
        "examples": [_EXAMPLES[name]],
        "$defs": dict(sorted(definitions.items())),
    }
    return {key: _tidy(value) for key, value in whole.items()}


def schema_text(name: str) -> str:
    """Return a published schema as the text of its file."""
    return json.dumps(published_schema(name), indent=2, ensure_ascii=False) + "\n"


def _tidy(schema: Any) -> Any:
    """Return a schema without what helps nobody who writes, closed where only patterns name its keys."""
    if isinstance(schema, list):
        return [_tidy(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    tidied: JsonObject = {}
    for key, value in schema.items():
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
    """Tell a default that a person would not write: nothing, or the whole of an inner model."""
    return default is None or isinstance(default, dict)
