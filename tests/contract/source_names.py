"""Names that only the source has: error codes, environment variables, refs and trailers."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
_FOLDERS = ("covalt_git", "covalt_toolset", "server/covalt_server")
_CODE = re.compile(r"[a-z][a-z0-9]*(?:_(?:[a-z0-9]+|\*))*")
_LIMIT = re.compile(r"limit_[a-z]+")
_VARIABLE = re.compile(r"(?:COVALT|GIT|XDG)_[A-Z_]+")
_SEARCHED = (
    *(ast.AnnAssign, ast.Assign, ast.Call, ast.ClassDef, ast.Constant, ast.Dict),
    *(ast.FunctionDef, ast.Subscript, ast.keyword),
)
_GIT_NAME = re.compile(r"refs/covalt/[a-z]+/?|Covalt(?:-[A-Z][a-z]+)+")


def source_nodes() -> list[ast.AST]:
    """Return those nodes of the syntax trees of all product modules in which the functions below search."""
    files = (path for folder in _FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))
    trees = (ast.parse(path.read_bytes()) for path in files)
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, _SEARCHED)]


def error_codes(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield each text that is assigned, annotated or passed as ``code``, or is the value of ``error``.

    Where a part of it is computed, ``*`` takes its place.
    """
    for text in _code_texts(nodes):
        if _CODE.fullmatch(text):
            yield text
    for call in _calls(nodes, {"UnknownNameError": 0}):
        yield from (f"unknown_{kind.replace(' ', '_')}" for kind in _texts(call))


def _code_texts(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name("code" | "Reason")], value=value):
                yield from _texts(value)
            case ast.Assign(targets=[ast.Attribute(attr="code")], value=value):
                yield from _texts(value)
            case ast.AnnAssign(target=ast.Name("code"), annotation=annotation, value=value):
                yield from (*_texts(annotation), *_texts(value))
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "error":
                        yield from _texts(value)
            case ast.keyword(arg="error", value=value):
                yield from _texts(value)
            case ast.Constant(value=str(text)) if _LIMIT.fullmatch(text):
                yield text  # functions return the limit that was exceeded
    for value in _calls(nodes, _positions("code", nodes), keyword="code"):
        yield from _texts(value)


def environment_variables(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the variables that are read from or written to ``os.environ``, and all variables of covalt-git."""
    settings = {
        id(node.slice)  # keys of Flask's configuration look like variables
        for node in nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "config"
    }
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(str(name))):
                yield name
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr="environ")),
                args=[ast.Constant(str(name)), *_],
            ):
                yield name
            case ast.Constant(str(name)) if _VARIABLE.fullmatch(name) and id(node) not in settings:
                yield name


def keys_of_log_lines(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the names by which facts are passed to ``output.lines``."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(ast.Name("output"), "lines"), keywords=keywords):
                yield from (one.arg for one in keywords if one.arg)


def git_names(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the refs of a chat store and the trailers of its commits."""
    for node in nodes:
        match node:
            case ast.Constant(str(text)) if _GIT_NAME.fullmatch(text):
                yield text


def _positions(parameter: str, nodes: list[ast.AST]) -> dict[str, int]:
    """Return at which position functions, and classes by their ``__init__``, take a parameter."""
    found: dict[str, int] = {}
    for node in nodes:
        match node:
            case ast.ClassDef(name=name, body=body):
                inner = [(name, one) for one in body if getattr(one, "name", "") == "__init__"]
            case ast.FunctionDef(name=name) if name not in {"__init__", "command"}:
                inner = [(name, node)]  # but click's functions: they are not called by their name
            case _:
                continue
        for name, function in inner:
            assert isinstance(function, ast.FunctionDef)
            names = [one.arg for one in function.args.args if one.arg not in {"self", "cls"}]
            if parameter in names:
                found[name] = names.index(parameter)
    return found


def _calls(
    nodes: list[ast.AST], takes: dict[str, int], keyword: str | None = None
) -> Iterator[ast.expr]:
    """Yield what is passed as a parameter to functions, to classes, and to the ``__init__`` of subclasses."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name)):
                yield from _arguments(node, keyword, takes.get(name))
            case ast.ClassDef(bases=[ast.Name(name), *_]) if name in takes:
                for inner in ast.walk(node):
                    match inner:
                        case ast.Call(func=ast.Attribute(ast.Call(ast.Name("super")), "__init__")):
                            yield from _arguments(inner, keyword, takes[name])


def _arguments(call: ast.Call, keyword: str | None, position: int | None) -> Iterator[ast.expr]:
    yield from (one.value for one in call.keywords if keyword and one.arg == keyword)
    if position is not None:
        yield from call.args[position : position + 1]


def _texts(value: ast.AST | None) -> Iterator[str]:
    """Yield the texts that an expression may be: one, the two of a condition, those of a ``Literal``."""
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "*" for one in parts)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_texts(body), *_texts(orelse))
        case ast.Subscript(value=ast.Name("Literal"), slice=ast.Tuple(elts=parts)):
            for part in parts:
                yield from _texts(part)
