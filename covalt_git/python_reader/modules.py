"""Names across the modules of one toolset, resolved without running them.

An import of a module of the toolset is followed to the class, function or value that it names, also when it is relative,
re-exported by a package, or one of ``from module import *``.  Every other import is the dotted name of something that
is not read, such as ``pydantic.BaseModel``.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from collections import OrderedDict
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.python_reader.module_text import PythonSyntaxError, parse
from covalt_git.python_reader.names import (
    FunctionNode,
    ModuleNames,
    UnknownError,
    canonical,
    literal,
    read_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_STARS = frozenset(
    {
        *("pydantic", "typing", "typing_extensions", "annotated_types", "collections.abc"),
        *("abc", "collections", "dataclasses", "datetime", "decimal", "enum", "fractions"),
        *("functools", "ipaddress", "itertools", "json", "math", "numbers", "operator", "os"),
        *("os.path", "pathlib", "random", "re", "statistics", "string", "time", "types", "uuid"),
    }
)
"""Modules outside of the toolset that are imported here for the names of ``from module import *``.

They have types that the reader knows, or are often imported so, and their import does nothing else.
"""

_MOST_MODULES = 500
"""Modules of one toolset that are read, at most: an import of a further one is unknown."""

_LONGEST_WAY = 50
"""Imports of imports that are followed, at most; each takes several calls of Python, whose stack is limited."""


@lru_cache
def _star_names(module: str) -> frozenset[str] | None:
    """Return the names that ``from module import *`` imports of a module outside of the toolset; None if unknown."""
    if module not in _READ_STARS:
        return None
    names = vars(importlib.import_module(module))
    public = [name for name in names if not name.startswith("_")]
    return frozenset(names.get("__all__", public))


class _RememberedNames:
    """Names of the modules that were read last, by their source; thread-safe.

    Other toolsets are often read between two readings of a toolset, so the modules of all of them should fit.

    Attributes:
        LEAST: number of modules that are kept, whatever their size.
        MOST_BYTES: source of further ones; a syntax tree takes forty times as much memory.
    """

    LEAST = 16
    MOST_BYTES = 512 * 1024

    def __init__(self) -> None:
        self._lock = Lock()
        self._names: OrderedDict[bytes, ModuleNames] = OrderedDict()
        self._bytes = 0

    def get(self, source: bytes) -> ModuleNames:
        """Return the names of a module; it is parsed if they are not remembered."""
        with self._lock:
            if source in self._names:
                self._names.move_to_end(source)
                return self._names[source]
        names = read_names(parse(source))  # without the lock: it may take a second
        with self._lock:
            if source not in self._names:
                self._names[source] = names
                self._bytes += len(source)
            while self._bytes > self.MOST_BYTES and len(self._names) > self.LEAST:
                oldest, _ = self._names.popitem(last=False)
                self._bytes -= len(oldest)
        return names


_NAMES = _RememberedNames()


def names_of(source: bytes) -> ModuleNames:
    """Parse a module and return its names, which callers must not change.

    Raises:
        PythonSyntaxError: if it is not Python.
    """
    return _NAMES.get(source)


class ModuleSource(NamedTuple):
    """The text of a module; ``is_package`` says whether it is an ``__init__.py``, or a folder without one."""

    source: bytes
    is_package: bool


class Module(NamedTuple):
    """A module of the toolset and the names that it binds; ``name`` is dotted, and empty for a text alone."""

    name: str
    is_package: bool
    names: ModuleNames

    def absolute(self, dotted: str) -> str | None:
        """Return the absolute name of an import: ``.models.Shape`` in ``tools.echo`` is ``tools.models.Shape``."""
        level = len(dotted) - len(dotted.lstrip("."))
        if not level:
            return dotted.removesuffix(".")
        parts = self.name.split(".")
        above = len(parts) - level + self.is_package
        if not self.name or above < 0:
            return None
        return ".".join(filter(None, [*parts[:above], *dotted[level:].split(".")]))


class ModuleMember(NamedTuple):
    """A class or a function of the toolset, or the value that is assigned to a name."""

    module: Module
    name: str
    node: ast.AST


Target = str | Module | ModuleMember | None
"""What an expression names: a dotted name of something elsewhere, a module or a definition; None if that is unknown."""


class Modules:
    """The modules of a toolset; ``load`` returns the text of one by its dotted name, or None if it has none.

    Each is parsed once.

    Attributes:
        read: the texts of the modules that were read, by their names.
        broken: the syntax errors of those that are not Python, by their names.
        asked: the names of those that were needed since it was last emptied.
    """

    def __init__(self, load: Callable[[str], ModuleSource | None] = lambda _: None) -> None:
        self._load = load
        self._known: dict[str, Module | None] = {}
        self.read: dict[str, bytes] = {}
        self.broken: dict[str, PythonSyntaxError] = {}
        self.asked: set[str] = set()
        self._resolved: dict[tuple[str, str], tuple[Target, set[str]]] = {}

    def module(self, name: str) -> Module | None:
        """Return a module of the toolset; None if it has none of this name, or one that is not Python."""
        self.asked.add(name)
        if name not in self._known:
            self._known[name] = None  # if it is not Python
            loaded = self._load(name) if len(self._known) <= _MOST_MODULES else None
            if loaded is not None:
                try:
                    self.add(name, loaded)
                except PythonSyntaxError as error:
                    self.broken[name] = error
                    return None
        return self._known[name]

    def add(self, name: str, source: ModuleSource) -> Module:
        """Parse a module and return it.

        Raises:
            PythonSyntaxError: if it is not Python.
        """
        module = Module(name, source.is_package, names_of(source.source))
        self.read[name] = source.source
        self._known[name] = module
        return module

    def resolve(self, expression: ast.AST | None, module: Module) -> Target:
        """Return what ``a`` or ``a.b.c`` names in a module; for an alias, its value is not resolved."""
        if isinstance(expression, ast.Name):
            return self._known_name(module, expression.id)
        attributes: list[str] = []
        while isinstance(expression, ast.Attribute):
            attributes.append(expression.attr)
            expression = expression.value
        if not isinstance(expression, ast.Name):
            return None
        target = self._named(module, expression.id, frozenset())
        for attribute in reversed(attributes):
            target = self._attribute(target, attribute)
        return canonical(target) if isinstance(target, str) else target

    def _known_name(self, module: Module, name: str) -> Target:
        """Return what a name means in a module, from memory if it was asked before: a signature asks for ``int`` often."""
        key = module.name, name
        if key not in self._resolved:
            # A signature is stale if one of its modules changes, so these are remembered with the name
            # (test_a_definition_names_the_modules_of_its_signature_only).
            asked, self.asked = self.asked, set()
            target = self._named(module, name, frozenset())
            self._resolved[key] = (
                canonical(target) if isinstance(target, str) else target,
                self.asked,
            )
            self.asked = asked
        target, needed = self._resolved[key]
        self.asked |= needed
        return target

    def _named(self, module: Module, name: str, asked: frozenset[tuple[str, str]]) -> Target:
        """Return what a name means in a module; ``asked`` are the names that led here, so that a circle of imports ends."""
        if (module.name, name) in asked or len(asked) > _LONGEST_WAY:
            return None
        asked |= {(module.name, name)}
        bound = module.names.bindings.get(name, ())
        if bound:
            # The branches of a `try` may import the same object, each in its way.
            origins = {binding.origin for binding in bound}
            origin = origins.pop() if len(origins) == 1 else None
            if origin is not None:
                return self._imported(module.absolute(origin), asked)
            node = bound[0].node if len(bound) == 1 else None
            return None if node is None else ModuleMember(module, name, node)
        # A later import replaces the names of an earlier one.
        for star in reversed(module.names.stars):
            if not self._star_has(module, star, name, frozenset()):
                continue
            source = self.module(module.absolute(star) or "")
            if source is not None:
                return self._named(source, name, asked)
            star_names = _star_names(star.removesuffix("."))
            return None if star_names is None else f"{star}{name}"
        return f"builtins.{name}" if hasattr(builtins, name) else None

    def unread_stars(
        self, module: Module, name: str, above: frozenset[str] = frozenset()
    ) -> list[str]:
        """Return the modules outside of the toolset of which a module imports all names, so that a name may be of any.

        ``above`` are the modules that import all names of this one, which may be a circle.
        """
        if name in module.names.bindings or module.name in above:
            return []
        stars: list[str] = []
        for star in reversed(module.names.stars):
            absolute = module.absolute(star) or star
            source = self.module(absolute)
            if source is not None:
                stars += self.unread_stars(source, name, above | {module.name})
            elif absolute not in _READ_STARS:
                stars.append(absolute)
        return stars

    def _imported(self, dotted: str | None, asked: frozenset[tuple[str, str]]) -> Target:
        """Return what an absolute dotted name imports."""
        if dotted is None:
            return None
        above, _, last = dotted.rpartition(".")
        package = self.module(above) if above else None
        if package is not None and (last in package.names.bindings or package.names.stars):
            target = self._named(package, last, asked)
            # A package that does not bind a name may have a module of it, which the built-in object must not hide.
            if target is not None and not (
                isinstance(target, str) and target.startswith("builtins.")
            ):
                return target
        module = self.module(dotted)
        if module is not None:
            return module
        # A name that no module of the toolset has is not that of another distribution, as in `tools.absent`.
        return None if self.module(dotted.partition(".")[0]) is not None else dotted

    def _attribute(self, target: Target, name: str) -> Target:
        if isinstance(target, str):
            return f"{target}.{name}"
        if isinstance(target, Module):
            return self._imported(f"{target.name}.{name}", frozenset())
        if target is not None and isinstance(target.node, ast.ClassDef):
            for node in target.node.body:
                if isinstance(node, ast.ClassDef) and node.name == name:
                    return ModuleMember(target.module, f"{target.name}.{name}", node)
        return None

    def _star_has(self, module: Module, star: str, name: str, above: frozenset[str]) -> bool:
        """Return whether ``from star import *`` in a module imports a name, or may, if ``star`` is not read."""
        source = self.module(module.absolute(star) or "")
        if source is not None:
            return self._exports(source, name, above)
        names = _star_names(star.removesuffix("."))
        return names is None or name in names

    def _exports(self, module: Module, name: str, above: frozenset[str]) -> bool:
        """Return whether ``from module import *`` imports a name.

        ``above`` are the modules that import this one in the same way, which may be a circle.
        """
        if module.name in above or len(above) > _LONGEST_WAY:
            return False
        listed = module.names.bindings.get("__all__")
        if listed is None:
            if name.startswith("_"):
                return False
            return name in module.names.bindings or any(
                self._star_has(module, star, name, above | {module.name})
                for star in module.names.stars
            )
        try:
            node = listed[0].node if len(listed) == 1 else None
            names = literal(node) if isinstance(node, ast.expr) else None
        except UnknownError:
            names = None
        # A computed list may have every name; the module then decides whether it has it.
        return name in names if isinstance(names, list) else name in module.names.bindings


def function_of(modules: Modules, module: Module, name: str) -> ModuleMember | None:
    """Return the function that a module imports under a name from another one of the toolset, if that is certain."""
    bound = module.names.bindings.get(name, ())
    if len(bound) != 1 or not bound[0].certain or bound[0].origin is None:
        return None
    member = modules.resolve(ast.Name(name), module)
    if isinstance(member, ModuleMember) and isinstance(member.node, FunctionNode):
        return member
    return None
