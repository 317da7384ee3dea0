"""Whether all files of a project can be the work of its own user, from what its git repositories have recorded.

Commits of other users arrive by pull, push, bundle, patch, another work tree, and in more ways.  A list of these ways
would never be complete.  So this module looks for the opposite: each entry of the reflog of HEAD must be a commit that
was made here, or a move to such a commit, and HEAD and each ref below ``refs/`` must be at one: a push can create any
ref.  ``git stash`` and ``git notes`` make commits that the reflog of HEAD does not have; their refs have reflogs of
their own, where a push or a fetch is recorded as such.  ``refs/replace`` and grafts change what own commits contain.
This holds for each repository that the project is in, not only for the nearest one, and whether or not it ignores the
project: the next pull can change what it ignores.
A checkout of another system, such as Mercurial, is never all own, because only git's history is read.
``git apply``, ``git restore --source`` and an unpacked archive leave no trace; they are edits of the user.  A project
with files that another user of the machine owns or can write is never all own.
"""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.system.checkouts import GIT, SYSTEMS, checkouts_around
from covalt_git.system.file_cache import FileCache
from covalt_git.system.ownership import only_user_writes

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMITS = (b"commit: ", b"commit (initial): ", b"commit (amend): ")
_STASHES = (b"WIP on ", b"On ")
_NOTES = (b"notes: Notes ",)  # added or removed, but not merged
_UNFINISHED = (
    *("FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"),
    *("rebase-apply", "rebase-merge", "sequencer"),
    *("modules", "worktrees", "objects/info/alternates", "logs/refs/remotes"),
    *("index.lock", "HEAD.lock", "remotes", "branches"),
    *("info/grafts", "shallow", "refs/replace", "reftable"),
)
"""Files of a repository whose commits or changes may be from elsewhere, or whose refs are not read here."""

_MOST_BYTES = 64 << 10
"""Size of a tag, at most; a larger one is not read."""

_MOST_TAGS = 5
"""Number of tags of tags that are followed."""

_LOGS = FileCache()
"""The own commits of reflogs, which can be large."""


def is_all_own(root: Path) -> bool:
    """Return whether no commit of another user can have changed the project: each repository has made all of its own."""
    if any(_repositories_in(root)) or not _only_user_writes(root):
        return False
    return all(_is_own_checkout(Path(checkout.path)) for checkout in checkouts_around(root))


def _only_user_writes(root: Path) -> bool:
    """Return whether no other user of the machine can write what permits something in a project."""
    try:
        config = root / "covalt.yaml"
        if not only_user_writes(root) or (os.path.lexists(config) and not only_user_writes(config)):
            return False
        return all(
            only_user_writes(os.path.join(folder, name))  # noqa: PTH118 - toolsets can have many files
            for folder, folders, files in os.walk(root / "toolsets")
            for name in (".", *folders, *files)
        )
    except OSError:  # removed meanwhile, or not readable: its owner is unknown
        return False


def _is_own_checkout(path: Path) -> bool:
    """Return whether the files of a system at a path are a git repository with own commits only.

    A file ``.git`` is that of a linked worktree or of a submodule.
    """
    is_repository = path.name == GIT and path.is_dir()
    # Another user who can write the records of the repository can make any commit look like one from here.
    records = (path, path / "HEAD", path / "config", path / "logs", path / "refs")
    return (
        is_repository
        and all(only_user_writes(record) for record in records if record.exists())
        and _has_own_commits_only(path)
    )


def _repositories_in(root: Path) -> Iterator[Path]:
    """Yield the repositories within the project: submodules and clones in its toolsets."""
    if (root / ".gitmodules").exists():
        yield root / ".gitmodules"
    for folder, folders, files in os.walk(root / "toolsets"):
        yield from (Path(folder, name) for name in SYSTEMS.intersection((*folders, *files)))


def _has_own_commits_only(git: Path) -> bool:
    try:
        if any(_may_have_remotes(git / name) for name in ("config", "config.worktree")):
            return False
        if any(_has_something(git / name) for name in _UNFINISHED):
            return False
        refs = _refs(git)
        log = git / "logs/HEAD"
        if not log.exists():  # there is no commit, or git is configured to write no reflog
            return not refs and _is_symbolic(_content(git / "HEAD"))
        own = _logged(log, _COMMITS)
        # A squash merge commits the changes of a ref as one's own, so each ref must be own too.
        return own is not None and all(
            _is_own(git, name, target, own) for name, target in {**refs, **_head(git)}.items()
        )
    except (OSError, ValueError, zlib.error):  # a line that is no entry: its origin is unknown
        return False


def has_remote(root: Path) -> bool:
    """Return whether the git repository of a folder declares a remote."""
    try:
        return _may_have_remotes(root / GIT / "config")
    except (OSError, ValueError):
        return False


def _may_have_remotes(config: Path) -> bool:
    """Return whether a file of settings declares a remote, or includes a file that may declare one."""
    text = _content(config).lower() if config.exists() else b""
    return b"[remote" in text or b"[include" in text


def _content(file: Path | str) -> bytes:
    """Return the content of a regular file; reading another one, such as a FIFO, could wait for ever.

    Raises:
        OSError: if it is not a regular file, or cannot be read.
    """
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:  # noqa: PTH123 - of a descriptor
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(f"{str(file)!r} is not a file")
        return stream.read()


def _has_something(path: Path) -> bool:
    """Return whether a file exists, or a folder that is not empty, as some that ``git init`` makes are."""
    return any(path.iterdir()) if path.is_dir() else path.exists()


def _head(git: Path) -> dict[str, bytes]:
    """Return HEAD, if it is at a commit and not at a branch."""
    content = _content(git / "HEAD")
    return {} if _is_symbolic(content) else {"HEAD": content.strip()}


def _is_symbolic(content: bytes) -> bool:
    """Return whether a ref is at another ref, which is checked itself."""
    return content.startswith(b"ref: refs/")


def _refs(git: Path) -> dict[str, bytes]:
    """Return the object of each ref below ``refs/``."""
    refs = {}
    packed = git / "packed-refs"
    name = ""
    for line in _content(packed).splitlines() if packed.exists() else ():
        if line.startswith(b"^"):  # the commit of the tag on the line before
            refs[name] = line[1:]
        elif not line.startswith(b"#"):
            target, _, path = line.partition(b" ")
            name = os.fsdecode(path)
            refs[name] = target
    top = os.path.join(git, "")  # noqa: PTH118 - there may be thousands of refs, so no Path for each
    for folder, _, files in os.walk(f"{top}refs"):  # a loose ref hides a packed one
        for file in files:
            content = _content(f"{folder}/{file}")
            name = f"{folder}/{file}".removeprefix(top)
            refs.pop(name, None)
            if not _is_symbolic(content):
                refs[name] = content.strip()
    return refs


def _is_own(git: Path, name: str, target: bytes, own: set[bytes]) -> bool:
    """Return whether a ref is at a commit that was made here."""
    if name.startswith("refs/replace/"):
        return False
    if name == "refs/stash" or name.startswith("refs/notes/"):
        logged = _logged(git / "logs" / name, _STASHES if name == "refs/stash" else _NOTES)
        return logged is not None and target in logged
    for _ in range(_MOST_TAGS):
        if target in own:
            return True
        target = _tagged(git, target)
    return False


def _tagged(git: Path, tag: bytes) -> bytes:
    """Return the commit or tag that a tag object is at; a lightweight tag has no object.

    Raises:
        OSError: if the store has no loose object of this id, for example because it is packed.
        ValueError: if the object is not a tag.
        zlib.error: if it cannot be read.
    """
    name = tag.decode("ascii")
    content = _content(git / "objects" / name[:2] / name[2:])
    kind, _, text = zlib.decompressobj().decompress(content, _MOST_BYTES).partition(b"\0")
    word, _, target = text.partition(b"\n")[0].partition(b" ")
    if not kind.startswith(b"tag ") or word != b"object":
        raise ValueError(f"{name} is no tag")
    return target


def _logged(log: Path, actions: tuple[bytes, ...]) -> set[bytes] | None:
    """Return the commits that a reflog says were made here by these actions; see :func:`_own_commits`."""
    own: set[bytes] | None = _LOGS.get(
        log, [log], lambda: _own_commits(_content(log).splitlines(), actions)
    )
    return own


def _own_commits(lines: list[bytes], actions: tuple[bytes, ...]) -> set[bytes] | None:
    """Return the commits that a reflog says were made here; None if one of its entries moves to another one.

    The format of an entry is ``OLD NEW NAME <EMAIL> TIME ZONE<TAB>ACTION`` (gitformat-reflog).  Entries expire
    after 90 days by default; what was before them is unknown.

    Raises:
        ValueError: if a line is no entry.
    """
    own = set[bytes]()
    for line in lines:
        commits, _, action = line.partition(b"\t")
        old, new, *_ = commits.split(b" ", 2)
        # Some programs move a branch without a reflog: the next entry begins at a commit that no entry led to.
        if old.strip(b"0") and old not in own:
            return None
        if action.startswith(actions):
            own.add(new)
        # `git branch -m` deletes the branch that HEAD is at, and creates it by its new name.
        elif new.strip(b"0") and new not in own:
            return None
    return own
