"""Whether all files of a project can be the work of its own user, from what its git repository has recorded.

Commits of others arrive in more ways than can be listed: by pull, push, bundle, patch, another work tree.  So it is
not they that are looked for: each entry of the reflog of HEAD must be a commit that was made here, or a move to one.
``git apply``, ``git restore --source`` and an unpacked archive leave no trace; they are edits of the user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COMMITS = (b"commit: ", b"commit (initial): ", b"commit (amend): ")
_UNFINISHED = (
    *(
        "FETCH_HEAD",
        "MERGE_HEAD",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
        "rebase-apply",
        "rebase-merge",
    ),
    *("sequencer", "modules", "worktrees", "objects/info/alternates", "logs/refs/remotes"),
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
        config = (git / "config").read_text(encoding="utf-8", errors="replace").lower()
        # An included file may declare a remote.
        if "[remote" in config or "[include" in config:
            return False
        if any((git / name).exists() for name in _UNFINISHED):
            return False
        log = git / "logs/HEAD"
        if not log.exists():  # there is no commit, or git is configured to write no reflog
            return not _has_branches(git)
        return _are_own(log.read_bytes().splitlines())
    except OSError:
        return False


def _has_branches(git: Path) -> bool:
    heads = git / "refs/heads"
    return (
        (git / "packed-refs").exists()
        or (git / "reftable").exists()
        or any(file.is_file() for file in heads.rglob("*"))
    )


def _are_own(lines: list[bytes]) -> bool:
    """Return whether entries of a reflog are commits that were made here, from the first one on, and moves to them.

    The format of an entry is ``OLD NEW NAME <EMAIL> TIME ZONE<TAB>ACTION`` (gitformat-reflog).  Entries expire
    after 90 days by default; what was before them is unknown.
    """
    own = set[bytes]()
    for number, line in enumerate(lines):
        commits, _, action = line.partition(b"\t")
        old, new = commits.split(b" ", 2)[:2]
        if number == 0 and old.strip(b"0"):
            return False
        if action.startswith(_COMMITS):
            own.add(new)
        elif new not in own:
            return False
    return True
