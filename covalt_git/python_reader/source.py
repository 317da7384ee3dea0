"""Definition of a Python tool, read from its source without running it.

Two guarantees: ``requires_confirmation`` is true unless it is provably false; and a schema accepts every value
that the function accepts, so an unknown type accepts any value.  The exceptions are noted as not read: null of a
parameter whose default has to be computed, field names besides the listed ones, and texts that pydantic reads as a
number where the text of a union refuses them.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import MOST_LISTED, CovaltError, listed, nearest_name
from covalt_git.json_values import pointer
from covalt_git.models.tool_properties import SAME_NAMES_SCHEMA, UNREAD_SCHEMA
from covalt_git.python_reader import wrappers
from covalt_git.python_reader.classes import class_schema
from covalt_git.python_reader.fields import Parameter, read_parameter
from covalt_git.python_reader.module_text import PythonSyntaxError, column_of
from covalt_git.python_reader.modules import Module, Modules, function_of, names_of
from covalt_git.python_reader.names import FunctionNode, ModuleNames, UnknownError
from covalt_git.python_reader.no_json import missing_names
from covalt_git.python_reader.reached_text import digest_of
from covalt_git.python_reader.reader import SchemaDocument
from covalt_git.python_reader.schema import SchemaReader
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from covalt_git.json_values import JsonObject

__all__ = [
    "NoFunctionError",
    "PythonSyntaxError",
    "ToolDefinition",
    "imported_from",
    "imported_packages",
    "read_tool",
]

MAX_DOCSTRING = 64 * 1024
_SHOWN = 60

_MARKUP = re.compile(r"[\n:@]")
"""Characters of which every style has one in a docstring with more than a description."""

_TOOL = "covalt_toolset.tool"
_TOOL_PARAMETERS = ("name", "description", "requires_confirmation")
"""The first parameters of ``@tool``, which can be positional."""

_TRANSPARENT = frozenset({"functools.cache", "functools.lru_cache", "typing.override"})
"""Decorators that keep a function's parameters, and cannot require confirmation."""


_DATA = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr)
"""Expressions whose values cannot be called."""

_NO_RESULTS = {
    "builtins.property": "property, not a function",
    "builtins.classmethod": "classmethod, not a function",
    "functools.cached_property": "cached_property, not a function",
    "contextlib.contextmanager": "context manager, whose result is not JSON",
    "contextlib.asynccontextmanager": "context manager, whose result is not JSON",
}
"""Decorators that make what no call can run, and what that is."""


class NoFunctionError(CovaltError):
    """A function that the module does not define."""

    code = "no_function"

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        near = nearest_name(name, known)
        others = f"it defines {listed(known, MOST_LISTED)}" if known else "it defines no function"
        super().__init__(
            f"the module has no function {name!r}",
            hint=f"did you mean {near!r}?" if near else others,
        )
        self.known = known


class ToolDefinition(NamedTuple):
    """Definition of a tool in Python source.

    Attributes:
        name: the name in ``@tool``; None if it is missing or computed.
        description: the description in ``@tool``, or else in the docstring.
        requires_confirmation: true unless it is provably false.
        input_schema: the schema of the arguments; accepts every object if the signature is unknown.
        line: the line of its ``def``, from 1.
        col: the column of its ``def`` in characters, from 1.
        output_schema: the schema of the result; None if it is unknown.
        destructive: whether ``@tool`` says so, or may.
        module: the module with its package, relative to the toolset; empty if the reader did not find the file.
        defect: why no call can run it, as a clause about the function; empty if calls may run it.
        remedy: how to change the function so that calls can run it.
        unread: what ``input_schema`` does not say about a parameter, by its name, such as a type or a validator; an empty
            name if nothing is known about the signature.
        unread_digests: the digest of the source that decides about each of these.
        changed: the parameters whose values the function may get in another form than the schema says.
        same_names: the names of the same field, for each definition of ``input_schema``.
        modules: the dotted names of the toolset's modules that have the function and the types of its signature.
        packages: the types of its parameters that need a package, by the name under which it is imported.
    """

    name: str | None
    description: str | None
    requires_confirmation: bool
    input_schema: JsonObject
    line: int
    col: int
    output_schema: JsonObject | None = None
    destructive: bool = False
    module: str = ""
    defect: str = ""
    remedy: str = ""
    unread: Mapping[str, str] = MappingProxyType({})
    unread_digests: Mapping[str, str] = MappingProxyType({})
    changed: frozenset[str] = frozenset()
    same_names: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType({})
    modules: tuple[str, ...] = ()
    packages: Mapping[str, str] = MappingProxyType({})

    @property
    def values_schema(self) -> JsonObject:
        """The schema of the arguments as the function gets them, with a mark at those that are not read, or change.

        A validator, for example, may make another value of the one that the schema accepts.  It also has the names
        that a field has besides the listed one.
        """
        if "" in self.unread:
            return _unknown_signature() | {UNREAD_SCHEMA: True}
        properties = {
            name: {UNREAD_SCHEMA: True} if name in self.changed else schema
            for name, schema in self.input_schema["properties"].items()
        }
        schema = self.input_schema | {"properties": properties}
        if "$defs" in schema:
            schema["$defs"] = {
                name: _with_names(definition, self.same_names.get(name, ()))
                for name, definition in schema["$defs"].items()
            }
        return schema


def _with_names(schema: JsonObject, same: Iterable[tuple[str, ...]]) -> JsonObject:
    """Return the schema of an object in which a property has several names."""
    lists = [list(names) for names in same if names[0] in schema.get("properties", {})]
    if not lists:
        return schema
    further = {name: schema["properties"][first] for first, *names in lists for name in names}
    return schema | {
        "properties": further | schema["properties"],
        SAME_NAMES_SCHEMA: lists,
    }


def read_tool(
    source: bytes, function: str, modules: Modules | None = None, module: str = ""
) -> ToolDefinition:
    """Return the definition of ``function`` at the top level of a module.

    Args:
        source: the text of the module.
        function: the name of the function.
        modules: the modules of the toolset, whose classes the function may use; without them, those of this text only.
        module: the dotted name of the module in ``modules``.

    Raises:
        PythonSyntaxError: if the source is not valid Python, too large, or not UTF-8.
        NoFunctionError: if the module does not define the name, or defines a class.
    """
    try:
        all_modules = modules or Modules()
        # A stored schema is stale if one of these modules changes, so modules of other tools must not count.
        all_modules.asked.clear()
        home = all_modules.module(module) if modules else None
        if home is None:
            home = Module(module, is_package=False, names=names_of(source))
        definitions = home.names.functions(function)
        if definitions:
            return _read_definitions(definitions, home, all_modules, source)
        elsewhere = function_of(all_modules, home, function)
        if elsewhere is None:
            return _unknown_tool(home.names, function)
        there = elsewhere.module
        definitions = there.names.functions(elsewhere.name)
        if not definitions:
            return _unknown_tool(home.names, function)
        definition = _read_definitions(
            definitions, there, all_modules, all_modules.read[there.name]
        )
        # Problems name the file of the entrypoint, in which the place in the other module means nothing.
        return definition._replace(line=1, col=1)
    except RecursionError:
        raise PythonSyntaxError(1, 1, "this is nested too deeply") from None


def imported_from(source: bytes, name: str) -> str | None:
    """Return the dotted name, as ``os.system``, of the object that a module imports as ``name``; or None.

    Raises:
        PythonSyntaxError: if the source is not valid Python.
    """
    bound = names_of(source).bindings.get(name, ())
    origins = {binding.origin for binding in bound}
    return origins.pop() if len(origins) == 1 else None


def imported_packages(source: bytes) -> set[str]:
    """Return the top-level packages that a module imports unconditionally.

    Raises:
        PythonSyntaxError: if the source is not valid Python.
    """
    bindings = [binding for bound in names_of(source).bindings.values() for binding in bound]
    origins = [binding.origin for binding in bindings if binding.origin and binding.certain]
    return {origin.partition(".")[0] for origin in origins} - {""}


def _read_definitions(
    definitions: list[FunctionNode], module: Module, modules: Modules, source: bytes
) -> ToolDefinition:
    """Return the last definition; its signature is unknown if there may be another one."""
    decorators = [_read_decorators(node, module, modules) for node in definitions]
    node, last = definitions[-1], decorators[-1]
    docstring = _read_docstring(node)
    certain = len(definitions) == 1 and not last.unread
    reader = SchemaReader(modules, module, class_schema=class_schema)
    input_schema = _read_signature(node, reader, docstring) if certain else _unknown_signature()
    if certain:
        defect, remedy = _defect(node)
        if not defect:
            defect, remedy = _type_defect(node, reader)
    else:
        defect, remedy = _decorator_defect(definitions, module, modules)
    unread = reader.document.unread if certain else {"": _unread_signature(definitions, last)}
    read_modules = tuple(sorted(modules.asked & modules.read.keys()))
    digests = reader.document.unread_digests
    if "" in unread:
        heads = [part for each in definitions for part in (*each.decorator_list, each.args)]
        digests = {"": digest_of(heads, module, modules)}
    return ToolDefinition(
        name=last.texts.get("name"),
        description=last.texts.get("description") or docstring.description or None,
        # Only running shows which definition counts, so it suffices that any of them asks.
        requires_confirmation=any(each.requires_confirmation for each in decorators),
        destructive=any(each.destructive for each in decorators),
        input_schema=input_schema,
        output_schema=_read_result(
            node, replace(reader, document=SchemaDocument(), serializes=True)
        )
        if certain
        else None,
        unread=unread,
        unread_digests=digests,
        changed=frozenset(reader.document.changed),
        same_names=reader.same_names() if certain else {},
        modules=read_modules,
        packages=reader.document.packages,
        line=node.lineno,
        col=column_of(source, node.lineno, node.col_offset),
        defect=defect,
        remedy=remedy,
    )


def _defect(node: FunctionNode) -> tuple[str, str]:
    """Return why no call can run a function, and the remedy; the SDK passes arguments by name, and JSON."""
    arguments = node.args
    if arguments.vararg:
        name = arguments.vararg.arg
        return f"takes '*{name}', values without names", f"write {name}: list instead of *{name}"
    if arguments.kwarg:
        name = arguments.kwarg.arg
        return f"takes '**{name}', any names", f"write {name}: dict instead of **{name}"
    if arguments.posonlyargs:
        name = arguments.posonlyargs[-1].arg
        return f"takes {name!r} by position only", f"remove the / after {name}"
    if isinstance(node, ast.AsyncFunctionDef) and _yields(node):
        return "is an asynchronous generator, whose result is not JSON", "return a list"
    return "", ""


def _type_defect(node: FunctionNode, reader: SchemaReader) -> tuple[str, str]:
    """Return why the type of a parameter lets no call run a function."""
    for argument, _ in _arguments(node):
        # Type parameters are names that the module does not define.
        if getattr(node, "type_params", []) or _is_workspace(argument, reader):
            continue
        for name in missing_names(argument.annotation, reader.module):
            return f"annotates {argument.arg!r} with {name}, which is not defined", f"import {name}"
    for name, type_name in reader.document.refused.items():
        defect = f"takes {name!r} of the type {type_name}, of which JSON has no values"
        return defect, f"annotate {name} with a type of JSON, a dataclass or a pydantic model"
    return "", ""


def _yields(node: FunctionNode) -> bool:
    """Return whether a function is a generator; functions and classes in it do not count."""
    pending: list[ast.AST] = [*node.body]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Yield):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(part)
    return False


def _decorator_defect(
    definitions: list[FunctionNode], module: Module, modules: Modules
) -> tuple[str, str]:
    """Return why no call can run what the decorators make of a function; of several definitions, nothing is known."""
    decorators = definitions[-1].decorator_list if len(definitions) == 1 else []
    if decorators:
        origin = module.names.origin(decorators[0])
        kind, name = _NO_RESULTS.get(origin or "", ""), (origin or "").rpartition(".")[2]
        if kind:
            return f"is a {kind}", f"remove @{name}"
    for decorator in decorators:
        if _keeps(decorator, module, modules):
            continue
        wrapper = wrappers.bare_wrapper(decorator, module, modules)
        if wrapper is None:
            break
        defect, _ = _defect(wrapper)
        if defect:
            written = ast.unparse(decorator)
            text = f"is the {wrapper.name!r} that @{written} returns, which {defect}"
            return text, f"write @functools.wraps above def {wrapper.name}"
        break
    return "", ""


def _keeps(decorator: ast.expr, module: Module, modules: Modules) -> bool:
    """Return whether a decorator surely keeps the parameters of its function."""
    origin = module.names.origin(decorator.func if isinstance(decorator, ast.Call) else decorator)
    if origin == _TOOL or origin in _TRANSPARENT:
        return True
    return wrappers.keeps_signature(decorator, module, modules)


def _unknown_tool(names: ModuleNames, function: str) -> ToolDefinition:
    """Return an unknown definition, for a function that is imported or computed."""
    bound = names.bindings.get(function, ())
    if all(isinstance(binding.node, ast.ClassDef) for binding in bound) and not names.has_star:
        defined = [name for name in names.bindings if names.functions(name)]
        raise NoFunctionError(function, tuple(name for name in defined if name[0] != "_"))
    value = names.definition(function)
    digest = digest_of(
        (binding.node for binding in bound), Module("", is_package=False, names=names), Modules()
    )
    is_data = isinstance(value, _DATA) and bound[0].certain
    return ToolDefinition(
        name=None,
        description=None,
        requires_confirmation=True,
        input_schema=_unknown_signature(),
        line=1,
        col=1,
        unread={"": "the signature"},
        unread_digests={"": digest},
        defect="is a value, not a function" if is_data else "",
        remedy=f"define {function} with def" if is_data else "",
    )


class _Decorators(NamedTuple):
    """Properties that the decorators of a function set."""

    texts: Mapping[str, str]
    requires_confirmation: bool
    destructive: bool
    unread: str
    """Why they may have another signature than the function; empty if they have its."""


def _read_decorators(node: FunctionNode, module: Module, modules: Modules) -> _Decorators:
    """Read the decorators, the outermost first, whose ``@tool`` overrides the others."""
    texts: dict[str, str] | None = None
    confirms = destructive = False
    unread = ""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        origin = module.names.origin(call.func if call else decorator)
        if origin == _TOOL:
            if texts is None:
                texts, call_confirms, destructive = _read_tool_call(call)
                confirms = confirms or call_confirms
        elif origin not in _TRANSPARENT:
            written = f"@{shorten(ast.unparse(decorator), _SHOWN)} in line {decorator.lineno}"
            if not wrappers.keeps_signature(decorator, module, modules):
                unread = unread or f"the signature, which {written} may change"
                confirms = (
                    confirms or texts is None
                )  # it may apply @tool(requires_confirmation=True)
            elif not wrappers.passes_on(decorator, module, modules):
                unread = unread or f"the arguments that {written} passes on"
    return _Decorators(texts or {}, confirms, destructive, unread)


def _unread_signature(definitions: list[FunctionNode], last: _Decorators) -> str:
    """Return why the signature of a function is unknown."""
    if len(definitions) == 1:
        return last.unread
    lines = " or ".join(str(node.lineno) for node in definitions)
    return f"the signature, that of line {lines}"


def _read_tool_call(call: ast.Call | None) -> tuple[dict[str, str], bool, bool]:
    """Return the strings of ``@tool(...)``, whether it requires confirmation, or may, and whether it is destructive."""
    if call is None:
        return {}, False, False
    values: dict[str | None, ast.expr] = {keyword.arg: keyword.value for keyword in call.keywords}
    # Unpacked arguments may have requires_confirmation=True.
    is_partial = None in values or any(isinstance(value, ast.Starred) for value in call.args)
    if not is_partial:
        values.update(zip(_TOOL_PARAMETERS, call.args, strict=False))
    texts = {
        str(name): value.value
        for name, value in values.items()
        if isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and _is_text(value.value)
    }
    required, destructive = (
        is_partial
        if value is None
        else not (isinstance(value, ast.Constant) and value.value is False)
        for value in (values.get("requires_confirmation"), values.get("destructive"))
    )
    return texts, required, destructive


def _is_text(value: str) -> bool:
    """Return whether a string has no lone surrogates, which Python allows."""
    return not re.search("[\ud800-\udfff]", value)


@dataclass(frozen=True, slots=True)
class _Docstring:
    description: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)


def _is_marked(text: str) -> bool:
    """Return whether a docstring has a section mark; only then is its style detected.

    Epydoc uses ``@``, NumPy a line of dashes, and the other styles a colon.
    """
    return any(mark in text for mark in (":", "@", "---"))


def _read_docstring(node: FunctionNode) -> _Docstring:
    """Read a docstring in Google, NumPy or reStructuredText style."""
    text = ast.get_docstring(node)
    if not text or not _is_text(text):
        return _Docstring()
    if len(text) > MAX_DOCSTRING:
        return _Docstring(text)
    if not _MARKUP.search(text):  # true for most docstrings, and faster
        return _Docstring(text.strip())
    import docstring_parser  # noqa: PLC0415 - few docstrings need it, and it is slow

    style = docstring_parser.DocstringStyle
    try:
        parsed = docstring_parser.parse(text, style.AUTO if _is_marked(text) else style.REST)
    except docstring_parser.ParseError:
        return _Docstring(text)
    descriptions = (parsed.short_description, parsed.long_description)
    return _Docstring(
        "\n\n".join(part.strip() for part in descriptions if part),
        {
            argument.arg_name: " ".join(argument.description.split())
            for argument in parsed.params
            if argument.description
        },
    )


def _read_signature(node: FunctionNode, reader: SchemaReader, docstring: _Docstring) -> JsonObject:
    """Return the schema of the arguments that callers can pass."""
    if getattr(node, "type_params", []):  # def f[T](x: T): T is not a class
        reader.document.unread[""] = "type parameters"
        return _unknown_signature()
    try:
        arguments = [
            _read_argument(argument, default, reader, docstring)
            for argument, default in _arguments(node)
            if not _is_workspace(argument, reader)
        ]
    except UnknownError as error:
        reader.document.unread[""] = ": ".join(
            filter(None, ["the name of an argument", str(error)])
        )
        return _unknown_signature()
    schema: JsonObject = {
        "type": "object",
        "properties": {argument.name: argument.schema for argument in arguments},
        "required": [argument.name for argument in arguments if argument.required],
        "additionalProperties": node.args.vararg is not None or node.args.kwarg is not None,
    }
    return reader.with_definitions(schema)


def _read_argument(
    argument: ast.arg, default: ast.expr | None, reader: SchemaReader, docstring: _Docstring
) -> Parameter:
    """Return a parameter; what its schema does not say is noted under its name."""
    parameter = read_parameter(
        reader,
        argument.arg,
        annotation=argument.annotation,
        default=default,
        text=docstring.arguments.get(argument.arg, ""),
        takes_none=True,
    )
    reader.document.end_parameter(parameter.name)
    if parameter.name in reader.document.unread:
        reader.document.unread_digests[parameter.name] = digest_of(
            (argument.annotation, default), reader.module, reader.modules
        )
    return parameter


def _read_result(node: FunctionNode, reader: SchemaReader) -> JsonObject | None:
    """Return the schema of the result; None if it is unknown, or always null."""
    if getattr(node, "type_params", []):
        return None
    schema = reader.read(node.returns)
    if schema in ({}, {"type": "null"}):
        return None
    document: JsonObject = reader.with_definitions(schema)
    name = pointer.name_of(document)
    rest = {key: definition for key, definition in document.get("$defs", {}).items() if key != name}
    whole: JsonObject | None = document.get("$defs", {}).get(name)
    if whole is None or f'"#/$defs/{name}"' in json.dumps(document["$defs"]):
        return document
    return whole | (
        {"$defs": rest} if rest else {}
    )  # as pydantic writes a class that does not contain itself


def _unknown_signature() -> JsonObject:
    """Return the schema of an unknown signature, which accepts every object."""
    return {"type": "object", "properties": {}, "required": [], "additionalProperties": True}


def _arguments(node: FunctionNode) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield the named parameters with their defaults."""
    positional = [*node.args.posonlyargs, *node.args.args]
    without = len(positional) - len(node.args.defaults)
    yield from zip(positional, [*[None] * without, *node.args.defaults], strict=True)
    yield from zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)


def _is_workspace(argument: ast.arg, reader: SchemaReader) -> bool:
    """Return whether the runtime passes a parameter: ``workspace: Path``, also in quotes."""
    if argument.arg != "workspace" or argument.annotation is None:
        return False
    match argument.annotation:
        case ast.Constant(value=written):
            return written in ("Path", "pathlib.Path")
        case ast.Name(id="Path") if "Path" not in reader.module.names.bindings:
            return (
                True  # a linter moved the import under TYPE_CHECKING; the SDK accepts the name too
            )
        case annotation:
            return reader.origin(annotation) == "pathlib.Path"
