"""The Git repository around a project: a reader of a folder at a commit, and the first commit of a new project.

Only :func:`create_work_repository` and :func:`commit_files` change a repository.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from dulwich.errors import ChecksumMismatch, NotGitRepository
from dulwich.graph import find_merge_base
from dulwich.index import Index, UnmergedEntries
from dulwich.objects import Commit, Tree
from dulwich.objectspec import AmbiguousShortId, parse_commit
from dulwich.repo import Repo, UnsupportedExtension, UnsupportedVersion

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import SUBMODULE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from dulwich.config import ConfigFile
    from dulwich.objects import ObjectID, ShaFile

# Trees are walked by recursion, and the author of a clone can nest them without an end.
_MAX_DEPTH = 200
_MAX_COMMITS = 10_000
_TO_COMMIT = "git add -A && git commit"
_STEP = re.compile(r"(~|\^)(\{(?:commit)?\}|\d*)")
_REVISION = re.compile(
    r"(?P<name>(?:(?!@\{)[^~^])*)(?:@\{(?P<entry>\d+)\})?(?P<steps>(?:~\d*|\^(?:\{(?:commit)?\}|\d*))*)"
)
_NO_COMMIT = re.compile(r":|\^\{(?:tree|blob)\}")
_PSEUDO_REF = re.compile(r"[A-Z]+_HEAD")
_REF_PREFIXES = ("", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/")
# A tree that was made by hand can have these names, and its files would then be written outside of the target.
_FORBIDDEN_NAMES = {b"", b".", b".."}
_EXTENSIONS = b"extensions"
_FOR_WRITERS = {b"partialclone", b"preciousobjects", b"noop", b"noop-v1"}
"""Extensions of a repository that change nothing for a reader; of a partial clone, missing objects are said."""


class _ReadRepo(Repo):
    """A user's repository that is only read, also with extensions that dulwich does not know and only writers heed."""

    def get_config(self) -> ConfigFile:
        config = super().get_config()
        for section in list(config.sections()):
            if section[0].lower() == _EXTENSIONS:
                for name in [name for name, _ in config.items(section)]:
                    if name.lower() in _FOR_WRITERS:
                        del config[section][name]
        return config


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
        # `git commit FILE` and `git commit -a` run hooks with an index of their own.
        file = os.environ.get("GIT_INDEX_FILE") or repository.index_path()
        try:
            index = Index(file, object_format=repository.object_format)
        except (AssertionError, struct.error, ChecksumMismatch):
            raise UnknownRevisionError("git's index is damaged", hint="git status") from None
        below = _path_in(repository, folder)
        prefix = b"" if below == b"." else below + b"/"
        staged = (
            (path.removeprefix(prefix), mode, oid)
            for path, oid, mode in index.iterobjects()
            if path.startswith(prefix) and not _FORBIDDEN_NAMES & {*path.split(b"/")}
        )
        _write(repository, staged, target, only)


def merge_base(folder: Path, first: str, second: str) -> str:
    """Return the id of the merge base of two revisions, as ``git merge-base`` does.

    Raises:
        UnknownRevisionError: if one of them is not a commit, or they have no merge base.
    """
    ids = []
    for revision in (first, second):
        with _opened(folder, revision) as repository:
            ids.append(_commit(repository, revision).id)
    with _opened(folder, f"{first}...{second}") as repository:
        bases = find_merge_base(repository, ids)
    if not bases:
        raise UnknownRevisionError(
            f"{first!r} and {second!r} have no commit in common",
            hint="in a shallow clone: git fetch --unshallow",
        )
    return bases[0].decode()


def folder_versions(folder: Path) -> Iterator[list[tuple[str, bytes, bool]]]:
    """Yield each version of ``folder`` in the history of HEAD once, the latest first.

    At most 10,000 commits are read.  A version is its files: path below the folder, content, and
    whether it is executable.  Links and names that are not UTF-8 are left out.

    Raises:
        UnknownRevisionError: when ``folder`` is in no repository, or the repository has no commit.
    """
    with _opened(folder, "HEAD") as repository:
        yielded = set()
        try:
            for entry in repository.get_walker(max_entries=_MAX_COMMITS):
                tree = _tree(repository, folder, entry.commit)
                if tree is not None and tree.id not in yielded:
                    yielded.add(tree.id)
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
    """Write files; return the commits of submodules by their paths.

    Raises:
        UnknownRevisionError: if two entries have the same path, or one is below a file.
    """
    submodules, links = {}, {}
    for raw, mode, oid in entries:
        path = os.fsdecode(raw)
        if only is not None and path.partition("/")[0] not in only:
            continue
        file = target / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if mode == SUBMODULE:
                submodules[path] = oid.decode()
            elif stat.S_ISDIR(mode):
                file.mkdir()
            elif stat.S_ISLNK(mode):
                links[file] = oid
            else:
                with file.open("xb") as opened:
                    opened.write(repository[oid].as_raw_string())
                file.chmod(0o755 if mode & stat.S_IXUSR else 0o644)
        except (FileExistsError, NotADirectoryError):
            raise _twice(path) from None
    # Last: a tree or an index that git would not write can have a link `a` and a file `a/x`, which would be written to
    # wherever the link leads (test_nothing_is_written_through_a_link_of_the_same_tree).
    for file, oid in links.items():
        try:
            file.symlink_to(os.fsdecode(repository[oid].as_raw_string()))
        except FileExistsError:
            raise _twice(str(file.relative_to(target))) from None
    return submodules


def _twice(path: str) -> UnknownRevisionError:
    return UnknownRevisionError(
        f"the path {path!r} is there twice, which git never writes", hint="git fsck"
    )


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
        with _ReadRepo.discover(str(folder)) as repository:
            yield repository
    except UnsupportedExtension as error:
        raise _unreadable(f"extension {error.extension!r}") from None
    except UnsupportedVersion as error:
        raise _unreadable(f"format version {error.version}") from None
    except NotGitRepository:
        raise UnknownRevisionError(
            f"{str(folder)!r} is in no git repository", hint=f"git init && {_TO_COMMIT}"
        ) from None
    except UnmergedEntries:
        raise UnknownRevisionError("the index has conflicts", hint="git status") from None
    except OSError as error:
        raise UnknownRevisionError(
            f"there is no complete commit {revision!r}: {(error.strerror or '').lower()}",
            hint="list them with `git log --oneline`",
        ) from None
    except (KeyError, ValueError, NotImplementedError, AmbiguousShortId):
        raise _why_incomplete(repository, revision) from None


def _unreadable(feature: str) -> UnknownRevisionError:
    return UnknownRevisionError(
        f"the repository cannot be read: covalt-git does not know its {feature}",
        hint="git config --get-regexp 'extensions|repositoryformatversion'",
    )


def _why_incomplete(repository: Repo, revision: str) -> UnknownRevisionError:
    """Return the error about a commit that cannot be found or read completely."""
    config = repository.get_config()
    remotes = [section for section in config.sections() if section[0] == b"remote"]
    if any(config.get_boolean(section, b"promisor", False) for section in remotes):
        return UnknownRevisionError(
            f"objects of {revision!r} are missing, because this is a partial clone",
            hint="git fetch --refetch --no-filter",
        )
    return UnknownRevisionError(
        f"there is no complete commit {revision!r}", hint="list them with `git log --oneline`"
    )


def _commit(repository: Repo, revision: str) -> Commit:
    """Return the commit that a revision names, in the syntax of gitrevisions(7).

    Of that syntax these are supported: a branch, a tag, an id or its beginning, ``@``, names such as FETCH_HEAD, and
    after one of them ``@{N}``, ``~N``, ``^N``, ``^{commit}`` and ``^{}``.
    """
    if not revision:
        raise ValueError("not the name of a commit")
    if not repository.get_refs():
        raise UnknownRevisionError("the repository has no commit yet", hint=_TO_COMMIT)
    has_text = revision.startswith(":/") or "^{/" in revision  # a search in messages
    if not has_text and _NO_COMMIT.search(revision):
        raise UnknownRevisionError(
            f"{revision!r} names a file or folder, and a commit is needed",
            hint="write a commit, for example HEAD; list them with `git log --oneline`",
        )
    parts = None if has_text else _REVISION.fullmatch(revision)
    if parts is None:
        raise UnknownRevisionError(
            f"names such as {revision!r} are not supported",
            hint=f"write the id that this prints: git rev-parse {shlex.quote(revision)}",
        )
    name = "HEAD" if parts["name"] in {"", "@"} else parts["name"]
    if parts["entry"] is not None:
        name = _reflog_id(repository, name, int(parts["entry"]))
    elif _PSEUDO_REF.fullmatch(name):
        name = _pseudo_ref_id(repository, name)
    commit = parse_commit(repository, name)
    for step, number in _STEP.findall(parts["steps"]):
        if step == "~":
            for _ in range(int(number or 1)):
                commit = _parent(repository, commit, 1)
        elif number not in {"{}", "{commit}"}:
            commit = _parent(repository, commit, int(number or 1))
    return commit


def _parent(repository: Repo, commit: Commit, number: int) -> Commit:
    """Return the parent of a commit by its number, from 1 on; 0 is the commit itself."""
    if number == 0:
        return commit
    if number > len(commit.parents):
        raise KeyError(number)
    return parse_commit(repository, commit.parents[number - 1])


def _pseudo_ref_id(repository: Repo, name: str) -> str:
    """Return the id in a file such as FETCH_HEAD, whose first line is the one that a merge would take."""
    try:
        content = (Path(os.fsdecode(repository.controldir())) / name).read_text(encoding="ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return name  # a branch can have such a name
    return content.split(maxsplit=1)[0] if content.strip() else name


def _reflog_id(repository: Repo, name: str, number: int) -> str:
    """Return the id that a branch or HEAD had a number of changes ago."""
    refs = repository.get_refs()
    names = [f"{prefix}{name}".encode() for prefix in _REF_PREFIXES]
    ref = next((ref for ref in names if ref in refs), None)
    entries = [] if ref is None else list(repository.read_reflog(ref))
    if number >= len(entries):
        raise KeyError(name)
    return str(entries[-1 - number].new_sha.decode())


def _tree(repository: Repo, folder: Path, commit: Commit) -> Tree | None:
    """Return the tree of a folder at a commit."""
    below = _path_in(repository, folder)
    place = repository[commit.tree]
    for name in below.split(b"/") if below != b"." else ():
        if not isinstance(place, Tree) or name not in place:
            return None
        place = repository[place[name][1]]
    return place if isinstance(place, Tree) else None


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
