"""Problems in the words of others: excerpts for people, GitHub, SARIF, JUnit; and baselines.

Everything here makes texts of problems that were found; printing is for ``cli``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def repository_prefix(root: Path) -> str:
    """Return what stands before a project's paths to make them relative to its git repository.

    GitHub finds files from there; a project that is in no repository is taken for one.
    """
    root = root.absolute()
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            inner = root.relative_to(folder).as_posix()
            return "" if inner == "." else f"{inner}/"
    return ""
