"""Requests of a running tool: a form or a URL for the user, sampling by the client's model, roots.

Their JSON is that of the Model Context Protocol ("Elicitation", "Sampling", "Roots").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args, is_typeddict

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from covalt_toolset.type_hints import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

Content = TypeVar("Content")
Kind = Literal["form", "url", "sampling", "roots"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class CannotAsk(RuntimeError):  # noqa: N818 - a public name of the SDK
    """No user or client can answer the request."""


class NotAnswered(RuntimeError):  # noqa: N818 - as above
    """The answer did not arrive in time, or the call was cancelled."""


@dataclass(frozen=True)
class Answer(Generic[Content]):
    """The user's answer; ``content`` is set only if the user accepted a form."""

    action: Literal["accept", "decline", "cancel"]
    content: Content | None = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


@dataclass(frozen=True)
class Sampled:
    """The output of the client's model; ``content`` is a content block of MCP, or a list of them."""

    role: str
    content: Any
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(block["text"] for block in blocks if block.get("type") == "text")


@dataclass(frozen=True)
class Root:
    """A folder that the client works in."""

    uri: str
    name: str = ""


@dataclass(frozen=True)
class Form:
    """A form with flat fields: a JSON Schema, a pydantic model, a dataclass or a TypedDict.

    For a type, the content of the answer is an instance of it.  A form cannot ask for a secret: declare
    secrets in the manifest, or open a URL where the user enters them.
    """

    message: str
    schema: Any

    def as_json(self) -> dict[str, Any]:
        """Return the MCP request."""
        schema = self.schema if isinstance(self.schema, Mapping) else flat_schema(self.schema)
        params = {"mode": "form", "message": self.message, "requestedSchema": dict(schema)}
        return {"method": "elicitation/create", "params": params}

    def read(self, answer: Mapping[str, Any]) -> Answer[Any]:
        """Return the answer for an MCP result."""
        content = answer.get("content")
        is_plain = isinstance(self.schema, Mapping) or is_typeddict(self.schema)
        if answer["action"] == "accept" and not is_plain:
            content = TypeAdapter(self.schema).validate_python(content)
        return Answer(answer["action"], content)


@dataclass(frozen=True)
class Address:
    """A URL for the user to open, for data that the tool must not receive: logins, payments."""

    message: str
    url: str

    def as_json(self) -> dict[str, Any]:
        """Return the MCP request."""
        params = {"mode": "url", "message": self.message, "url": self.url}
        return {"method": "elicitation/create", "params": params}

    def read(self, answer: Mapping[str, Any]) -> Answer[None]:
        """Return whether the user accepted to open the URL; they may not have finished there."""
        return Answer(answer["action"])


@dataclass(frozen=True)
class Sampling:
    """A request to the client's model: a text, or messages in MCP's form."""

    messages: str | Sequence[Mapping[str, Any]]
    max_tokens: int
    system_prompt: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the MCP request."""
        messages = self.messages
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        params = {"messages": [*messages], "maxTokens": self.max_tokens, **self.more}
        if self.system_prompt is not None:
            params["systemPrompt"] = self.system_prompt
        return {"method": "sampling/createMessage", "params": params}

    def read(self, answer: Mapping[str, Any]) -> Sampled:
        """Return the model's output for an MCP result."""
        return Sampled(answer["role"], answer["content"], answer["model"], answer.get("stopReason"))


@dataclass(frozen=True)
class Roots:
    """A request for the folders that the client works in."""

    def as_json(self) -> dict[str, Any]:
        """Return the MCP request."""
        return {"method": "roots/list", "params": {}}

    def read(self, answer: Mapping[str, Any]) -> tuple[Root, ...]:
        """Return the folders for an MCP result."""
        return tuple(Root(root["uri"], root.get("name") or "") for root in answer["roots"])


Question = Form | Address | Sampling | Roots


def flat_schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a form with the fields of a type.

    Raises:
        TypeError: for a type without fields, or with a field that is not a string, number, boolean or
            choice of strings.
    """
    has_fields = (
        is_typeddict(kind),
        hasattr(kind, "model_fields"),
        hasattr(kind, "__dataclass_fields__"),
    )
    if not any(has_fields):
        raise TypeError(
            f"a form must be a schema, a model, a dataclass or a TypedDict, not {kind!r}"
        )
    schema = TypeAdapter(readable(kind)).json_schema(schema_generator=UntitledSchema)
    definitions = schema.get("$defs", {})
    properties = {
        name: _flat(name, field, definitions)
        for name, field in schema.get("properties", {}).items()
    }
    return {"type": "object", "properties": properties, "required": schema.get("required", [])}


def _flat(name: str, schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field without references, and without the null of ``str | None``."""
    # MCP's forms have neither references nor const, null, uniqueItems and exclusive limits ("Requested Schema").
    flat = {key: value for key, value in schema.items() if key not in {"$ref", "anyOf", "const"}}
    if "$ref" in schema:
        definition = definitions[schema["$ref"].rpartition("/")[2]]
        flat = {**_flat(name, definition, definitions), **flat}
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        flat = {**_flat(name, choices[0], definitions), **flat}
    if "const" in schema:
        flat["enum"] = [schema["const"]]
    if flat.get("default", 0) is None:
        del flat["default"]
    if flat.get("type") == "array" and isinstance(flat.get("items"), dict):
        flat["items"] = _flat(name, flat["items"], definitions)
        flat.pop("uniqueItems", None)
    # For a number there is no inclusive limit that means the same.
    for theirs, ours in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if flat.get("type") == "integer" and theirs in flat:
            flat[ours] = flat.pop(theirs) + (1 if ours == "minimum" else -1)
    if flat.get("type") not in {"string", "number", "integer", "boolean", "array"}:
        raise TypeError(
            f"the field {name!r} of a form is not a string, number, boolean or choice of strings"
        )
    return flat


class UntitledSchema(GenerateJsonSchema):
    """Pydantic's generator of JSON Schema without the default titles, which repeat the keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False
