"""What a Python tool says of itself, read from its source without running a line of it.

Two promises.  A tool that asks for confirmation is never read as one that does not: whatever cannot
be proven to be ``False`` counts as asking.  And no schema is narrower than the function: what cannot
be known from the text alone accepts anything.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError, nearest_name
from covalt_git.python_reader.classes import class_schema
from covalt_git.python_reader.fields import Parameter, read_parameter
from covalt_git.python_reader.module_text import PythonSyntaxError, parse, split_lines
from covalt_git.python_reader.names import FunctionNode, ModuleNames, UnknownError, read_names
from covalt_git.python_reader.schema import ResultReader, SchemaReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.json_values import JsonObject

__all__ = [
    "NoFunctionError",
    "Parameter",
    "PythonSyntaxError",
    "ToolSource",
    "imported_from",
    "imported_packages",
    "read_tool",
]

MAX_DOCSTRING = 64 * 1024

_MARKUP = re.compile(r"[\n:@]")
"""What every style of docstring has where it tells more than what the function does."""

_TOOL = "covalt_toolset.tool"
_TOOL_PARAMETERS = ("name", "description", "requires_confirmation", "category")
_CHANGES_NOTHING = frozenset({"functools.cache", "functools.lru_cache", "typing.override"})
"""Decorators that keep a function's parameters, and are no way to ask for confirmation."""


class NoFunctionError(CovaltError):
    """The module defines no function of that name."""

    code = "no_function"

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        near = nearest_name(name, known)
        listed = f"it has {', '.join(known)}" if known else "it defines no function"
        super().__init__(
            f"no function {name!r} in the module",
            hint=f"did you mean {near!r}?" if near else listed,
        )
        self.known = known


class ToolSource(NamedTuple):
    """A function as its source describes it.

    Attributes:
        name: what ``@tool`` calls it; None where it says nothing, or nothing that can be read.
        description: from ``@tool``, or else from the docstring.
        requires_confirmation: true unless it is certain that nothing asks for it.
        category: where ``@tool`` wants it listed.
        parameters: what a caller gives; empty where the signature cannot be known.
        input_schema: of the arguments; accepts every object where the signature cannot be known.
        takes_workspace: whether the runtime hands it the workspace, which no caller can.
        is_async: whether it is an ``async def``.
        line: where its ``def`` stands, from 1.
        col: the character of that line, from 1.
        output_schema: of the result as JSON; None where nothing is known of it.
    """

    name: str | None
    description: str | None
    requires_confirmation: bool
    category: str | None
    parameters: tuple[Parameter, ...]
    input_schema: JsonObject
    takes_workspace: bool
    is_async: bool
    line: int
    col: int
    output_schema: JsonObject | None = None


def read_tool(source: bytes, function: str) -> ToolSource:
    """Return what ``function``, at the top level of the module, says of itself.

    Raises:
        PythonSyntaxError: where the source does not parse, is too large, or is not UTF-8.
        NoFunctionError: where the module gives that name to nothing, or to a class.
    """
    try:
        names = _names_of(source)
        definitions = names.functions(function)
        if not definitions:
            return _from_elsewhere(names, function)
        return _read_definitions(definitions, names, source)
    except RecursionError:
        raise PythonSyntaxError(1, 1, "this is nested too deeply") from None


def imported_from(source: bytes, name: str) -> str | None:
    """Return what a module imports under that name, as ``os.system``; None where it imports nothing.

    Raises:
        PythonSyntaxError: where the source does not parse.
    """
    bound = _names_of(source).bindings.get(name, ())
    origins = {binding.origin for binding in bound}
    return origins.pop() if len(origins) == 1 else None


def imported_packages(source: bytes) -> set[str]:
    """Return the top-level packages that importing a module imports in any case.

    Raises:
        PythonSyntaxError: where the source does not parse.
    """
    bindings = [binding for bound in _names_of(source).bindings.values() for binding in bound]
    origins = [binding.origin for binding in bindings if binding.origin and binding.certain]
    return {origin.partition(".")[0] for origin in origins} - {""}


@lru_cache(maxsize=8)
def _names_of(source: bytes) -> ModuleNames:
    """Parse a module once for all the tools that stand in it; nothing changes what this returns."""
    return read_names(parse(source), source)


def _read_definitions(
    definitions: list[FunctionNode], names: ModuleNames, source: bytes
) -> ToolSource:
    """Return what the last definition says; no more is certain where it may not be the one."""
    marks = [_read_mark(node, names) for node in definitions]
    node, mark = definitions[-1], marks[-1]
    docstring = _read_docstring(node)
    certain = len(definitions) == 1 and mark.keeps_signature
    parameters, schema = _read_signature(node, names, docstring) if certain else _any_arguments()
    return ToolSource(
        name=mark.texts.get("name"),
        description=mark.texts.get("description") or docstring.description or None,
        requires_confirmation=any(each.requires_confirmation for each in marks),
        category=mark.texts.get("category"),
        parameters=parameters,
        input_schema=schema,
        output_schema=_read_result(node, names) if certain else None,
        takes_workspace=any(_is_workspace(argument, names) for argument, _ in _arguments(node)),
        is_async=isinstance(node, ast.AsyncFunctionDef),
        line=node.lineno,
        col=_column(source, node),
    )


def _column(source: bytes, node: FunctionNode) -> int:
    """Return the character, from 1, that Python counts in bytes."""
    if not node.col_offset:
        return 1
    line = split_lines(source)[node.lineno - 1]
    return len(line[: node.col_offset].decode("utf-8", "replace")) + 1


def _from_elsewhere(names: ModuleNames, function: str) -> ToolSource:
    """Return all that is certain of a function that is imported or computed: nothing."""
    bound = names.bindings.get(function, ())
    if all(isinstance(binding.node, ast.ClassDef) for binding in bound) and not names.has_star:
        defined = [name for name in names.bindings if names.functions(name)]
        raise NoFunctionError(function, tuple(name for name in defined if name[0] != "_"))
    parameters, schema = _any_arguments()
    return ToolSource(
        name=None,
        description=None,
        requires_confirmation=True,
        category=None,
        parameters=parameters,
        input_schema=schema,
        takes_workspace=False,
        is_async=False,
        line=1,
        col=1,
    )


class _Mark(NamedTuple):
    """What the decorators of a function say."""

    texts: Mapping[str, str]
    requires_confirmation: bool
    keeps_signature: bool


def _read_mark(node: FunctionNode, names: ModuleNames) -> _Mark:
    """Read the decorators from the outermost: its ``@tool`` has the last word when Python runs."""
    texts: dict[str, str] | None = None
    asks = False
    keeps_signature = True
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        origin = names.origin(call.func if call else decorator)
        if origin == _TOOL:
            if texts is None:
                texts, said = _read_tool_call(call)
                asks = asks or said
        elif origin not in _CHANGES_NOTHING:
            keeps_signature = False
            asks = asks or texts is None  # it may be @tool(requires_confirmation=True) in disguise
    return _Mark(texts or {}, asks, keeps_signature)


def _read_tool_call(call: ast.Call | None) -> tuple[dict[str, str], bool]:
    """Return the texts of ``@tool(...)``, and whether it asks for confirmation or may ask."""
    if call is None:
        return {}, False
    said: dict[str | None, ast.expr] = {keyword.arg: keyword.value for keyword in call.keywords}
    hides_some = None in said or any(isinstance(value, ast.Starred) for value in call.args)
    if not hides_some:
        said.update(zip(_TOOL_PARAMETERS, call.args, strict=False))
    texts = {
        str(name): value.value
        for name, value in said.items()
        if isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and _is_text(value.value)
    }
    asked = said.get("requires_confirmation")
    if asked is None:
        return texts, hides_some
    return texts, not (isinstance(asked, ast.Constant) and asked.value is False)


def _is_text(value: str) -> bool:
    """Tell half a surrogate pair, which Python allows in a string, from text."""
    return not re.search("[\ud800-\udfff]", value)


@dataclass(frozen=True, slots=True)
class _Docstring:
    description: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)


def _is_marked(text: str) -> bool:
    """Tell whether a docstring has a mark of some style: only then is it read in all of them.

    Epydoc marks with ``@``, NumPy with a line of dashes, the others with a colon.
    """
    return any(mark in text for mark in (":", "@", "---"))


def _read_docstring(node: FunctionNode) -> _Docstring:
    """Read a docstring in Google, NumPy or reStructuredText style."""
    text = ast.get_docstring(node)
    if not text or not _is_text(text):
        return _Docstring()
    if len(text) > MAX_DOCSTRING:
        return _Docstring(text)
    if not _MARKUP.search(text):  # most are one line of plain words, and tools are many
        return _Docstring(text.strip())
    import docstring_parser  # noqa: PLC0415 - few docstrings need it, and it takes a while

    style = docstring_parser.DocstringStyle
    try:
        parsed = docstring_parser.parse(text, style.AUTO if _is_marked(text) else style.REST)
    except docstring_parser.ParseError:
        return _Docstring(text)
    said = (parsed.short_description, parsed.long_description)
    return _Docstring(
        "\n\n".join(part.strip() for part in said if part),
        {
            argument.arg_name: " ".join(argument.description.split())
            for argument in parsed.params
            if argument.description
        },
    )


def _read_signature(
    node: FunctionNode, names: ModuleNames, docstring: _Docstring
) -> tuple[tuple[Parameter, ...], JsonObject]:
    reader = SchemaReader(names, class_schema)
    if getattr(node, "type_params", []):  # def f[T](x: T): its own names, which mean no class
        return _any_arguments()
    try:
        arguments = tuple(
            read_parameter(
                reader,
                argument.arg,
                annotation=argument.annotation,
                default=default,
                text=docstring.arguments.get(argument.arg, ""),
            )
            for argument, default in _arguments(node)
            if not _is_workspace(argument, names)
        )
    except UnknownError:
        return _any_arguments()
    schema: JsonObject = {
        "type": "object",
        "properties": {argument.name: argument.schema for argument in arguments},
        "required": [argument.name for argument in arguments if argument.required],
        "additionalProperties": node.args.vararg is not None or node.args.kwarg is not None,
    }
    definitions = reader.referenced(schema)
    return arguments, schema | ({"$defs": definitions} if definitions else {})


def _read_result(node: FunctionNode, names: ModuleNames) -> JsonObject | None:
    """Return the schema of what the function returns; no result is nothing to promise."""
    if getattr(node, "type_params", []):
        return None
    reader = ResultReader(names, class_schema)
    schema = reader.read(node.returns)
    if schema in ({}, {"type": "null"}):
        return None
    definitions = reader.referenced(schema)
    return schema | ({"$defs": definitions} if definitions else {})


def _any_arguments() -> tuple[tuple[Parameter, ...], JsonObject]:
    """Return the signature of which nothing is known."""
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": True}
    return (), schema


def _arguments(node: FunctionNode) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield the named parameters, each with its default."""
    positional = [*node.args.posonlyargs, *node.args.args]
    without = len(positional) - len(node.args.defaults)
    yield from zip(positional, [*[None] * without, *node.args.defaults], strict=True)
    yield from zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)


def _is_workspace(argument: ast.arg, names: ModuleNames) -> bool:
    """Tell the parameter that the runtime fills: ``workspace: Path``, also in quotes."""
    if argument.arg != "workspace" or argument.annotation is None:
        return False
    match argument.annotation:
        case ast.Constant(value=written):
            return written in ("Path", "pathlib.Path")
        case ast.Name(id="Path") if "Path" not in names.bindings:
            return True  # a linter has moved the import; the SDK goes by the name too
        case annotation:
            return names.origin(annotation) == "pathlib.Path"
