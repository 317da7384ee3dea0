"""Check of the modules of a toolset that its Python tools import: each is Python, and has what is imported from it."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.checks.module_names import IMPORTED
from covalt_git.errors import Problem, nearest_name
from covalt_git.problems import codes
from covalt_git.python_reader.import_graph import ImportGraph
from covalt_git.python_reader.module_text import column_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.manifests.reading import Reading
    from covalt_git.manifests.toolset_files import BundleFiles
    from covalt_git.models.toolset_manifest import ToolsetManifest
    from covalt_git.python_reader.import_graph import MissingImport
    from covalt_git.python_reader.modules import Modules

_MOST_NAMED = 3


def check_imported_modules(
    manifest: Reading[ToolsetManifest],
    files: BundleFiles,
    modules: Modules,
    tools: Mapping[str, Sequence[str]],
) -> list[Problem]:
    """Return the problems of the modules that Python tools import; ``tools`` has the ids of those of each entrypoint's module."""
    if not tools or manifest.value is None:
        return []
    has_packages = bool(manifest.value.python.dependencies)
    display_path = manifest.path.rpartition("/")[0]
    return [*_ImportedModules(display_path, files, modules, tools, has_packages).problems()]


class _ImportedModules(NamedTuple):
    """The modules of a toolset and who needs them.

    Attributes:
        display_path: the toolset's folder, for messages.
        files: the files of the toolset.
        modules: the modules of the toolset.
        tools: the ids of the tools of each module of an entrypoint, by its dotted name.
        has_packages: whether the toolset declares dependencies, whose modules imports may find.
    """

    display_path: str
    files: BundleFiles
    modules: Modules
    tools: Mapping[str, Sequence[str]]
    has_packages: bool

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the modules that the tools import, directly or not."""
        own = {path.partition("/")[0].removesuffix(".py") for path in self.files.modules}
        # The folder of a toolset is the last one that is searched, except for the packages of its entrypoints.
        tops = {module.partition(".")[0] for module in self.tools}
        own -= (sys.stdlib_module_names | IMPORTED) - tops
        paths = _ModulePaths(self.files)
        graph = ImportGraph(self.modules, self.tools, own.__contains__, paths.__contains__)
        for broken in graph.broken():
            if broken.name in self.tools:
                continue  # reported with the tool
            error = broken.error
            yield Problem(
                f"{self.display_path}/{self.files.module_path(broken.name)}",
                error.line,
                error.col,
                codes.PYTHON_SYNTAX,
                f"{error.message} ({self._users(broken.entries)})",
                severity="error" if broken.certain else "warning",
            )
        for missing in graph.missing(lambda top: not self.has_packages or {top} == tops):
            yield self._missing(missing)

    def _missing(self, missing: MissingImport) -> Problem:
        path = self.files.module_path(missing.importer)
        column = column_of(self.modules.read[missing.importer], missing.line, missing.column)
        if missing.name:
            owner = self.files.module_path(missing.module)
            message = f"{owner} does not define {missing.name!r}"
            near = nearest_name(missing.name, missing.names)
            hint = f"did you mean {near}?" if near else f"define {missing.name} in {owner}"
        else:
            message = f"there is no module {missing.module!r}"
            stem = missing.module.replace(".", "/")
            near = nearest_name(missing.module, map(dotted_name, self.files.modules))
            hint = f"did you mean {near}?" if near else f"create {stem}.py"
        return Problem(
            f"{self.display_path}/{path}",
            missing.line,
            column,
            codes.MISSING_IMPORT,
            f"{message} ({self._users(missing.entries)})",
            hint,
            "error" if missing.certain else "warning",
        )

    def _users(self, entries: Sequence[str]) -> str:
        """Return the tools of modules as words."""
        tools = sorted({tool for module in entries for tool in self.tools[module]})
        if len(tools) == 1:
            return f"the tool {tools[0]} needs it"
        more = len(tools) - _MOST_NAMED
        named = tools if more <= 0 else [*tools[:_MOST_NAMED], f"{more} more"]
        return f"the tools {', '.join(named[:-1])} and {named[-1]} need it"


class _ModulePaths:
    """The dotted names that imports may find in a toolset: of modules in whatever form, and of folders."""

    def __init__(self, files: BundleFiles) -> None:
        self._files = files

    def __contains__(self, dotted: str) -> bool:
        return self._files.module_path(dotted) is not None or dotted in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        names: set[str] = set()
        for file in self._files.files:
            *folders, name = file.path.split("/")
            # A compiled module has tags in its name: `fast.cpython-311-x86_64-linux-gnu.so`.
            names.add(".".join([*folders, name.partition(".")[0]]))
            names |= {".".join(folders[:count]) for count in range(1, len(folders) + 1)}
        return frozenset(names)


def dotted_name(path: str) -> str:
    """Return the name of a module from its path in the toolset."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
