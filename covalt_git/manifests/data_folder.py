"""Folder ``data/`` of a project: it belongs to one machine, and git must not track it.

A clone whose ``data/`` is tracked would show another user's chats and pending approvals as those of this machine.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, Problem
from covalt_git.git_store.tracked_files import index_file, submodules_below, tracked_files
from covalt_git.problems import codes
from covalt_git.system.file_cache import FileCache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = "data"
_TRACKED = FileCache()
_HINT = "if you committed it by mistake: git rm -r --cached data; if it came with a clone: git rm -r data"
_SUBMODULE = "{} has the files of a submodule, which git leaves when a pull removes it"


class TrackedDataError(CovaltError):
    """Git tracks files of ``data/``, so that another user may have written them."""

    code = "data_is_tracked"
    http_status = 409


def check_data(root: Path) -> None:
    """Check that git tracks no file of the project's ``data/``, and that it has no files of a submodule.

    Raises:
        TrackedDataError: if it does.
    """
    for _, fact, hint in _foreign(root):
        raise TrackedDataError(
            f"{fact}: the chats and approvals in data/ may be another user's, so they are not used",
            hint=hint,
        )


def data_problems(root: Path) -> list[Problem]:
    """Return the problem of a ``data/`` that git tracks."""
    return [
        Problem(path, 0, 0, codes.TRACKED_DATA, f"{fact}: data/ belongs to one machine", hint)
        for path, fact, hint in islice(_foreign(root), 1)
    ]


def _foreign(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each path in ``data/`` that git has brought, what it is, and what its user can do."""
    tracked = _tracked(root)
    if tracked is not None:
        yield tracked, f"git tracks {tracked!r}", _HINT
    for path, repository in submodules_below(root, DATA):
        yield path, _SUBMODULE.format(repr(path)), _remove(root / path, repository)
    # Its repository may be deleted, or name no folder any more.
    for path in _folders(root):
        if os.path.isfile(f"{root}/{path}/.git"):  # noqa: PTH113 - of each chat, at each call
            yield path, _SUBMODULE.format(repr(path)), _remove(root / path)


def _folders(root: Path) -> Iterator[str]:
    """Yield ``data/``, the folders in it, and those of chats."""
    yield DATA
    for path in (DATA, f"{DATA}/chats"):
        with suppress(OSError):
            yield from (f"{path}/{name}" for name in os.listdir(f"{root}/{path}"))  # noqa: PTH208 - as above


def _remove(*paths: Path) -> str:
    # Quoted, because the author of the submodule has chosen its path.
    return f"if you did not make it: {shlex.join(['rm', '-rf', *map(str, paths)])}"


def _tracked(root: Path) -> str | None:
    """Return the path of one tracked file of ``data/``, relative to the project.

    A process that serves for long asks with each request; a large index is read again only if it has changed.
    """
    index = index_file(root)
    if index is None or not (root / DATA).exists():
        return None
    found: str | None = _TRACKED.get(
        (root, index), [index], lambda: next(iter(tracked_files(root, DATA)), None)
    )
    return found
