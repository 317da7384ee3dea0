"""Whether all files of a project can be the work of its own user, from what its git repository has recorded.

Commits of other users arrive by pull, push, bundle, patch, another work tree, and in more ways.  A list of these ways
would never be complete.  So this module looks for the opposite: each entry of the reflog of HEAD must be a commit that
was made here, or a move to such a commit, and each branch must be at one.
``git apply``, ``git restore --source`` and an unpacked archive leave no trace; they are edits of the user.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COMMITS = (b"commit: ", b"commit (initial): ", b"commit (amend): ")
_UNFINISHED = (
    *("FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"),
    *("rebase-apply", "rebase-merge", "sequencer"),
    *("modules", "worktrees", "objects/info/alternates", "logs/refs/remotes"),
    *("index.lock", "HEAD.lock", "remotes", "branches"),
)
"""Files of a repository whose commits or changes may be from elsewhere."""


def is_all_own(root: Path) -> bool:
    """Return whether no commit of another user can have changed the project: its repository has made them all."""
    if any(_repositories_in(root)):
        return False
    for folder in (root, *root.parents):
        git = folder / ".git"
        if git.is_dir():
            return _has_own_commits_only(git)
        if git.exists():  # a linked worktree or a submodule
            return False
    return True


def _repositories_in(root: Path) -> Iterator[Path]:
    """Yield the repositories within the project: submodules and clones in its toolsets."""
    if (root / ".gitmodules").exists():
        yield root / ".gitmodules"
    yield from (root / "toolsets").rglob(".git")


def _has_own_commits_only(git: Path) -> bool:
    try:
        config = _content(git / "config").decode("utf-8", "replace").lower()
        # An included file may declare a remote.
        if "[remote" in config or "[include" in config:
            return False
        if any(_has_something(git / name) for name in _UNFINISHED):
            return False
        log = git / "logs/HEAD"
        if not log.exists():  # there is no commit, or git is configured to write no reflog
            return not _has_branches(git)
        own = _own_commits(_content(log).splitlines())
        # A squash merge commits the changes of a branch as one's own, so each branch must be own too.
        return own is not None and own.issuperset(_branch_tips(git))
    except (OSError, ValueError):  # a line that is no entry: its origin is unknown
        return False


def _content(file: Path) -> bytes:
    """Return the content of a regular file; reading another one, such as a FIFO, could wait for ever.

    Raises:
        OSError: if it is not a regular file, or cannot be read.
    """
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError(f"{str(file)!r} is not a file")
    return file.read_bytes()


def _has_something(path: Path) -> bool:
    """Return whether a file exists, or a folder that is not empty, as some that ``git init`` makes are."""
    return any(path.iterdir()) if path.is_dir() else path.exists()


def _has_branches(git: Path) -> bool:
    heads = git / "refs/heads"
    return (
        (git / "packed-refs").exists()
        or (git / "reftable").exists()
        or any(file.is_file() for file in heads.rglob("*"))
    )


def _branch_tips(git: Path) -> Iterator[bytes]:
    """Yield the commits of all branches."""
    for file in (git / "refs/heads").rglob("*"):
        if file.is_file():
            yield file.read_bytes().strip()
    packed = git / "packed-refs"
    for line in packed.read_bytes().splitlines() if packed.is_file() else ():
        commit, _, name = line.partition(b" ")
        if name.startswith(b"refs/heads/") and not (git / os.fsdecode(name)).is_file():
            yield commit


def _own_commits(lines: list[bytes]) -> set[bytes] | None:
    """Return the commits that a reflog says were made here; None if one of its entries moves to another one.

    The format of an entry is ``OLD NEW NAME <EMAIL> TIME ZONE<TAB>ACTION`` (gitformat-reflog).  Entries expire
    after 90 days by default; what was before them is unknown.

    Raises:
        ValueError: if a line is no entry.
    """
    own = set[bytes]()
    for number, line in enumerate(lines):
        commits, _, action = line.partition(b"\t")
        old, new, *_ = commits.split(b" ", 2)
        if number == 0 and old.strip(b"0"):
            return None
        if action.startswith(_COMMITS):
            own.add(new)
        elif new not in own:
            return None
    return own
