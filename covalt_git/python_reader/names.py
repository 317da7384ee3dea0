"""What the names and constants of a Python module stand for, as far as reading it can tell.

A name that is bound twice, or in a way that only running the module would settle, stands for
nothing known: every reader of this table has to take that answer for "could be anything".
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_HOMES = {
    "collections.abc": "typing",
    "covalt_toolset.decorator": "covalt_toolset",
    "pydantic.fields": "pydantic",
    "pydantic.main": "pydantic",
    "typing_extensions": "typing",
}
"""Modules whose names are those of a better-known one, or mean the same to us."""


class UnknownError(Exception):
    """Reading alone does not tell; whoever asked falls back to what accepts anything."""


class Binding(NamedTuple):
    """One place that gives a name its meaning.

    Attributes:
        origin: for an import, the dotted name of what it brings.
        node: for a function or class its definition, for ``name = value`` the value.
        certain: false inside ``if``, ``try`` and the like, where it may not happen.
    """

    origin: str | None = None
    node: ast.AST | None = None
    certain: bool = True


class ModuleNames(NamedTuple):
    """The names that a module binds at its top level, wherever and however often."""

    bindings: Mapping[str, tuple[Binding, ...]]
    has_star: bool

    def origin(self, expression: ast.expr) -> str | None:
        """Return the dotted name of what ``a`` or ``a.b.c`` stands for, or None where unknown."""
        attributes = []
        while isinstance(expression, ast.Attribute):
            attributes.append(expression.attr)
            expression = expression.value
        base = self._root_origin(expression.id) if isinstance(expression, ast.Name) else None
        return _at_home(".".join([base, *reversed(attributes)])) if base else None

    def _root_origin(self, name: str) -> str | None:
        if bound := self.bindings.get(name):
            first = bound[0].origin
            return first if all(binding.origin == first for binding in bound) else None
        if self.has_star or not hasattr(builtins, name):
            return None
        return f"builtins.{name}"

    def definition(self, name: str) -> ast.AST | None:
        """Return the one node that the name stands for, or None where there are more or none."""
        bound = self.bindings.get(name, ())
        return bound[0].node if len(bound) == 1 else None

    def functions(self, name: str) -> list[FunctionNode]:
        """Return every definition that the function may turn out to have, none where unknown."""
        found: list[Binding] = []
        for binding in self.bindings.get(name, ()):
            found = [binding] if binding.certain else [*found, binding]
        nodes = [binding.node for binding in found if isinstance(binding.node, FunctionNode)]
        return nodes if len(nodes) == len(found) else []


def literal(expression: ast.expr) -> Any:
    """Return the JSON value that a literal stands for, a tuple as a list.

    Raises:
        UnknownError: for everything that is no literal, or no JSON.
    """
    if isinstance(expression, ast.Constant) and _is_surely_json(expression.value):
        return expression.value
    try:
        value = _json(ast.literal_eval(expression))
        canonical_json.dumps(value)
    except (canonical_json.NotJsonError, ValueError, TypeError, SyntaxError):
        raise UnknownError from None
    return value


def _is_surely_json(value: object) -> bool:
    """Tell most constants of Python that are JSON as they are, without trying."""
    if type(value) is int:
        return -canonical_json.MAX_EXACT_INTEGER <= value <= canonical_json.MAX_EXACT_INTEGER
    return isinstance(value, bool | None) or (isinstance(value, str) and value.isascii())


def _json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return value


def read_names(module: ast.Module, source: bytes) -> ModuleNames:
    """Return what the module binds at its top level, in the order of its text.

    Its ``source`` tells whether there can be a ``:=``, the one thing within a value that binds a name.
    """
    bindings: dict[str, list[Binding]] = {}
    has_star = False
    for name, binding in _module_bindings(module, in_values=b":=" in source):
        has_star = has_star or name == "*"
        bindings.setdefault(name, []).append(binding)
    for node in _statements(module):
        if isinstance(node, ast.Global):  # a function may bind these whenever it is called
            for name in node.names:
                bindings.setdefault(name, []).append(Binding(certain=False))
    return ModuleNames({name: tuple(bound) for name, bound in bindings.items()}, has_star)


def _statements(module: ast.Module) -> Iterator[ast.AST]:
    """Yield every statement, at any depth; none stands within an expression."""
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, block, ())
            waiting += inner if isinstance(inner, list) else ()


def _module_bindings(module: ast.Module, *, in_values: bool) -> Iterator[tuple[str, Binding]]:
    """Walk without recursion: hostile source may nest as deeply as the parser allows."""
    # An assignment is told with its value and its target must not be told again without.
    told: set[ast.AST] = set()
    waiting: list[tuple[ast.AST, bool]] = [(node, True) for node in reversed(module.body)]
    while waiting:
        node, certain = waiting.pop()
        if node in told:
            continue
        if target := _plain_target(node):
            told.add(target)
            yield target.id, Binding(node=getattr(node, "value", None), certain=certain)
        yield from _bound_by(node, certain=certain)
        if not in_values and isinstance(node, _OF_VALUES):
            continue
        inner = [part for part in _inside(node) if type(part) not in _LEAVES]
        if inner:
            happens = certain and isinstance(node, _HAPPENS)
            waiting.extend((part, happens) for part in reversed(inner))


_HAPPENS = (ast.expr, ast.Assign, ast.AnnAssign, ast.Expr, ast.Delete, ast.With)
"""Where all that is within happens if it does itself."""

_OF_VALUES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Expr,
    ast.Call,
    ast.Attribute,
    ast.Subscript,
    ast.Dict,
    ast.BinOp,
    ast.JoinedStr,
)
"""What has only values within that the module's own scope sees; of most kinds, most modules have none."""

_LEAVES = frozenset({ast.Constant, ast.Load, ast.Store, ast.Del, ast.Pass, ast.alias})
"""What holds no other node, and binds no name."""


def _plain_target(node: ast.AST) -> ast.Name | None:
    """Return the name of ``name = value``, whose value is then worth reading."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    else:
        return None
    return target if isinstance(target, ast.Name) else None


def _bound_by(node: ast.AST, *, certain: bool) -> Iterator[tuple[str, Binding]]:
    match node:
        case ast.Import():
            for alias in node.names:
                # "import a.b" binds a; "import a.b as c" binds a.b.
                origin = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or origin, Binding(origin=origin, certain=certain)
        case ast.ImportFrom():
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                origin = f"{module}.{alias.name}"
                yield alias.asname or alias.name, Binding(origin=origin, certain=certain)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, Binding(node=node, certain=certain)
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name, Binding(certain=certain)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name, Binding(certain=False)
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name, Binding(certain=False)


def _inside(node: ast.AST) -> list[ast.AST]:
    """Return the parts that are evaluated in the module's own scope."""
    match node:
        case ast.Name():
            return []
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.decorator_list, node.args]
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *node.keywords]
        case ast.Lambda():
            return [node.args]
        case ast.comprehension():
            return [node.iter, *node.ifs]
    return list(ast.iter_child_nodes(node))


def _at_home(dotted: str) -> str:
    module, _, name = dotted.rpartition(".")
    return f"{_HOMES[module]}.{name}" if module in _HOMES else dotted
