"""A folder as it was at a commit of the repository it is in: written elsewhere, nothing touched."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from dulwich.errors import NotGitRepository
from dulwich.objects import Commit, Tree
from dulwich.objectspec import AmbiguousShortId, parse_commit, parse_object
from dulwich.repo import Repo

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from pathlib import Path

    from dulwich.object_store import BaseObjectStore

_GITLINK = 0o160000
_DEEPEST = 200
_CANNOT_BE_NAMES = {b"", b".", b".."}


class UnknownRevisionError(CovaltError):
    """There is no repository around the folder, or no such commit in it."""

    code = "unknown_revision"
    exit_code = 2


def write_folder(folder: Path, revision: str, target: Path) -> str:
    """Write what ``folder`` held at a revision into ``target``; return the commit's id.

    Nothing of the repository or its working tree is written or run.  A folder that was not there is
    empty; submodules are left out.

    Raises:
        UnknownRevisionError: when ``folder`` is in no repository, or that has no such commit.
    """
    try:
        repository = Repo.discover(str(folder))
    except NotGitRepository:
        raise UnknownRevisionError(
            f"{str(folder)!r} is in no git repository", hint="git init && git add -A && git commit"
        ) from None
    with repository:
        try:
            commit = _commit(repository, revision)
            below = os.fsencode(
                os.path.relpath(folder.resolve(), os.path.realpath(repository.path))
            )
            store = repository.object_store
            target.mkdir(parents=True, exist_ok=True)
            tree = _tree_at(store, commit, [] if below == b"." else below.split(b"/"))
            if tree is not None:
                _write(store, tree, os.fsencode(target), 0)
        except (KeyError, ValueError, NotImplementedError, AmbiguousShortId, OSError) as error:
            why = (
                f": {error.strerror.lower()}"
                if isinstance(error, OSError) and error.strerror
                else ""
            )
            raise UnknownRevisionError(
                f"there is no whole commit {revision!r}{why}",
                hint="list them with `git log --oneline`",
            ) from None
        return commit.id.decode()


def _commit(repository: Repo, revision: str) -> Commit:
    """Return the commit of a branch, a tag, an id or its beginning, or ``~`` and ``^`` from there."""
    if not revision or ":" in revision:
        raise ValueError("the name of a file, if any, and not of a commit")
    if not {"~", "^"} & set(revision):
        return parse_commit(repository, revision)
    return parse_commit(repository, parse_object(repository, revision).id)


def _tree_at(store: BaseObjectStore, commit: Commit, names: list[bytes]) -> Tree | None:
    found = store[commit.tree]
    for name in names:
        if not isinstance(found, Tree) or name not in found:
            return None
        found = store[found[name][1]]
    return found if isinstance(found, Tree) else None


def _write(store: BaseObjectStore, tree: Tree, folder: bytes, depth: int) -> None:
    for name, mode, oid in tree.iteritems():
        # Git itself would not check these out; whoever made them wants to write elsewhere.
        if name in _CANNOT_BE_NAMES or b"/" in name or depth > _DEEPEST or mode == _GITLINK:
            continue
        path = os.path.join(folder, name)  # noqa: PTH118 - names need not be text
        found = store[oid]
        if isinstance(found, Tree):
            os.mkdir(path)  # noqa: PTH102 - as above
            _write(store, found, path, depth + 1)
        elif stat.S_ISLNK(mode):
            os.symlink(found.as_raw_string(), path)  # noqa: PTH211 - as above
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            rights = 0o755 if mode & stat.S_IXUSR else 0o644
            with os.fdopen(os.open(path, flags, rights), "wb") as file:
                file.write(found.as_raw_string())
