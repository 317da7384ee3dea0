"""The API's merges and replays: joining branches, deciding conflicts, making a call once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Base64Bytes, Field

from covalt_git.errors import CovaltError
from covalt_git.merging import branch_merge, resolving
from covalt_git.merging.branch_merge import MergeStatus
from covalt_git.merging.merge_conflicts import Choice, Choices, Rest, description
from covalt_git.models.commit_record import ConflictKind, MergeDecision, MergeSide, WorkspaceNotes
from covalt_git.operations.context import Context
from covalt_git.operations.registry import InvalidRequestError, PathText, Request, Result, operation
from covalt_git.operations.results import Change, Notes

if TYPE_CHECKING:
    from covalt_git.merging.branch_merge import Merge
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.snapshot import Snapshot


_LINES = (
    "The lines in conflict, with those of the base and some lines around them, as git's style diff3 "
    "shows them; null: a side is deleted, not text, or larger than 512 KiB."
)
_CONTENT = "What the file is to be, where that is decided."
_BASE64 = "The same as base64, for what is not UTF-8; instead of ``content``."


class Resolution(Request):
    """How one conflict is decided."""

    path: str = Field(max_length=4096)
    decision: MergeDecision = Field(
        description="ours: the active branch's version; theirs: the other; union: the lines of both; "
        "both: keep both as files; content: what ``content`` says."
    )
    content: str | None = Field(None, description=_CONTENT)
    content_base64: Base64Bytes | None = Field(None, description=_BASE64)


class MergeBranch(Request):
    """A branch to merge into the active one."""

    chat_id: str = Field(max_length=200)
    branch: str = Field(max_length=200)
    message: str = Field("", max_length=500, description="The subject of the merge.")
    conflicts: Rest | None = Field(
        None,
        description="How all conflicts are decided that ``resolutions`` does not name; null: "
        "nothing is merged where there is one.",
    )
    resolutions: tuple[Resolution, ...] = Field((), max_length=1000)
    fast_forward: bool = Field(
        default=True,
        description="Whether the branch just moves on where it has nothing of its own.",
    )
    dry_run: bool = Field(default=False, description="Only tell what would happen.")


class ListConflicts(Request):
    """A chat."""

    chat_id: str = Field(max_length=200)


class ResolveConflict(Request):
    """A conflict that is pending or stopped the last merge, and how it is decided."""

    chat_id: str = Field(max_length=200)
    path: str = Field(max_length=4096, description="Its path, or that of the version beside it.")
    decision: Literal["ours", "theirs", "union", "content"]
    content: str | None = Field(None, description=_CONTENT)
    content_base64: Base64Bytes | None = Field(None, description=_BASE64)


class Conflict(Result):
    """A path that both branches changed, each in its own way."""

    path: PathText
    kind: ConflictKind
    deleted: MergeSide | None = Field(description="Which side deleted it.")
    about: str = Field(description="The same in words.")
    decision: MergeDecision | None = Field(description="null: nobody has decided.")
    saved_as: PathText | None = Field(description="Where the other version stands.")
    lines: str | None = Field(description=f"{_LINES} null also where it is decided.")


class Merged(Result):
    """What came of a merge, or would; with ``conflicts`` as its status nothing has changed."""

    status: MergeStatus
    branch: str
    into: str
    base_id: str | None = Field(description="The manifest that both come from.")
    manifest_id: str | None = Field(
        description="Where the active branch is now; null where it is not made."
    )
    changes: tuple[Change, ...]
    conflicts: tuple[Conflict, ...]
    workspace: Notes
    notes: Notes = Field(description="Notes on the folder that no earlier commit recorded.")


class WaitingConflict(Result):
    """A conflict that a merge left to be decided, both versions being there."""

    path: PathText
    kind: ConflictKind
    deleted: MergeSide | None = Field(description="Which side deleted it.")
    about: str = Field(description="The same in words.")
    saved_as: PathText = Field(description="Where the other version stands.")
    branch: str = Field(description="The branch that was merged.")
    manifest_id: str = Field(description="The merge.")
    base_id: str | None = Field(description="The manifest that both branches come from.")
    lines: str | None = Field(description=_LINES)


class ConflictList(Result):
    """The pending conflicts, by path, and those of a merge that stopped."""

    conflicts: tuple[WaitingConflict, ...]
    stopped: Merged | None = Field(
        description="The last merge into the active branch, as it would be now, if conflicts stopped it."
    )


class ConflictResolved(Result):
    """The manifest that holds the decision, and the conflicts that still wait."""

    branch: str = Field(description="The active branch.")
    manifest_id: str
    changes: tuple[Change, ...]
    conflicts: tuple[WaitingConflict, ...]
    notes: Notes = Field(description="Notes on the folder that no earlier commit recorded.")


@operation(changes=True, errors=(404, 409))
def merge_branch(context: Context, request: MergeBranch) -> Merged:
    """Merge a branch into the active one, edits in the folder saved first.

    Where both changed the same in different ways and nothing decides it, nothing is merged: the
    answer's ``status`` is ``conflicts``, and ``resolve_conflict`` can make the merge.  With ``both`` the file stays as it is on the active branch,
    and the other version stands beside it until ``resolve_conflict`` decides.
    """
    chat = context.chat(request.chat_id)
    by_path = {one.path: _choice(one) for one in request.resolutions}
    choices = Choices(by_path, request.conflicts)
    if request.dry_run:
        done = branch_merge.preview(
            chat, request.branch, choices, fast_forward=request.fast_forward
        )
        return _merged(done, WorkspaceNotes())
    with context.writing(chat) as writer:
        done = branch_merge.merge(
            writer,
            request.branch,
            choices,
            message=request.message,
            fast_forward=request.fast_forward,
        )
    return _merged(done, writer.fresh_notes())


@operation(errors=(404,))
def list_conflicts(context: Context, request: ListConflicts) -> ConflictList:
    """List the conflicts that merges have left to be decided, and those that stopped the last merge."""
    chat = context.chat(request.chat_id)
    with chat.scan_in_memory() as seen:
        conflicts = waiting_conflicts(chat, seen)
    return ConflictList(conflicts=conflicts, stopped=_stopped(chat))


@operation(changes=True, errors=(404, 409))
def resolve_conflict(context: Context, request: ResolveConflict) -> ConflictResolved:
    """Resolve a pending conflict: the version beside the file is deleted, and the chosen one stays.

    A conflict that stopped the last merge into the active branch is resolved by making that merge: other
    conflicts are kept as two files each, and are pending then.
    """
    chat = context.chat(request.chat_id)
    choice = _choice(request)
    with context.writing(chat) as writer:
        changes = resolving.resolve(writer, request.path, choice)
    head = chat.head()
    assert head is not None  # it is where the decision is
    with chat.scan_in_memory() as seen:
        conflicts = waiting_conflicts(chat, seen)
    return ConflictResolved(
        branch=chat.active_branch(),
        manifest_id=head,
        changes=changes,
        conflicts=conflicts,
        notes=writer.fresh_notes(),
    )


def _stopped(chat: ChatStore) -> Merged | None:
    """Return what the merge that conflicts stopped would do now; None if it no longer conflicts."""
    merge = branch_merge.stopped(chat)
    if merge is None:
        return None
    try:
        done = branch_merge.preview(chat, merge.branch)
    except CovaltError:  # its branch is deleted, for example
        return None
    return _merged(done, WorkspaceNotes()) if done.status == "conflicts" else None


def waiting_conflicts(chat: ChatStore, seen: Snapshot) -> tuple[WaitingConflict, ...]:
    """Return the conflicts that wait in a chat's workspace, of which ``seen`` is a scan."""
    ours = chat.active_branch()
    return tuple(
        WaitingConflict.of(
            one,
            about=description(one.kind, one.deleted, ours=ours, theirs=one.branch),
            lines=resolving.lines(chat, one, seen.tree),
        )
        for one in resolving.waiting(chat, chat.head(), seen.tree)
    )


def _choice(request: Resolution | ResolveConflict) -> Choice:
    text = None if request.content is None else request.content.encode()
    contents = [one for one in (text, request.content_base64) if one is not None]
    if len(contents) != (request.decision == "content"):
        raise InvalidRequestError("one content goes with the decision 'content', and only with it")
    return Choice(request.decision, *contents)


def _merged(done: Merge, fresh: WorkspaceNotes) -> Merged:
    return Merged.of(
        done,
        conflicts=tuple(
            Conflict.of(
                one,
                about=description(one.kind, one.deleted, ours=done.into, theirs=done.branch),
                lines=done.lines.get(one.path),
            )
            for one in done.conflicts
        ),
        workspace=done.notes,
        notes=fresh,
    )
