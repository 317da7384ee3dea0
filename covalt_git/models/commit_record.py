"""Record of a commit of a chat: commit format, version 1.

A commit message consists of a subject, one line of canonical JSON (the record), and trailers for users
of git alone.  The record contains everything that is not in the tree: the call and its result, the
uploaded files, empty folders, and files that could not be stored.
"""

from typing import Any, Literal, Self, TypeVar

from pydantic import Field

from covalt_git.json_values import JsonObject
from covalt_git.models.base import Int, StrictModel, Time
from covalt_git.models.calls import CallError, SandboxLevel, TokenRecord, ToolsetVersion
from covalt_git.models.elicitation import QuestionRecord

Source = Literal["tool_run", "message", "user_upload", "edit", "restore", "merge", "push"]

CommitOrigin = Literal["here", "elsewhere"]
"""Whether covalt-git created a commit in this chat, or a push or an import added it."""


def commit_origin(source: Source) -> CommitOrigin:
    # A pushed commit is never read as another source, whatever its message says: any git can write that.
    return "elsewhere" if source == "push" else "here"


MergeSide = Literal["ours", "theirs"]
"""The current branch of a merge, or the branch that is merged into it."""

MergeDecision = Literal["ours", "theirs", "union", "both", "content"]
"""The resolution of a conflict: one side, the lines of both, both as two files, or new content."""

Note = TypeVar("Note", "WorkspaceNote", str)

ConflictKind = Literal["text", "binary", "add_add", "modify_delete", "link", "type", "file_folder"]


class WorkspaceNote(StrictModel):
    """A path that is not stored or not portable, and the reason."""

    path: str
    reason: str


class WorkspaceNotes(StrictModel):
    """Facts about a workspace that the tree of a commit cannot contain.

    ``lost`` has the paths that were not stored before, and that this change removed or replaced, and those that it could
    not restore as they were.
    """

    empty_folders: tuple[str, ...] = ()
    not_stored: tuple[WorkspaceNote, ...] = ()
    unportable: tuple[WorkspaceNote, ...] = ()
    lost: tuple[WorkspaceNote, ...] = ()

    def without(self, earlier: Self) -> Self:
        """Return the notes that are not in ``earlier``."""
        return type(self)(
            empty_folders=_without(self.empty_folders, earlier.empty_folders),
            not_stored=_without(self.not_stored, earlier.not_stored),
            unportable=_without(self.unportable, earlier.unportable),
            lost=self.lost,
        )


def _without(notes: tuple[Note, ...], earlier: tuple[Note, ...]) -> tuple[Note, ...]:
    return tuple(note for note in notes if note not in earlier)


class CallRecord(StrictModel):
    """A finished call.

    In the commit, ``args``, ``result``, ``render_plan``, ``output`` and ``error`` can be references (see
    :mod:`covalt_git.workspaces.records`).  This model contains their values.
    """

    tool_id: str
    args: JsonObject
    result: Any = None
    render_plan: Any = None
    status: Literal["success", "error"]
    error: CallError | None = None
    output: str = Field("", description="Printed output of the tool, truncated.")
    started_at: Time
    finished_at: Time
    sandbox: SandboxLevel | None = Field(None, description="None: no process was started.")
    toolset: ToolsetVersion
    execution_id: str | None = Field(None, description="Approval of the call.")
    base: str | None = Field(
        None, description="Commit that the call read, if other commits followed while it ran."
    )
    asked: tuple[QuestionRecord, ...] = Field((), description="Requests to the client.")
    # The result alone does not show it: an agent may choose structured content that looks like a link.
    links: tuple[int, ...] = Field(
        (), description="Positions of the result's content blocks that are links to resources."
    )
    fields: tuple[str, ...] = Field((), description="The parts of the result that callers get.")
    parent: str | None = Field(None, description="The script that made the call.")
    line: Int | None = Field(None, description="The line of the script.")
    waived_by: str | None = Field(
        None, description="The approval of an earlier call of the script that allowed this one."
    )
    token: TokenRecord | None = Field(
        None, description="The access token of an issuer with which the call was made."
    )
    script: Any = Field(None, description="How to run a script again; see ScriptRecord.")
    role: str | None = Field(None, description="Role of the caller; earlier versions stored none.")


class UploadedFile(StrictModel):
    """A file that a user uploaded."""

    path: str
    renamed_from: str | None = None


class MessageRecord(StrictModel):
    """A message of the conversation, or the application's id for it."""

    role: str
    text: str | None = None
    ref: str | None = Field(None, description="The application's id of the message.")


class RestoreRecord(StrictModel):
    """A restore of a commit's files, or a return to a commit's conversation with the current files."""

    manifest_id: str | None = Field(None, description="None: before the first commit.")
    paths: tuple[str, ...] = Field((), description="Restored paths; empty: all.")
    keeps_files: bool = False
    command: Literal["undo", "redo"] | None = Field(
        None, description="With undo and redo, the next one starts at ``manifest_id``."
    )


class UndoneCall(StrictModel):
    """A call whose changes of files a commit undoes, and the call's commit."""

    call_id: str
    manifest_id: str


class MergeConflict(StrictModel):
    """A path that the two sides of a merge changed differently, and the resolution.

    The decision ``both`` keeps the active branch's version at the path, and saves the other version at
    ``saved_as``.  The conflict is unresolved as long as the file ``saved_as`` exists.  If a side deleted the path,
    its version is the file before the deletion.
    """

    path: str
    kind: ConflictKind
    deleted: MergeSide | None = Field(None, description="Side that deleted the path.")
    decision: MergeDecision | None = Field(None, description="None: unresolved.")
    saved_as: str | None = None


class MergeRecord(StrictModel):
    """A merge: the merged branch and its commit, the merge base, and the conflicts."""

    branch: str
    manifest_id: str
    base_id: str | None = None
    conflicts: tuple[MergeConflict, ...] = ()


class CommitRecord(StrictModel):
    """The JSON line of a commit message."""

    v: Literal[1] = 1
    id: str = Field(description="UUIDv7; for a call, the id of the call.")
    at: Time
    by: str = Field(description="Principal that created the commit.")
    call: CallRecord | None = None
    upload: tuple[UploadedFile, ...] = ()
    message: MessageRecord | None = None
    merge: MergeRecord | None = None
    restore: RestoreRecord | None = None
    undone: UndoneCall | None = None
    workspace: WorkspaceNotes = WorkspaceNotes()
