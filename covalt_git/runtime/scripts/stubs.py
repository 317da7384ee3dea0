"""Stubs of the tools that a script can call: a ``tools.pyi`` for Python, and declarations of TypeScript.

They are made from the schemas that are listed.  A type that a schema does not say for sure is ``Any`` or ``unknown``:
the access check and the validation of a call decide, and a stub only helps to write it.  Descriptions and names come
from the authors of tools, so none can end its text or comment.
"""

from __future__ import annotations

import json
import keyword
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.json_values.keywords import list_at, object_at, text_at
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.json_values import JsonObject

_MOST_DEPTH = 6
_MOST_VALUES = 20
_SEARCH: Final = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["query"],
    "additionalProperties": False,
}
_DESCRIBE: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


class StubTool(NamedTuple):
    """A tool that scripts can call, as it is listed."""

    path: str
    """Its path below ``tools``, such as ``gmail.messages.list``."""
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None


_OWN: Final = (
    StubTool("search", "Search the tools that can be called.", _SEARCH),
    StubTool("describe.tool", "Return the description and the schemas of a tool.", _DESCRIBE),
)


@dataclass(slots=True)
class _Part:
    """A part of a path: a tool, or what has tools below it, or both."""

    path: str = ""
    tool: StubTool | None = None
    parts: dict[str, _Part] = field(default_factory=dict)


def python_stubs(tools: Iterable[StubTool]) -> str:
    """Return the stub file of ``tools`` and ``args`` for scripts in Python."""
    lines = [
        "# The tools of scripts. In a script with `await`, each call returns an awaitable of this result.",
        "import builtins",
        "from typing import Any, Literal",
        "",
        *_python_class("_tools", _tree(tools), ""),
    ]
    return "\n".join([*lines, "", "tools: _tools", "args: dict[str, Any]", ""])


def typescript_stubs(tools: Iterable[StubTool]) -> str:
    """Return the declarations of ``tools`` and ``args`` for scripts in JavaScript."""
    lines = ["declare const tools: {", *_members(_tree(tools), "  "), "};"]
    return "\n".join([*lines, "declare const args: { [name: string]: unknown };", ""])


def _tree(tools: Iterable[StubTool]) -> _Part:
    root = _Part("tools")
    for tool in (*_OWN, *sorted(tools, key=lambda tool: tool.path)):
        part = root
        for name in tool.path.split("."):
            part = part.parts.setdefault(name, _Part(f"{part.path}.{name}"))
        part.tool = part.tool or tool
    return root


def _python_class(class_name: str, part: _Part, indent: str) -> Iterator[str]:
    """Yield the class of a part, which has those of the parts below it."""
    yield f"{indent}class {class_name}:"
    indent += "    "
    if part.tool is not None:
        yield from _python_method("__call__", part.tool, indent)
    for name, inner in part.parts.items():
        if not _is_python_name(name):
            yield f"{indent}# getattr({part.path}, {json.dumps(name)})"
        elif inner.parts:
            yield from _python_class(f"_{name}", inner, indent)
            yield f"{indent}{name}: _{name}"
        elif inner.tool is not None:
            yield from _python_method(name, inner.tool, indent)
    yield f"{indent}..."


def _python_method(name: str, tool: StubTool, indent: str) -> Iterator[str]:
    schema = tool.input_schema
    required = list_at(schema, "required")
    parameters, rest = [], ""
    for key, inner in object_at(schema, "properties").items():
        if _is_python_name(key) and key != "self":
            default = "" if key in required else " = ..."
            parameters.append(f"{key}: {_python_type(inner, schema)}{default}")
        else:
            rest = ", **arguments: Any"
    if schema.get("additionalProperties", True) is not False:
        rest = ", **arguments: Any"
    given = f", *, {', '.join(parameters)}" if parameters else ""
    output = tool.output_schema
    result = "Any" if output is None else _python_type(output, output)
    yield f"{indent}def {name}(self{given}{rest}) -> {result}:"
    yield f"{indent}    {json.dumps(_description(tool), ensure_ascii=False)}"


def _python_type(schema: Any, root: JsonObject, depth: int = 0) -> str:
    schema = _resolved(schema, root)
    if depth > _MOST_DEPTH or not isinstance(schema, dict):
        return "Any"
    if (values := _literals(schema)) is not None:
        return f"Literal[{', '.join(map(repr, values))}]"
    if (choices := _choices(schema)) is not None:
        return _union([_python_type(choice, root, depth + 1) for choice in choices], "Any")
    match schema.get("type"):
        case "array":
            return f"builtins.list[{_python_type(schema.get('items'), root, depth + 1)}]"
        case "object":
            return "builtins.dict[builtins.str, Any]"
        case str(kind):
            return _PYTHON.get(kind, "Any")
    return "Any"


# With the name of the module, because a tool can have the name of a type.
_PYTHON: Final = {
    "string": "builtins.str",
    "integer": "builtins.int",
    "number": "builtins.float",
    "boolean": "builtins.bool",
    "null": "None",
}
_TYPESCRIPT: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def _members(part: _Part, indent: str) -> Iterator[str]:
    """Yield the members of the type of a part."""
    for name, inner in part.parts.items():
        key = name if _NAME.fullmatch(name) else json.dumps(name)
        if inner.tool is not None:
            yield f"{indent}/** {_description(inner.tool).replace('*/', '* /')} */"
        if inner.tool is not None and not inner.parts:
            yield f"{indent}{key}{_signature(inner.tool)};"
            continue
        yield f"{indent}{key}: {{"
        if inner.tool is not None:
            yield f"{indent}  {_signature(inner.tool)};"
        yield from _members(inner, indent + "  ")
        yield f"{indent}}};"


def _signature(tool: StubTool) -> str:
    schema = tool.input_schema
    optional = "" if list_at(schema, "required") else "?"
    output = tool.output_schema
    result = "any" if output is None else _typescript_type(output, output)
    return f"(args{optional}: {_typescript_type({'type': 'object', **schema}, schema)}): Promise<{result}>"


def _typescript_type(schema: Any, root: JsonObject, depth: int = 0) -> str:
    schema = _resolved(schema, root)
    if depth > _MOST_DEPTH or not isinstance(schema, dict):
        return "unknown"
    if (values := _literals(schema)) is not None:
        return _union([json.dumps(value) for value in values], "unknown")
    if (choices := _choices(schema)) is not None:
        return _union([_typescript_type(choice, root, depth + 1) for choice in choices], "unknown")
    match schema.get("type"):
        case "array":
            item = _typescript_type(schema.get("items"), root, depth + 1)
            return f"Array<{item}>"
        case "object":
            return _object_type(schema, root, depth)
        case str(kind):
            return _TYPESCRIPT.get(kind, "unknown")
    return "unknown"


def _object_type(schema: JsonObject, root: JsonObject, depth: int) -> str:
    required = list_at(schema, "required")
    members = [
        f"{key if _NAME.fullmatch(key) else json.dumps(key)}{'' if key in required else '?'}: "
        f"{_typescript_type(inner, root, depth + 1)}"
        for key, inner in object_at(schema, "properties").items()
    ]
    if schema.get("additionalProperties", True) is not False:
        members.append("[name: string]: unknown")
    return f"{{ {'; '.join(members)} }}" if members else "Record<string, never>"


def _resolved(schema: Any, root: JsonObject) -> Any:
    """Return the schema that a local reference names; None for another reference."""
    for _ in range(_MOST_DEPTH):
        reference = text_at(schema, "$ref") if isinstance(schema, dict) else ""
        if not reference:
            return schema
        place, _, name = reference.removeprefix("#/").rpartition("/")
        if place not in {"$defs", "definitions"}:
            return None
        schema = object_at(root, place).get(name)
    return None


def _literals(schema: JsonObject) -> list[Any] | None:
    """Return the values of an ``enum`` or ``const``, if they are few, and texts, integers, booleans or null."""
    values = [schema["const"]] if "const" in schema else list_at(schema, "enum")
    are_plain = all(value is None or isinstance(value, str | bool | int) for value in values)
    return values if values and are_plain and len(values) <= _MOST_VALUES else None


def _choices(schema: JsonObject) -> list[Any] | None:
    """Return the schemas of which a value matches one."""
    for key in ("anyOf", "oneOf"):
        if choices := list_at(schema, key):
            return choices
    kinds = schema.get("type")
    return [schema | {"type": kind} for kind in kinds] if isinstance(kinds, list) else None


def _union(types: list[str], anything: str) -> str:
    if anything in types:
        return anything
    return " | ".join(dict.fromkeys(types))


def _is_python_name(name: str) -> bool:
    is_word = name.isidentifier() and name.isascii() and not keyword.iskeyword(name)
    # The names of a script's `tools` that begin so do not exist, and are mangled in a class.
    return is_word and not name.startswith("_")


def _description(tool: StubTool) -> str:
    """Return the first paragraph of a description in one line, with hidden characters shown."""
    first = tool.description.strip().partition("\n\n")[0] or tool.path
    return display.shorten(display.in_line(" ".join(first.split())), 200)
