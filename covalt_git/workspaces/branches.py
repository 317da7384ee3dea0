"""Branches of a chat: available names, renaming, deletion and restoration.

A call that requires approval is bound to its branch, which the reviewer was shown.  So a branch keeps
its name while a call is pending on it, and is deleted with one only by force: the call then ends as an
error, ``cancelled``, in the history that is deleted.

Commits that only a deleted branch had stay reachable at ``refs/covalt/deleted/<uuid7>/<name>``, whose
id has the time.

A rename changes two refs and maybe HEAD, which cannot change at once.  It is written down first, at
``refs/covalt/rename``; each later step can be repeated, and the last removes the note.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.models.base import StrictModel
from covalt_git.names import check_branch, new_id
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import (
    DELETED,
    HEADS,
    MovedError,
    read_stored,
    write_stored,
)

if TYPE_CHECKING:
    from covalt_git.git_store import GitStore
    from covalt_git.models.calls import PendingCall
    from covalt_git.models.chats import Branch
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

RENAME = "refs/covalt/rename"


class BranchExistsError(CovaltError):
    """A branch with that name already exists."""

    code = "branch_exists"
    http_status = 409


class ActiveBranchError(CovaltError):
    """The folder is on the branch."""

    code = "active_branch"
    http_status = 409


class CallWaitsError(CovaltError):
    """A call waits for a person, bound to the branch."""

    code = "call_waits"
    http_status = 409


class OnlyThereError(CovaltError):
    """The branch has manifests that no other branch has."""

    code = "only_there"
    http_status = 409


class DeletedBranch(StrictModel):
    """A deleted branch; ``manifests`` is the number of commits that no other branch has."""

    name: str
    manifest_id: str
    manifests: int


class Rename(StrictModel):
    """A rename that was decided: the commit that the branch is at, None before its first."""

    v: int = 1
    old: str
    new: str
    at: str | None = None


def check_free(chat: ChatStore, name: str) -> None:
    """Check that a branch with that name can be created.

    Raises:
        BadNameError: when the name is not valid.
        BranchExistsError: when it exists, or a branch whose name is a folder of this one or the reverse.
    """
    check_branch(name)
    names = chat.branch_names()
    if name in names:
        raise BranchExistsError(
            f"there is a branch {name!r}", hint=f"covalt-git chat checkout {chat.id} {name}"
        )
    for known in names:
        if known.startswith(f"{name}/") or name.startswith(f"{known}/"):
            raise BranchExistsError(
                f"there is a branch {known!r}, so {name!r} cannot be one", hint="choose another"
            )


def create(writer: Writer, name: str, manifest_id: str | None) -> None:
    """Create a branch at a commit.

    Raises:
        BranchExistsError: when it exists.
        CovaltError: when the chat has no commit yet.
    """
    chat = writer.chat
    check_free(chat, name)
    if manifest_id is None:
        raise CovaltError(
            f"chat {chat.id!r} has no manifest to branch from",
            hint=f"make the first: covalt-git chat upload {chat.id} FILE",
        )
    if not chat.store.swap_ref(HEADS + name, None, manifest_id):
        raise BranchExistsError(f"there is a branch {name!r}", hint="choose another name")


def new_name(chat: ChatStore, wanted: str | None, purpose: str) -> str:
    """Return the name of a new branch: ``wanted``, or an available one such as ``retry-1``.

    Raises:
        BranchExistsError: when ``wanted`` exists.
    """
    if wanted is not None:
        check_free(chat, wanted)
        return wanted
    names = {branch.name.partition("/")[0] for branch in chat.branches()}
    numbered = (f"{purpose}-{number}" for number in itertools.count(1))
    return next(name for name in numbered if name not in names)


def rename(writer: Writer, old: str, new: str) -> Branch:
    """Rename a branch; HEAD follows it.

    Raises:
        UnknownNameError: naming the nearest branch.
        CallWaitsError: when a call is pending on it.
        BranchExistsError: when the new name exists.
        MovedError: when a push came first; the branch has its old name.
    """
    chat = writer.chat
    at = chat.branch(old).manifest_id
    _check_nothing_waits(chat, old, verb="renamed")
    check_free(chat, new)
    decide_rename(chat.store, Rename(old=old, new=new, at=at))
    return chat.branch(new)


def decide_rename(store: GitStore, rename: Rename) -> None:
    """Write a rename down and finish it; a process killed before that has not begun it.

    Raises:
        MovedError: when a push came first; the branch has its old name.
    """
    note = write_stored(store, rename, f"rename: {rename.old} {rename.new}")
    if not store.swap_ref(RENAME, None, note):
        raise MovedError("another process renames a branch", hint="try again")
    finish_rename(store)
    if store.read_ref(HEADS + rename.old) is not None:
        raise MovedError(f"the branch {rename.old!r} has moved", hint="try again")


def finish_rename(store: GitStore) -> None:
    """Complete the rename that was written down, if there is one.

    If a push has moved the branch or taken the name since, nothing is renamed.
    """
    note = store.read_ref(RENAME)
    if note is None:
        return
    rename = read_stored(store, note, Rename)
    old, new = HEADS + rename.old, HEADS + rename.new
    if rename.at is None or _has_both(store, old, new, rename.at):
        if store.head() == old:
            store.set_head(new)
        if rename.at is not None:
            store.swap_ref(old, rename.at, None)
    store.swap_ref(RENAME, note, None)


def _has_both(store: GitStore, old: str, new: str, at: str) -> bool:
    """Add the new name of a branch, and return whether it has both."""
    if store.read_ref(old) not in {at, None}:
        store.swap_ref(new, at, None)
        return False
    return store.read_ref(new) == at or store.swap_ref(new, None, at)


def delete(writer: Writer, name: str, *, force: bool = False) -> DeletedBranch:
    """Delete a branch; with ``force`` also one with commits of its own, or with a pending call.

    Raises:
        UnknownNameError: naming the nearest branch.
        ActiveBranchError: when the folder is on it.
        CallWaitsError: when a call is pending on it.
        OnlyThereError: when it has commits that no other branch has.
    """
    chat = writer.chat
    if chat.branch(name).active:
        others = [branch.name for branch in chat.branches() if branch.name != name]
        first = f"covalt-git chat checkout {chat.id} {others[0]}" if others else ""
        raise ActiveBranchError(
            f"the folder is on the branch {name!r}",
            hint=first or f"make another and go there: covalt-git chat branch {chat.id} NAME",
        )
    if not force:
        _check_nothing_waits(chat, name, verb="deleted")
        _check_is_elsewhere(chat, name)
    for call in _waiting(chat, name):
        _cancel(writer, call)
    at = chat.branch(name).manifest_id
    assert at is not None  # a call waited on one without, and has now made its manifest
    count = len(_only_there(chat, name))
    if count:
        chat.store.swap_ref(f"{DELETED}{new_id()}/{name}", None, at)
    if not chat.store.swap_ref(HEADS + name, at, None):
        raise MovedError(f"the branch {name!r} has moved", hint="try again")
    return DeletedBranch(name=name, manifest_id=at, manifests=count)


def deleted(chat: ChatStore) -> list[DeletedBranch]:
    """Return the deleted branches with commits that no branch has, the last one first."""
    had = chat.reachable()
    refs = reversed(chat.store.refs(DELETED).items())
    return [
        DeletedBranch(
            name=ref.removeprefix(DELETED).partition("/")[2],
            manifest_id=at,
            manifests=len(chat.above(at, without=had)),
        )
        for ref, at in refs
        if at not in had
    ]


def way_back(chat: ChatStore, gone: DeletedBranch) -> str:
    """Return the command that makes a deleted branch again."""
    return f"covalt-git chat branch new {chat.id} {gone.name} --from {gone.manifest_id[:12]}"


def _check_is_elsewhere(chat: ChatStore, name: str) -> None:
    count = len(_only_there(chat, name))
    if count:
        manifests = "a manifest" if count == 1 else f"{count} manifests"
        raise OnlyThereError(
            f"the branch {name!r} has {manifests} that no other branch has",
            hint=f"covalt-git chat branch delete {chat.id} {name} --force",
        )


def _only_there(chat: ChatStore, name: str) -> list[str]:
    at = chat.branch(name).manifest_id
    return [] if at is None else chat.above(at, without=chat.reachable(but=name))


def _waiting(chat: ChatStore, name: str) -> list[PendingCall]:
    return [call for call in chat.calls() if call.branch == name]


def _check_nothing_waits(chat: ChatStore, name: str, *, verb: str) -> None:
    for call in _waiting(chat, name):
        raise CallWaitsError(
            f"a call waits for a person on the branch {name!r}, which is not {verb} meanwhile",
            hint=f"covalt-git approval deny {call.execution_id}",
        )


def _cancel(writer: Writer, call: PendingCall) -> None:
    """End a call that is pending on a branch which will be deleted."""
    chat = writer.chat
    approval = None if call.execution_id is None else chat.approval(call.execution_id)
    if approval is not None and approval.state == "pending":
        ended = {"state": "expired", "decided_by": writer.by, "decided_at": commits.now()}
        writer.put_approval(approval.model_copy(update=ended), before=approval)
    message = f"the branch {call.branch!r} that it waited on was deleted"
    writer.finish_call(call, commits.unfinished(call, "cancelled", message))
