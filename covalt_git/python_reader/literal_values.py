"""The literal values of Python source with their names, as documents that credentials/named_values.py reads.

A value has its name in many places: before an annotation, as the name of a parameter, in the call that reads a variable,
on the other side of a comparison.  A search in the text knows only some of them, and no prefix or bracket.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.credentials.named_values import may_announce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values.pointer import Loc

_MOST_LAYERS: Final = 100
"""Depth to which values in values have the name around them; Python's own stack ends soon after it."""

_VARIABLE_OF_A_KEY: Final = re.compile(r"[A-Z][A-Z0-9_]*(?:KEYS?|PASS|PWD)")
_NAME_IN_A_CALL: Final = re.compile(r"[\w.:/ -]{1,100}")


class LiteralDocument(NamedTuple):
    """A JSON document of literal values, with null in place of each other value, and the nodes by their places in it."""

    data: Any
    nodes: dict[Loc, ast.expr]


def literal_documents(tree: ast.Module) -> Iterator[LiteralDocument]:
    """Yield the literal values of a module with their names, each once."""
    reader = _Reader()
    reader.waiting.append(tree)
    while reader.waiting:
        node = reader.waiting.pop()
        if isinstance(node, ast.expr):
            yield reader.document((), [node])
        else:
            for names, values in _named(node):
                yield reader.document(names, values)
            reader.waiting += _unnamed(node)


def _named(node: ast.AST) -> Iterator[tuple[tuple[str, ...], list[ast.expr]]]:
    """Yield the values of a statement that have names."""
    match node:
        case ast.Assign(
            targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)],
            value=ast.Tuple(elts=values) | ast.List(elts=values),
        ) if len(targets) == len(values):
            pairs = zip(targets, values, strict=True)
            yield from ((_names(target), [value]) for target, value in pairs)
        case ast.Assign(targets=targets, value=value):
            yield tuple(name for target in targets for name in _names(target)), [value]
        case ast.AnnAssign(target=target, value=value, annotation=annotation):
            yield _names(target), [annotation] if value is None else [annotation, value]
        case ast.AugAssign(target=target, value=value):
            yield _names(target), [value]
        case ast.keyword(arg=str(name), value=value):
            yield (name,), [value]
        case ast.arguments():
            yield from _parameters(node)
        case ast.Match(subject=subject, cases=cases):
            patterns = [part for case in cases for part in ast.walk(case.pattern)]
            values = [part.value for part in patterns if isinstance(part, ast.MatchValue)]
            yield _names(subject), values


def _parameters(node: ast.arguments) -> Iterator[tuple[tuple[str, ...], list[ast.expr]]]:
    places = [*node.posonlyargs, *node.args]
    defaults = dict(zip(reversed(places), reversed(node.defaults), strict=False))
    defaults |= {
        argument: value
        for argument, value in zip(node.kwonlyargs, node.kw_defaults, strict=True)
        if value is not None
    }
    for argument in (*places, *node.kwonlyargs):
        values = [argument.annotation, defaults.get(argument)]
        yield (argument.arg,), [value for value in values if value is not None]


def _unnamed(node: ast.AST) -> list[ast.AST]:
    """Return the nodes of a statement that `_named` does not read."""
    match node:
        case ast.Assign(targets=targets):
            return [*targets]
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return [target]
        case ast.keyword(arg=str()) | ast.arguments():
            return []
        case ast.Match(subject=subject, cases=cases):
            return [subject, *(part for case in cases for part in (case.guard, *case.body) if part)]
    return [*ast.iter_child_nodes(node)]


def _names(node: ast.expr) -> tuple[str, ...]:
    """Return the possible names of an expression: of a variable, an attribute, a key, what a call reads."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return (name,)
        case ast.Constant(value=str(text)) if _NAME_IN_A_CALL.fullmatch(text):
            return (text,)
        case ast.Subscript(slice=ast.Constant(value=str(text))):
            return (text,)
        case ast.Subscript(value=value):
            return _last_name(value)
        case ast.NamedExpr(target=target):
            return (target.id,)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return tuple(name for part in parts for name in _last_name(part))
        case ast.Call(func=function, args=arguments):
            texts = (argument for argument in arguments if isinstance(argument, ast.Constant))
            return (*(name for text in texts for name in _names(text)), *_last_name(function))
    return ()


def _key(node: ast.expr | None) -> str | None:
    """Return the name that a key of a dictionary is or has."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bytes(content)):
            # Latin-1 has a character for each byte, so that no bytes are skipped.
            return content.decode("latin-1")
        case None:
            return None
    return next(iter(_names(node)), None)


def _last_name(node: ast.expr) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return (name,)
    return ()


class _Reader:
    """Reader of expressions, which adds the nodes that it does not read to ``waiting``."""

    def __init__(self) -> None:
        self.waiting: list[ast.AST] = []
        self._nodes: dict[Loc, ast.expr] = {}

    def document(self, names: tuple[str, ...], values: list[ast.expr]) -> LiteralDocument:
        """Return the document of values with the first of these names that announces a credential."""
        self._nodes = {}
        data = self._group(names, values, ())
        return LiteralDocument(data, self._nodes)

    def _group(self, names: tuple[str, ...], values: list[ast.expr], loc: Loc) -> Any:
        """Return values as a list; in an object with their name if one of their names announces a credential."""
        name = next(filter(_may_announce, names), None)
        keys = () if name is None else _keys(name)
        if not keys and names and not loc:
            keys = names[:1]
        inner = (*loc, *keys)
        data: Any = [self._value(value, (*inner, at)) for at, value in enumerate(values)]
        for key in reversed(keys):
            data = {key: data}
        return data

    def _value(self, node: ast.expr, loc: Loc) -> Any:
        if len(loc) > _MOST_LAYERS:
            self.waiting.append(node)
            return None
        while isinstance(node, ast.Starred | ast.Await | ast.Attribute):
            node = node.value
        match node:
            case ast.Constant(value=str() | bytes() as value):
                self._nodes[loc] = node
                return value if isinstance(value, str) else value.decode("latin-1")
            case ast.JoinedStr(values=parts):
                self.waiting += [part for part in parts if not isinstance(part, ast.Constant)]
                self._nodes[loc] = node
                return "".join(
                    str(part.value) if isinstance(part, ast.Constant) else " " for part in parts
                )
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values, loc)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return [self._value(part, (*loc, at)) for at, part in enumerate(parts)]
            case ast.BoolOp(values=parts):
                return self._group(_all_names(parts), parts, loc)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.waiting.append(test)
                return self._group(_all_names([body, orelse]), [body, orelse], loc)
            case ast.Compare(left=left, comparators=right):
                return self._group(_all_names([left, *right]), [left, *right], loc)
            case ast.BinOp():
                return self._sum(node, loc)
            case ast.NamedExpr(target=target, value=value):
                return self._group((target.id,), [value], loc)
            case ast.Call():
                return self._call(node, loc)
            # A constant in brackets is a name, as in os.environ["TOKEN"], and not a value.
            case ast.Subscript(value=value, slice=ast.Constant()):
                return [self._value(value, (*loc, 0))]
            case ast.Subscript(value=value, slice=inner):
                return [self._value(value, (*loc, 0)), self._value(inner, (*loc, 1))]
        self.waiting += ast.iter_child_nodes(node)
        return None

    def _dict(self, keys: list[ast.expr | None], values: list[ast.expr], loc: Loc) -> Any:
        data: dict[str, Any] = {}
        for key, value in zip(keys, values, strict=True):
            name = _key(key)
            if name is None:
                self.waiting += [value] if key is None else [key, value]
            elif name in data:  # a value that another one replaces is in the file too
                self.waiting.append(ast.keyword(arg=name, value=value))
            else:
                data[name] = self._value(value, (*loc, name))
        return data

    def _sum(self, node: ast.BinOp, loc: Loc) -> Any:
        """Return the text of `"a" + "b"`; of other operations the operands."""
        parts: list[ast.expr] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):  # long sums are deeper than Python's stack
            parts.append(left.right)
            left = left.left
        parts = [left, *reversed(parts)]
        if all(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts):
            self._nodes[loc] = node
            return "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
        return self._group(_all_names(parts), parts, loc)

    def _call(self, node: ast.Call, loc: Loc) -> Any:
        function = node.func
        parts: list[ast.expr] = [*node.args]
        if isinstance(function, ast.Attribute):
            parts.append(function.value)
        elif not isinstance(function, ast.Name):
            parts.append(function)
        keywords = [keyword for keyword in node.keywords if keyword.arg is not None]
        parts += [keyword.value for keyword in node.keywords if keyword.arg is None]
        if keywords:
            names = [ast.Constant(str(keyword.arg)) for keyword in keywords]
            parts.append(ast.Dict([*names], [keyword.value for keyword in keywords]))
        named = (*_all_names(node.args), *_last_name(function))
        return self._group(named, parts, loc)


def _all_names(nodes: list[ast.expr]) -> tuple[str, ...]:
    return tuple(name for node in nodes for name in _names(node))


def _may_announce(name: str) -> bool:
    return may_announce(name) or _VARIABLE_OF_A_KEY.fullmatch(name) is not None


def _keys(name: str) -> tuple[str, ...]:
    """Return the keys that lead to a value with a name; the variable of a key is that of a connection."""
    return ("env", name) if _VARIABLE_OF_A_KEY.fullmatch(name) else (name,)
