"""Digest of the source that decides about a parameter: its annotation and default, and all definitions that these name."""

from __future__ import annotations

import ast
import hashlib
from typing import TYPE_CHECKING, Final

from covalt_git.python_reader.modules import Module, ModuleMember
from covalt_git.python_reader.names import UnknownError
from covalt_git.python_reader.reader import parse_quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.python_reader.modules import Modules

_MOST_DEFINITIONS: Final = 500
_LONGEST_QUOTE: Final = 200


def digest_of(parts: Iterable[ast.AST | None], module: Module, modules: Modules) -> str:
    """Return a digest of parts of a module and of the definitions of the toolset that they reach.

    It is the same for the same code, wherever it is and however it is laid out.
    """
    pending = [(part, module) for part in parts if part is not None]
    reached = {id(part) for part, _ in pending}
    digest = hashlib.sha256()
    while pending and len(reached) < _MOST_DEFINITIONS:
        part, home = pending.pop(0)
        # Without line numbers, as moved code is no wider authority. Python allows lone surrogates in texts.
        digest.update(ast.dump(part).encode("utf-8", "surrogatepass"))
        for node, place in _named(part, home, modules):
            if id(node) not in reached:
                reached.add(id(node))
                pending.append((node, place))
    return digest.hexdigest()


def _named(part: ast.AST, module: Module, modules: Modules) -> Iterator[tuple[ast.AST, Module]]:
    """Yield the definitions that the names in a part of a module mean, with their modules."""
    waiting = [part]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                waiting += _quoted(node.value)
            elif isinstance(node, (ast.Name, ast.Attribute)):
                target = modules.resolve(node, module)
                if isinstance(target, ModuleMember):
                    yield target.node, target.module
                # Only running shows which of several bindings counts, so a change of each may change the parameter.
                elif target is None and isinstance(node, ast.Name):
                    bound = module.names.bindings.get(node.id, ())
                    yield from (
                        (binding.node, module) for binding in bound if binding.node is not None
                    )


def _quoted(text: str) -> list[ast.AST]:
    """Return the expression in quotes, if it may be a type."""
    if len(text) > _LONGEST_QUOTE:
        return []
    try:
        return [part for part in [parse_quoted(text)] if not isinstance(part, ast.Constant)]
    except UnknownError:
        return []
