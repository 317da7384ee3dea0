"""Program of the fork server, which covalt-git's own interpreter runs, also for the environment of a toolset.

:mod:`covalt_git.runtime.pool` starts it.  Our packages are imported from their folders, so that those of an
environment cannot take their place.

No code of an environment may run here, outside of the sandbox: Python runs the ``.pth`` files and the
``sitecustomize`` of its packages at the start, and a package may replace pydantic, or the environment's interpreter.
So the program of an environment is started without ``site`` (``-S``), with the standard library only.  A sandbox adds
the environment's packages after it is entered.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _OurPackages(MetaPathFinder):
    """Finds packages in their folders, but nothing else in the parents of these."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = {folder.name: folder for folder in folders}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - as Python calls it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the specification of a package; None for other modules."""
        folder = self._folders.get(fullname)
        if folder is None:
            return None
        return spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


def main() -> None:
    """Run a fork server.

    The arguments are the descriptor of the control connection, the interpreter that tools see, libraries with commas
    between them if it forks scripts, and the folders of the packages.  In covalt-git's own interpreter, tools find only the standard library, pydantic and the SDK, so that they
    cannot come to depend on packages that covalt-git happens to use.
    """
    # What is imported stays: garbage collection would find little, and touch memory that the forks share.
    gc.disable()
    control = socket.socket(fileno=int(sys.argv[1]))
    if sys.flags.no_site:
        _pose_as(Path(sys.argv[2]))
    sys.meta_path.insert(0, _OurPackages([Path(folder) for folder in sys.argv[4:]]))
    fork_server = import_module("covalt_git.runtime.processes.fork_server")
    if libraries := sys.argv[3]:
        # Of scripts, whose process would need 40 ms for each.
        for name in libraries.split(","):
            import_module(name)
        _hide_packages()
    elif not sys.flags.no_site:
        _import_sdk()
    gc.freeze()  # a collection in a fork would write to the objects of these pages, and so copy them
    gc.enable()
    fork_server.ForkServer(control).run()
    os._exit(0)  # no sandbox is left, and a command waits for this end


def _pose_as(python: Path) -> None:
    """Make ``python`` the interpreter that tools start and whose folders they may read; nothing is run."""
    sys.executable = str(python)
    sys.prefix = sys.exec_prefix = str(python.parents[1])


def _import_sdk() -> None:
    """Import what every tool uses, then hide our other packages."""
    sdk = import_module("covalt_toolset")
    import_module("docstring_parser")  # the SDK imports it only when it reads a docstring
    _hide_packages()
    # Pydantic imports more for its first schema, and looks for plugins.
    sdk.describe(_pose_as)


def _hide_packages() -> None:
    installed = import_module("site").getsitepackages()
    sys.path[:] = [folder for folder in sys.path if folder not in installed]


if __name__ == "__main__":
    main()
