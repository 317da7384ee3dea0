"""Signature of a tool: a pydantic model of its arguments, the schemas, and its description for a catalog."""

from __future__ import annotations

import copy
import functools
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_args, get_origin

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PydanticUserError,
    TypeAdapter,
    create_model,
)
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, SchemaError

from covalt_toolset.decorator import function_name, metadata_of
from covalt_toolset.docstrings import read_docstring
from covalt_toolset.elicitation import UntitledSchema
from covalt_toolset.files import FILE_SCHEMA
from covalt_toolset.patterns import as_json_schema
from covalt_toolset.result_json import ResultNotJson, to_json
from covalt_toolset.type_hints import resolve, signature_of, written_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic.json_schema import JsonSchemaWarningKind

WORKSPACE = "workspace"
"""A parameter of this name, annotated ``Path``, receives the call's workspace."""

_NOT_BY_NAME = {
    inspect.Parameter.VAR_POSITIONAL: ("*", "has values without names; declare a list instead"),
    inspect.Parameter.VAR_KEYWORD: ("**", "accepts any name; declare a dict instead"),
    inspect.Parameter.POSITIONAL_ONLY: ("", "cannot be passed by name; remove the '/' after it"),
}


class ToolSignatureError(TypeError):
    """A parameter cannot be passed as JSON; the message names the function and the parameter."""


@dataclass(frozen=True)
class ToolArgument:
    """One argument of a tool.

    Attributes:
        name: the name of the Python parameter.
        public: the name in the schema, which ``Field(alias=...)`` can change.
        field: the name in the model, which cannot have fields such as ``copy`` or ``model_config``.
        annotation: the type, with description and alias.
        default: the Python default, a ``Field(...)``, or ``inspect.Parameter.empty``.
    """

    name: str
    public: str
    field: str
    annotation: Any
    default: Any

    @property
    def has_python_default(self) -> bool:
        """Whether Python has a default value if the argument is missing."""
        empty = inspect.Parameter.empty
        return self.default is not empty and not isinstance(self.default, FieldInfo)


@dataclass(frozen=True)
class ToolSignature:
    """The parameters of a function, the model that parses their values, and both schemas."""

    parameters: tuple[ToolArgument, ...]
    takes_workspace: bool
    model: type[BaseModel]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None


def read_signature(function: Callable[..., object]) -> ToolSignature:
    """Return the signature of ``function``, cached.

    Raises:
        ToolSignatureError: for a parameter that cannot be passed by name and as JSON, and for a value
            that is not a function.
    """
    if not callable(function):
        raise ToolSignatureError(f"{function!r} is not a function")
    return _read(function)


@dataclass(frozen=True)
class ToolDescription:
    """The description of a tool for models and users; the schemas are JSON Schema 2020-12."""

    name: str
    description: str
    requires_confirmation: bool
    category: str | None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None


def describe(function: Callable[..., object]) -> ToolDescription:
    """Return the description of a tool; a plain function is described as with ``@tool``.

    Raises:
        ToolSignatureError: for a parameter that cannot be passed by name and as JSON.
    """
    metadata = metadata_of(function)
    signature = read_signature(function)
    return ToolDescription(
        name=metadata.name,
        description=metadata.description,
        requires_confirmation=metadata.requires_confirmation,
        category=metadata.category,
        input_schema=copy.deepcopy(signature.input_schema),
        output_schema=copy.deepcopy(signature.output_schema),
    )


@functools.lru_cache(maxsize=256)
def _read(function: Callable[..., object]) -> ToolSignature:
    try:
        signature = signature_of(function)
    except ValueError as error:
        raise ToolSignatureError(f"{function!r} has no signature") from error
    # A decorator can be of another module; the annotations have the names of the function's own one.
    names = getattr(inspect.unwrap(function), "__globals__", {})
    arguments = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if not _is_workspace(parameter, names)
    }
    documented = read_docstring(function).parameters
    parameters = tuple(
        _parameter(
            function,
            parameter,
            field=f"p{position}",
            annotation=_resolved(function, parameter, names),
            description=documented.get(parameter.name),
        )
        for position, parameter in enumerate(arguments.values())
    )
    model, input_schema = _model(function, parameters)
    return ToolSignature(
        parameters=parameters,
        takes_workspace=len(arguments) < len(signature.parameters),
        model=model,
        input_schema=input_schema,
        output_schema=_output_schema(signature.return_annotation, names),
    )


def _is_workspace(parameter: inspect.Parameter, names: dict[str, Any]) -> bool:
    if parameter.name != WORKSPACE or parameter.kind in _NOT_BY_NAME:
        return False
    # The name may not exist: linters move imports for annotations under TYPE_CHECKING.
    if written_name(parameter.annotation) in ("Path", "pathlib.Path"):
        return True
    try:
        return resolve(parameter.annotation, names=names) is Path
    except (NameError, SyntaxError, TypeError):
        return False


def _resolved(
    function: Callable[..., object], parameter: inspect.Parameter, names: dict[str, Any]
) -> Any:
    where = function_name(function)
    if parameter.kind in _NOT_BY_NAME:
        stars, reason = _NOT_BY_NAME[parameter.kind]
        raise ToolSignatureError(f"{where}(): '{stars}{parameter.name}' {reason}")
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    try:
        return resolve(parameter.annotation, names=names)
    except (NameError, SyntaxError, TypeError) as error:
        annotation = written_name(parameter.annotation) or parameter.annotation
        raise ToolSignatureError(
            f"{where}(): {parameter.name!r} is annotated {annotation}, "
            f"which cannot be resolved at run time: {error}"
        ) from error


def _parameter(
    function: Callable[..., object],
    parameter: inspect.Parameter,
    *,
    field: str,
    annotation: Any,
    description: str | None,
) -> ToolArgument:
    default = parameter.default
    annotation = _or_none(annotation) if default is None else annotation
    info = (
        FieldInfo.from_annotated_attribute(annotation, default)
        if isinstance(default, FieldInfo)
        else FieldInfo.from_annotation(annotation)
    )
    public = _public_name(function, parameter, info.validation_alias)
    ours = Field(validation_alias=public, description=info.description or description)
    return ToolArgument(
        name=parameter.name,
        public=public,
        field=field,
        annotation=Annotated[annotation, ours],
        default=default,
    )


def _public_name(function: Callable[..., object], parameter: inspect.Parameter, alias: Any) -> str:
    """Return the name under which callers pass a parameter: the first one of several aliases.

    Raises:
        ToolSignatureError: for the default ``Field(validation_alias=AliasPath(...))``, which takes it from another argument.
    """
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0]
    if isinstance(alias, AliasPath) and isinstance(parameter.default, FieldInfo):
        raise ToolSignatureError(
            f"{function_name(function)}(): {parameter.name!r} has {alias!r}, "
            "but each argument has a name of its own"
        )
    return alias if isinstance(alias, str) else parameter.name


def _or_none(annotation: Any) -> Any:
    """Return the annotation that also accepts None, for ``size: int = None``."""
    if get_origin(annotation) is not Annotated:
        return Optional[annotation]  # noqa: UP045 - the operator fails on strings and Any
    inner, *metadata = get_args(annotation)
    return Annotated[(Optional[inner], *metadata)]  # noqa: UP045 - as above


def _model(
    function: Callable[..., object], parameters: tuple[ToolArgument, ...]
) -> tuple[type[BaseModel], dict[str, Any]]:
    try:
        return _built(parameters)
    except _UNREADABLE:
        # Pydantic does not say which parameter it cannot read.
        for parameter in parameters:
            _check_alone(function, parameter)
        raise


def _check_alone(function: Callable[..., object], parameter: ToolArgument) -> None:
    try:
        _built((parameter,))
    except _UNREADABLE as error:
        type_only = isinstance(error, PydanticSchemaGenerationError | PydanticInvalidForJsonSchema)
        first_line = (str(error).splitlines() or [""])[0]
        reason = "has no JSON form" if type_only else f"cannot be read: {first_line}"
        kind = get_args(parameter.annotation)[0]
        raise ToolSignatureError(
            f"{function_name(function)}(): {parameter.name!r} is annotated "
            f"{getattr(kind, '__name__', kind)}, which {reason}"
        ) from error


_UNREADABLE = (PydanticUserError, SchemaError, NameError, TypeError)
"""Errors that pydantic raises for an unsupported type, or a constraint that does not apply to it."""


def _built(parameters: Iterable[ToolArgument]) -> tuple[type[BaseModel], dict[str, Any]]:
    fields: dict[str, Any] = {
        parameter.field: _field_definition(parameter) for parameter in parameters
    }
    # pydantic's string cache has 256 KiB, which every process with a single call would copy.
    config = ConfigDict(extra="forbid", cache_strings="none")
    model = create_model("Arguments", __config__=config, **fields)
    generated = model.model_json_schema(schema_generator=_ToolSchema)
    schema = {
        "type": "object",
        "properties": generated.get("properties", {}),
        "required": generated.get("required", []),
        "additionalProperties": False,
    }
    if "$defs" in generated:
        schema["$defs"] = generated["$defs"]
    return model, schema


def _field_definition(parameter: ToolArgument) -> Any:
    if parameter.default is inspect.Parameter.empty:
        return parameter.annotation  # it can contain a default
    return (parameter.annotation, parameter.default)


def _output_schema(annotation: Any, names: dict[str, Any]) -> dict[str, Any] | None:
    if annotation is inspect.Signature.empty:
        return None
    try:
        returned = resolve(annotation, names=names)
        if returned in (None, type(None)):
            return None
        schema = TypeAdapter(returned).json_schema(
            mode="serialization", schema_generator=_ToolSchema
        )
    except (*_UNREADABLE, SyntaxError):
        return None  # the schema of the result is optional
    return schema or None


_INTEGER_TEXT = r"^[\s\x85]*[+-]?[0-9]+(_[0-9]+)*(\.0+)?[\s\x85]*$"
"""Texts that pydantic reads as an integer.  It strips U+0085, which ``\\s`` of a JSON Schema does not have."""

_BYTE_SIZE_TEXT = r"^[\s\x85]*[+-]?(\d*\.?\d+)\s*(\w+)?"
"""Texts that pydantic reads as a ``ByteSize``, also as an integer such as +5 and -0, which its pattern lacks."""


class _ToolSchema(UntitledSchema):
    """Pydantic's generator of JSON Schema 2020-12, without parts that are useless to a model.

    Where pydantic's own schema accepts arguments that pydantic refuses, this one says what is refused.
    """

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {  # noqa: RUF012 - as in the base class
        "skipped-choice",
        "non-serializable-default",
    }

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of bytes; in results they are a file, or text in a model."""
        text = super().bytes_schema(schema)
        return {"anyOf": [text, FILE_SCHEMA]} if self.mode == "serialization" else text

    def str_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a text, with the pattern that JSON Schema reads as pydantic reads the declared one.

        Results lack it if it differs: clients in Python cannot read it, and no call checks results by patterns.
        """
        found = super().str_schema(schema)
        pattern = found.pop("pattern", None)
        if pattern is None:
            return found
        listed = as_json_schema(pattern)
        is_listed = listed is not None and (listed == pattern or self.mode == "validation")
        return {**found, "pattern": listed} if is_listed else found

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a dict, all of whose keys are checked; pydantic has no pattern of those of ``dict[int, str]``."""
        generated = super().dict_schema(schema)
        if schema.get("keys_schema") == {"type": "int"}:
            generated["propertyNames"] = {"pattern": _INTEGER_TEXT}
        for pattern, values in generated.pop("patternProperties", {}).items():
            generated["propertyNames"] = {**generated.get("propertyNames", {}), "pattern": pattern}
            generated["additionalProperties"] = values
        return generated

    def union_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a union; that of ``ByteSize`` also accepts signed texts of integers."""
        generated = super().union_schema(schema)
        if schema.get("custom_error_type") == "byte_size":
            generated["anyOf"][0]["pattern"] = _BYTE_SIZE_TEXT
        return generated

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a union whose tag is required, also if the classes have a default for it."""
        generated = super().tagged_union_schema(schema)
        tag = generated.get("discriminator", {}).get("propertyName")
        if tag and not all(self._needs(choice, tag) for choice in generated["oneOf"]):
            generated["required"] = [tag]
        return generated

    def _needs(self, choice: dict[str, Any], key: str) -> bool:
        try:
            return key in self.resolve_ref_schema(choice).get("required", ())
        except RuntimeError:  # the class contains itself, and is not complete yet
            return False

    def field_is_present(self, field: Any) -> bool:
        """Return whether a field is in the schema: as an argument, a dataclass does not take that of ``field(init=False)``."""
        is_argument = self.mode == "validation" and field["type"] == "dataclass-field"
        return field.get("init", True) if is_argument else super().field_is_present(field)

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: FBT001 - as in the base class
        """Return whether a call needs the listed name; it does not if ``AliasPath`` takes the value from another one."""
        alias = field.get("validation_alias") if self.mode == "validation" else None
        paths = alias if isinstance(alias, list) else []
        if any(isinstance(path, str) or len(path) > 1 for path in paths):
            return False
        return super().field_is_required(field, total)

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a type or null; anything is null too."""
        generated = super().nullable_schema(schema)
        return {} if {} in generated.get("anyOf", ()) else generated

    def encode_default(self, dft: Any) -> Any:
        """Return the JSON of a default value, so that a schema never contains NaN."""
        try:
            return to_json(dft)
        except ResultNotJson as error:
            raise PydanticSerializationError(str(error)) from error
