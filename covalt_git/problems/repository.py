"""Path of a project in its git repository, for reports whose paths are relative to that."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def repository_prefix(root: Path) -> str:
    """Return the prefix that makes a project's paths relative to its git repository, as GitHub expects.

    It is empty if the project is the root of the repository, or is not in one.
    """
    root = root.absolute()
    for folder in (root, *root.parents):
        if (folder / ".git").exists():  # a file in a worktree or a submodule
            inner = root.relative_to(folder).as_posix()
            return "" if inner == "." else f"{inner}/"
    return ""
