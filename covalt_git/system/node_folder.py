"""Folders of a node whose project comes from a git repository: its data, and a checkout for each commit.

A **node** is the folder whose ``covalt.yaml`` names the repository.  ``data/project/<commit>/`` has the files of a
commit, and is the root of the project for the calls that run this commit.  It is never changed, so a call that has
such a root sees one version of every file.  Chats, tokens, the index and the trust of the user belong to the node.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.system import file_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = "data"
CHECKOUTS = f"{DATA}/project"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class FollowedProjectError(CovaltError):
    """A change of files of a project that come from its git repository."""

    code = "followed_project"
    http_status = 409

    def __init__(self, commit: str) -> None:
        super().__init__(
            f"the files of the project are those of the commit {commit[:12]} of its git repository, and cannot be"
            " changed on this node",
            hint="change them in a clone of the repository, and push: the nodes follow it",
        )


def is_commit(text: str) -> bool:
    """Return whether a text is the full id of a commit."""
    return _COMMIT.fullmatch(text) is not None


def commit_of(root: Path) -> str | None:
    """Return the commit of a checkout of a node; None for the root of another project."""
    above = root.parent
    is_checkout = above.name == "project" and above.parent.name == DATA and is_commit(root.name)
    return root.name if is_checkout else None


def node_of(root: Path) -> Path:
    """Return the folder with the ``data/`` of a project: its root, or the node of a checkout."""
    return root if commit_of(root) is None else root.parents[2]


def data_of(root: Path) -> Path:
    """Return the ``data/`` of a project."""
    return node_of(root) / DATA


def checkout(node: Path, commit: str) -> Path:
    """Return the folder with the files of a commit, which may not exist."""
    return node / CHECKOUTS / commit


def check_changeable(root: Path) -> None:
    """Check that the files of a project may be changed.

    Raises:
        FollowedProjectError: if they are a checkout of a node.
    """
    commit = commit_of(root)
    if commit is not None:
        raise FollowedProjectError(commit)


@contextmanager
def in_use(root: Path) -> Iterator[None]:
    """Keep a checkout from being removed while the block runs; the root of another project needs nothing."""
    if commit_of(root) is None:
        yield
        return
    with file_lock.held(root, shared=True):
        yield


def folder_text(root: Path) -> str:
    """Return the name of a project's folder for users."""
    return os.path.basename(node_of(root).absolute())  # noqa: PTH119 - also of a root with ..
