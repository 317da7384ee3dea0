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
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.python_reader.modules import ModuleMember

if TYPE_CHECKING:
    from covalt_git.python_reader.modules import Module, Modules
    from covalt_git.python_reader.names import FunctionNode

_READING = frozenset({"copy", "get", "items", "keys", "values"})
"""Methods of a dict that do not change it."""


class _Wrapping(NamedTuple):
    """The function that wraps its only argument, its module, and the local names that hide those of the module."""

    node: ast.FunctionDef
    module: Module
    shadowed: set[str]


def keeps_signature(decorator: ast.expr, module: Module, modules: Modules) -> bool:
    """Return whether an expression in a module is surely a decorator of the toolset that keeps signatures."""
    wrapping = _wrapping(decorator, module, modules)
    if wrapping is None:
        return False
    wrapped, wrapper = _wrapper(wrapping.node)
    if wrapper is None or len(wrapper.decorator_list) != 1 or not _passes_all(wrapper.args):
        return False
    match wrapper.decorator_list[0]:
        case ast.Call(func=function, args=[ast.Name(id=name)], keywords=[]):
            root = function
            while isinstance(root, ast.Attribute):
                root = root.value
            is_of_module = isinstance(root, ast.Name) and root.id not in wrapping.shadowed
            origin = modules.resolve(function, wrapping.module) if is_of_module else None
            return origin == "functools.wraps" and name == wrapped
    return False


def passes_on(decorator: ast.expr, module: Module, modules: Modules) -> bool:
    """Return whether the wrapper of a decorator that keeps signatures surely passes its arguments on as they are.

    A call passes them by name, so that ``function(**kwargs)`` does too.
    """
    wrapping = _wrapping(decorator, module, modules)
    wrapped, wrapper = _wrapper(wrapping.node) if wrapping else ("", None)
    if wrapper is None or wrapper.args.vararg is None or wrapper.args.kwarg is None:
        return False
    positional, by_name = wrapper.args.vararg.arg, wrapper.args.kwarg.arg
    parts = [part for statement in wrapper.body for part in ast.walk(statement)]
    calls = [part for part in parts if isinstance(part, ast.Call)]
    passing = [
        call
        for call in calls
        # `asyncio.to_thread(function, ...)` passes them on too (test_a_wrapper_that_passes_its_arguments_on_is_read).
        if any(_is(value, wrapped) for value in (call.func, *call.args[:1]))
        and all(_is(value, wrapped, positional) for value in call.args)
        and [keyword.arg for keyword in call.keywords] == [None]
        and _is(call.keywords[0].value, by_name)
    ]
    read = [part for part in parts if isinstance(part, ast.Attribute) and _is(part.value, wrapped)]
    uses = sum(_is(part, wrapped) for part in parts if isinstance(part, ast.Name))
    # Any other use, such as an assignment to a name, may lead to a call with other arguments.
    return uses == len(passing) + len(read) and not any(
        _changes(part, by_name, positional) for part in parts
    )


def _is(value: ast.AST, *names: str) -> bool:
    value = value.value if isinstance(value, ast.Starred) else value
    return isinstance(value, ast.Name) and value.id in names


def _changes(part: ast.AST, by_name: str, positional: str) -> bool:
    """Return whether a part of a wrapper binds its arguments anew, or changes the dict of them."""
    match part:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return name in {by_name, positional}
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name == by_name
        case ast.Attribute(value=ast.Name(id=name), attr=method):
            return name == by_name and method not in _READING
    return False


def bare_wrapper(decorator: ast.expr, module: Module, modules: Modules) -> FunctionNode | None:
    """Return the wrapper without decorators that a decorator of the toolset surely returns; a call sees its signature."""
    wrapping = _wrapping(decorator, module, modules)
    wrapper = _wrapper(wrapping.node)[1] if wrapping else None
    return wrapper if wrapper is not None and not wrapper.decorator_list else None


def _wrapping(decorator: ast.expr, module: Module, modules: Modules) -> _Wrapping | None:
    """Return the function of the toolset that surely is called with the decorated one."""
    call = decorator if isinstance(decorator, ast.Call) else None
    member = modules.resolve(call.func if call else decorator, module)
    if not isinstance(member, ModuleMember) or not isinstance(member.node, ast.FunctionDef):
        return None
    (binding,) = member.module.names.bindings[member.name]  # of several, it names none
    if not binding.certain or member.node.decorator_list:
        return None
    if call is None:
        return _Wrapping(member.node, member.module, _local_names(member.node))
    inner = _returned(member.node)
    if not isinstance(inner, ast.FunctionDef) or inner.decorator_list:
        return None
    # A parameter called functools hides the module (test_a_factory_that_shadows_functools_is_not_read).
    shadowed = _local_names(member.node) | _local_names(inner)
    return _Wrapping(inner, member.module, shadowed)


def _wrapper(node: ast.FunctionDef) -> tuple[str, FunctionNode | None]:
    """Return the name of the only argument of a function, and the wrapper of it that it returns."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args]
    others = arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults
    return (named[0].arg, _returned(node)) if len(named) == 1 and not others else ("", None)


def _passes_all(arguments: ast.arguments) -> bool:
    """Return whether a wrapper takes ``*args, **kwargs`` only: a parameter of its own has a default of its own."""
    own = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return not own and arguments.vararg is not None and arguments.kwarg is not None


def _returned(node: ast.FunctionDef) -> FunctionNode | None:
    """Return the function that a function defines and returns; None if it has other statements."""
    statements = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    match statements:
        case [ast.FunctionDef() | ast.AsyncFunctionDef() as inner, ast.Return(ast.Name(id=name))]:
            return inner if inner.name == name else None
    return None


def _local_names(node: ast.FunctionDef) -> set[str]:
    """Return the names of a function's arguments, and of the functions in it."""
    return {
        part.arg if isinstance(part, ast.arg) else part.name
        for part in ast.walk(node)
        if isinstance(part, (ast.arg, ast.FunctionDef, ast.AsyncFunctionDef)) and part is not node
    }
