"""What the text of a script says before it runs: the calls in it, and Python that its interpreter lacks.

Only what is certain is reported.  A call whose path is computed is left out, and its arguments are unknown unless all
their names are literal.  Errors of the syntax are the interpreter's: see ``checks`` of :class:`.process.ScriptProcess`.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.runtime.scripts.steps import ScriptLanguage

_MODULES: Final = (
    "asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib itertools json math "
    "os pathlib posixpath random re sys time tomllib typing unicodedata"
)
MODULES: Final = frozenset(_MODULES.split())
"""The modules that scripts in Python can import, in the versions of constraints.txt."""


class LiteralCall(NamedTuple):
    """A call in the text of a script; line and column count from 1."""

    path: str
    line: int
    col: int
    arguments: tuple[str, ...] | None
    """The names of all its arguments; None if they are computed."""


class UnsupportedPython(NamedTuple):
    """What the interpreter of Python lacks; line and column count from 1."""

    message: str
    line: int
    col: int


class Analysis(NamedTuple):
    """The calls of a script, and what its interpreter lacks, in the order of the text."""

    calls: tuple[LiteralCall, ...] = ()
    unsupported: tuple[UnsupportedPython, ...] = ()


def analyze(text: str, language: ScriptLanguage) -> Analysis:
    """Return what is certain about a script; nothing for a text that this version of Python cannot parse."""
    if language == "javascript":
        return Analysis(tuple(_javascript_calls(text)))
    try:
        # A text can be nested more deeply than the parser or the walk can follow.
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        calls = [] if _is_rebound(nodes) else [*_python_calls(nodes, text)]
        lacking = [*_lacking(nodes, text)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Analysis()
    return Analysis(
        tuple(sorted(calls, key=lambda call: call[1:3])),
        tuple(sorted(lacking, key=lambda item: item[1:3])),
    )


def _is_rebound(nodes: list[ast.AST]) -> bool:
    """Return whether a script gives the name ``tools`` another meaning anywhere."""
    for node in nodes:
        match node:
            case ast.Name(id="tools", ctx=ast.Store() | ast.Del()) | ast.arg(arg="tools"):
                return True
            case (
                ast.FunctionDef(name="tools")
                | ast.AsyncFunctionDef(name="tools")
                | ast.ClassDef(name="tools")
                | ast.ExceptHandler(name="tools")
                | ast.MatchAs(name="tools")
                | ast.MatchStar(name="tools")
                | ast.MatchMapping(rest="tools")
            ):
                return True
            case ast.alias(name=name, asname=other) if (other or name.partition(".")[0]) in {
                "tools",
                "*",
            }:
                return True
    return False


def _python_calls(nodes: list[ast.AST], text: str) -> Iterator[LiteralCall]:
    lines = text.splitlines()
    for node in nodes:
        if isinstance(node, ast.Call) and (path := _path(node.func)):
            yield LiteralCall(path, node.lineno, _col(node, lines), _names(node))


def _path(function: ast.expr) -> str:
    names: list[str] = []
    while isinstance(function, ast.Attribute):
        names.append(function.attr)
        function = function.value
    is_tools = isinstance(function, ast.Name) and function.id == "tools"
    return ".".join(reversed(names)) if is_tools else ""


def _names(call: ast.Call) -> tuple[str, ...] | None:
    """Return the names of the arguments of a call, if all are literal."""
    names: list[str] = []
    if len(call.args) > 1:
        return None
    for argument in call.args:
        if not isinstance(argument, ast.Dict):
            return None
        for key in argument.keys:
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            names.append(key.value)
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        names.append(keyword.arg)
    return tuple(dict.fromkeys(names))


_LACKING: Final[dict[str, str]] = {
    "Delete": "the statement `del`",
    "Yield": "generators (`yield`)",
    "YieldFrom": "generators (`yield from`)",
    "AsyncFor": "`async for`",
    "AsyncWith": "`async with`",
    "TryStar": "`except*`",
    "TypeAlias": "the statement `type`",
    "TemplateStr": "template strings",
}
"""The nodes of ``ast`` that the interpreter refuses, also those of later versions of Python."""


def _lacking(nodes: list[ast.AST], text: str) -> Iterator[UnsupportedPython]:
    lines = text.splitlines()
    for node, what in _lacking_nodes(nodes):
        message = f"scripts in Python cannot use {what}"
        yield UnsupportedPython(message, node.lineno, _col(node, lines))


def _lacking_nodes(nodes: list[ast.AST]) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield what the interpreter lacks, and its name."""
    for node in nodes:
        kind = type(node).__name__
        match node:
            case ast.stmt() | ast.expr() if kind in _LACKING:
                yield node, _LACKING[kind]
            case ast.ClassDef():
                if node.bases or node.keywords:
                    yield node, "inheritance and metaclasses"
                for item in node.body:
                    if isinstance(item, ast.ClassDef):
                        yield item, "classes in classes"
                    elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield from ((mark, "decorators of methods") for mark in item.decorator_list)
            case ast.comprehension(is_async=1):
                yield node.target, "asynchronous comprehensions"
            case ast.Import():
                for name in node.names:
                    if name.name.partition(".")[0] not in MODULES:
                        yield node, f"the module {name.name!r}"
            case ast.ImportFrom():
                if node.level:
                    yield node, "relative imports"
                elif (node.module or "").partition(".")[0] not in MODULES:
                    yield node, f"the module {node.module!r}"
                elif node.names[0].name == "*":
                    yield node, "`import *`"


def _col(node: ast.expr | ast.stmt, lines: list[str]) -> int:
    """Return the column of a node in characters, from 1; ``ast`` counts bytes."""
    line = lines[node.lineno - 1] if node.lineno <= len(lines) else ""
    return len(line.encode()[: node.col_offset].decode("utf-8", "ignore")) + 1


_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n\r\u2028\u2029]*|/\*.*?\*/)
    | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<template>`(?:\\.|[^`\\])*`)
    """,
    re.VERBOSE | re.DOTALL,
)
_CALL = re.compile(r"(?<![\w$.#])tools((?:\s*\.\s*[A-Za-z_$][\w$]*)+)\s*\(")
_TOOLS = re.compile(r"(?<![\w$])tools(?![\w$])")
_USE = re.compile(r"\s*\.\s*[A-Za-z_$]")
_KEY = re.compile(r"\s*(?:([A-Za-z_$][\w$]*)|\"([^\"\\]*)\"|'([^'\\]*)')\s*(?=([:,}]))")
_BEGIN, _END = re.compile(r"\s*(.)"), re.compile(r"\s*\}\s*\)")
_OPEN, _CLOSE = "([{", ")]}"


def _javascript_calls(text: str) -> Iterator[LiteralCall]:
    """Yield the calls of a script in JavaScript.

    There is no parser of JavaScript here.  So a text with regular expressions, with code in templates, or with another
    meaning of ``tools`` has no certain calls.
    """
    code = _TOKEN.sub(lambda token: _blank(token[0]), text)
    # A `/` outside of comments divides or begins a regular expression, which could contain anything.  A backslash spells a
    # name, and the last two are comments too.
    templates = (token["template"] or "" for token in _TOKEN.finditer(text))
    if any(mark in code for mark in ("/", "`", "\\", "<!--", "-->")) or any(
        "${" in template for template in templates
    ):
        return
    # Each `tools` begins a path: so none is declared, assigned, passed on or a key.
    if not all(_USE.match(code, name.end()) for name in _TOOLS.finditer(code)):
        return
    for call in _CALL.finditer(code):
        path = re.sub(r"\s", "", call[1]).removeprefix(".")
        line = text.count("\n", 0, call.start()) + 1
        col = call.start() - text.rfind("\n", 0, call.start())
        yield LiteralCall(path, line, col, _keys(text, code, call.end()))


def _blank(token: str) -> str:
    """Return a token without its content, and with its lines and its length."""
    inner = re.sub(r"[^\n]", " ", token[1:-1])
    return f"{token[0]}{inner}{token[-1]}" if token[0] in "\"'" else re.sub(r"[^\n]", " ", token)


def _keys(text: str, code: str, at: int) -> tuple[str, ...] | None:
    """Return the keys of the object that begins an argument list, if all are literal and nothing follows it."""
    rest = _BEGIN.match(code, at)
    if rest is None or rest[1] not in "{)":
        return None
    if rest[1] == ")":
        return ()
    names: list[str] = []
    at = rest.end()
    while True:
        if _END.match(code, at):
            return tuple(dict.fromkeys(names))
        key = _KEY.match(code, at)
        if key is None:
            return None
        group = next(number for number in (1, 2, 3) if key[number] is not None)
        name = text[key.start(group) : key.end(group)]
        if "\\" in name:
            return None
        names.append(name)
        at = key.end()
        if key[4] == ":":
            end_at = _end_of_value(code, at + 1)
            if end_at is None:
                return None
            at = end_at
        if code[at] == ",":
            at += 1


def _end_of_value(code: str, at: int) -> int | None:
    """Return where the value of a key ends: at the next comma or brace outside of brackets."""
    depth = 0
    for place in range(at, len(code)):
        char = code[place]
        if depth == 0 and char in ",}":
            return place
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth < 0:
            return None
    return None
