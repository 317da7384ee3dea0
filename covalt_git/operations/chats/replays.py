"""Replay of a recorded call: the operation, its request and its result."""

from pydantic import Field

from covalt_git.calls import replay
from covalt_git.calls.replay import RanAs
from covalt_git.json_values.difference import Difference
from covalt_git.operations.context import Context
from covalt_git.operations.registry import ChatRequest, PathText, Result, operation
from covalt_git.operations.results import Change, PathNote


class ReplayCall(ChatRequest):
    """A recorded call to replay."""

    call_id: str = Field(max_length=200, description="The call, or its commit.")
    approve: bool = Field(default=False, description="Approve the call if it needs approval.")
    approved: str | None = Field(
        None,
        max_length=200,
        description="The digest of what was confirmed; if the call or the code is another one, it needs approval again.",
    )
    reason: str | None = Field(
        None, min_length=1, max_length=1000, description="Recorded with the approval."
    )
    keep: replay.Keep = Field("different", description="When to keep the branch of the replay.")


class Replayed(Result):
    """The result of a replay."""

    call_id: str
    tool_id: str
    original_manifest_id: str = Field(description="The commit of the recorded call.")
    same: bool = Field(description="Whether the answer and the files are the same.")
    differences: tuple[Difference, ...] = Field(description="In result, status and error.")
    changes: tuple[Change, ...] = Field(
        description="From the recorded files to those of the replay."
    )
    empty_folders: tuple[PathText, ...] = Field(description="Empty folders that only one side has.")
    printed_the_same: bool
    toolset_changed: bool
    then: RanAs
    now: RanAs
    missing: tuple[PathNote, ...] = Field(
        description="Paths of the workspace that no commit contains."
    )
    branch: str | None = Field(description="The branch of the replay, if it is kept.")
    manifest_id: str | None = Field(description="The commit of the replay, if it is kept.")


@operation(changes=True, errors=(404, 409, 501), needs=("workspace:branch",))
def replay_call(context: Context, request: ReplayCall) -> Replayed:
    """Run a recorded call again with its original files, and return the differences of the result.

    It runs in a temporary folder, so that the workspace does not change.  The result is on a branch ``replay-N``.
    """
    chat = context.chat(request.chat_id)
    engine = context.engine()
    try:
        result = replay.replay(
            engine,
            chat,
            request.call_id,
            approve=request.approve,
            approved=request.approved,
            reason=request.reason,
            keep=request.keep,
        )
    finally:
        context.update_index(chat)
    return Replayed.of(
        result, toolset_changed=result.then.toolset.digest != result.now.toolset.digest
    )
