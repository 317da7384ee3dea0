"""Names and constants of a Python module, resolved without running it.

A name is unknown if it is bound more than once, or depends on code that runs.  Callers must treat an unknown
name as any possible value.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.json_values import canonical_json
from covalt_git.python_reader.imports import imports_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.python_reader.imports import ImportStatement

TYPE_ALIAS: Final[type | tuple[()]] = getattr(ast, "TypeAlias", ())
"""The node of ``type X = ...``, which Python has since 3.12."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_CANONICAL_MODULES = {
    "collections.abc": "typing",
    "covalt_toolset.decorator": "covalt_toolset",
    **dict.fromkeys(
        (
            *("pydantic.class_validators", "pydantic.deprecated.class_validators"),
            *("pydantic.config", "pydantic.fields", "pydantic.functional_serializers"),
            *("pydantic.functional_validators", "pydantic.networks", "pydantic.root_model"),
            "pydantic.types",
        ),
        "pydantic",
    ),
    "pydantic.main": "pydantic",
    "typing_extensions": "typing",
}
"""Modules whose names are treated as those of another module."""


class UnknownError(Exception):
    """Value that cannot be known without running the module; callers accept any value instead.

    Its text, if it has one, is what the source says that cannot be read, such as a setting of a model.
    """


class NotedError(UnknownError):
    """Class that cannot be read, for a reason that is noted at its definition."""


class Binding(NamedTuple):
    """Statement that binds a name.

    Attributes:
        origin: for an import, the dotted name of the imported object.
        node: for a function or class its definition, for ``name = value`` the value.
        certain: false inside ``if``, ``try`` and the like, which may not run.
    """

    origin: str | None = None
    node: ast.AST | None = None
    certain: bool = True


class ModuleNames(NamedTuple):
    """All bindings of a module's top level, by name."""

    bindings: Mapping[str, tuple[Binding, ...]]
    stars: tuple[str, ...] = ()
    """Modules of ``from module import *``, as they are written."""

    imports: tuple[ImportStatement, ...] = ()
    """The imports of the module at any depth."""

    @property
    def has_star(self) -> bool:
        """Whether the module may bind every name."""
        return bool(self.stars)

    def origin(self, expression: ast.expr) -> str | None:
        """Return the dotted name of the object that ``a`` or ``a.b.c`` refers to, or None if unknown."""
        attributes = []
        while isinstance(expression, ast.Attribute):
            attributes.append(expression.attr)
            expression = expression.value
        base = self._root_origin(expression.id) if isinstance(expression, ast.Name) else None
        return canonical(".".join([base, *reversed(attributes)])) if base else None

    def _root_origin(self, name: str) -> str | None:
        if bound := self.bindings.get(name):
            first = bound[0].origin
            return first if all(binding.origin == first for binding in bound) else None
        if self.has_star or not hasattr(builtins, name):
            return None
        return f"builtins.{name}"

    def definition(self, name: str) -> ast.AST | None:
        """Return the node of a name with exactly one binding, or None."""
        bound = self.bindings.get(name, ())
        return bound[0].node if len(bound) == 1 else None

    def functions(self, name: str) -> list[FunctionNode]:
        """Return all possible definitions of a function; an empty list if unknown."""
        candidates: list[Binding] = []
        for binding in self.bindings.get(name, ()):
            # A definition that surely runs replaces all earlier ones.
            candidates = [binding] if binding.certain else [*candidates, binding]
        nodes = [binding.node for binding in candidates if isinstance(binding.node, FunctionNode)]
        return nodes if len(nodes) == len(candidates) else []


def literal(expression: ast.expr) -> Any:
    """Return the JSON value of a literal; a tuple becomes a list.

    Raises:
        UnknownError: if the expression is not a literal, or its value not JSON.
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
    """Return whether a constant is JSON, by a quick check that is false for some rare JSON values."""
    if type(value) is int:
        return -canonical_json.MAX_EXACT_INTEGER <= value <= canonical_json.MAX_EXACT_INTEGER
    return isinstance(value, bool | None) or (isinstance(value, str) and value.isascii())


def _json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return value


def read_names(module: ast.Module) -> ModuleNames:
    """Return the bindings of a module's top level, in the order of its text."""
    bindings: dict[str, list[Binding]] = {}
    stars: list[str] = []
    for name, binding in _module_bindings(module):
        if name == "*":
            stars.append((binding.origin or "").removesuffix("*"))
        else:
            bindings.setdefault(name, []).append(binding)
    for node in _statements(module):
        if isinstance(node, ast.Global):  # a call of the function may bind these names
            for name in node.names:
                bindings.setdefault(name, []).append(Binding(certain=False))
    bound_names = {name: tuple(bound) for name, bound in bindings.items()}
    return ModuleNames(bound_names, tuple(stars), imports_of(module))


def _statements(module: ast.Module) -> Iterator[ast.AST]:
    """Yield all statements at any depth; expressions contain no statements."""
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, block, ())
            pending += inner if isinstance(inner, list) else ()


def _module_bindings(module: ast.Module) -> Iterator[tuple[str, Binding]]:
    """Yield all bindings, without recursion: hostile source may be nested as deeply as the parser allows."""
    # Targets of assignments that were yielded with their values.
    yielded: set[ast.AST] = set()
    pending: list[tuple[ast.AST, bool]] = [(node, True) for node in reversed(module.body)]
    while pending:
        node, certain = pending.pop()
        if node in yielded:
            continue
        if target := _plain_target(node):
            yielded.add(target)
            yield target.id, Binding(node=getattr(node, "value", None), certain=certain)
        yield from _bindings_of(node, certain=certain)
        inner = [part for part in _scope_parts(node) if type(part) not in _LEAVES]
        if inner:
            inner_certain = certain and isinstance(node, _UNCONDITIONAL)
            pending.extend((part, inner_certain) for part in reversed(inner))


_UNCONDITIONAL = (ast.expr, ast.Assign, ast.AnnAssign, ast.Expr, ast.Delete, ast.With)
"""Nodes whose parts all run if the node runs."""

_LEAVES = frozenset({ast.Constant, ast.Load, ast.Store, ast.Del, ast.Pass, ast.alias})
"""Nodes without parts that bind no name."""


def _plain_target(node: ast.AST) -> ast.Name | None:
    """Return the target of ``name = value``, or None for other nodes."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    else:
        return None
    return target if isinstance(target, ast.Name) else None


def _bindings_of(node: ast.AST, *, certain: bool) -> Iterator[tuple[str, Binding]]:
    match node:
        case ast.Import():
            for alias in node.names:
                # "import a.b" binds a; "import a.b as c" binds a.b.
                origin = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or origin, Binding(origin=origin, certain=certain)
        case ast.ImportFrom():
            module = "." * node.level + (f"{node.module}." if node.module else "")
            for alias in node.names:
                origin = f"{module}{alias.name}"
                yield alias.asname or alias.name, Binding(origin=origin, certain=certain)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, Binding(node=node, certain=certain)
        case _ if TYPE_ALIAS and isinstance(node, TYPE_ALIAS):
            named: Any = node
            yield named.name.id, Binding(node=node, certain=certain)
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name, Binding(certain=certain)
        # A handler or a case may not run, and Python deletes the name of a handler at its end.
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name, Binding(certain=False)
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name, Binding(certain=False)


def _scope_parts(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node that are evaluated in the module's scope."""
    if TYPE_ALIAS and isinstance(node, TYPE_ALIAS):
        return []  # a scope of its own
    match node:
        case ast.Name():
            return []
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            # The body has its own scope, but `:=` in a default binds a name of the module.
            return [*node.decorator_list, node.args]
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *node.keywords]
        case ast.Lambda():
            return [node.args]
        case ast.comprehension():
            # The target is local to the comprehension; what `:=` binds in it is not.
            return [node.iter, *node.ifs]
    return list(ast.iter_child_nodes(node))


def canonical(dotted: str) -> str:
    """Return a dotted name by the module that defines it for users, such as ``typing`` for ``typing_extensions``."""
    module, _, name = dotted.rpartition(".")
    return f"{_CANONICAL_MODULES[module]}.{name}" if module in _CANONICAL_MODULES else dotted
