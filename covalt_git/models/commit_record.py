"""What a commit of a chat says about itself: commit format, version 1.

A commit message is a subject, one line of canonical JSON (the record) and trailers for people who
only have git.  The record holds everything that is not in the tree: what was called with which
result, what was uploaded, which empty folders there were and what could not be stored.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import Field

from covalt_git.json_values import JsonObject
from covalt_git.models.base import StrictModel, Time
from covalt_git.models.calls import CallError, SandboxLevel, ToolsetVersion
from covalt_git.models.elicitation import QuestionRecord

Source = Literal["tool_run", "message", "user_upload", "edit", "restore", "merge", "push"]

Made = Literal["here", "elsewhere"]
"""Where a commit was made: by covalt-git in this chat, or not, so that it came by a push or an import."""


def made(source: Source) -> Made:
    """Return where a commit of that source was made."""
    return "elsewhere" if source == "push" else "here"


MergeSide = Literal["ours", "theirs"]
"""The branch that a merge is made on, or the one that is merged into it."""

MergeDecision = Literal["ours", "theirs", "union", "both", "content"]
"""What becomes of a conflict: a side, the lines of both sides, both as two files, or a new content."""

Noted = TypeVar("Noted", "PathNote", str)

ConflictKind = Literal["text", "binary", "add_add", "modify_delete", "link", "type", "file_folder"]


class PathNote(StrictModel):
    """A path that is not as it seems, and why."""

    path: str
    reason: str


class WorkspaceNotes(StrictModel):
    """What the tree of a commit cannot say about the workspace."""

    empty_folders: tuple[str, ...] = ()
    not_stored: tuple[PathNote, ...] = ()
    unportable: tuple[PathNote, ...] = ()

    def beyond(self, told: WorkspaceNotes) -> WorkspaceNotes:
        """Return what is noted here and was not in the notes that were ``told``."""
        return WorkspaceNotes(
            empty_folders=_without(self.empty_folders, told.empty_folders),
            not_stored=_without(self.not_stored, told.not_stored),
            unportable=_without(self.unportable, told.unportable),
        )


def _without(notes: tuple[Noted, ...], told: tuple[Noted, ...]) -> tuple[Noted, ...]:
    return tuple(one for one in notes if one not in told)


class CallRecord(StrictModel):
    """A finished call.

    ``args``, ``result``, ``render_plan``, ``output`` and ``error`` may be references (see
    :mod:`covalt_git.workspaces.records`) in the commit itself; the model holds them whole.
    """

    tool_id: str
    args: JsonObject
    result: Any = None
    render_plan: Any = None
    status: Literal["success", "error"]
    error: CallError | None = None
    output: str = Field("", description="What the tool printed, capped.")
    started_at: Time
    finished_at: Time
    sandbox: SandboxLevel | None = Field(None, description="None: no process of it ran.")
    toolset: ToolsetVersion
    execution_id: str | None = Field(None, description="The approval that let it run.")
    base: str | None = Field(
        None, description="The manifest that it read, where others came in while it did."
    )
    asked: tuple[QuestionRecord, ...] = Field((), description="What it asked while it ran.")


class UploadedFile(StrictModel):
    """A file that a person added."""

    path: str
    renamed_from: str | None = None


class MessageRecord(StrictModel):
    """A message of the conversation, or the application's id for it."""

    role: str
    text: str | None = None
    ref: str | None = Field(None, description="The application's own id of the message.")


class RestoreRecord(StrictModel):
    """Which manifest was brought back: the files of it, or the conversation with files kept."""

    manifest_id: str | None = Field(None, description="None: the state before the first manifest.")
    paths: tuple[str, ...] = Field((), description="What of it; nothing stands for all.")
    keeps_files: bool = False
    command: Literal["undo", "redo"] | None = Field(
        None, description="undo and redo: the next one starts from ``manifest_id``."
    )


class MergeConflict(StrictModel):
    """A path that both sides of a merge changed, each in its own way, and what was decided.

    ``both`` leaves the active branch's version at the path and puts the other's at ``saved_as``;
    the conflict waits for somebody until nothing stands there any more.  Where a side deleted the
    path, what it had deleted takes the place of its version.
    """

    path: str
    kind: ConflictKind
    deleted: MergeSide | None = Field(None, description="Which side deleted the path.")
    decision: MergeDecision | None = Field(None, description="None: nobody has decided.")
    saved_as: str | None = None


class MergeRecord(StrictModel):
    """What a merge joined: the branch and its manifest, and the manifest both sides come from."""

    branch: str
    manifest_id: str
    base_id: str | None = None
    conflicts: tuple[MergeConflict, ...] = ()


class CommitRecord(StrictModel):
    """The JSON line of a commit message."""

    v: Literal[1] = 1
    id: str = Field(description="UUIDv7; of a call, the call's id.")
    at: Time
    by: str = Field(description="Who did it.")
    call: CallRecord | None = None
    upload: tuple[UploadedFile, ...] = ()
    message: MessageRecord | None = None
    merge: MergeRecord | None = None
    restore: RestoreRecord | None = None
    workspace: WorkspaceNotes = WorkspaceNotes()
