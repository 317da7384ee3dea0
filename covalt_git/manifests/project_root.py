"""Lookup of the root folder of a project, which contains ``covalt.yaml``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "covalt.yaml"
POLICY_TESTS = "policy_tests.yaml"


class NotAProjectError(CovaltError):
    """The folder is not in a project, or does not exist."""

    code = "not_a_project"
    exit_code = 2


def find_root(start: Path) -> Path:
    """Return the root of the project that contains ``start``, which can be the root itself.

    Raises:
        NotAProjectError: when ``start`` is not in a project or does not exist.
    """
    if not start.exists():  # a misspelt folder in a project would otherwise be the project
        raise NotAProjectError(
            f"the folder {str(start)!r} does not exist",
            hint=f"name a folder that exists, or create a project: covalt-git init {shlex.quote(str(start))}",
        )
    for folder in (start.absolute(), *start.absolute().parents):
        file = folder / CONFIG
        if file.is_file() or file.is_symlink():  # opening the project refuses the link
            return folder
    raise NotAProjectError(
        f"there is no {CONFIG} in {str(start)!r} or above it",
        hint="covalt-git init demo && cd demo",
    )
