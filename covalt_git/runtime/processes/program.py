"""Program of the fork server, run by covalt-git's own interpreter or by that of a toolset's environment.

:mod:`covalt_git.runtime.pool` starts it.  The environment of a toolset may not have our packages, so they are
imported from their folders.
"""

from __future__ import annotations

import gc
import os
import site
import socket
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def main() -> None:
    """Run a fork server.

    The arguments are the descriptor of the control connection, ``own`` or ``toolset``, and the folders of the
    packages.  The interpreter of covalt-git itself is ``own``: tools find only the standard library, pydantic and the SDK
    in it, so that they cannot come to depend on packages that covalt-git happens to use.
    """
    # What is imported stays: garbage collection would find little, and touch memory that the forks share.
    gc.disable()
    control = socket.socket(fileno=int(sys.argv[1]))
    for folder in sys.argv[3:]:
        _import_package(Path(folder))
    from covalt_git.runtime.processes import fork_server  # noqa: PLC0415 - imported just now

    if sys.argv[2] == "own":
        import_module("docstring_parser")  # the SDK imports it only when it reads a docstring
        installed = site.getsitepackages()
        sys.path[:] = [folder for folder in sys.path if folder not in installed]
        # Pydantic imports more for its first schema, and looks for plugins; those of another environment must not run here.
        import_module("covalt_toolset").describe(_import_package)
    gc.freeze()
    gc.enable()
    fork_server.ForkServer(control).run()
    os._exit(0)  # no sandbox is left, and a command waits for this end


def _import_package(folder: Path) -> None:
    """Import a package from its folder, but nothing else from the folder's parent."""
    spec = spec_from_file_location(
        folder.name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = module_from_spec(spec)
    sys.modules[folder.name] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    main()
