"""Branches of a chat: creation, renaming and deletion.

A reviewer of a call sees its branch.  So a branch with a pending call cannot be renamed, and can be deleted only
by force: the call then ends with the error ``cancelled``.

When a branch is deleted and no other branch has its last commit, ``refs/covalt/deleted/<uuid7>/<name>`` keeps the
commit; the UUID contains the time of the deletion.

A rename changes two refs and perhaps HEAD.  It is stored first, at ``refs/covalt/rename``.  Each later
step can be repeated, and the last one removes that ref.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.errors import CovaltError
from covalt_git.models.base import StrictModel
from covalt_git.names import check_branch, new_id
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import (
    DELETED,
    HEADS,
    MovedError,
    move_branch,
    put_stored,
    stored_at,
    write_stored,
)

if TYPE_CHECKING:
    from collections.abc import Container

    from covalt_git.git_store.store import GitStore
    from covalt_git.models.calls import PendingCall
    from covalt_git.models.chats import Branch
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

RENAME = "refs/covalt/rename"


class BranchExistsError(CovaltError):
    """A branch with that name, or a conflicting one, already exists."""

    code = "branch_exists"
    http_status = 409


class BranchDeleted(StrictModel):
    """A deleted branch: its last commit, and the number of commits that no other branch has.

    create_branch at ``manifest_id`` restores it.
    """

    name: str
    manifest_id: str
    manifests: int
    back: str = Field(description="The command that restores it.")


class Rename(StrictModel):
    """A rename, and the head of the branch; None before its first commit."""

    v: int = 1
    old: str
    new: str
    at: str | None = None


def check_free(chat: ChatStore, name: str) -> None:
    """Check that a branch with that name can be created.

    Raises:
        BadNameError: when the name is not valid.
        BranchExistsError: if the branch exists, or a branch such as ``a/b`` for ``a``, or the reverse.
    """
    check_branch(name)
    names = chat.branch_names()
    if name in names:
        raise BranchExistsError(
            f"the branch {name!r} already exists", hint=f"covalt-git chat checkout {chat.id} {name}"
        )
    # Git's refs are files: `a` cannot be a file and the folder of `a/b`.
    for branch in names:
        if branch.startswith(f"{name}/") or name.startswith(f"{branch}/"):
            raise BranchExistsError(
                f"the branch {branch!r} exists, so {name!r} is not possible",
                hint="choose another name",
            )


def create(writer: Writer, name: str, manifest_id: str | None) -> None:
    """Create a branch at a commit.

    Raises:
        BranchExistsError: if the branch exists.
        CovaltError: when the chat has no commit yet.
    """
    chat = writer.chat
    check_free(chat, name)
    if manifest_id is None:
        raise CovaltError(
            f"chat {chat.id!r} has no commit to branch from",
            hint=f"make the first: covalt-git chat upload {chat.id} FILE",
            http_status=404,
        )
    if not chat.store.swap_ref(HEADS + name, None, manifest_id):
        raise BranchExistsError(f"the branch {name!r} already exists", hint="choose another name")


def new_name(chat: ChatStore, wanted: str | None, purpose: str) -> str:
    """Return the name of a new branch: ``wanted``, or an available one such as ``retry-1``.

    Raises:
        BranchExistsError: when ``wanted`` exists.
    """
    if wanted is not None:
        check_free(chat, wanted)
        return wanted
    names = {name.partition("/")[0] for name in chat.branch_names()}  # as in check_free()
    numbered = (f"{purpose}-{number}" for number in itertools.count(1))
    return next(name for name in numbered if name not in names)


def rename(writer: Writer, old: str, new: str) -> Branch:
    """Rename a branch; HEAD follows it.

    Raises:
        UnknownNameError: if the branch does not exist; the hint has the most similar one.
        CovaltError: when a call is pending on it.
        BranchExistsError: when the new name exists.
        MovedError: if a push moved the branch in the meantime; it keeps its old name.
    """
    chat = writer.chat
    at = chat.branch(old).manifest_id
    check_nothing_pending(chat, old, verb="renamed")
    check_free(chat, new)
    stored = write_stored(chat.store, Rename(old=old, new=new, at=at), f"rename: {old} {new}")
    if not chat.store.swap_ref(RENAME, None, stored):
        raise MovedError("another process is renaming a branch", hint="try again")
    finish_rename(chat.store)
    if chat.store.read_ref(HEADS + old) is not None:
        raise MovedError(f"the branch {old!r} has moved", hint="try again")
    return chat.branch(new)


def finish_rename(store: GitStore) -> None:
    """Complete the stored rename, if there is one.

    If a push has moved the branch since then, or created a branch with the new name, nothing is renamed.
    """
    rename = stored_at(store, RENAME, Rename)
    if rename is None:
        return
    old, new = HEADS + rename.old, HEADS + rename.new
    # The new ref first, then HEAD, then the old ref: wherever a process is killed, the commits have a name and
    # HEAD names a branch.  The compare-and-swaps leave a branch that git moved meanwhile
    # (test_a_rename_that_a_push_overtook_is_not_made).
    if rename.at is None or _add_new_name(store, old, new, rename.at):
        if store.head() == old:
            store.set_head(new)
        if rename.at is not None:
            store.swap_ref(old, rename.at, None)
    put_stored(store, RENAME, None)


def _add_new_name(store: GitStore, old: str, new: str, at: str) -> bool:
    """Add the new name of a branch, and return whether it has both names now."""
    # A push moved the old branch after an earlier attempt had added the new name, which has to go again.
    if store.read_ref(old) not in {at, None}:
        store.swap_ref(new, at, None)
        return False
    return store.read_ref(new) == at or store.swap_ref(new, None, at)


def delete(writer: Writer, name: str, *, force: bool = False) -> BranchDeleted:
    """Delete a branch; with ``force``, even if it has commits that no other branch has, or a pending call.

    Raises:
        UnknownNameError: if the branch does not exist; the hint has the most similar one.
        CovaltError: when it is active, a call is pending on it, or it has commits that no other branch has.
    """
    chat = writer.chat
    if chat.branch(name).active:
        others = [branch.name for branch in chat.branches() if branch.name != name]
        first = f"covalt-git chat checkout {chat.id} {others[0]}" if others else ""
        raise CovaltError(
            f"{name!r} is the active branch, so it cannot be deleted",
            hint=first or f"create another and check it out: covalt-git chat branch {chat.id} NAME",
            code="active_branch",
            http_status=409,
        )
    if not force:
        check_nothing_pending(chat, name, verb="deleted")
    for call in _pending(chat, name):
        _cancel(writer, call)
    at = chat.branch(name).manifest_id
    # Each branch without a commit has a pending call, and the end of that call was committed above.
    assert at is not None
    heads = [branch.manifest_id for branch in chat.branches() if branch.name != name]
    gone = _deleted(chat, name, at, chat.above(*heads))
    if gone.manifests and not force:
        commits_text = "a commit" if gone.manifests == 1 else f"{gone.manifests} commits"
        raise CovaltError(
            f"the branch {name!r} has {commits_text} that no other branch has",
            hint=f"covalt-git chat branch delete {chat.id} {name} --force",
            code="only_there",
            http_status=409,
        )
    # Before the branch goes, so that a process which is killed in between leaves the commits reachable.
    if gone.manifests:
        chat.store.swap_ref(f"{DELETED}{new_id()}/{name}", None, at)
    move_branch(chat.store, name, at, None)
    return gone


def deleted(chat: ChatStore) -> list[BranchDeleted]:
    """Return the deleted branches with commits that no branch has, the most recently deleted first."""
    reachable = chat.reachable()
    deletions = [
        _deleted(chat, ref.removeprefix(DELETED).partition("/")[2], at, reachable)
        for ref, at in reversed(chat.store.refs(DELETED).items())
    ]
    return [deletion for deletion in deletions if deletion.manifests]


def _deleted(chat: ChatStore, name: str, at: str, reachable: Container[str]) -> BranchDeleted:
    count = len(chat.above(at, without=reachable))
    back = f"covalt-git chat branch new {chat.id} {name} --from {at[:12]}"
    return BranchDeleted(name=name, manifest_id=at, manifests=count, back=back)


def _pending(chat: ChatStore, name: str) -> list[PendingCall]:
    return [call for call in chat.calls() if call.branch == name]


def check_nothing_pending(chat: ChatStore, name: str, *, verb: str) -> None:
    """Check that no call waits on a branch that is renamed or deleted.

    Raises:
        CovaltError: if one does.
    """
    for call in _pending(chat, name):
        waits = "is pending on"
        hint = f"covalt-git approval deny {call.execution_id}"
        if call.server_task is not None:
            waits = "waits for the answer of its MCP server on"
            # An answer is recorded only on the active branch.
            first = (
                "" if chat.branch(name).active else f"covalt-git chat checkout {chat.id} {name} && "
            )
            hint = f"record the answer: {first}covalt-git serve"
            if verb == "deleted":
                hint += (
                    f"; or cancel the call: covalt-git chat branch delete {chat.id} {name} --force"
                )
        raise CovaltError(
            f"a call {waits} the branch {name!r}, so it cannot be {verb}",
            hint=hint,
            code="call_waits",
            http_status=409,
        )


def _cancel(writer: Writer, call: PendingCall) -> None:
    """End a call that is pending on a branch which will be deleted."""
    chat = writer.chat
    approval = None if call.execution_id is None else chat.approval(call.execution_id)
    if approval is not None and approval.state == "pending":
        writer.decide(approval, "expired", decided_by=writer.by)
    message = f"the branch {call.branch!r} of the call was deleted"
    record = commits.unfinished(call, "cancelled", message)
    if call.server_answer is not None:
        # Its MCP server has answered, so the record in the deleted branch has the answer as the server sent it.
        answer = call.server_answer.get("answer", call.server_answer)
        record = record.model_copy(update={"result": answer})
    writer.finish_call(call, record)
