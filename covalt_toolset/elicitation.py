"""What a tool may ask while it runs: a person through a form or an address, a model, the client's folders.

The shapes on the wire are those of the Model Context Protocol ("Elicitation", "Sampling", "Roots").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NotRequired,
    Required,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

Content = TypeVar("Content")
Kind = Literal["form", "url", "sampling", "roots"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class CannotAsk(RuntimeError):  # noqa: N818 - it says what is the matter, as authors read it
    """Nobody is there who could answer."""


class NotAnswered(RuntimeError):  # noqa: N818 - as above
    """Nobody has answered in time, or nobody wants the call's result any more."""


@dataclass(frozen=True)
class Answer(Generic[Content]):
    """What a person did with a question; ``content`` only where they accepted a form."""

    action: Literal["accept", "decline", "cancel"]
    content: Content | None = None

    @property
    def accepted(self) -> bool:
        """Whether the person agreed."""
        return self.action == "accept"


@dataclass(frozen=True)
class Sampled:
    """What the client's model said; ``content`` is a block of MCP, or a list of them."""

    role: str
    content: Any
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """The words of it."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(one["text"] for one in blocks if one.get("type") == "text")


@dataclass(frozen=True)
class Root:
    """A folder that the client works in."""

    uri: str
    name: str = ""


@dataclass(frozen=True)
class Form:
    """A form for a person: flat fields, as a schema, a pydantic model, a dataclass or a TypedDict.

    With a type, the answer's content is one of its values.  A form never asks for a secret: secrets
    are declared in the manifest, or a person gives them at an address.
    """

    message: str
    schema: Any

    def as_json(self) -> dict[str, Any]:
        """Return the question as MCP has it."""
        schema = self.schema if isinstance(self.schema, Mapping) else flat_schema(self.schema)
        params = {"mode": "form", "message": self.message, "requestedSchema": dict(schema)}
        return {"method": "elicitation/create", "params": params}

    def read(self, answer: Mapping[str, Any]) -> Answer[Any]:
        """Return the answer that came."""
        content = answer.get("content")
        is_plain = isinstance(self.schema, Mapping) or is_typeddict(self.schema)
        if answer["action"] == "accept" and not is_plain:
            content = TypeAdapter(self.schema).validate_python(content)
        return Answer(answer["action"], content)


@dataclass(frozen=True)
class Address:
    """An address that a person is to open, for what does not pass through us: signing in, paying."""

    message: str
    url: str

    def as_json(self) -> dict[str, Any]:
        """Return the question as MCP has it."""
        params = {"mode": "url", "message": self.message, "url": self.url}
        return {"method": "elicitation/create", "params": params}

    def read(self, answer: Mapping[str, Any]) -> Answer[None]:
        """Return whether the person agreed to open it, which is not that they are done there."""
        return Answer(answer["action"])


@dataclass(frozen=True)
class Sampling:
    """What the client's model is to go on with: a text, or messages as MCP has them."""

    messages: str | Sequence[Mapping[str, Any]]
    max_tokens: int
    system_prompt: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the question as MCP has it."""
        messages = self.messages
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        params = {"messages": [*messages], "maxTokens": self.max_tokens, **self.more}
        if self.system_prompt is not None:
            params["systemPrompt"] = self.system_prompt
        return {"method": "sampling/createMessage", "params": params}

    def read(self, answer: Mapping[str, Any]) -> Sampled:
        """Return what came."""
        return Sampled(answer["role"], answer["content"], answer["model"], answer.get("stopReason"))


@dataclass(frozen=True)
class Roots:
    """Which folders the client works in."""

    def as_json(self) -> dict[str, Any]:
        """Return the question as MCP has it."""
        return {"method": "roots/list", "params": {}}

    def read(self, answer: Mapping[str, Any]) -> tuple[Root, ...]:
        """Return what came."""
        return tuple(Root(one["uri"], one.get("name") or "") for one in answer["roots"])


Question = Form | Address | Sampling | Roots


def flat_schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a form with the fields of a type.

    Raises:
        TypeError: for a type that has no fields, or one that is more than a text, a number, a truth
            or a choice of texts.
    """
    if is_typeddict(
        kind
    ):  # pydantic itself takes only those of typing_extensions before Python 3.12
        hints = get_type_hints(kind, include_extras=True)
        fields: dict[str, Any] = {name: _key(kind, name, hint) for name, hint in hints.items()}
        kind = create_model(kind.__name__, **fields)
    if not (hasattr(kind, "model_fields") or hasattr(kind, "__dataclass_fields__")):
        raise TypeError(f"a form is a schema, a model, a dataclass or a TypedDict, not {kind!r}")
    written = TypeAdapter(kind).json_schema(schema_generator=_FormSchema)
    definitions = written.get("$defs", {})
    properties = {
        name: _flat(name, told, definitions) for name, told in written.get("properties", {}).items()
    }
    return {"type": "object", "properties": properties, "required": written.get("required", [])}


def _key(kind: Any, name: str, hint: Any) -> tuple[Any, Any]:
    """Return the type of a TypedDict's key, and whether a model needs it."""
    qualifier = get_origin(hint)
    if qualifier in {Required, NotRequired}:
        return get_args(hint)[0], ... if qualifier is Required else None
    return hint, ... if name in kind.__required_keys__ else None


def _flat(name: str, told: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field without references, and without the null that ``str | None`` would take."""
    flat = {key: value for key, value in told.items() if key not in {"$ref", "anyOf", "const"}}
    if "$ref" in told:
        named = definitions[told["$ref"].rpartition("/")[2]]
        flat = {**_flat(name, named, definitions), **flat}
    choices = [one for one in told.get("anyOf", []) if one != {"type": "null"}]
    if len(choices) == 1:
        flat = {**_flat(name, choices[0], definitions), **flat}
    if "const" in told:
        flat["enum"] = [told["const"]]
    if flat.get("default", 0) is None:
        del flat["default"]
    if flat.get("type") == "array" and isinstance(flat.get("items"), dict):
        flat["items"] = _flat(name, flat["items"], definitions)
        flat.pop("uniqueItems", None)
    for theirs, ours in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if flat.get("type") == "integer" and theirs in flat:
            flat[ours] = flat.pop(theirs) + (1 if ours == "minimum" else -1)
    if flat.get("type") not in {"string", "number", "integer", "boolean", "array"}:
        raise TypeError(
            f"the field {name!r} of a form is no text, number, truth or choice of texts"
        )
    return flat


class _FormSchema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave out titles that only repeat the key."""
        del schema
        return False
