"""The Git repository around a project: a reader of a folder at a commit, and the first commit of a new project.

Only :func:`create_work_repository` and :func:`commit_files` change a repository.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from dulwich.errors import NotGitRepository
from dulwich.graph import find_merge_base
from dulwich.index import Index, UnmergedEntries
from dulwich.objects import Commit, Tree
from dulwich.objectspec import AmbiguousShortId, parse_commit, parse_object
from dulwich.repo import Repo

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import SUBMODULE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from dulwich.objects import ObjectID, ShaFile

_MAX_DEPTH = 200
_MAX_COMMITS = 10_000
_TO_COMMIT = "git add -A && git commit"
_FORBIDDEN_NAMES = {b"", b".", b".."}


class UnknownRevisionError(CovaltError):
    """There is no repository around the folder, or no such commit in it."""

    code = "unknown_revision"
    exit_code = 2


def write_folder(
    folder: Path, revision: str, target: Path, *, only: Collection[str] | None = None
) -> tuple[str, dict[str, str]]:
    """Write the files of ``folder`` at a revision into ``target``.

    If the commit does not have the folder, ``target`` stays empty.  Submodules are left out.  With ``only``,
    entries with other names are left out, too.

    Returns:
        The id of the commit, and the commits of the submodules by their paths in the folder.

    Raises:
        UnknownRevisionError: when ``folder`` is in no repository, or the repository has no such commit.
    """
    with _opened(folder, revision) as repository:
        commit = _commit(repository, revision)
        target.mkdir(parents=True, exist_ok=True)
        entries = _walk(repository, _tree(repository, folder, commit))
        return commit.id.decode(), _write(repository, entries, target, only)


def write_staged(folder: Path, target: Path, *, only: Collection[str] | None = None) -> None:
    """Write the staged files of ``folder`` into the empty folder ``target``.

    The other arguments are those of :func:`write_folder`.

    The index is the file in ``GIT_INDEX_FILE``, which git sets for its hooks, or else the repository's index.

    Raises:
        UnknownRevisionError: when ``folder`` is in no repository, or its index has conflicts.
    """
    with _opened(folder, "index") as repository:
        index = Index(os.environ.get("GIT_INDEX_FILE") or repository.index_path())
        below = _path_in(repository, folder)
        prefix = b"" if below == b"." else below + b"/"
        staged = (
            (path.removeprefix(prefix), mode, oid)
            for path, oid, mode in index.iterobjects()
            if path.startswith(prefix) and not _FORBIDDEN_NAMES & {*path.split(b"/")}
        )
        _write(repository, staged, target, only)


def merge_base(folder: Path, one: str, other: str) -> str:
    """Return the id of the merge base of two revisions, as ``git merge-base`` does.

    Raises:
        UnknownRevisionError: if one of them is not a commit, or they have no merge base.
    """
    ids = []
    for revision in (one, other):
        with _opened(folder, revision) as repository:
            ids.append(_commit(repository, revision).id)
    with _opened(folder, f"{one}...{other}") as repository:
        found = find_merge_base(repository, ids)
    if not found:
        raise UnknownRevisionError(
            f"{one!r} and {other!r} have no commit in common",
            hint="in a shallow clone: git fetch --unshallow",
        )
    return found[0].decode()


def folder_versions(folder: Path) -> Iterator[list[tuple[str, bytes, bool]]]:
    """Yield each version of ``folder`` in the history of HEAD once, the latest first.

    At most 10,000 commits are read.  A version is its files: path below the folder, content, and
    whether it is executable.  Links and names that are not UTF-8 are left out.

    Raises:
        UnknownRevisionError: when ``folder`` is in no repository, or the repository has no commit.
    """
    with _opened(folder, "HEAD") as repository:
        found = set()
        try:
            for entry in repository.get_walker(max_entries=_MAX_COMMITS):
                tree = _tree(repository, folder, entry.commit)
                if tree is not None and tree.id not in found:
                    found.add(tree.id)
                    yield list(_files(repository, tree))
        except (KeyError, ValueError, NotImplementedError):
            raise UnknownRevisionError(
                "the repository has no complete commit",
                hint=f"if it is new: {_TO_COMMIT}; otherwise: git fsck",
            ) from None


def create_work_repository(path: Path) -> None:
    """Create an empty repository with a working tree at ``path``, on branch main."""
    Repo.init(str(path), default_branch=b"main").close()


def commit_files(path: Path, files: Iterable[Path], message: str) -> None:
    """Commit files of the repository with a working tree at ``path``, as git's user."""
    with Repo(str(path)) as repository:
        worktree = repository.get_worktree()
        worktree.stage([file.relative_to(path) for file in files])
        worktree.commit(message.encode(), sign=False)


def _files(repository: Repo, tree: Tree) -> Iterator[tuple[str, bytes, bool]]:
    for path, mode, oid in _walk(repository, tree):
        if stat.S_ISREG(mode):
            with contextlib.suppress(UnicodeDecodeError):
                yield path.decode(), repository[oid].as_raw_string(), bool(mode & stat.S_IXUSR)


def _write(
    repository: Repo,
    entries: Iterable[tuple[bytes, int, ObjectID]],
    target: Path,
    only: Collection[str] | None,
) -> dict[str, str]:
    """Write files; return the commits of submodules by their paths."""
    submodules = {}
    for raw, mode, oid in entries:
        path = os.fsdecode(raw)
        if only is not None and path.partition("/")[0] not in only:
            continue
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if mode == SUBMODULE:
            submodules[path] = oid.decode()
        elif stat.S_ISDIR(mode):
            file.mkdir()
        elif stat.S_ISLNK(mode):
            file.symlink_to(os.fsdecode(repository[oid].as_raw_string()))
        else:
            with file.open("xb") as opened:
                opened.write(repository[oid].as_raw_string())
            file.chmod(0o755 if mode & stat.S_IXUSR else 0o644)
    return submodules


def _path_in(repository: Repo, folder: Path) -> bytes:
    """Return the path of a folder in the files of its repository."""
    return os.fsencode(os.path.relpath(folder.resolve(), os.path.realpath(repository.path)))


@contextlib.contextmanager
def _opened(folder: Path, revision: str) -> Iterator[Repo]:
    """Yield the repository around a folder, which may no longer exist, to read a revision.

    Raises:
        UnknownRevisionError: when the folder is in no repository, or the revision is not readable.
    """
    try:
        with Repo.discover(str(folder)) as repository:
            yield repository
    except NotGitRepository:
        raise UnknownRevisionError(
            f"{str(folder)!r} is in no git repository", hint=f"git init && {_TO_COMMIT}"
        ) from None
    except UnmergedEntries:
        raise UnknownRevisionError("the index has conflicts", hint="git status") from None
    except (KeyError, ValueError, NotImplementedError, AmbiguousShortId, OSError) as error:
        why = f": {error.strerror.lower()}" if isinstance(error, OSError) and error.strerror else ""
        raise UnknownRevisionError(
            f"there is no complete commit {revision!r}{why}",
            hint="list them with `git log --oneline`",
        ) from None


def _commit(repository: Repo, revision: str) -> Commit:
    """Return the commit of a branch, a tag, or an id or its beginning; ``~`` and ``^`` may follow."""
    if not revision or ":" in revision:
        raise ValueError("not the name of a commit")
    if not repository.get_refs():
        raise UnknownRevisionError("the repository has no commit yet", hint=_TO_COMMIT)
    if not {"~", "^"} & set(revision):
        return parse_commit(repository, revision)
    return parse_commit(repository, parse_object(repository, revision).id)


def _tree(repository: Repo, folder: Path, commit: Commit) -> Tree | None:
    """Return the tree of a folder at a commit."""
    below = _path_in(repository, folder)
    found = repository[commit.tree]
    for name in below.split(b"/") if below != b"." else ():
        if not isinstance(found, Tree) or name not in found:
            return None
        found = repository[found[name][1]]
    return found if isinstance(found, Tree) else None


def _walk(
    repository: Repo, tree: ShaFile | None, prefix: bytes = b""
) -> Iterator[tuple[bytes, int, ObjectID]]:
    """Yield path, mode and id of all entries of a tree, except for names that git refuses to check out.

    Each folder precedes its entries.  If the object is not a tree, nothing is yielded.
    """
    for name, mode, oid in tree.iteritems() if isinstance(tree, Tree) else ():
        if name in _FORBIDDEN_NAMES or b"/" in name or prefix.count(b"/") > _MAX_DEPTH:
            continue
        yield prefix + name, mode, oid
        if stat.S_ISDIR(mode):
            yield from _walk(repository, repository[oid], prefix + name + b"/")
