"""Branches of a chat: which names are free, and renaming, deleting and getting back a branch.

A call that waits for a person is bound to its branch, which is what the person was shown.  So a
branch keeps its name while a call waits on it, and is deleted with one only by force: the call then
ends as an error, ``cancelled``, in the history that goes.

What only a deleted branch had stays reachable at ``refs/covalt/deleted/<uuid7>/<name>``, the id
telling when, so that nobody's work hangs on one command.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.models.base import StrictModel
from covalt_git.names import check_branch, new_id
from covalt_git.workspaces import commits, renaming
from covalt_git.workspaces.chats import DELETED, HEADS, MovedError
from covalt_git.workspaces.recovery import unfinished

if TYPE_CHECKING:
    from covalt_git.models.calls import PendingCall
    from covalt_git.models.chats import Branch
    from covalt_git.workspaces.chats import ChatStore
    from covalt_git.workspaces.writing import Writer


class BranchExistsError(CovaltError):
    """There is a branch of that name."""

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
    """A branch that was deleted; ``manifests`` counts those that no branch has any more."""

    name: str
    manifest_id: str
    manifests: int


def check_free(chat: ChatStore, name: str) -> None:
    """Make sure that a branch of that name can be made.

    Raises:
        BadNameError: when no branch can have it.
        BranchExistsError: when one has it, or one that git cannot have beside it.
    """
    check_branch(name)
    names = [*chat.store.rivals(HEADS, name), *chat.unborn_branches()]
    if name in names:
        raise BranchExistsError(
            f"there is a branch {name!r}", hint=f"covalt-git chat checkout {chat.id} {name}"
        )
    for known in names:
        if known.startswith(f"{name}/") or name.startswith(f"{known}/"):
            raise BranchExistsError(
                f"there is a branch {known!r}, so {name!r} cannot be one", hint="choose another"
            )


def free_name(chat: ChatStore, purpose: str) -> str:
    """Return the first of ``retry-1``, ``retry-2``, ... that no branch has."""
    names = {branch.name.partition("/")[0] for branch in chat.branches()}
    numbered = (f"{purpose}-{number}" for number in itertools.count(1))
    return next(name for name in numbered if name not in names)


def rename(writer: Writer, old: str, new: str) -> Branch:
    """Give a branch another name; the folder stays on it, if it was.

    Raises:
        UnknownNameError: naming the nearest branch.
        CallWaitsError: when a call waits on it.
        BranchExistsError: when the name is taken.
    """
    chat = writer.chat
    branch = chat.branch(old)
    _check_nothing_waits(chat, old, verb="renamed")
    check_free(chat, new)
    renaming.rename(chat.store, renaming.Rename(old=old, new=new, at=branch.manifest_id))
    return chat.branch(new)


def delete(writer: Writer, name: str, *, force: bool = False) -> DeletedBranch:
    """Delete a branch; by ``force`` also one whose work no other has, or on which a call waits.

    Raises:
        UnknownNameError: naming the nearest branch.
        ActiveBranchError: when the folder is on it.
        CallWaitsError: when a call waits on it.
        OnlyThereError: when it has manifests that no other branch has.
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
    """Return the deleted branches whose work no branch has, the last one first."""
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
    """End a call that waits on a branch which is about to go."""
    chat = writer.chat
    approval = None if call.execution_id is None else chat.approval(call.execution_id)
    if approval is not None and approval.state == "pending":
        ended = {"state": "expired", "decided_by": writer.by, "decided_at": commits.now()}
        writer.put_approval(approval.model_copy(update=ended), before=approval)
    message = f"the branch {call.branch!r} that it waited on was deleted"
    writer.finish_call(call, unfinished(call, "cancelled", message))
