"""What a function takes and gives back, as a pydantic model of its arguments and two schemas."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaError

from covalt_toolset.decorator import function_name
from covalt_toolset.docstrings import read_docstring
from covalt_toolset.files import FILE_SCHEMA
from covalt_toolset.result_json import ResultNotJson, to_json
from covalt_toolset.type_hints import resolve, signature_of, written_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic.json_schema import JsonSchemaWarningKind

WORKSPACE = "workspace"
"""A parameter of this name, annotated ``Path``, receives the call's workspace."""

_NOT_BY_NAME = {
    inspect.Parameter.VAR_POSITIONAL: ("*", "takes values without a name; declare a list instead"),
    inspect.Parameter.VAR_KEYWORD: ("**", "takes any name; declare a dict instead"),
    inspect.Parameter.POSITIONAL_ONLY: ("", "cannot be given by name; remove the '/' after it"),
}


class ToolSignatureError(TypeError):
    """A function takes what no caller can give it as JSON; names the function and parameter."""


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool.

    Attributes:
        name: the Python parameter.
        public: the name in the schema; the same unless ``Field(alias=...)`` says otherwise.
        field: the name in the model, which could not take ``copy`` or ``model_config``.
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
        """Say whether Python itself knows what to take when the argument is not given."""
        nothing = inspect.Parameter.empty
        return self.default is not nothing and not isinstance(self.default, FieldInfo)


@dataclass(frozen=True)
class ToolSignature:
    """A function's parameters, the model that builds their values, and both schemas."""

    parameters: tuple[Parameter, ...]
    takes_workspace: bool
    model: type[BaseModel]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None


def read_signature(function: Callable[..., object]) -> ToolSignature:
    """Return what ``function`` takes and gives back; read once for each function.

    Raises:
        ToolSignatureError: for a parameter that cannot be given by name and as JSON, and for what
            is not a function.
    """
    if not callable(function):
        raise ToolSignatureError(f"{function!r} is not a function")
    return _read(function)


@functools.lru_cache(maxsize=256)
def _read(function: Callable[..., object]) -> ToolSignature:
    try:
        signature = signature_of(function)
    except ValueError as error:
        raise ToolSignatureError(f"{function!r} does not say what it takes") from error
    names = getattr(inspect.unwrap(function), "__globals__", {})
    given = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if not _is_workspace(parameter, names)
    }
    documented = read_docstring(function).parameters
    parameters = tuple(
        _parameter(
            parameter,
            field=f"p{position}",
            annotation=_resolved(function, parameter, names),
            description=documented.get(parameter.name),
        )
        for position, parameter in enumerate(given.values())
    )
    model, input_schema = _model(function, parameters)
    return ToolSignature(
        parameters=parameters,
        takes_workspace=len(given) < len(signature.parameters),
        model=model,
        input_schema=input_schema,
        output_schema=_output_schema(signature.return_annotation, names),
    )


def _is_workspace(parameter: inspect.Parameter, names: dict[str, Any]) -> bool:
    if parameter.name != WORKSPACE or parameter.kind in _NOT_BY_NAME:
        return False
    # Linters move an import that only annotations need under TYPE_CHECKING.
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
        stars, why = _NOT_BY_NAME[parameter.kind]
        raise ToolSignatureError(f"{where}(): '{stars}{parameter.name}' {why}")
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    try:
        return resolve(parameter.annotation, names=names)
    except (NameError, SyntaxError, TypeError) as error:
        written = written_name(parameter.annotation) or parameter.annotation
        raise ToolSignatureError(
            f"{where}(): {parameter.name!r} is annotated {written}, "
            f"which its module cannot resolve when it runs: {error}"
        ) from error


def _parameter(
    parameter: inspect.Parameter, *, field: str, annotation: Any, description: str | None
) -> Parameter:
    default = parameter.default
    annotation = _or_none(annotation) if default is None else annotation
    said = (
        FieldInfo.from_annotated_attribute(annotation, default)
        if isinstance(default, FieldInfo)
        else FieldInfo.from_annotation(annotation)
    )
    alias = said.validation_alias
    public = alias if isinstance(alias, str) else parameter.name
    ours = Field(validation_alias=public, description=said.description or description)
    return Parameter(
        name=parameter.name,
        public=public,
        field=field,
        annotation=Annotated[annotation, ours],
        default=default,
    )


def _or_none(annotation: Any) -> Any:
    """Let ``size: int = None`` take the null that its own default shows."""
    if get_origin(annotation) is not Annotated:
        return Optional[annotation]  # noqa: UP045 - the operator fails on strings and Any
    inner, *metadata = get_args(annotation)
    return Annotated[(Optional[inner], *metadata)]  # noqa: UP045 - as above


def _model(
    function: Callable[..., object], parameters: tuple[Parameter, ...]
) -> tuple[type[BaseModel], dict[str, Any]]:
    try:
        return _built(parameters)
    except _UNREADABLE:
        for parameter in parameters:
            _check_alone(function, parameter)
        raise


def _check_alone(function: Callable[..., object], parameter: Parameter) -> None:
    try:
        _built((parameter,))
    except _UNREADABLE as error:
        type_only = isinstance(error, PydanticSchemaGenerationError | PydanticInvalidForJsonSchema)
        reason = "has no JSON form" if type_only else f"cannot be read: {_first_line(error)}"
        kind = get_args(parameter.annotation)[0]
        raise ToolSignatureError(
            f"{function_name(function)}(): {parameter.name!r} is annotated "
            f"{getattr(kind, '__name__', kind)}, which {reason}"
        ) from error


_UNREADABLE = (PydanticUserError, SchemaError, NameError, TypeError)
"""What pydantic raises for a type it cannot read, or for a constraint that does not fit it."""


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]


def _built(parameters: Iterable[Parameter]) -> tuple[type[BaseModel], dict[str, Any]]:
    fields: dict[str, Any] = {
        parameter.field: _field_definition(parameter) for parameter in parameters
    }
    # A cache of strings would be 256 KiB to copy for every process that makes a single call.
    config = ConfigDict(extra="forbid", cache_strings="none")
    model = create_model("Arguments", __config__=config, **fields)
    written = model.model_json_schema(schema_generator=_ToolSchema)
    schema = {
        "type": "object",
        "properties": written.get("properties", {}),
        "required": written.get("required", []),
        "additionalProperties": False,
    }
    if "$defs" in written:
        schema["$defs"] = written["$defs"]
    return model, schema


def _field_definition(parameter: Parameter) -> Any:
    if parameter.default is inspect.Parameter.empty:
        return parameter.annotation  # which may hold a default of its own
    return (parameter.annotation, parameter.default)


def _output_schema(annotation: Any, names: dict[str, Any]) -> dict[str, Any] | None:
    if annotation is inspect.Signature.empty:
        return None
    try:
        returned = resolve(annotation, names=names)
        if returned in (None, type(None)):
            return None
        written = TypeAdapter(returned).json_schema(
            mode="serialization", schema_generator=_ToolSchema
        )
    except (*_UNREADABLE, SyntaxError):
        return None  # a schema of the result is a help, its absence hurts no call
    return written or None


class _ToolSchema(GenerateJsonSchema):
    """JSON Schema 2020-12 as pydantic writes it, without what only costs a model its attention."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {  # noqa: RUF012 - the base has it so
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave out titles that only repeat the key."""
        del schema
        return False

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        """Write bytes of a result as what they become: a file, or in a model text."""
        written = super().bytes_schema(schema)
        return {"anyOf": [written, FILE_SCHEMA]} if self.mode == "serialization" else written

    def encode_default(self, dft: Any) -> Any:
        """Write a default as a result would be written, so that NaN never gets into a schema."""
        try:
            return to_json(dft)
        except ResultNotJson as error:
            raise PydanticSerializationError(str(error)) from error
