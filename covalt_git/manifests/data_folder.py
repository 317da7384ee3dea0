"""Folder ``data/`` of a project: it belongs to one machine, and git must not track it.

A clone whose ``data/`` is tracked would show another user's chats and pending approvals as those of this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, Problem
from covalt_git.git_store.tracked_files import index_file, tracked_files
from covalt_git.problems import codes

if TYPE_CHECKING:
    from pathlib import Path

DATA = "data"
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


def data_files(root: Path) -> list[Path]:
    """Return the files that decide whether git tracks ``data/``."""
    index = index_file(root)
    return [] if index is None else [index]


def _tracked(root: Path) -> str | None:
    """Return the path of one tracked file of ``data/``, relative to the project."""
    return next(iter(tracked_files(root, DATA)), None) if (root / DATA).exists() else None
