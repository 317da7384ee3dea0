"""Copy of the git repository of a project on a node, and the checkouts of its commits.

Only commits in the history of the ref that the node follows are checked out.  Servers of forks give the commits of every
fork by their ids, so an id alone says nothing about who wrote a commit.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import CommitGraph
from covalt_git.git_store.objects import FOLDER, SUBMODULE, BrokenStoreError
from covalt_git.git_store.outer_repository import write_folder
from covalt_git.git_store.server_repository import ServerError, ServerRepository
from covalt_git.git_store.store import GitStore
from covalt_git.names import new_id
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import DATA, is_commit
from covalt_git.system.remove_tree import remove_tree

MOST_PACK_BYTES = 1 << 30
"""Size of the largest pack that is fetched."""

MOST_BYTES, MOST_FILES = 512 << 20, 50_000
"""Size of the files of a commit together, and their number."""

_MOST_DEPTH = 100
_USED = "refs/covalt/project/"
_SHA256_LENGTH = 64


class ProjectUnavailableError(CovaltError):
    """The git server of the project does not answer, or does not have the ref."""

    code = "project_unavailable"
    http_status = 503


class BadProjectCommitError(CovaltError):
    """A commit of the project that a node must not, or cannot, run."""

    code = "bad_project_commit"
    http_status = 409


@dataclass(frozen=True, slots=True)
class ProjectRepository:
    """The repository of a project; ``folder`` is its copy, which the caller has locked."""

    folder: Path
    server: ServerRepository

    def tip(self, ref: str) -> str:
        """Return the commit of a branch or tag on the server; the id of a commit is returned as it is.

        Raises:
            ProjectUnavailableError: if the server cannot be reached, or has no such branch or tag.
        """
        return ref if is_commit(ref) else self._find(ref)[1]

    def _find(self, ref: str) -> tuple[str, str]:
        """Return the full name of a branch or tag, and its commit."""
        try:
            refs = self.server.find(ref)
        except ServerError as error:
            raise ProjectUnavailableError(error.message, hint=error.hint) from None
        for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
            if name.startswith("refs/") and name in refs:
                return name, refs[name]
        raise ProjectUnavailableError(
            f"{self.server.url} has no branch or tag {ref!r}",
            hint=f"git ls-remote {self.server.url}",
        )

    def fetch(self, ref: str, commit: str) -> None:
        """Fetch a commit, unless the copy has it.

        Raises:
            ProjectUnavailableError: as :meth:`tip`.
            BadProjectCommitError: if the commit is not in the history of the ref.
        """
        with self._opened(commit) as store:
            if store.read_ref(_USED + commit) is not None:
                return
            name, tip = (ref, ref) if is_commit(ref) else self._find(ref)
            try:
                if not store.has(tip):
                    self.server.fetch(store, [name])
                is_there = store.has(tip) and commit in CommitGraph(store).ancestors([tip])
            except ServerError as error:
                raise ProjectUnavailableError(
                    f"{error.message}; a pack may have {MOST_PACK_BYTES >> 20:,} MiB at most",
                    hint=error.hint,
                ) from None
            except BrokenStoreError as error:
                raise BadProjectCommitError(
                    f"the copy of the repository is damaged: {error.message}",
                    hint=f"rm -r {self.folder}",
                ) from None
            if not is_there:
                raise BadProjectCommitError(
                    f"the commit {commit[:12]} is not in the history of {ref} of {self.server.url}",
                    hint="the servers and the workers of a project follow the same ref",
                )
            # The next fetch sends only what this ref does not reach.  And if the branch is reset, calls that wait in the
            # queue can still run this commit.
            store.swap_ref(_USED + commit, None, commit)

    def _opened(self, commit: str) -> GitStore:
        if not self.folder.exists():
            new = self.folder.with_name(f".{new_id()}")
            object_format = "sha256" if len(commit) == _SHA256_LENGTH else "sha1"
            GitStore.create(new, object_format=object_format).close()
            atomic_write.rename(new, self.folder)
        return GitStore(self.folder)

    def check_out(self, commit: str, target: Path) -> None:
        """Write the files of a commit into the new folder ``target``, read-only and all at once.

        No hook and no filter runs, and submodules stay empty.

        Raises:
            BadProjectCommitError: if there are too many files, or some that a project cannot have.
        """
        with GitStore(self.folder) as store:
            _check_size(store, store.read_commit(commit).tree)
        temporary = target.with_name(f".{new_id()}")
        try:
            try:
                write_folder(self.folder, commit, temporary)
            except (CovaltError, OSError) as error:
                why = error.message if isinstance(error, CovaltError) else error.strerror
                raise BadProjectCommitError(
                    f"the commit {commit[:12]} cannot be checked out: {why}"
                ) from None
            _protect(temporary)
            atomic_write.rename(temporary, target)
        finally:
            remove_tree(temporary)


def _check_size(store: GitStore, tree: str) -> None:
    size = files = 0
    waiting = [(tree, 0)]
    while waiting:
        oid, depth = waiting.pop()
        for entry in store.read_tree(oid):
            if depth == 0 and entry.name.lower() == DATA.encode():
                raise BadProjectCommitError(
                    "the commit has data/, which belongs to one machine",
                    hint="git rm -r --cached data, and add /data/ to .gitignore",
                )
            if entry.mode == FOLDER:
                if depth >= _MOST_DEPTH:
                    raise BadProjectCommitError(f"a folder is below {_MOST_DEPTH} others")
                waiting.append((entry.oid, depth + 1))
                continue
            files += 1
            if entry.mode != SUBMODULE:
                size += store.blob_size(entry.oid)
            if files > MOST_FILES or size > MOST_BYTES:
                raise BadProjectCommitError(
                    f"the commit has more than {MOST_FILES:,} files or {MOST_BYTES >> 20} MiB",
                    hint="keep large files out of the repository of the project",
                )


def _protect(folder: Path) -> None:
    """Take the permission to write from all files and folders; links have no permissions of their own."""
    for place, _, names in os.walk(folder):
        for name in names:
            file = Path(place, name)
            if not file.is_symlink():
                with suppress(OSError):
                    file.chmod(file.stat().st_mode & ~0o222)
        Path(place).chmod(0o555)
