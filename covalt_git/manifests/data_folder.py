"""Folder ``data/`` of a project: it belongs to one machine, and git must not track it.

A clone whose ``data/`` is tracked would show another user's chats and pending approvals as those of this machine.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from covalt_git.errors import Problem
from covalt_git.git_store.tracked_files import (
    TrackedDataError,
    has_submodule,
    repositories_around,
    submodules_below,
    tracked_files,
)
from covalt_git.problems import codes
from covalt_git.system.file_cache import FileCache

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from covalt_git.git_store.tracked_files import Repository

DATA = "data"
_TRACKED = FileCache()
_HINT = "if you committed it by mistake: git rm -r --cached data; if it came with a clone: git rm -r data"
_SUBMODULE = "{} has the files of a submodule, which git leaves when a pull removes it"


def check_data(root: Path) -> None:
    """Check that git tracks no file of the project's ``data/``, and that it has no files of a submodule.

    Each call of a tool asks this, so the folders of chats, of which there may be thousands, are not looked into:
    :class:`.Chats` knows no chat that has the files of a submodule.

    Raises:
        TrackedDataError: if it does.
    """
    for _, fact, hint in _foreign(root, (DATA,)):
        raise TrackedDataError(fact, hint)


def data_problems(root: Path) -> list[Problem]:
    """Return the problem of a ``data/`` that git tracks."""
    return [
        Problem(path, 0, 0, codes.TRACKED_DATA, f"{fact}: data/ belongs to one machine", hint)
        for path, fact, hint in islice(_foreign(root, (DATA, f"{DATA}/chats")), 1)
    ]


def _foreign(root: Path, folders: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each path in ``data/`` that git has brought, what it is, and what its user can do.

    Submodules whose repository is gone are looked for in the entries of ``folders``.
    """
    # All repositories up to the root: a pull into an outer one writes files into the project, and the inner one does
    # not know them.
    for position, repository in enumerate(repositories_around(root)):
        tracked = _tracked(root, repository)
        if tracked is not None:
            if position:  # the project is in another repository in this one, where `git rm` would find nothing
                fact = f"the repository {repository.top!r} tracks {tracked!r}"
                yield tracked, fact, _hint(repository, root)
            else:
                yield tracked, f"git tracks {tracked!r}", _HINT
        for path, module in submodules_below(repository, root, DATA):
            yield path, _SUBMODULE.format(repr(path)), _remove(root / path, module)
    # Its repository may be deleted, or name no folder any more.
    for path in _entries(root, folders):
        if has_submodule(f"{root}/{path}"):
            yield path, _SUBMODULE.format(repr(path)), _remove(root / path)


def _hint(outer: Repository, root: Path) -> str:
    path = os.path.relpath(os.path.realpath(root / DATA), outer.top)
    remove = shlex.join(["git", "-C", outer.top, "rm", "-r"])
    path = shlex.quote(path)
    return f"if you committed it by mistake: {remove} --cached {path}; if it came with a pull: {remove} {path}"


def _entries(root: Path, folders: Collection[str]) -> Iterator[str]:
    """Yield ``data/``, and the paths of the entries of folders in it."""
    yield DATA
    for path in folders:
        with suppress(OSError):
            yield from (f"{path}/{name}" for name in os.listdir(f"{root}/{path}"))  # noqa: PTH208 - as above


def _remove(*paths: Path) -> str:
    # Quoted, because the author of the submodule has chosen its path.
    return f"if you did not make it: {shlex.join(['rm', '-rf', *map(str, paths)])}"


def _tracked(root: Path, repository: Repository) -> str | None:
    """Return the path of one tracked file of ``data/``, relative to the project.

    A process that serves for long asks with each request; a large index is read again only if it has changed.
    """
    if not os.path.exists(f"{root}/{DATA}"):  # noqa: PTH110 - at each call
        return None
    path: str | None = _TRACKED.get(
        (root, repository.index_file),
        [repository.index_file],
        lambda: next(tracked_files(repository, root, DATA), None),
    )
    return path
