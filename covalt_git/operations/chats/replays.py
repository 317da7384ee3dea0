"""Replay of a recorded call: the operation, its request and its result."""

from __future__ import annotations

from pydantic import Field

from covalt_git.calls import replay
from covalt_git.models.calls import SandboxLevel, ToolsetVersion
from covalt_git.operations.context import Context
from covalt_git.operations.registry import PathText, Request, Result, operation
from covalt_git.operations.results import Change, PathNote


class ReplayCall(Request):
    """A call to make once more."""

    chat_id: str = Field(max_length=200)
    call_id: str = Field(max_length=200, description="The call, or the manifest that it made.")
    approve: bool = Field(default=False, description="Approve the call if it needs approval.")
    keep: replay.Keep = Field("different", description="When the branch of the replay is kept.")


class Difference(Result):
    """A part of what a call said that is another now: JSON texts, cut; null where nothing is."""

    path: str
    then: str | None
    now: str | None


class RanAs(Result):
    """The code that ran, and the level of its sandbox."""

    toolset: ToolsetVersion
    sandbox: SandboxLevel | None


class Replayed(Result):
    """What came of a call that was made once more."""

    call_id: str
    tool_id: str
    original_manifest_id: str = Field(description="The manifest that the call made.")
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


@operation(changes=True, errors=(404, 409, 501))
def replay_call(context: Context, request: ReplayCall) -> Replayed:
    """Make a recorded call again on the files that it ran on, and tell what comes out differently.

    It runs in a folder of its own, so that the chat's stays as it is; a branch ``replay-N`` keeps
    what came of it.
    """
    chat = context.chat(request.chat_id)
    engine = context.engine()
    try:
        done = replay.replay(
            engine, chat, request.call_id, approve=request.approve, keep=request.keep
        )
    finally:
        context.update_index(chat)
    return Replayed.of(done, toolset_changed=done.then.toolset.digest != done.now.toolset.digest)
