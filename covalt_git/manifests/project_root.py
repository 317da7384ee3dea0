"""Lookup of the root folder of a project, which contains ``covalt.yaml``."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "covalt.yaml"
_MOST_ENTRIES = 1000
"""How many entries of a folder are searched for projects: a home folder may have many."""

_MOST_NAMED = 3
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
        if file.is_dir():
            raise NotAProjectError(
                f"{str(file)!r} is a folder, and a file was expected",
                hint=f"move it away: mv {shlex.quote(str(file))} {shlex.quote(f'{file}.old')}",
            )
    raise NotAProjectError(
        f"there is no {CONFIG} in {str(start)!r} or above it",
        hint=", or ".join(_projects_in(start)) or "covalt-git init demo && cd demo",
    )


def _projects_in(folder: Path) -> list[str]:
    """Return commands that change to the projects directly in a folder."""
    names: list[str] = []
    # A folder that cannot be read, or a project that is deleted meanwhile, only makes the hint worse.
    with suppress(OSError), os.scandir(folder) as entries:
        names = sorted(
            str(folder / entry.name)
            for entry in islice(entries, _MOST_ENTRIES)
            if (folder / entry.name / CONFIG).is_file()
        )
    return [f"cd {shlex.quote(name)}" for name in names[:_MOST_NAMED]]
