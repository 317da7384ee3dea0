"""Modules of a toolset that its entrypoints import, directly or not, with those that are broken or missing.

No module runs: the imports are those of the source (:mod:`covalt_git.python_reader.imports`).  What only running shows
is left out, such as ``importlib.import_module``.
"""

from __future__ import annotations

import ast
import re
from enum import Flag, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.python_reader.names import UnknownError, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from covalt_git.python_reader.imports import ImportedName, ImportStatement
    from covalt_git.python_reader.module_text import PythonSyntaxError
    from covalt_git.python_reader.modules import Module, Modules

MOST_REPORTED: Final = 20
"""Number of broken modules, and of missing ones, that are returned; further ones are when these are repaired."""

_SEARCHED: Final = re.compile(
    rb"sys\s*\.\s*(?:modules|path|meta_path)|__path__|path_hooks|addsitedir|extend_path"
)
"""Source that can change which modules an import finds."""

_BOUND_BY_CODE: Final = re.compile(
    rb"\b(?:globals|locals|vars|exec|setattr|__dict__|__getattr__)\b|sys\s*\.\s*modules"
)
"""Source that can bind names of a module without a statement of its own."""

_ATTRIBUTE: Final = re.compile(rb"\.\s*([\w\x80-\xff]+)")
_SETATTR: Final = re.compile(rb"\bsetattr\b")


class _Way(Flag):
    """What an import of a module passes on to its importer; the last one always holds."""

    SYNTAX_ERROR = auto()
    """It surely runs, and lets a syntax error through."""

    IMPORT_ERROR = auto()
    """It surely runs, and lets the error of a missing module through."""

    MAYBE_IMPORT_ERROR = auto()
    """It lets the error of a missing module through if it runs."""

    ANY = auto()

    @classmethod
    def of(cls, statement: ImportStatement) -> _Way:
        way = cls.ANY
        if not statement.catches_import_error:
            way |= cls.MAYBE_IMPORT_ERROR
            way |= cls.ANY if statement.conditional else cls.IMPORT_ERROR
        if not (statement.catches_syntax_error or statement.conditional):
            way |= cls.SYNTAX_ERROR
        return way


_ALWAYS: Final = ~_Way(0)


class BrokenModule(NamedTuple):
    """A module that is not Python.

    Attributes:
        name: its dotted name.
        error: what is wrong, with its place.
        entries: the modules of entrypoints that import it, directly or not.
        certain: whether an import of it surely runs, and fails.
    """

    name: str
    error: PythonSyntaxError
    entries: tuple[str, ...]
    certain: bool


class MissingImport(NamedTuple):
    """An import of a module of the toolset, or of a name of one, that does not exist.

    Attributes:
        importer: the dotted name of the module with the import.
        line: the line of the import, from 1.
        column: its column in bytes, from 0.
        module: the dotted name of the missing module, or of the module without the name.
        name: the missing name; empty if the module does not exist.
        names: the names that the module has, if a name is missing.
        entries: the modules of entrypoints that import ``importer``, directly or not.
        certain: whether the import surely runs, and fails.
    """

    importer: str
    line: int
    column: int
    module: str
    name: str
    names: tuple[str, ...]
    entries: tuple[str, ...]
    certain: bool


class ImportGraph:
    """The modules that ``entries`` import.

    Args:
        modules: the modules of the toolset.
        entries: the dotted names of the modules of its entrypoints.
        is_own: whether imports find a top-level name in the toolset.
        exists: whether the toolset has a module or a folder with a dotted name, in whatever form.
    """

    def __init__(
        self,
        modules: Modules,
        entries: Collection[str],
        is_own: Callable[[str], bool],
        exists: Callable[[str], bool],
    ) -> None:
        self._modules = modules
        self._is_own = is_own
        self._exists = exists
        self._entries = frozenset(entries)
        self._importers: dict[str, dict[str, _Way]] = {}
        """The modules that import a module, each with all ways in which it does."""
        self._reaching: dict[tuple[str, _Way], tuple[str, ...]] = {}
        self._missing: list[MissingImport] = []
        self._read()

    def broken(self) -> list[BrokenModule]:
        """Return the modules that are not Python, in order of their names."""
        broken: list[BrokenModule] = []
        for name in sorted(self._modules.broken):
            if len(broken) < MOST_REPORTED and (entries := self._entries_of(name, _Way.ANY)):
                error = self._modules.broken[name]
                certain = error.certain and bool(self._entries_of(name, _Way.SYNTAX_ERROR))
                broken.append(BrokenModule(name, error, entries, certain))
        return broken

    def missing(self, is_pinned: Callable[[str], bool]) -> list[MissingImport]:
        """Return the imports of what does not exist; ``is_pinned`` is whether a top-level name is surely the toolset's."""
        sources = self._modules.read.values()
        if not self._missing or any(_SEARCHED.search(source) for source in sources):
            return []
        # A module may set an attribute of another one.  All names are collected once: a search for each missing name would
        # take the product of names and source.
        attributes = {name for source in sources for name in _ATTRIBUTE.findall(source)}
        any_is_set = any(_SETATTR.search(source) for source in sources)
        missing: list[MissingImport] = []
        for absent in self._missing:
            if len(missing) == MOST_REPORTED:
                break
            entries = self._entries_of(absent.importer, _Way.MAYBE_IMPORT_ERROR)
            surely = self._entries_of(absent.importer, _Way.IMPORT_ERROR)
            certain = absent.certain and bool(surely)
            is_set = absent.name and (any_is_set or absent.name.encode() in attributes)
            if entries and is_pinned(absent.module.partition(".")[0]) and not is_set:
                missing.append(absent._replace(entries=entries, certain=certain))
        return missing

    def _read(self) -> None:
        waiting = sorted(self._entries)  # the same modules are reported in each process
        reached = set(waiting)
        while waiting:
            name = waiting.pop()
            module = self._modules.module(name)
            # An import of a module imports the packages around it first.
            targets = [(package, _ALWAYS) for package in _packages(name)]
            if module is not None:
                for statement in module.names.imports:
                    way = _Way.of(statement)
                    targets += [(target, way) for target in self._targets(module, statement)]
            for target, way in targets:
                importers = self._importers.setdefault(target, {})
                importers[name] = importers.get(name, _Way.ANY) | way
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)

    def _targets(self, module: Module, statement: ImportStatement) -> Iterator[str]:
        """Yield the modules of the toolset that a statement imports, and note those that do not exist."""
        dotted = module.absolute(statement.module)
        if not dotted or not self._is_own(dotted.partition(".")[0]):
            return
        for part in (*_packages(dotted), dotted):
            if not self._exists(part):
                self._note(module, statement, part)
                return
            # A compiled module may have any names, and a broken one is reported itself.
            if self._modules.module(part) is None:
                break
        yield dotted
        if not statement.names:
            return
        package = self._modules.module(dotted)
        for imported in statement.names:
            yield from self._submodules(package, dotted, imported)
            if package is not None and self._lacks(package, imported.name):
                self._note(module, statement, dotted, imported)

    def _submodules(
        self, package: Module | None, dotted: str, imported: ImportedName
    ) -> Iterator[str]:
        """Yield the modules in a package that ``from package import name`` imports."""
        if package is None or not package.is_package:
            return
        names = _listed(package) if imported.name == "*" else [imported.name]
        for name in names:
            bound = package.names.bindings.get(name, ())
            submodule = f"{dotted}.{name}"
            # An attribute of the package comes first, but it may be the module itself: `from . import name`.
            if bound and all(package.absolute(each.origin or "") != submodule for each in bound):
                continue
            if self._exists(submodule):
                yield submodule

    def _lacks(self, module: Module, name: str) -> bool:
        """Return whether a module surely has no attribute and no module of a name."""
        if name == "*" or name.startswith("__") or module.names.has_star:
            return False
        if name in module.names.bindings or self._exists(f"{module.name}.{name}"):
            return False
        return not _BOUND_BY_CODE.search(self._modules.read[module.name])

    def _note(
        self,
        importer: Module,
        statement: ImportStatement,
        module: str,
        imported: ImportedName | None = None,
    ) -> None:
        if statement.catches_import_error:
            return
        line, column = statement.line, statement.column
        if imported is not None:
            line, column = imported.line, imported.column
        owner = self._modules.module(module) if imported is not None else None
        names = tuple(owner.names.bindings) if owner is not None else ()
        # `from tools import chnages` of a folder: only a module can have the name.
        name = imported.name if imported is not None else ""
        if owner is not None and owner.is_package and not self._modules.read[module].strip():
            module, name, names = f"{module}.{name}", "", ()
        self._missing.append(
            MissingImport(
                importer.name, line, column, module, name, names, (), not statement.conditional
            )
        )

    def _entries_of(self, name: str, way: _Way) -> tuple[str, ...]:
        """Return the modules of entrypoints that import a module in a way, directly or not, in order."""
        key = name, way
        if key not in self._reaching:
            waiting, reached = [name], {name}
            while waiting:
                for importer, ways in self._importers.get(waiting.pop(), {}).items():
                    if importer not in reached and way in ways:
                        reached.add(importer)
                        waiting.append(importer)
            self._reaching[key] = tuple(sorted(self._entries & reached))
        return self._reaching[key]


def _packages(dotted: str) -> list[str]:
    """Return the packages around a module, outermost first."""
    parts = dotted.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _listed(package: Module) -> list[str]:
    """Return the names in ``__all__`` of a package; none if it is computed."""
    node = package.names.definition("__all__")
    try:
        names = literal(node) if isinstance(node, ast.expr) else []
    except UnknownError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
