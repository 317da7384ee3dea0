"""The program that tools run in: a script for whatever interpreter a toolset's environment has.

:mod:`covalt_git.runtime.workers` starts it, and :mod:`covalt_git.runtime.keeper` says what it does.
That interpreter knows nothing of us, so our packages are brought along by their folders.
"""

from __future__ import annotations

import gc
import socket
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_REHEARSALS = 10


def main() -> None:
    """Keep rooms for the other side of the first argument; the others are our packages' folders."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for folder in sys.argv[2:]:
        _bring(Path(folder))
    from covalt_git.runtime import child, keeper  # noqa: PLC0415 - there since the line above

    # As often as it takes until Python has specialized the code, which each fork would do anew.
    for _ in range(_REHEARSALS):
        child.rehearse()
    gc.collect()
    gc.freeze()
    keeper.Keeper(control).run()


def _bring(folder: Path) -> None:
    """Import a package from its folder, and nothing else that lies beside it."""
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
