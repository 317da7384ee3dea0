"""Moves of a node to new commits of its project, and checkouts of the commits that calls name.

New calls run the commit of :func:`.current_root`.  A node moves to another commit only if it has no errors and needs no
permission that the user has still to trust.  Otherwise it stays at the last good commit as a whole: a part of a version,
without the tools that are not trusted, is what neither its authors nor its users have seen.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from covalt_git import timestamps
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.git_store.project_repository import (
    MOST_PACK_BYTES,
    BadProjectCommitError,
    ProjectRepository,
)
from covalt_git.git_store.server_repository import ServerRepository
from covalt_git.manifests.followed_project import (
    current_root,
    project_state,
    source_of,
    write_project_state,
)
from covalt_git.manifests.project_config import unchanged_config
from covalt_git.models.project_source import WaitingCommit
from covalt_git.operations.project_permissions import project_permissions
from covalt_git.operations.validation import project_problems
from covalt_git.system import atomic_write, file_lock
from covalt_git.system.node_folder import CHECKOUTS, checkout, commit_of, is_commit, node_of
from covalt_git.system.remove_tree import remove_tree
from covalt_git.trust import Consents, NotTrustedError, project_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.models.project_source import ProjectSource, ProjectState

UNUSED_S = 600
"""Age at which a checkout that is neither current nor used by a call is removed, in seconds."""

_MOST_NAMED = 3


def update(node: Path, *, again: bool = False) -> ProjectState:
    """Fetch the commit of the ref that a node follows, move to it if it can be used, and return the state.

    A commit that has errors is not checked a second time, except ``again``.

    Raises:
        BrokenConfigError: if ``covalt.yaml`` of the node has errors.
        NotTrustedError: if the user has not trusted the repository, or ``data/``.
        ProjectUnavailableError: if the git server does not answer, or has no such ref.
        BadProjectCommitError: if the commit cannot be checked out; the node stays where it is.
        CovaltError: if the password is not set.
    """
    source = source_of(node)
    assert source is not None
    repository = _repository(node, source)
    with _locked(node):
        state = project_state(node, source)
        commit = repository.tip(source.ref)
        _check_out(repository, node, source, commit)
        if commit == state.current:
            moved = state.model_copy(update={"waiting": None})
        else:
            waiting = _why_not(node, commit, state, again=again)
            moved = state.model_copy(update={"waiting": waiting})
            if waiting is None:
                moved = moved.model_copy(update={"current": commit, "moved_at": timestamps.now()})
        if moved != state:
            write_project_state(node, moved)
        if moved.current != state.current and state.current is not None:
            # The time for which it is unused begins now.
            _touch(checkout(node, state.current))
        _remove_unused(node, moved)
        return moved


def root_of_call(node: Path, commit: str | None) -> Path:
    """Return the root of the project for a call that names a commit; fetch it if this node does not have it.

    Raises:
        CovaltError: as :func:`update`, if it cannot be fetched.
    """
    if commit is None:
        return current_root(node)
    source = source_of(node)
    if source is None:
        raise CovaltError(
            "the server of the call has its project from a git repository, and this worker has not",
            hint="write the same project: {url, ref} into the covalt.yaml of the worker's folder",
            code="no_project_commit",
            http_status=503,
        )
    if not is_commit(commit):
        raise BadProjectCommitError(f"{commit!r} is not the id of a commit")
    root = checkout(node, commit)
    if not root.is_dir():
        repository = _repository(node, source)
        with _locked(node):
            _check_out(repository, node, source, commit)
    _touch(root)
    return root


def reviewed_root(root: Path) -> Path:
    """Return the root whose permissions a user reviews: of a node, the commit that waits for trust, if there is one.

    The first commit is fetched, once the user has trusted the repository.

    Raises:
        CovaltError: as :func:`update`.
    """
    node = node_of(root)
    source = source_of(node)
    if source is None:
        return root
    if commit_of(root) is None:
        try:
            update(node)
        except NotTrustedError:
            return node  # its covalt.yaml has the repository, which is reviewed first
    waiting = project_state(node, source).waiting
    if waiting is not None and checkout(node, waiting.commit).is_dir():
        return checkout(node, waiting.commit)
    return current_root(node)


def update_after_trust(node: Path) -> None:
    """Move a node to the commit that has waited for trust; if that fails, the trust is stored all the same."""
    if source_of(node) is not None:
        with suppress(CovaltError):
            update(node)


class Behind(NamedTuple):
    """Why a node does not run the newest commit of its project, and what its user can do."""

    why: str
    command: str


def behind(root: Path) -> Behind | None:
    """Return why a node is not at the newest commit of its ref, as far as it knows that; None if it is."""
    node = node_of(root)
    source = source_of(node)
    waiting = None if source is None else project_state(node, source).waiting
    if waiting is None:
        return None
    assert source is not None
    why = f"the commit {waiting.commit[:12]} of {source.ref} is not used: {waiting.why}"
    return Behind(
        why,
        "covalt-git trust"
        if waiting.kind == "not_trusted"
        else "covalt-git validate in a clone of the repository, then push a commit without errors",
    )


def _repository(node: Path, source: ProjectSource) -> ProjectRepository:
    """Return the repository of a project, of which nothing was requested yet."""
    consents = Consents.of(node)
    consents.check_data()
    consents.check([project_source(source)])
    password = None
    if source.password_name is not None:
        password = SecretStore.of_this_machine(None).value(source.password_name)
        if password is None:
            raise CovaltError(
                f"the secret {source.password_name} of project.password in covalt.yaml is not set",
                hint=f"export {source.password_name}=..., or write it into secrets.env",
            )
    hint = f"git ls-remote {source.url}"
    server = ServerRepository(
        source.url, source.username, password, hint=hint, most_bytes=MOST_PACK_BYTES
    )
    return ProjectRepository(node / CHECKOUTS / "repository.git", server)


@contextmanager
def _locked(node: Path) -> Iterator[None]:
    """Hold the lock of the checkouts of a node, of which a server and several workers may move to a commit at once."""
    folder = node / CHECKOUTS
    folder.mkdir(mode=0o700, exist_ok=True)
    with file_lock.held(folder):
        yield


def _check_out(
    repository: ProjectRepository, node: Path, source: ProjectSource, commit: str
) -> None:
    if not checkout(node, commit).is_dir():
        repository.fetch(source.ref, commit)
        repository.check_out(commit, checkout(node, commit))


def _why_not(node: Path, commit: str, state: ProjectState, *, again: bool) -> WaitingCommit | None:
    """Return why a node cannot move to a commit; None if it can."""
    earlier = state.waiting
    if earlier is not None and (earlier.commit, earlier.kind) == (commit, "invalid") and not again:
        return earlier
    root = checkout(node, commit)
    errors = [problem for problem in project_problems(root) if problem.severity == "error"]
    if errors:
        named = "; ".join(
            f"{problem.path}:{problem.line}: {problem.code} {problem.message}"
            for problem in errors[:_MOST_NAMED]
        )
        more = len(errors) - _MOST_NAMED
        why = f"it has errors: {named}{f'; and {more} more' if more > 0 else ''}"
        return WaitingCommit(commit=commit, kind="invalid", why=why)
    if unchanged_config(root).project is not None:
        why = "its covalt.yaml has the key project, which is for the covalt.yaml of a node"
        return WaitingCommit(commit=commit, kind="invalid", why=why)
    # The first commit is like a clone: what is not trusted does not act.  What the user has not trusted in the current
    # commit did not act either, and so does not stop an update.
    if state.current is None:
        return None
    untrusted = {
        permission.key
        for permission, trusted in project_permissions(checkout(node, state.current))
        if not trusted
    }
    lacking = [
        permission
        for permission, trusted in project_permissions(root)
        if not trusted and permission.key not in untrusted
    ]
    if not lacking:
        return None
    return WaitingCommit(commit=commit, kind="not_trusted", why=NotTrustedError(lacking).message)


def _remove_unused(node: Path, state: ProjectState) -> None:
    """Remove the checkouts of earlier commits that no call uses; the caller has the lock."""
    used = {state.current, state.waiting and state.waiting.commit}
    for folder in (node / CHECKOUTS).iterdir():
        if folder.name.startswith("."):  # of a process that died, because this one has the lock
            remove_tree(folder)
        if not is_commit(folder.name) or folder.name in used:
            continue
        # A request may have its root, and not use it yet.
        if time.time() - folder.stat().st_mtime < UNUSED_S:
            continue
        with suppress(BlockingIOError), file_lock.held(folder, wait=False):
            gone = folder.with_name(f".gone-{folder.name}")
            atomic_write.rename(folder, gone)
            remove_tree(gone)


def _touch(folder: Path) -> None:
    with suppress(FileNotFoundError):
        os.utime(folder)
