"""Cache of the toolsets that this process has read, valid while none of their files changes.

A call looks for its tool more than once, and a server makes thousands of calls: reading a toolset of
hundreds of tools takes longer than most calls.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from covalt_git.manifests.reading import shown_path
from covalt_git.manifests.state_files import LOCK_FOLDER, lock_file, read_lock
from covalt_git.manifests.toolset_files import STATE_FOLDER, toolset_folder, toolset_ids
from covalt_git.names import BUILTIN_NAMESPACE
from covalt_git.system.file_cache import FileCache

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.toolsets.toolset import Toolset

_READ = FileCache()


def toolset(root: Path, toolset_id: str, ids: Sequence[str] | None = None) -> Toolset:
    """Return a toolset as its files are now, or the owner of the built-in tools; see :func:`.toolset.read_toolset`.

    ``ids`` are the ids of all toolsets, if the caller knows them.  They are part of the cache key, because
    an MCP server must not have the id of another toolset.
    """
    from covalt_git.toolsets.toolset import (  # noqa: PLC0415 - lists read the index only
        builtin_toolset,
        read_toolset,
    )

    if toolset_id == BUILTIN_NAMESPACE:
        return builtin_toolset()
    others = toolset_ids(root / "toolsets") if ids is None else ids
    files = _files_of(root, toolset_id)
    return _READ.get((root, toolset_id, *others), files, lambda: read_toolset(root, toolset_id))


@lru_cache(maxsize=64)
def _files_of(root: Path, toolset_id: str) -> tuple[Path, ...]:
    toolsets = root / "toolsets"
    state = toolsets / STATE_FOLDER / f"{toolset_id}.yaml"
    # The whole folder of locks: an alias in the state file can give a server another lock file.
    return toolsets / toolset_folder(toolset_id), state, toolsets / LOCK_FOLDER


def owner_of(root: Path, namespace: str) -> str | None:
    """Return the id of the toolset that has the MCP server with this namespace.

    The server's file in ``toolsets/locks/`` names the toolset.
    """
    return _lock_of(root, namespace)[0]


def is_listed(root: Path, namespace: str) -> bool:
    """Return whether the MCP server with this namespace was asked for its tools."""
    return _lock_of(root, namespace)[1]


def _lock_of(root: Path, namespace: str) -> tuple[str | None, bool]:
    """Return the toolset of a lock, and whether its server was asked for its tools."""
    file = lock_file(root, namespace)

    def read() -> tuple[str | None, bool]:
        lock = read_lock(file, shown_path(file, root)).value if file.exists() else None
        return (None, False) if lock is None else (lock.toolset_id, lock.is_listed)

    return _READ.get(file, (file,), read)
