"""A folder as it was at commits of the repository it is in: read or written elsewhere, nothing touched."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from dulwich.errors import NotGitRepository
from dulwich.graph import find_merge_base
from dulwich.objects import Commit, Tree
from dulwich.objectspec import AmbiguousShortId, parse_commit, parse_object
from dulwich.repo import Repo

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from dulwich.object_store import BaseObjectStore

_GITLINK = 0o160000
_DEEPEST = 200
_MOST_COMMITS = 10_000
"""Whoever looks for a version of a folder looks no further back."""

_CANNOT_BE_NAMES = {b"", b".", b".."}


class UnknownRevisionError(CovaltError):
    """There is no repository around the folder, or no such commit in it."""

    code = "unknown_revision"
    exit_code = 2


def write_folder(
    folder: Path, revision: str, target: Path, *, only: Collection[str] | None = None
) -> str:
    """Write what ``folder`` held at a revision into ``target``; return the commit's id.

    Nothing of the repository or its working tree is written or run.  A folder that was not there is
    empty; submodules are left out.  With ``only``, the entries of these names are written and no others.

    Raises:
        UnknownRevisionError: when ``folder`` is in no repository, or that has no such commit.
    """
    with _around(folder) as repository:
        try:
            commit = _commit(repository, revision)
            store = repository.object_store
            target.mkdir(parents=True, exist_ok=True)
            tree = _tree_at(store, commit, _names_below(repository, folder))
            if tree is not None:
                wanted = None if only is None else {os.fsencode(name) for name in only}
                _write(store, tree, os.fsencode(target), 0, wanted)
        except (KeyError, ValueError, NotImplementedError, AmbiguousShortId, OSError) as error:
            raise _no_commit(revision, error) from None
        return commit.id.decode()


def merge_base(folder: Path, one: str, other: str) -> str:
    """Return the id of the commit that two revisions both come from, as ``git merge-base`` finds it.

    Raises:
        UnknownRevisionError: when one of them is no commit, or they have none in common.
    """
    with _around(folder) as repository:
        given = one
        try:
            first = _commit(repository, one)
            given = other
            second = _commit(repository, other)
            given = f"{one}...{other}"
            found = find_merge_base(repository, [first.id, second.id])
        except (KeyError, ValueError, NotImplementedError, AmbiguousShortId, OSError) as error:
            raise _no_commit(given, error) from None
    if not found:
        raise UnknownRevisionError(
            f"{one!r} and {other!r} have no commit in common",
            hint="in a shallow clone: git fetch --unshallow",
        )
    return found[0].decode()


def submodules(folder: Path, revision: str) -> dict[str, str]:
    """Return the submodules below ``folder`` at a revision: their paths in it, and their commits.

    Raises:
        UnknownRevisionError: as :func:`write_folder`.
    """
    found: dict[str, str] = {}
    with _around(folder) as repository:
        try:
            commit = _commit(repository, revision)
            tree = _tree_at(repository.object_store, commit, _names_below(repository, folder))
            waiting = [] if tree is None else [("", tree)]
            while waiting:
                above, tree = waiting.pop()
                for name, mode, oid in tree.iteritems():
                    path = f"{above}{os.fsdecode(name)}"
                    if mode == _GITLINK:
                        found[path] = oid.decode()
                    elif stat.S_ISDIR(mode) and path.count("/") < _DEEPEST:
                        inner = repository.object_store[oid]
                        waiting += [(f"{path}/", inner)] if isinstance(inner, Tree) else []
        except (KeyError, ValueError, NotImplementedError, AmbiguousShortId, OSError) as error:
            raise _no_commit(revision, error) from None
    return dict(sorted(found.items()))


def folder_versions(folder: Path) -> Iterator[list[tuple[str, bytes, bool]]]:
    """Yield what ``folder`` held in the history of the last commit, the latest first, each once.

    A version is its files: path below the folder, content, and whether it may be run.  Links and names
    that are no text are left out.

    Raises:
        UnknownRevisionError: when ``folder`` is in no repository, or that has no commit.
    """
    with _around(folder) as repository:
        store = repository.object_store
        names = _names_below(repository, folder)
        seen = set()
        try:
            for entry in repository.get_walker(max_entries=_MOST_COMMITS):
                tree = _tree_at(store, entry.commit, names)
                if tree is not None and tree.id not in seen:
                    seen.add(tree.id)
                    yield list(_files(store, tree, "", 0))
        except (KeyError, ValueError, NotImplementedError):
            raise UnknownRevisionError(
                "the repository has no whole commit", hint="git add -A && git commit"
            ) from None


def _files(
    store: BaseObjectStore, tree: Tree, prefix: str, depth: int
) -> Iterator[tuple[str, bytes, bool]]:
    for name, mode, oid in tree.iteritems():
        if mode == _GITLINK or stat.S_ISLNK(mode) or depth > _DEEPEST:
            continue
        try:
            path = prefix + name.decode()
        except UnicodeDecodeError:
            continue
        found = store[oid]
        if isinstance(found, Tree):
            yield from _files(store, found, f"{path}/", depth + 1)
        else:
            yield path, found.as_raw_string(), bool(mode & stat.S_IXUSR)


def _around(folder: Path) -> Repo:
    """Return the repository that a folder is in, which need not be there any more.

    Raises:
        UnknownRevisionError: when there is none.
    """
    try:
        return Repo.discover(str(folder))
    except NotGitRepository:
        raise UnknownRevisionError(
            f"{str(folder)!r} is in no git repository", hint="git init && git add -A && git commit"
        ) from None


def _names_below(repository: Repo, folder: Path) -> list[bytes]:
    """Return the names that lead from the root of a repository to a folder of it."""
    below = os.fsencode(os.path.relpath(folder.resolve(), os.path.realpath(repository.path)))
    return [] if below == b"." else below.split(b"/")


def _no_commit(revision: str, error: Exception) -> UnknownRevisionError:
    why = f": {error.strerror.lower()}" if isinstance(error, OSError) and error.strerror else ""
    return UnknownRevisionError(
        f"there is no whole commit {revision!r}{why}", hint="list them with `git log --oneline`"
    )


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


def _write(
    store: BaseObjectStore,
    tree: Tree,
    folder: bytes,
    depth: int,
    only: Collection[bytes] | None = None,
) -> None:
    for name, mode, oid in tree.iteritems():
        if only is not None and name not in only:
            continue
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
