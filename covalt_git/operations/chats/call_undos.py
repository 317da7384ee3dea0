"""Operation that undoes the changes of files by one call, and keeps later changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.errors import UnknownNameError
from covalt_git.merging import call_undo
from covalt_git.merging.call_undo import UndoStatus
from covalt_git.merging.merge_conflicts import Choice, Choices
from covalt_git.models.commit_record import WorkspaceNotes
from covalt_git.operations.chats.merges import (
    MOST_PATCHES,
    TEXT_OF,
    Conflict,
    UndoDecision,
    UndoResolution,
    about_conflict,
    check_reading,
    choice_of,
    decoded,
    hunks_of,
    written,
)
from covalt_git.operations.chats.workspace_files import FileDiff, diff_of
from covalt_git.operations.context import Context
from covalt_git.operations.registry import ChatRequest, EquivalentCall, Result, operation
from covalt_git.operations.results import Notes, PathNote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.merging.call_undo import CallUndo
    from covalt_git.models.chats import WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore


class UndoCall(ChatRequest):
    """A call whose changes of files are undone on a branch."""

    call: str = Field(
        max_length=200, description="Its id, the end of its id, or the name of its commit."
    )
    branch: str | None = Field(
        None, max_length=200, description="The branch to change; null: the active one."
    )
    conflicts: UndoDecision | None = Field(
        None,
        description="The resolution of all conflicts that are not in ``resolutions``; null: such a conflict stops the"
        " undo.",
    )
    resolutions: tuple[UndoResolution, ...] = Field((), max_length=1000)
    dry_run: bool = Field(default=False, description="Return the result without undoing.")
    text_of: str | None = Field(
        None, max_length=4096, description=f"{TEXT_OF} Only with ``dry_run``."
    )
    patches: int = Field(
        MOST_PATCHES, ge=0, le=MOST_PATCHES, description="Maximum number of files with a patch."
    )


class CallUndone(Result):
    """The result of an undo or of its dry run; only with the status ``undone``, files have changed.

    ``conflicts``: a conflict has no resolution.  ``kept``: the resolutions keep the later lines.  ``nothing_to_undo``: the
    branch no longer has the changes of the call.
    """

    status: UndoStatus
    call_id: str
    call_manifest_id: str = Field(description="The commit of the call.")
    branch: str = Field(description="The branch that was changed, or would be.")
    manifest_id: str | None = Field(description="The last commit of the branch; null in a dry run.")
    changes: tuple[FileDiff, ...] = Field(description="The differences that the undo makes.")
    truncated: bool = Field(description="Whether differences are left out because of the limits.")
    conflicts: tuple[Conflict, ...] = Field(
        description="Files whose lines were changed after the call too; ``theirs`` is the version from before it."
    )
    unstored: tuple[PathNote, ...] = Field(
        description="Paths that the undo leaves as they are, because no commit has them."
    )
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


def _written(request: UndoCall) -> Iterator[EquivalentCall]:
    return written(request.resolutions)


# Not as workspace:restore of some paths: which paths a merge changes is known only under the lock.  Without
# arguments, any rule about it counts.
@operation(changes=True, errors=(404, 409), needs=("workspace:restore",), calls=_written)
def undo_call(context: Context, request: UndoCall) -> CallUndone:
    """Undo the changes of files by one call on a branch, in a new commit; later changes are kept.

    The commit of a call has everything that changed in the workspace while the call ran, also what users wrote.

    It is a three-way merge.  If later changes are in the same lines and the request does not resolve this conflict,
    nothing changes: the ``status`` is ``conflicts``.  Only a decision about a conflict can drop later changes.  On the
    active branch, uncommitted changes are committed first.
    Another branch needs the right to check it out.
    """
    chat = context.chat(request.chat_id)
    call = _call(context, chat, request.call)
    choices: Choices = {
        resolution.path: choice_of(resolution) for resolution in request.resolutions
    }
    if request.conflicts is not None:
        choices = {None: Choice(request.conflicts), **choices}
    if request.dry_run:
        with chat.scan_in_memory() as scan:
            _require_branch(context, chat, request.branch)
            preview = call_undo.preview(
                chat, scan, call, request.branch, choices, text_of=request.text_of
            )
            check_reading(context, preview.texts)
            return _undone(chat, call, preview, request.patches, WorkspaceNotes())
    with context.writing(chat) as writer:
        _require_branch(context, chat, request.branch)
        outcome = call_undo.undo(writer, call, request.branch, choices)
    return _undone(chat, call, outcome, request.patches, writer.fresh_notes())


def _require_branch(context: Context, chat: ChatStore, branch: str | None) -> None:
    """Check that the role may check out a branch if it is not the active one.

    Raises:
        ForbiddenError: if it may not.
    """
    # Under the lock, since it depends on the active branch.  Otherwise the right to restore would change branches that
    # the role may not check out.
    if branch not in {None, chat.active_branch()}:
        context.require_tool("workspace:checkout", {"branch": branch})


def _call(context: Context, chat: ChatStore, name: str) -> WorkspaceManifest:
    """Return the commit of a call that exists for the role.

    Raises:
        UnknownNameError: if it does not, also if the name is that of another commit.
    """
    call = chat.manifest(context.chat_index().resolve(chat, name))
    record = call.record.call
    if record is None or not context.visibility.sees_call(record.tool_id, record.result):
        raise UnknownNameError("call", name, (), list_with=f"covalt-git chat log {chat.id}")
    return call


def _undone(
    chat: ChatStore, call: WorkspaceManifest, undo: CallUndo, patches: int, fresh: WorkspaceNotes
) -> CallUndone:
    diff = diff_of(chat, undo.changes, patches)
    return CallUndone.of(
        undo,
        call_id=call.record.id,
        call_manifest_id=call.id,
        changes=diff.changes,
        truncated=diff.truncated,
        conflicts=tuple(
            Conflict.of(
                conflict,
                about=about_conflict(conflict, undo.branch, "the undo"),
                decisions=undo.possible.get(conflict.path, ()),
                lines=undo.lines.get(conflict.path),
                hunks=hunks_of(undo.hunks.get(conflict.path)),
                text=decoded(undo.texts.get(conflict.path)),
            )
            for conflict in undo.conflicts
        ),
        notes=fresh,
    )
