"""The tools that an MCP server or a source gave when it was last asked: ``toolsets/locks/<ns>.yaml``.

Written by the machine and checked in, so that listing works offline and a change is a diff.  It
holds no time: asking again and getting the same answer leaves the file as it was.

An entry holds the whole definition, so that its digest can be checked against it: what is accepted is
that digest, and nobody has to believe it.
"""

from typing import Any, Literal

from pydantic import Field, ValidationError

from covalt_git.errors import CovaltError
from covalt_git.json_values import JsonObject, canonical_json
from covalt_git.json_values.canonical_json import MAX_EXACT_INTEGER, NotJsonError
from covalt_git.models.base import Digest, Id, One, StrictModel, ToolName
from covalt_git.models.tool_properties import Annotations

_HINTS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
"""MCP's names of annotations, and ours (Model Context Protocol 2026-07-28, server/tools)."""

_FIELDS = {
    "title": "title",
    "description": "description",
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
    "icons": "icons",
    "_meta": "meta",
}


class BadDefinitionError(CovaltError):
    """What a server says of a tool is no definition of one."""

    code = "bad_definition"
    http_status = 502


class LockedTool(StrictModel):
    """One tool's definition as it was given; what it says beyond our keys is in ``more``."""

    upstream: str = Field(description="Its name there, which may not be a legal one here.")
    digest: Digest = Field(description="Digest of the whole definition.")
    title: str | None = None
    description: str = ""
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    annotations: Annotations = Annotations()
    icons: tuple[JsonObject, ...] = ()
    meta: JsonObject = Field(default_factory=dict, description="The definition's _meta.")
    more: JsonObject = Field(default_factory=dict, description="All else that it says.")
    request: JsonObject = Field(default_factory=dict, description="How a source's tool is called.")

    @property
    def definition(self) -> JsonObject:
        """The definition as MCP writes it; what is empty is left out, as if nobody had said it."""
        hints = {name: getattr(self.annotations, ours) for name, ours in _HINTS.items()}
        said = {name: getattr(self, ours) for name, ours in _FIELDS.items()}
        found: JsonObject = {"name": self.upstream}
        found |= {name: value for name, value in said.items() if value}
        found["inputSchema"] = self.input_schema
        if self.icons:
            found["icons"] = list(self.icons)
        if self.output_schema is not None:
            found["outputSchema"] = self.output_schema
        annotations = {name: value for name, value in hints.items() if value is not None}
        rest = dict(self.more)
        others = rest.pop("annotations", {})
        if isinstance(others, dict):
            annotations |= {key: one for key, one in others.items() if not _is_hint(key, one)}
        if annotations:
            found["annotations"] = annotations
        return found | {key: one for key, one in rest.items() if key not in {"name", *_FIELDS}}

    @property
    def is_true(self) -> bool:
        """Whether the digest is that of the definition that stands beside it."""
        return self.digest == self.true_digest

    @property
    def true_digest(self) -> str:
        """The digest of the definition, and of how a source's tool is called."""
        facts = self.definition | ({"request": self.request} if self.request else {})
        return canonical_json.digest(facts)


class ToolLock(StrictModel):
    """All that a lock file says."""

    version: One = 1
    namespace: Id
    toolset_id: Id
    kind: Literal["mcp", "openapi", "graphql", "plugin"]
    reference: str = Field("", description="Command, address or file that was asked.")
    digest: Digest | None = Field(None, description="Digest of the document that was read.")
    tools: dict[ToolName, LockedTool] = Field(default_factory=dict)
    replaced: dict[ToolName, LockedTool] = Field(
        default_factory=dict,
        description="Definitions that are accepted and given no longer, to compare with.",
    )


def locked_tool(definition: JsonObject) -> LockedTool:
    """Return the entry of a tool from its definition, as an MCP server wrote it in JSON.

    Integers that not every reader of JSON keeps exactly become the doubles that most readers make of them.

    Raises:
        BadDefinitionError: when it is no tool, or holds what JSON cannot.
    """
    name = definition.get("name")
    said: JsonObject = {ours: definition.get(theirs) for theirs, ours in _FIELDS.items()}
    facts = {key: _exact(value) for key, value in said.items() if value is not None}
    rest = {key: _exact(value) for key, value in definition.items() if value is not None}
    for key in ("name", *_FIELDS):
        rest.pop(key, None)
    annotations = rest.pop("annotations", None) or {}
    if not isinstance(annotations, dict):
        raise BadDefinitionError(f"the annotations of the tool {name!r} are no object")
    hints = {_HINTS[key]: value for key, value in annotations.items() if _is_hint(key, value)}
    others = {key: value for key, value in annotations.items() if not _is_hint(key, value)}
    if others:
        rest["annotations"] = others
    entry = facts | {"upstream": name, "annotations": hints, "more": rest}
    try:
        tool = LockedTool.model_validate(entry | {"digest": canonical_json.digest({})})
        return tool.model_copy(update={"digest": tool.true_digest})
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(map(str, wrong["loc"])) or "it"
        message = f"what it says of the tool {name!r} is no definition: {place}: {wrong['msg']}"
        raise BadDefinitionError(message.lower()) from None
    except NotJsonError as error:
        raise BadDefinitionError(f"the definition of the tool {name!r}: {error.message}") from None


def _is_hint(key: str, value: object) -> bool:
    return key in _HINTS and isinstance(value, bool)


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    if type(value) is int and abs(value) > MAX_EXACT_INTEGER:
        try:
            return float(value)
        except OverflowError:
            return value
    return value
