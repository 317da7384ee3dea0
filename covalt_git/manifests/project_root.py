"""The folder of a project: the one with ``covalt.yaml``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "covalt.yaml"


class NotAProjectError(CovaltError):
    """There is no project here."""

    code = "not_a_project"
    exit_code = 2


def find_root(start: Path) -> Path:
    """Return the project that ``start`` is in: the nearest folder above with a ``covalt.yaml``.

    Raises:
        NotAProjectError: when there is none.
    """
    for folder in (start.absolute(), *start.absolute().parents):
        if (folder / CONFIG).is_file():
            return folder
    raise NotAProjectError(
        f"there is no {CONFIG} in {str(start)!r} or above it",
        hint="covalt-git init demo && cd demo",
    )
