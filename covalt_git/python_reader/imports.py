"""Import statements of a module at any depth: also in functions, in branches and in ``try``."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ImportedName(NamedTuple):
    """A name of ``from module import name``, and its place: the line from 1, the column in bytes from 0."""

    name: str
    line: int
    column: int


class ImportStatement(NamedTuple):
    """An import of one module.

    Attributes:
        module: its dotted name as it is written, with the dots of a relative import.
        names: the names of a ``from`` import.
        line: the line of the statement, from 1.
        column: the column of the statement in bytes, from 0.
        conditional: whether it may not run although its function or module does, as in ``if``.
        catches_import_error: whether a ``try`` around it catches the error of a module or name that does not exist.
        catches_syntax_error: whether a ``try`` around it catches the error of a module that is not Python.
    """

    module: str
    names: tuple[ImportedName, ...]
    line: int
    column: int
    conditional: bool
    catches_import_error: bool
    catches_syntax_error: bool


class _Surroundings(NamedTuple):
    """What is around a statement, in the meaning of :class:`ImportStatement`."""

    conditional: bool = False
    catches_import_error: bool = False
    catches_syntax_error: bool = False

    def caught(self, exceptions: Iterable[ast.expr | None]) -> _Surroundings:
        """Return the surroundings of a block whose exceptions of these types are caught."""
        types = [kind for exception in exceptions for kind in _classes(exception)]
        return _Surroundings(
            self.conditional,
            self.catches_import_error
            or any(
                issubclass(ImportError, kind) or issubclass(kind, ImportError) for kind in types
            ),
            self.catches_syntax_error or any(issubclass(SyntaxError, kind) for kind in types),
        )


def imports_of(module: ast.Module) -> tuple[ImportStatement, ...]:
    """Return the imports in the order of the text; without recursion, as hostile source may be nested deeply."""
    statements: list[ImportStatement] = []
    pending: list[tuple[ast.AST, _Surroundings]] = [(module, _Surroundings())]
    while pending:
        node, around = pending.pop()
        if isinstance(node, ast.Import):
            statements += [
                ImportStatement(alias.name, (), alias.lineno, alias.col_offset, *around)
                for alias in node.names
            ]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(
                ImportedName(alias.name, alias.lineno, alias.col_offset) for alias in node.names
            )
            dotted = "." * node.level + (node.module or "")
            statements.append(ImportStatement(dotted, names, node.lineno, node.col_offset, *around))
        else:
            pending += reversed([*_blocks(node, around)])
    return tuple(statements)


def _blocks(node: ast.AST, around: _Surroundings) -> Iterator[tuple[ast.AST, _Surroundings]]:
    """Yield the statements in a statement with what is around each; expressions contain no import."""
    maybe = around._replace(conditional=True)
    match node:
        case ast.Try() | ast.TryStar():
            tried = around.caught(handler.type for handler in node.handlers)
            yield from ((inner, tried) for inner in node.body)
            # A handler runs only after an exception, and `else` only without one.
            yield from ((inner, maybe) for handler in node.handlers for inner in handler.body)
            yield from ((inner, maybe) for inner in node.orelse)
            yield from ((inner, around) for inner in node.finalbody)
        case ast.With() | ast.AsyncWith():
            inside = around.caught(
                exception
                for item in node.items
                if isinstance(item.context_expr, ast.Call)
                and _last_name(item.context_expr.func) == "suppress"
                for exception in item.context_expr.args
            )
            yield from ((inner, inside) for inner in node.body)
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
            yield from ((inner, maybe) for inner in (*node.body, *node.orelse))
        case ast.Match():
            yield from ((inner, maybe) for case in node.cases for inner in case.body)
        case ast.Module() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield from ((inner, around) for inner in node.body)


def _classes(exception: ast.expr | None) -> list[type[BaseException]]:
    """Return the classes that a handler names; that of any exception for what only running shows."""
    if isinstance(exception, ast.Tuple):
        return [kind for part in exception.elts for kind in _classes(part)]
    kind: object = getattr(builtins, _last_name(exception), None)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return [kind]
    return [BaseException]


def _last_name(expression: ast.expr | None) -> str:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
