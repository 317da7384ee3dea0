"""What a commit of a chat says about itself: commit format, version 1.

A commit message is a subject, one line of canonical JSON (the record) and trailers for people who
only have git.  The record holds everything that is not in the tree: what was called with which
result, what was uploaded, which empty folders there were and what could not be stored.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from covalt_git.models.base import JsonObject, StrictModel, Time
from covalt_git.models.calls import CallError, SandboxLevel, ToolsetVersion

Source = Literal["tool_run", "message", "user_upload", "edit", "restore", "merge", "push"]


class PathNote(StrictModel):
    """A path that is not as it seems, and why."""

    path: str
    reason: str


class WorkspaceNotes(StrictModel):
    """What the tree of a commit cannot say about the workspace."""

    empty_folders: tuple[str, ...] = ()
    not_stored: tuple[PathNote, ...] = ()
    unportable: tuple[PathNote, ...] = ()


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
    sandbox: SandboxLevel | None = Field(None, description="None: the tool never ran.")
    toolset: ToolsetVersion
    execution_id: str | None = Field(None, description="The approval that let it run.")


class UploadedFile(StrictModel):
    """A file that a person added."""

    path: str
    renamed_from: str | None = None


class MessageRecord(StrictModel):
    """A message of the conversation, or the application's id for it."""

    role: str
    text: str | None = None
    ref: str | None = Field(None, description="The application's own id of the message.")


class CommitRecord(StrictModel):
    """The JSON line of a commit message."""

    v: Literal[1] = 1
    id: str = Field(description="UUIDv7; of a call, the call's id.")
    at: Time
    by: str = Field(description="Who did it.")
    call: CallRecord | None = None
    upload: tuple[UploadedFile, ...] = ()
    message: MessageRecord | None = None
    workspace: WorkspaceNotes = WorkspaceNotes()
