"""JSON Schema of a class of the same module: a pydantic model, dataclass, TypedDict or Enum.

Only simple classes are read.  A class with another base, a computed member or a hook of pydantic is unknown.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from covalt_git.python_reader.fields import Parameter, read_parameter
from covalt_git.python_reader.names import FunctionNode, UnknownError, literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.python_reader.schema import SchemaReader

_MODEL = "pydantic.BaseModel"
_TYPED_DICT = "typing.TypedDict"
_DATACLASSES = frozenset({"dataclasses.dataclass", "pydantic.dataclasses.dataclass"})
_ENUMS: dict[tuple[str | None, ...], tuple[type, ...]] = {
    ("enum.Enum",): (str, int, float, bool, type(None)),
    ("enum.StrEnum",): (str,),
    ("enum.IntEnum",): (int,),
    ("builtins.str", "enum.Enum"): (str,),
    ("builtins.int", "enum.Enum"): (int,),
}
"""Bases of an Enum, and the types of members that do not change its values."""

_IGNORED_CONFIG = frozenset(
    {"frozen", "title", "strict", "str_strip_whitespace", "validate_assignment", "validate_default"}
)
_IGNORED_OPTIONS = frozenset({"frozen", "slots", "kw_only", "eq", "order", "repr", "unsafe_hash"})
_DATACLASS_FIELD = frozenset(
    {"default", "default_factory", "repr", "hash", "compare", "metadata", "kw_only", "init"}
)
_ENUM_HOOKS = frozenset({"__new__", "__init__", "_generate_next_value_"})


def class_schema(node: ast.ClassDef, reader: SchemaReader) -> JsonObject:
    """Return the schema of a class.

    Raises:
        UnknownError: if the class is not simple.
    """
    _check_own_names(node)
    bases = tuple(reader.names.origin(base) for base in node.bases)
    if node.decorator_list and bases not in _ENUMS:
        schema = _record(_dataclass_fields(node, reader))
    elif bases == (_MODEL,):
        schema = _model(node, reader)
    elif bases == (_TYPED_DICT,):
        schema = _record(_typed_dict_fields(node, reader))
    elif bases in _ENUMS:
        schema = _enum(node, reader, _ENUMS[bases])
    else:
        raise UnknownError
    text = reader.text(ast.Constant(ast.get_docstring(node)))
    return schema | {"title": node.name} | ({"description": text} if text else {})


def _check_own_names(node: ast.ClassDef) -> None:
    """Refuse a class whose annotations use a name that its body also defines."""
    if getattr(node, "type_params", []):
        raise UnknownError
    own = {statement.name for statement in node.body if isinstance(statement, FunctionNode)}
    used: set[str] = set()
    for statement in _statements(node):
        if statement.value is not None:
            own.add(_target(statement))
        if isinstance(statement, ast.AnnAssign):
            used |= {
                part.id for part in ast.walk(statement.annotation) if isinstance(part, ast.Name)
            }
    if own & used:
        raise UnknownError


def _record(fields: Iterator[Parameter]) -> JsonObject:
    found = {parameter.name: parameter for parameter in fields}
    properties = {name: parameter.schema for name, parameter in found.items()}
    required = [name for name, parameter in found.items() if parameter.required]
    schema: JsonObject = {"type": "object", "properties": properties}
    return schema | ({"required": required} if required else {})


def _model(node: ast.ClassDef, reader: SchemaReader) -> JsonObject:
    config = {str(keyword.arg): keyword.value for keyword in node.keywords}
    fields = []
    for statement in _statements(node):
        name = _target(statement)
        if name == "model_config":
            config |= _config(statement, reader)
        elif isinstance(statement, ast.AnnAssign):
            if not name.startswith("_") and not _is_class_variable(statement, reader):
                fields.append(statement)
        elif not name.startswith("_") or name.startswith("__pydantic"):
            raise UnknownError
    schema = _record(
        read_parameter(reader, _target(field), annotation=field.annotation, default=field.value)
        for field in fields
    )
    extra = literal(config.pop("extra")) if "extra" in config else "ignore"
    if not config.keys() <= _IGNORED_CONFIG or extra not in ("ignore", "allow", "forbid"):
        raise UnknownError
    return schema if extra == "ignore" else schema | {"additionalProperties": extra == "allow"}


def _config(statement: ast.stmt, reader: SchemaReader) -> dict[str, ast.expr]:
    """Return the settings of ``model_config = ConfigDict(...)``."""
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call) or call.args:
        raise UnknownError
    if reader.names.origin(call.func) not in {"pydantic.ConfigDict", "builtins.dict"}:
        raise UnknownError
    return {str(keyword.arg): keyword.value for keyword in call.keywords}


def _dataclass_fields(node: ast.ClassDef, reader: SchemaReader) -> Iterator[Parameter]:
    _check_dataclass(node, reader)
    for statement in _statements(node):
        name = _target(statement)
        if not isinstance(statement, ast.AnnAssign):
            if name.startswith("__pydantic"):
                raise UnknownError
            continue  # an attribute of the class, not a field
        if _is_class_variable(statement, reader):
            continue
        value = statement.value
        if isinstance(value, ast.Call) and reader.names.origin(value.func) == "dataclasses.field":
            options = {str(keyword.arg): keyword.value for keyword in value.keywords}
            if value.args or not options.keys() <= _DATACLASS_FIELD:
                raise UnknownError
            if "init" in options and not literal(options["init"]):
                continue
            value = options.get("default") or options.get("default_factory")
        yield read_parameter(reader, name, annotation=statement.annotation, default=value)


def _check_dataclass(node: ast.ClassDef, reader: SchemaReader) -> None:
    decorator = node.decorator_list[0]
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    plain = (
        len(node.decorator_list) == 1
        and not node.bases
        and not node.keywords
        and reader.names.origin(called) in _DATACLASSES
        and not (isinstance(decorator, ast.Call) and decorator.args)
        and {keyword.arg for keyword in keywords} <= _IGNORED_OPTIONS
    )
    if not plain:
        raise UnknownError


def _typed_dict_fields(node: ast.ClassDef, reader: SchemaReader) -> Iterator[Parameter]:
    total: Any = True
    for keyword in node.keywords:
        if keyword.arg != "total":
            raise UnknownError
        total = literal(keyword.value)
    for statement in _statements(node):
        if not isinstance(statement, ast.AnnAssign) or statement.value is not None:
            raise UnknownError
        annotation = reader.unwrap(statement.annotation)
        required = bool(total)
        if isinstance(annotation, ast.Subscript):
            qualifier = reader.names.origin(annotation.value)
            if qualifier in {"typing.Required", "typing.NotRequired"}:
                required = qualifier == "typing.Required"
                annotation = annotation.slice
            elif qualifier in {"typing.ReadOnly", "typing.Annotated"}:
                required = False  # it may contain a qualifier
        name = _target(statement)
        parameter = read_parameter(reader, name, annotation=annotation, default=None)
        yield parameter._replace(required=required and parameter.required)


def _enum(node: ast.ClassDef, reader: SchemaReader, types: tuple[type, ...]) -> JsonObject:
    decorators = [reader.names.origin(decorator) for decorator in node.decorator_list]
    if node.keywords or any(decorator != "enum.unique" for decorator in decorators):
        raise UnknownError
    values = []
    for statement in _statements(node, hooks=_ENUM_HOOKS):
        if not isinstance(statement, ast.Assign) or _target(statement).startswith("_"):
            raise UnknownError
        value = literal(statement.value)
        if type(value) not in types:
            raise UnknownError
        values.append(value)
    if not values:
        raise UnknownError
    return reader.choice(values)


def _statements(
    node: ast.ClassDef, *, hooks: frozenset[str] = frozenset()
) -> Iterator[ast.Assign | ast.AnnAssign]:
    """Yield the assignments of a class whose body otherwise has only methods and docstrings."""
    for statement in node.body:
        if isinstance(statement, FunctionNode):
            if statement.name in hooks or statement.name.startswith("__get_pydantic"):
                raise UnknownError
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            yield statement
        elif not isinstance(statement, ast.Pass) and not (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        ):
            raise UnknownError


def _target(statement: ast.Assign | ast.AnnAssign) -> str:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        raise UnknownError
    return targets[0].id


def _is_class_variable(statement: ast.AnnAssign, reader: SchemaReader) -> bool:
    annotation = reader.unwrap(statement.annotation)
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    origin = reader.names.origin(annotation) if annotation else None
    return origin in {"typing.ClassVar", "dataclasses.KW_ONLY"}
