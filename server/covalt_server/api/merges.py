"""The API's merges and replays: joining branches, deciding conflicts, making a call once more."""

# ruff: noqa: TC001 - pydantic reads the annotations when it makes the models

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.calls import replay
from covalt_git.models.calls import SandboxLevel, ToolsetVersion
from covalt_git.models.commit_record import ConflictKind, MergeDecision, MergeSide, WorkspaceNotes
from covalt_git.workspaces import merging, resolving
from covalt_git.workspaces.merge_conflicts import Choice, Choices, Rest
from covalt_git.workspaces.merge_conflicts import told as about
from covalt_git.workspaces.merging import MergeStatus
from covalt_server import request_context
from covalt_server.api.changes import Change, Notes, PathNote, notes, told
from covalt_server.api.http import Answer, Asked, InvalidRequestError, PathText, operation

if TYPE_CHECKING:
    from covalt_git.calls.replay import Ran, Replay
    from covalt_git.workspaces.chats import ChatStore
    from covalt_git.workspaces.merging import Merge
    from covalt_git.workspaces.resolving import Waiting


class Resolution(Asked):
    """How one conflict is decided."""

    path: str = Field(max_length=4096)
    decision: MergeDecision = Field(
        description="ours: the active branch's version; theirs: the other; union: the lines of both; "
        "both: keep both as files; content: what ``content`` says."
    )
    content: str | None = Field(None, description="What the file is to be, where that is decided.")


class MergeBranch(Asked):
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


class ListConflicts(Asked):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


class ResolveConflict(Asked):
    """A conflict that waits, and how it is decided."""

    chat_id: str = Field(max_length=200)
    path: str = Field(max_length=4096, description="Its path, or that of the version beside it.")
    decision: Literal["ours", "theirs", "union", "content"]
    content: str | None = Field(None, description="What the file is to be, where that is decided.")


class ReplayCall(Asked):
    """A call to make once more."""

    chat_id: str = Field(max_length=200)
    call_id: str = Field(max_length=200, description="The call, or the manifest that it made.")
    approve: bool = Field(
        default=False, description="Approve the call where a person has to be asked."
    )
    keep: replay.Keep = Field("different", description="When the branch of the replay is kept.")


class Conflict(Answer):
    """A path that both branches changed, each in its own way."""

    path: PathText
    kind: ConflictKind
    deleted: MergeSide | None = Field(description="Which side deleted it.")
    about: str = Field(description="The same in words.")
    decision: MergeDecision | None = Field(description="null: nobody has decided.")
    saved_as: PathText | None = Field(description="Where the other version stands.")


class Merged(Answer):
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
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class WaitingConflict(Answer):
    """A conflict that a merge left to be decided, both versions being there."""

    path: PathText
    kind: ConflictKind
    deleted: MergeSide | None = Field(description="Which side deleted it.")
    about: str = Field(description="The same in words.")
    saved_as: PathText = Field(description="Where the other version stands.")
    branch: str = Field(description="The branch that was merged.")
    manifest_id: str = Field(description="The merge.")


class ConflictList(Answer):
    """The conflicts that wait, by path."""

    conflicts: tuple[WaitingConflict, ...]


class ConflictResolved(Answer):
    """The manifest that holds the decision, and the conflicts that still wait."""

    manifest_id: str
    changes: tuple[Change, ...]
    conflicts: tuple[WaitingConflict, ...]
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class Difference(Answer):
    """A part of what a call said that is another now: JSON texts, cut; null where nothing is."""

    path: str
    then: str | None
    now: str | None


class RanAs(Answer):
    """Which code ran, behind which walls."""

    toolset: ToolsetVersion
    sandbox: SandboxLevel | None


class Replayed(Answer):
    """What came of a call that was made once more."""

    call_id: str
    tool_id: str
    same: bool = Field(description="Whether the answer and the files are the same.")
    differences: tuple[Difference, ...] = Field(description="Of result, status and error.")
    changes: tuple[Change, ...] = Field(description="The files that are others, then to now.")
    empty_folders: tuple[PathText, ...] = Field(description="Those only then, or only now.")
    printed_the_same: bool
    toolset_changed: bool
    then: RanAs
    now: RanAs
    missing: tuple[PathNote, ...] = Field(description="What the folder had and no manifest has.")
    branch: str | None = Field(description="The branch that keeps the replay, if one does.")
    manifest_id: str | None = Field(description="What the replay made, if it is kept.")


@operation("POST", errors=(404, 409))
def merge_branch(asked: MergeBranch) -> Merged:
    """Merge a branch into the active one, edits in the folder saved first.

    Where both changed the same in different ways and nothing decides it, nothing is merged: the
    answer's ``status`` is ``conflicts``.  With ``both`` the file stays as it is on the active branch,
    and the other version stands beside it until ``resolve_conflict`` decides.
    """
    chat = request_context.chat(asked.chat_id)
    by_path = {one.path: _choice(one.decision, one.content) for one in asked.resolutions}
    choices = Choices(by_path, asked.conflicts)
    if asked.dry_run:
        done = merging.preview(chat, asked.branch, choices, fast_forward=asked.fast_forward)
        return _merged(done, WorkspaceNotes())
    with request_context.writing(chat) as writer:
        done = merging.merge(
            writer,
            asked.branch,
            choices,
            message=asked.message,
            fast_forward=asked.fast_forward,
        )
    return _merged(done, writer.fresh_notes())


@operation("GET", errors=(404,))
def list_conflicts(asked: ListConflicts) -> ConflictList:
    """List the conflicts that merges have left to be decided, by path."""
    return ConflictList(conflicts=_waiting(request_context.chat(asked.chat_id)))


@operation("POST", errors=(404, 409))
def resolve_conflict(asked: ResolveConflict) -> ConflictResolved:
    """Decide a conflict that waits: the version beside it goes, and the chosen one stays."""
    chat = request_context.chat(asked.chat_id)
    choice = _choice(asked.decision, asked.content)
    with request_context.writing(chat) as writer:
        changes = resolving.resolve(writer, asked.path, choice)
    head = chat.head()
    assert head is not None  # it is where the decision is
    return ConflictResolved(
        manifest_id=head,
        changes=told(changes),
        conflicts=_waiting(chat),
        notes=notes(writer.fresh_notes()),
    )


@operation("POST", errors=(404, 409, 501))
def replay_call(asked: ReplayCall) -> Replayed:
    """Make a recorded call again on the files that it ran on, and tell what comes out differently.

    It runs in a folder of its own, so that the chat's stays as it is; a branch ``replay-N`` keeps
    what came of it.
    """
    chat = request_context.chat(asked.chat_id)
    engine = request_context.project().engine()
    try:
        done = replay.replay(engine, chat, asked.call_id, approve=asked.approve, keep=asked.keep)
    finally:
        request_context.indexed(chat)
    return _replayed(done)


def _choice(decision: MergeDecision, content: str | None) -> Choice:
    if (content is not None) != (decision == "content"):
        raise InvalidRequestError("a content goes with the decision 'content', and only with it")
    return Choice(decision, (content or "").encode())


def _merged(done: Merge, fresh: WorkspaceNotes) -> Merged:
    return Merged(
        status=done.status,
        branch=done.branch,
        into=done.into,
        base_id=done.base_id,
        manifest_id=done.manifest_id,
        changes=told(done.changes),
        conflicts=tuple(
            Conflict(**one.model_dump(), about=about(one, ours=done.into, theirs=done.branch))
            for one in done.conflicts
        ),
        workspace=notes(done.notes),
        notes=notes(fresh),
    )


def _waiting(chat: ChatStore) -> tuple[WaitingConflict, ...]:
    with chat.looking() as seen:
        found = resolving.waiting(chat, chat.head(), seen.tree)
    return tuple(_waiting_conflict(one, chat.active_branch()) for one in found)


def _waiting_conflict(one: Waiting, ours: str) -> WaitingConflict:
    told_of = one.model_dump(exclude={"base_id"})
    return WaitingConflict(**told_of, about=about(one, ours=ours, theirs=one.branch))


def _replayed(done: Replay) -> Replayed:
    return Replayed(
        call_id=done.call_id,
        tool_id=done.tool_id,
        same=done.same,
        differences=tuple(
            Difference(path=one.path, then=one.then, now=one.now) for one in done.differences
        ),
        changes=told(done.changes),
        empty_folders=done.empty_folders,
        printed_the_same=done.printed_the_same,
        toolset_changed=done.then.toolset.digest != done.now.toolset.digest,
        then=_ran(done.then),
        now=_ran(done.now),
        missing=tuple(PathNote(**note.model_dump()) for note in done.missing),
        branch=done.branch,
        manifest_id=done.manifest_id,
    )


def _ran(ran: Ran) -> RanAs:
    return RanAs(toolset=ran.toolset, sandbox=ran.sandbox)


OPERATIONS = (merge_branch, list_conflicts, resolve_conflict, replay_call)
