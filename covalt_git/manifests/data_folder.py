"""Folder ``data/`` of a project: it belongs to one machine, and git must not track it.

A clone whose ``data/`` is tracked would show another user's chats and pending approvals as those of this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, Problem
from covalt_git.git_store.tracked_files import index_file, tracked_files
from covalt_git.problems import codes
from covalt_git.system.file_cache import FileCache

if TYPE_CHECKING:
    from pathlib import Path

DATA = "data"
_TRACKED = FileCache()
_HINT = "if you committed it by mistake: git rm -r --cached data; if it came with a clone: git rm -r data"


class TrackedDataError(CovaltError):
    """Git tracks files of ``data/``, so that another user may have written them."""

    code = "data_is_tracked"
    http_status = 409


def check_data(root: Path) -> None:
    """Check that git tracks no file of the project's ``data/``.

    Raises:
        TrackedDataError: if it does.
    """
    tracked = _tracked(root)
    if tracked is not None:
        raise TrackedDataError(
            f"git tracks {tracked!r}: the chats and approvals in data/ may be another user's, so they are not used",
            hint=_HINT,
        )


def data_problems(root: Path) -> list[Problem]:
    """Return the problem of a ``data/`` that git tracks."""
    tracked = _tracked(root)
    if tracked is None:
        return []
    message = "git tracks this file: data/ belongs to one machine"
    return [Problem(tracked, 0, 0, codes.TRACKED_DATA, message, _HINT)]


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
