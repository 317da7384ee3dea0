"""Decorators of a toolset that keep the signature of the function that they wrap.

``functools.wraps`` sets ``__wrapped__``, which ``inspect.signature`` follows, and so does a call of a tool.  The two usual
forms are read, in whichever module of the toolset they are::

    def logged(function):                    def retried(times):
        @functools.wraps(function)               def decorate(function):
        def wrapper(*args, **kwargs):                @functools.wraps(function)
            ...                                      def wrapper(*args, **kwargs):
        return wrapper                                   ...
                                                     return wrapper
                                                 return decorate

They have no other statement, which could give the function another signature, or ``@tool(requires_confirmation=True)``,
and the wrapper has no other parameter, whose default would replace that of the function.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from covalt_git.python_reader.modules import ModuleMember

if TYPE_CHECKING:
    from covalt_git.python_reader.modules import Module, Modules
    from covalt_git.python_reader.names import FunctionNode


def keeps_signature(decorator: ast.expr, module: Module, modules: Modules) -> bool:
    """Return whether an expression in a module is surely a decorator of the toolset that keeps signatures."""
    call = decorator if isinstance(decorator, ast.Call) else None
    member = modules.resolve(call.func if call else decorator, module)
    if not isinstance(member, ModuleMember) or not isinstance(member.node, ast.FunctionDef):
        return False
    (binding,) = member.module.names.bindings[member.name]  # of several, it names none
    if not binding.certain or member.node.decorator_list:
        return False
    if call is None:
        return _wraps(member.node, member.module, modules, _local_names(member.node))
    made = _returned(member.node)
    if not isinstance(made, ast.FunctionDef) or made.decorator_list:
        return False
    return _wraps(made, member.module, modules, _local_names(member.node) | _local_names(made))


def _wraps(node: ast.FunctionDef, module: Module, modules: Modules, shadowed: set[str]) -> bool:
    """Return whether a function returns a wrapper of its only argument.

    ``shadowed`` are the local names that hide those of the module.
    """
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args]
    others = arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults
    wrapper = _returned(node)
    if len(named) != 1 or others or wrapper is None or len(wrapper.decorator_list) != 1:
        return False
    if not _passes_all(wrapper.args):
        return False
    match wrapper.decorator_list[0]:
        case ast.Call(func=function, args=[ast.Name(id=wrapped)], keywords=[]):
            root = function
            while isinstance(root, ast.Attribute):
                root = root.value
            is_of_module = isinstance(root, ast.Name) and root.id not in shadowed
            of_library = is_of_module and modules.resolve(function, module) == "functools.wraps"
            return of_library and wrapped == named[0].arg
    return False


def _passes_all(arguments: ast.arguments) -> bool:
    """Return whether a wrapper takes ``*args, **kwargs`` only: a parameter of its own has a default of its own."""
    own = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return not own and arguments.vararg is not None and arguments.kwarg is not None


def _returned(node: ast.FunctionDef) -> FunctionNode | None:
    """Return the function that a function defines and returns; None if it has other statements."""
    statements = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    match statements:
        case [ast.FunctionDef() | ast.AsyncFunctionDef() as made, ast.Return(ast.Name(id=name))]:
            return made if made.name == name else None
    return None


def _local_names(node: ast.FunctionDef) -> set[str]:
    """Return the names of a function's arguments, and of the functions in it."""
    return {
        part.arg if isinstance(part, ast.arg) else part.name
        for part in ast.walk(node)
        if isinstance(part, (ast.arg, ast.FunctionDef, ast.AsyncFunctionDef)) and part is not node
    }
