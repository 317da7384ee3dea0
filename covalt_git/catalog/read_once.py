"""Toolsets that were read in this process, for as long as no file of them changes.

A call looks for its tool more than once, and a server makes thousands of calls: reading a toolset of
hundreds of tools takes longer than most calls.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from covalt_git.files.reading import shown_path
from covalt_git.files.state_files import read_lock
from covalt_git.files.tool_locks import LOCK_FOLDER, lock_file
from covalt_git.files.toolsets import STATE_FOLDER, read_toolset, toolset_ids
from covalt_git.index.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.files.toolsets import Toolset

_READ = Kept()


def toolset(root: Path, toolset_id: str) -> Toolset:
    """Return a toolset as its files say now; see :func:`covalt_git.files.toolsets.read_toolset`."""
    return toolset_beside(root, toolset_id, toolset_ids(root / "toolsets"))


def toolset_beside(root: Path, toolset_id: str, others: Sequence[str]) -> Toolset:
    """Do what :func:`toolset` does, where it is known which toolsets there are.

    It matters to a toolset, as no server has the name of another one.
    """
    key, files = (root, toolset_id), _files_of(root, toolset_id)
    return _READ.of(key, files, lambda: read_toolset(root, toolset_id), beside=tuple(others))


@lru_cache(maxsize=64)
def _files_of(root: Path, toolset_id: str) -> tuple[Path, ...]:
    toolsets = root / "toolsets"
    state = toolsets / STATE_FOLDER / f"{toolset_id}.yaml"
    return toolsets / toolset_id, state, toolsets / LOCK_FOLDER


def owner_of(root: Path, namespace: str) -> str | None:
    """Return the id of the toolset whose server has a namespace, as its lock says."""
    file = lock_file(root, namespace)

    def read() -> str | None:
        lock = read_lock(file, shown_path(file, root)).value if file.exists() else None
        return None if lock is None else lock.toolset_id

    return _READ.of((file,), (file,), read)
