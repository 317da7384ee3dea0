"""JSON Schema of a class of the toolset: a pydantic model, dataclass, TypedDict, NamedTuple or Enum.

Its fields are its own and those of its base classes, in whichever module they are.  A class with an unknown base, a
computed member or a hook that changes its schema is unknown.  Validators, which may refuse values or change them, are
noted.
"""

from __future__ import annotations

import ast
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import alias_generators

from covalt_git.json_values import pointer
from covalt_git.python_reader.constraints import (
    describes_only,
    field_keywords,
    has_integers,
    is_field,
)
from covalt_git.python_reader.enums import constant, enum_schema, is_enum
from covalt_git.python_reader.fields import Parameter, qualifier, read_parameter
from covalt_git.python_reader.modules import ModuleMember
from covalt_git.python_reader.names import FunctionNode, UnknownError, literal
from covalt_git.python_reader.reader import ClassReading, TypeArgument, parse_quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.python_reader.schema import SchemaReader

_MODEL = "pydantic.BaseModel"
_ROOT_MODEL = "pydantic.RootModel"
_TYPED_DICT = "typing.TypedDict"
_NAMED_TUPLES = frozenset({"typing.NamedTuple", "collections.namedtuple"})
_GENERIC = frozenset({"typing.Generic", "typing.Protocol", "abc.ABC", "builtins.object"})
"""Bases that add no field."""

_PYDANTIC_DATACLASS = "pydantic.dataclasses.dataclass"
_DATACLASSES = frozenset({"dataclasses.dataclass", _PYDANTIC_DATACLASS})

_IGNORED_CONFIG = frozenset(
    {
        *("frozen", "strict", "validate_assignment", "validate_default", "validate_return"),
        *("str_strip_whitespace", "str_to_lower", "str_to_upper", "use_enum_values"),
        *("populate_by_name", "validate_by_name", "serialize_by_alias"),
        *("arbitrary_types_allowed", "from_attributes", "revalidate_instances", "defer_build"),
        *("protected_namespaces", "hide_input_in_errors", "allow_inf_nan", "loc_by_alias"),
        *("coerce_numbers_to_str", "regex_engine", "validation_error_cause", "cache_strings"),
        *(
            "use_attribute_docstrings",
            "json_schema_serialization_defaults_required",
            "url_preserve_empty_path",
        ),
        *("ignored_types", "val_json_bytes", "str_min_length", "str_max_length"),
    }
)
"""Settings of a model that do not change which values a call accepts: it checks the types of the schema first.

Those about names change under which name a call accepts the value of a field with a default.
"""

_BY_NAME = ("populate_by_name", "validate_by_name")
"""Settings with which callers can use the names of fields as well as their aliases."""

_CHANGING_CONFIG = frozenset(
    {
        *("coerce_numbers_to_str", "str_strip_whitespace", "str_to_lower", "str_to_upper"),
        "val_json_bytes",
    }
)
"""Settings with which the function gets another value than the call has."""

_TEXT_LIMITS = {"str_min_length": "minLength", "str_max_length": "maxLength"}
"""Settings that limit the texts of a model, with the keyword of JSON Schema."""

_NO_TEXTS = ("date", "time", "duration", "uuid", "uri", "ipv")
"""Beginnings of formats that pydantic reads as values of their own, for which these settings do not count."""

_WRITING_CONFIG = frozenset(
    {"ser_json_timedelta", "ser_json_temporal", "ser_json_bytes", "ser_json_inf_nan"}
    | {"json_encoders"}
)
"""Settings that change only how results are written."""

_IGNORED_OPTIONS = frozenset(
    {*("frozen", "slots", "kw_only", "eq", "order", "repr", "unsafe_hash", "init", "match_args")}
)
_DATACLASS_FIELD = frozenset(
    {"default", "default_factory", "repr", "hash", "compare", "metadata", "kw_only", "init", "doc"}
)
_SERIALIZERS = frozenset(
    f"pydantic.{name}" for name in ("field_serializer", "model_serializer", "computed_field")
)
_HARMLESS_DECORATORS = _SERIALIZERS | {
    *("builtins.property", "builtins.classmethod", "builtins.staticmethod"),
    *("functools.cached_property", "functools.cache", "functools.lru_cache"),
    *("abc.abstractmethod", "typing.override", "typing.overload", "typing.final"),
}
_ACCESSORS = frozenset({"setter", "getter", "deleter"})
"""Attributes of a property that decorate its other methods."""

_FIELDS = frozenset({"dataclasses.field", "pydantic.Field"})

_CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__", "model_post_init"})
"""Methods that may refuse or change the values of a class."""

_SCHEMA_HOOKS = ("__get_pydantic", "__pydantic")
_VALUES = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.UnaryOp)
"""Expressions whose values validate nothing."""

_MOST_CLASSES = 40

_ALIASES: Final[Mapping[str, Callable[[str], str]]] = {
    f"pydantic.alias_generators.{name}": getattr(alias_generators, name)
    for name in ("to_camel", "to_pascal", "to_snake")
}


@dataclass(slots=True)
class _Lineage:
    """The classes of the toolset whose fields a class has, its own last, and its bases that are not the toolset's."""

    classes: list[tuple[ast.ClassDef, SchemaReader]] = field(default_factory=list)
    external: dict[str, ast.expr] = field(default_factory=dict)


def class_schema(definition: ModuleMember, reader: SchemaReader) -> ClassReading:
    """Read a class, or the value of ``Enum(...)``.

    Raises:
        UnknownError: if it cannot be read.
    """
    name = definition.name.rpartition(".")[2]
    if is_enum(definition, reader):
        schema = enum_schema(definition, reader) | {"title": name}
        return ClassReading(schema | _description(definition.node, reader))
    node = definition.node
    if isinstance(node, ast.Call):
        node = _class_of_call(node, reader)
    if not isinstance(node, ast.ClassDef):
        raise UnknownError
    lineage = _lineage(node, reader, _Lineage(), set())
    for each, inner in lineage.classes:
        _check_own_names(each, inner)
    kinds = lineage.external.keys() - _GENERIC
    fields: list[Parameter] = []
    takes_settings = False
    unknown = kinds - {_MODEL, _ROOT_MODEL, _TYPED_DICT, *_NAMED_TUPLES}
    if unknown:
        raise UnknownError(f"the base {unknown.pop()}")
    if kinds == {_MODEL}:
        schema, fields = _model(lineage)
    elif kinds == {_ROOT_MODEL}:
        schema = _root_model(lineage)
    elif kinds == {_TYPED_DICT}:
        takes_settings = True
        if reader.arguments and not _has_generics(lineage.external[_TYPED_DICT], reader):
            reader.note(f"type arguments of the TypedDict {name}", refuses_only=True)
        fields = [*_typed_dict_fields(lineage)]
        schema = _record(fields, closed=reader.closes and not reader.serializes)
    elif kinds <= _NAMED_TUPLES and len(kinds) == 1 and len(lineage.classes) == 1:
        return ClassReading(_named_tuple(*lineage.classes[0]))
    elif not kinds:
        # One of pydantic has settings of its own, one of the standard library those of the call: no further keys.
        is_own = any(_PYDANTIC_DATACLASS in _decorators(*member) for member in lineage.classes)
        closed = reader.closes and not (is_own or reader.serializes)
        takes_settings = not is_own
        fields = [*_dataclass_fields(lineage)]
        schema = _record(fields, closed=closed)
    else:
        raise UnknownError
    schema = {"title": name} | schema | _description(definition.node, reader)
    return ClassReading(schema, _same_names(fields), takes_settings)


def _has_generics(typed_dict: ast.expr, reader: SchemaReader) -> bool:
    """Return whether pydantic supports type arguments of a TypedDict: before Python 3.12 only of ``typing_extensions``."""
    if sys.version_info >= (3, 12):
        return True
    while isinstance(typed_dict, ast.Attribute):
        typed_dict = typed_dict.value
    name = typed_dict.id if isinstance(typed_dict, ast.Name) else ""
    bound = reader.module.names.bindings.get(name, ())
    return any((binding.origin or "").startswith("typing_extensions") for binding in bound)


def _class_of_call(call: ast.Call, reader: SchemaReader) -> ast.ClassDef:
    """Return the class that ``TypedDict("D", {"a": int})``, ``NamedTuple`` or ``namedtuple`` makes.

    Raises:
        UnknownError: if its fields are not written there.
    """
    maker = reader.origin(call.func)
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    fields: list[tuple[ast.expr | None, ast.expr]]
    if maker == "collections.namedtuple" and len(call.args) == 2 and not options:  # noqa: PLR2004
        names = constant(reader, call.args[1])
        names = names.replace(",", " ").split() if isinstance(names, str) else names
        fields = [(ast.Constant(name), ast.Name("object", ast.Load())) for name in names]
    elif maker == "typing.TypedDict" and options.keys() <= {"total"}:
        match call.args:
            case [_, ast.Dict(keys=keys, values=values)]:
                fields = [*zip(keys, values, strict=True)]
            case _:
                raise UnknownError
    elif maker == "typing.NamedTuple" and not options:
        match call.args:
            case [_, ast.List(elts=pairs) | ast.Tuple(elts=pairs)]:
                fields = [
                    (pair.elts[0], pair.elts[1])
                    for pair in pairs
                    if isinstance(pair, ast.Tuple) and len(pair.elts) == 2  # noqa: PLR2004
                ]
                if len(fields) < len(pairs):
                    raise UnknownError
            case _:
                raise UnknownError
    else:
        raise UnknownError(f"arguments of {maker.rpartition('.')[2]}()")
    body: list[ast.stmt] = []
    for key, kind in fields:
        name = None if key is None else literal(key)
        if not isinstance(name, str):
            raise UnknownError
        body.append(ast.AnnAssign(ast.Name(name, ast.Store()), kind, None, 1))
    definition = ast.ClassDef(str(literal(call.args[0])), [call.func], call.keywords, body, [])
    return ast.fix_missing_locations(ast.copy_location(definition, call))


def _same_names(fields: Iterable[Parameter]) -> tuple[tuple[str, ...], ...]:
    """Return the names of each field that has several, the listed one first."""
    by_name = {parameter.name: parameter for parameter in fields}
    return tuple(
        (parameter.name, *parameter.other_names)
        for parameter in by_name.values()
        if parameter.other_names
    )


def _description(node: ast.AST, reader: SchemaReader) -> JsonObject:
    if not isinstance(node, ast.ClassDef):
        return {}
    text = reader.text(ast.Constant(ast.get_docstring(node)))
    return {"description": text} if text else {}


def _lineage(
    node: ast.ClassDef, reader: SchemaReader, lineage: _Lineage, above: set[ast.ClassDef]
) -> _Lineage:
    """Add a class and its bases to a lineage; ``above`` are the classes of which it is a base.

    With several bases, a later one comes first, because the fields of an earlier one replace its fields.
    """
    # Source that is not run may have a class among its own bases.
    if node in above or len(above) > _MOST_CLASSES:
        raise UnknownError
    for base in reversed(node.bases):
        target = reader.resolve(base.value if isinstance(base, ast.Subscript) else base)
        if isinstance(target, ModuleMember) and isinstance(target.node, ast.ClassDef):
            arguments = _base_arguments(base, target, reader)
            inner = reader.within(target.module, arguments)
            _lineage(target.node, inner, lineage, above | {node})
        elif isinstance(target, str):
            lineage.external[
                reader.origin(base.value if isinstance(base, ast.Subscript) else base)
            ] = base
        else:
            raise UnknownError
    # A class may be there twice: of two bases that have it, the fields of the first one win, inherited or not.
    lineage.classes.append((node, reader))
    # A base that two bases share is there twice, so that a lineage can double with each level.
    if len(lineage.classes) > _MOST_CLASSES:
        raise UnknownError
    return lineage


def _base_arguments(
    base: ast.expr, target: ModuleMember, reader: SchemaReader
) -> dict[str, TypeArgument]:
    """Return the types for the type variables of a base class such as ``Box[int]``."""
    if not isinstance(base, ast.Subscript):
        return {}
    names = reader.within(target.module).class_parameters(target.node)
    parts = reader.parts(base)
    if len(names) != len(parts):
        raise UnknownError
    return {name: TypeArgument(part, reader) for name, part in zip(names, parts, strict=True)}


def _check_own_names(node: ast.ClassDef, reader: SchemaReader) -> None:
    """Refuse a class whose annotations use a name that its body also defines."""
    definitions = (FunctionNode, ast.ClassDef)
    own = {statement.name for statement in node.body if isinstance(statement, definitions)}
    used: set[str] = set()
    for statement in _statements(node):
        if statement.value is not None:
            own.add(_target(statement))
        if isinstance(statement, ast.AnnAssign):
            used |= _used_names(statement.annotation, reader)
    # Pydantic searches quoted types in the class first, so the name may be another type than in the module.
    if both := sorted(own & used):
        raise UnknownError(f"{both[0]}, which the class itself defines")


def _used_names(annotation: ast.expr, reader: SchemaReader) -> set[str]:
    """Return the names in an annotation, also in its quoted types, but not in texts that are values."""
    names: set[str] = set()
    waiting: list[tuple[ast.AST, bool]] = [(annotation, True)]
    while waiting:
        part, is_type = waiting.pop()
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and is_type:
            with suppress(UnknownError):
                waiting.append((parse_quoted(part.value), True))
        elif isinstance(part, ast.Subscript):
            origin = reader.origin(part.value)
            first, *others = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            waiting += [(part.value, is_type), (first, is_type and origin != "typing.Literal")]
            are_types = is_type and origin not in {"typing.Literal", "typing.Annotated"}
            waiting += [(other, are_types) for other in others]
        else:
            are_types = is_type and not isinstance(part, ast.Call)
            waiting += [(inner, are_types) for inner in ast.iter_child_nodes(part)]
    return names


def _record(fields: Iterable[Parameter], *, closed: bool) -> JsonObject:
    parameters = {parameter.name: parameter for parameter in fields}
    properties = {name: parameter.schema for name, parameter in parameters.items()}
    required = [name for name, parameter in parameters.items() if parameter.required]
    schema: JsonObject = {"type": "object", "properties": properties}
    if closed:
        schema["additionalProperties"] = False
    return schema | ({"required": required} if required else {})


# Models


def _model(lineage: _Lineage) -> tuple[JsonObject, list[Parameter]]:
    """Return the schema of a model, and its fields."""
    fields: dict[str, tuple[ast.AnnAssign, SchemaReader]] = {}
    for node, reader in lineage.classes:
        _check_methods(node, reader)
        if node.decorator_list:
            raise UnknownError(f"@{ast.unparse(node.decorator_list[0])}")
        for statement in _statements(node):
            name = _target(statement)
            if name == "model_config":
                continue
            if isinstance(statement, ast.AnnAssign):
                is_field = not name.startswith("_")
                if is_field and not _is_class_variable(statement, reader, in_model=True):
                    fields[name] = statement, reader
            elif not name.startswith("_"):
                raise UnknownError(f"{name} without a type")
    config = _config_of(*lineage.classes[-1])
    extra, alias = _read_config(config)
    if alias is None and _had_generator(lineage):
        # The generator of a base class has given aliases to the inherited fields, which this class keeps.
        raise UnknownError("alias_generator of a base class")
    texts = _text_limits(config)
    is_strict = _is_set(config, "strict")
    by_name = any(_is_set(config, name) for name in _BY_NAME)
    for name in sorted(_CHANGING_CONFIG & config.keys()):
        setting, reader = config[name]
        if not (isinstance(setting, ast.Constant) and not setting.value):
            reader.note(f"{lineage.classes[-1][0].name}.{name}")
    parameters = []
    for name, (statement, reader) in fields.items():
        if reader.serializes and _is_excluded(statement.value, reader):
            continue
        parameter = read_parameter(
            replace(
                reader,
                # Pydantic applies these settings to the TypedDicts in the fields too, whose definition other fields share.
                closes=extra == "forbid",
                renames=by_name or alias is not None or bool(texts) or is_strict,
            ),
            name,
            annotation=statement.annotation,
            default=statement.value,
            alias=alias,
            by_name=by_name,
            validates_default=_is_set(config, "validate_default"),
        )
        if is_strict and has_integers(parameter.schema) and not reader.serializes:
            reader.note(f"{lineage.classes[-1][0].name}.strict", refuses_only=True)
        if texts and not reader.serializes:
            parameter = parameter._replace(
                schema=_with_text_limits(parameter.schema, texts, reader)
            )
        parameters.append(parameter)
    listed = {parameter.name for parameter in parameters}
    for parameter in parameters:
        for other in listed.intersection(parameter.other_names):
            lineage.classes[-1][1].note(f"{other}, a name of two fields")
    schema = _record(parameters, closed=False)
    title = {"title": literal(config["title"][0])} if "title" in config else {}
    if "json_schema_extra" in config:
        title |= _described(config["json_schema_extra"][0])
    if extra == "ignore":
        return schema | title, parameters
    return schema | title | {"additionalProperties": extra == "allow"}, parameters


def _described(extra: ast.expr) -> JsonObject:
    """Return what ``json_schema_extra`` of a model adds to its schema.

    Raises:
        UnknownError: if that is computed, or says something about values.
    """
    try:
        more = literal(extra) or {}
    except UnknownError:
        more = None
    if not isinstance(more, dict) or not describes_only(more):
        raise UnknownError("json_schema_extra")
    return more


def _text_limits(config: Mapping[str, tuple[ast.expr, SchemaReader]]) -> JsonObject:
    """Return the limits of all texts of a model, as keywords of JSON Schema."""
    limits: JsonObject = {}
    for name, keyword in _TEXT_LIMITS.items():
        if name not in config:
            continue
        try:
            value = constant(config[name][1], config[name][0])
        except UnknownError:
            value = ""
        if value is not None and type(value) is not int:
            raise UnknownError(name)
        if value:
            limits[keyword] = value
    return limits


def _with_text_limits(schema: JsonObject, limits: JsonObject, reader: SchemaReader) -> JsonObject:
    """Return the schema of a field whose texts have the limits of its model; those of the field itself count more."""
    if schema.get("type") == "string" and not schema.keys() & {"enum", "const"}:
        if str(schema.get("format", "")).startswith(_NO_TEXTS):
            return schema
        if "format" in schema:
            reader.note(f"{', '.join(limits)} of a {schema['format']}", refuses_only=True)
        return limits | schema
    if schema.get("type") == "object" or (
        pointer.REF in schema and "title" not in reader.definition_of(schema)
    ):
        reader.note(f"{', '.join(limits)} of texts in it", refuses_only=True)
        return schema
    limited = dict(schema)
    if isinstance(limited.get("items"), dict):
        limited["items"] = _with_text_limits(limited["items"], limits, reader)
    for key in ("anyOf", "oneOf", "prefixItems"):
        if key in limited:
            limited[key] = [_with_text_limits(part, limits, reader) for part in limited[key]]
    reader.note_limited(limited.get("anyOf", []))
    return limited


def _had_generator(lineage: _Lineage) -> bool:
    """Return whether a class of a lineage has a generator of aliases."""
    stated = [_own_config(*member).get("alias_generator") for member in lineage.classes]
    return any(setting is not None and not _is_constant(setting[0], (None,)) for setting in stated)


def _is_set(config: Mapping[str, tuple[ast.expr, SchemaReader]], name: str) -> bool:
    """Return whether a setting is or may be true."""
    return name in config and not _is_constant(config[name][0], (False, None))


def _is_constant(expression: ast.expr, values: tuple[object, ...]) -> bool:
    return isinstance(expression, ast.Constant) and any(
        expression.value is value for value in values
    )


def _config_of(
    node: ast.ClassDef, reader: SchemaReader
) -> dict[str, tuple[ast.expr, SchemaReader]]:
    """Return the settings of a model, with those of its bases: of the last one that has a setting."""
    config: dict[str, tuple[ast.expr, SchemaReader]] = {}
    for base in node.bases:
        target = reader.resolve(base.value if isinstance(base, ast.Subscript) else base)
        if isinstance(target, ModuleMember) and isinstance(target.node, ast.ClassDef):
            config |= _config_of(target.node, reader.within(target.module))
    return config | _own_config(node, reader)


def _own_config(
    node: ast.ClassDef, reader: SchemaReader
) -> dict[str, tuple[ast.expr, SchemaReader]]:
    """Return the settings that a model states itself: arguments of the class count more than ``model_config``."""
    config: dict[str, tuple[ast.expr, SchemaReader]] = {}
    for statement in _statements(node):
        if _target(statement) == "model_config":
            config |= {key: (value, reader) for key, value in _settings(statement, reader)}
    return config | {str(keyword.arg): (keyword.value, reader) for keyword in node.keywords}


def _read_config(
    config: Mapping[str, tuple[ast.expr, SchemaReader]],
) -> tuple[str, Callable[[str], str] | None]:
    """Return what a model does with unknown keys, and its generator of aliases.

    Raises:
        UnknownError: for a setting that may change the schema.
    """
    extra = literal(config["extra"][0]) if "extra" in config else "ignore"
    alias = None
    if "alias_generator" in config:
        expression, reader = config["alias_generator"]
        alias = _ALIASES.get(reader.origin(expression))
        if alias is None and not (
            isinstance(expression, ast.Constant) and expression.value is None
        ):
            raise UnknownError(f"alias_generator={ast.unparse(expression)}")
    read_settings = _IGNORED_CONFIG | {"extra", "alias_generator", "title", "json_schema_extra"}
    unknown = [
        name
        for name, (_, reader) in config.items()
        if name not in read_settings and (reader.serializes or name not in _WRITING_CONFIG)
    ]
    if unknown or extra not in ("ignore", "allow", "forbid"):
        raise UnknownError(", ".join(unknown) or f"extra={extra}")
    return extra, alias


def _settings(
    statement: ast.Assign | ast.AnnAssign, reader: SchemaReader
) -> Iterator[tuple[str, ast.expr]]:
    """Yield the settings of ``model_config = ConfigDict(...)``, or of a dict."""
    value = statement.value
    if isinstance(value, ast.Dict):
        for key, setting in zip(value.keys, value.values, strict=True):
            yield str(literal(key) if key is not None else None), setting
        return
    makers = {"pydantic.ConfigDict", "builtins.dict"}
    if not isinstance(value, ast.Call) or value.args or reader.origin(value.func) not in makers:
        raise UnknownError("model_config")
    for keyword in value.keywords:
        if keyword.arg is None:
            raise UnknownError(f"**{ast.unparse(keyword.value)} in model_config")
        yield keyword.arg, keyword.value


def _is_excluded(default: ast.expr | None, reader: SchemaReader) -> bool:
    if default is None or not is_field(reader, default):
        return False
    excluded = field_keywords(default).get("exclude")
    return excluded is not None and literal(excluded) is not False


def _root_model(lineage: _Lineage) -> JsonObject:
    """Return the schema of ``RootModel[list[int]]``, which is that of its type."""
    if len(lineage.classes) > 1:
        raise UnknownError
    node, reader = lineage.classes[0]
    _check_methods(node, reader)
    base = lineage.external[_ROOT_MODEL]
    statements = list(_statements(node))
    if isinstance(base, ast.Subscript) and not statements:
        return reader.read(base.slice)
    if len(statements) == 1 and _target(statements[0]) == "root":
        statement = statements[0]
        if isinstance(statement, ast.AnnAssign) and statement.value is None:
            return reader.read(statement.annotation)
    raise UnknownError


# Dataclasses, TypedDicts and NamedTuples


def _dataclass_fields(lineage: _Lineage) -> Iterator[Parameter]:
    fields: dict[str, tuple[ast.AnnAssign, SchemaReader]] = {}
    is_dataclass = False
    for node, reader in lineage.classes:
        _check_methods(node, reader)
        if not node.decorator_list:
            continue  # without the decorator, its annotations are not fields of the dataclass
        _check_dataclass(node, reader)
        is_dataclass = True
        for statement in _statements(node):
            if isinstance(statement, ast.AnnAssign) and not _is_class_variable(statement, reader):
                fields[_target(statement)] = statement, reader
    if not is_dataclass:
        raise UnknownError
    for name, (statement, reader) in fields.items():
        value = statement.value
        called = reader.origin(value.func) if isinstance(value, ast.Call) else ""
        options: dict[str, ast.expr] = {}
        if isinstance(value, ast.Call) and called in _FIELDS:
            options = {str(keyword.arg): keyword.value for keyword in value.keywords}
            if "init" in options and not literal(options["init"]) and not reader.serializes:
                continue  # it is part of results, and no argument
        if isinstance(value, ast.Call) and called == "dataclasses.field":
            if value.args or not options.keys() <= _DATACLASS_FIELD:
                raise UnknownError
            yield read_parameter(
                reader,
                name,
                annotation=statement.annotation,
                default=options.get("default"),
                is_optional="default_factory" in options,
            )
        else:
            yield read_parameter(reader, name, annotation=statement.annotation, default=value)


def _decorators(node: ast.ClassDef, reader: SchemaReader) -> list[str]:
    called = [
        decorator.func if isinstance(decorator, ast.Call) else decorator
        for decorator in node.decorator_list
    ]
    return [reader.origin(decorator) for decorator in called]


def _check_dataclass(node: ast.ClassDef, reader: SchemaReader) -> None:
    decorator = node.decorator_list[0]
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    plain = (
        len(node.decorator_list) == 1
        and not node.keywords
        and reader.origin(called) in _DATACLASSES
        and not (isinstance(decorator, ast.Call) and decorator.args)
        and {keyword.arg for keyword in keywords} <= _IGNORED_OPTIONS
    )
    if not plain:
        raise UnknownError(f"@{ast.unparse(decorator)}")


def _typed_dict_fields(lineage: _Lineage) -> Iterator[Parameter]:
    for node, reader in lineage.classes:
        if node.decorator_list:  # it may have settings
            raise UnknownError
        total: Any = True
        for keyword in node.keywords:
            if keyword.arg != "total":
                raise UnknownError
            total = literal(keyword.value)
        for statement in _statements(node):
            if not isinstance(statement, ast.AnnAssign) or statement.value is not None:
                raise UnknownError
            required, annotation, inner = _qualified(
                statement.annotation, reader, total=bool(total)
            )
            parameter = read_parameter(
                inner, _target(statement), annotation=annotation, default=None
            )
            yield parameter._replace(required=required)


def _qualified(
    annotation: ast.expr, reader: SchemaReader, *, total: bool
) -> tuple[bool, ast.expr | None, SchemaReader]:
    """Return whether a key is required, and its type without ``Required``, ``NotRequired`` and ``ReadOnly``."""
    required = total
    part: ast.expr | None = annotation
    for _ in range(_MOST_CLASSES):
        bare, inner = reader.unwrap(part) if isinstance(part, ast.Constant) else (part, reader)
        if not isinstance(bare, ast.Subscript):
            break
        qualifier = inner.origin(bare.value)
        if qualifier == "typing.Annotated" and isinstance(bare.slice, ast.Tuple):
            # The metadata are read with the type, which is in the qualifier.
            held, bare_type, within = _qualified(bare.slice.elts[0], inner, total=required)
            if bare_type is not bare.slice.elts[0] and bare_type is not None:
                elements = [bare_type, *bare.slice.elts[1:]]
                whole = ast.Subscript(bare.value, ast.Tuple(elements, ast.Load()), ast.Load())
                return held, ast.copy_location(whole, bare), within
            break
        if qualifier not in {"typing.Required", "typing.NotRequired", "typing.ReadOnly"}:
            break
        if qualifier != "typing.ReadOnly":
            required = qualifier == "typing.Required"
        part, reader = bare.slice, inner
    return required, part, reader


def _named_tuple(node: ast.ClassDef, reader: SchemaReader) -> JsonObject:
    """Return the schema of a NamedTuple, which JSON has as a list."""
    _check_methods(node, reader)
    if node.decorator_list or node.keywords:
        raise UnknownError
    fields = []
    for statement in _statements(node):
        if not isinstance(statement, ast.AnnAssign):
            raise UnknownError
        name = _target(statement)
        fields.append(
            read_parameter(reader, name, annotation=statement.annotation, default=statement.value)
        )
    schema: JsonObject = {"type": "array"}
    if fields:
        schema["prefixItems"] = [parameter.schema for parameter in fields]
    least = sum(parameter.required for parameter in fields)
    return schema | {"minItems": least, "maxItems": len(fields)}


# Bodies of classes


def _check_methods(node: ast.ClassDef, reader: SchemaReader) -> None:
    """Note the validators of a class.

    Raises:
        UnknownError: if a method changes the schema, or how a result is written.
    """
    _check_assignments(node, reader)
    for method in node.body:
        if not isinstance(method, FunctionNode):
            continue
        if method.name.startswith(_SCHEMA_HOOKS):
            raise UnknownError(f"{method.name}()")
        if method.name in _CONSTRUCTORS:
            reader.note(f"{node.name}.{method.name}()")
        for decorator in method.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            origin = reader.origin(called)
            is_accessor = isinstance(called, ast.Attribute) and called.attr in _ACCESSORS
            # Any other one may be a validator under another name.
            if origin not in _HARMLESS_DECORATORS and not is_accessor:
                reader.note(f"{node.name}.{method.name}()")
            if origin in _SERIALIZERS and reader.serializes:
                raise UnknownError(f"{method.name}()")


def _check_assignments(node: ast.ClassDef, reader: SchemaReader) -> None:
    """Note what a class assigns beside its fields: it may be a validator, as in ``_lower = field_validator("env")(lower)``.

    Raises:
        UnknownError: if it is a setting of pydantic.
    """
    for statement in _statements(node):
        name, value = _target(statement), statement.value
        if name.startswith(_SCHEMA_HOOKS):
            raise UnknownError(name)
        if name == "model_config" or isinstance(statement, ast.AnnAssign) or value is None:
            continue
        called = value.func if isinstance(value, ast.Call) else value
        is_known = isinstance(value, _VALUES) or reader.origin(called) == "pydantic.PrivateAttr"
        if not is_known:
            reader.note(f"{node.name}.{name}")


def _statements(node: ast.ClassDef) -> Iterator[ast.Assign | ast.AnnAssign]:
    """Yield the assignments of a class whose body otherwise has only methods, classes and docstrings."""
    for statement in node.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            yield statement
        elif isinstance(statement, ast.ClassDef):
            if statement.name == "Config":
                raise UnknownError("class Config, settings as pydantic 1 had them")
        elif not isinstance(statement, FunctionNode | ast.Pass) and not (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        ):
            raise UnknownError


def _target(statement: ast.Assign | ast.AnnAssign) -> str:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        raise UnknownError
    return targets[0].id


def _is_class_variable(
    statement: ast.AnnAssign, reader: SchemaReader, *, in_model: bool = False
) -> bool:
    # Pydantic takes a final field with a value for a constant of the class; a dataclass does not.
    if in_model:
        origin = qualifier(reader, statement.annotation)
        return origin == "typing.ClassVar" or (
            origin == "typing.Final" and statement.value is not None
        )
    annotation, inner = reader.unwrap(statement.annotation)
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return inner.origin(annotation) in {"typing.ClassVar", "dataclasses.KW_ONLY"}
