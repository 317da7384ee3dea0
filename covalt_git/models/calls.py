"""A tool call, from the question whether it may run to its record, and the approval it may need."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from covalt_git.json_values import JsonObject
from covalt_git.models.base import Digest, Int, StrictModel, Time

CallStatus = Literal["pending", "running", "success", "error"]
ApprovalState = Literal["pending", "approved", "denied", "expired", "superseded"]
SandboxLevel = Literal["full", "landlock", "seatbelt", "process"]


class CallError(StrictModel):
    """Why a call failed.

    ``code`` is one of: ``tool_raised``, ``bad_result``, ``tool_died``, ``cannot_load``,
    ``limit_time``, ``limit_cpu``, ``limit_memory``, ``limit_processes``, ``limit_written``,
    ``limit_output``, ``limit_files``, ``limit_workspace``, ``limit_tmp``, ``limit_disk``,
    ``sandbox_failed``, ``cannot_install``, ``workspace_deleted``, ``denied``, ``expired``,
    ``cancelled``, ``interrupted``, ``not_read_only``, ``invalid_arguments``, ``cannot_ask``,
    ``not_answered``; of HTTP tools ``http_404`` and the like, ``grant_needed``,
    ``secret_missing``, ``secret_unfit``, ``secrets_file``, ``no_such_file``,
    ``refused_destination``, ``connection_failed``, ``tls_failed``, ``timed_out``,
    ``bad_redirect``, ``bad_answer``, ``bad_host``, ``bad_url_template``; and of tools of MCP
    servers, beside what they share with those, ``tool_failed``, ``server_failed``,
    ``server_ended``, ``server_error``, ``no_server``, ``server_in_workspace``,
    ``sign_in_needed``, ``definition_changed``.
    """

    code: str
    message: str
    hint: str = ""
    traceback: str = Field("", description="The tool's own lines of the traceback.")

    def __str__(self) -> str:
        """Return what the specification's ``error`` column holds."""
        return f"{self.code}: {self.message}"


class FileReference(StrictModel):
    """Bytes kept beside the commits, in the tree of ``refs/covalt/records``."""

    ref: Digest
    size: Int


class RenderPlan(StrictModel):
    """How a call's result is shown: the renderer and its configuration, every expression resolved.

    Files are named ``workspace:<path>`` or ``toolset:<path>``.  ``artifact`` keeps the bytes of the
    toolset's page as they were, so that history looks the same after an update.
    """

    renderer: str
    config: JsonObject = Field(default_factory=dict)
    error: str | None = Field(None, description="Why the plan cannot be shown as configured.")
    artifact: FileReference | None = None


class ToolsetVersion(StrictModel):
    """Which code ran."""

    id: str
    version: str
    digest: Digest


class PendingCall(StrictModel):
    """A call that waits or runs: the content of ``refs/covalt/calls/<call_id>``, or of ``running-call``."""

    v: Literal[1] = 1
    id: str
    chat_id: str
    branch: str
    tool_id: str
    args: JsonObject
    status: Literal["pending", "running"]
    by: str
    role: str | None = None
    started_at: Time
    message_id: str | None = None
    base: str | None = Field(None, description="The branch's manifest when the call was made.")
    execution_id: str | None = None
    toolset: ToolsetVersion


class Approval(StrictModel):
    """A question to a person whether one call may run: ``refs/covalt/approvals/<execution_id>``.

    It answers for exactly this call: the same principal, chat, branch, tool definition, arguments,
    base and files that no commit holds.  It is settled once; a settled one never changes again.
    """

    v: Literal[1] = 1
    execution_id: str
    call_id: str
    chat_id: str
    branch: str
    tool_id: str
    args: JsonObject
    args_digest: Digest
    definition_digest: Digest
    by: str
    role: str | None = Field(None, description="The role it was asked under; checked again.")
    reasons: tuple[str, ...] = ()
    message_id: str | None = None
    base: str | None = None
    unstored: Digest | None = Field(
        None, description="Of a listing of the files that no commit holds."
    )
    created_at: Time
    expires_at: Time
    state: ApprovalState = "pending"
    decided_by: str | None = None
    decided_at: Time | None = None
    decision_reason: str | None = Field(None, description="Why, as the user said who decided.")
    superseded_by: str | None = None


class ToolCall(StrictModel):
    """A call as the specification's ``tool_calls`` table shows it, its JSON columns as values."""

    id: str
    chat_id: str
    message_id: str | None = None
    tool_id: str
    args: JsonObject
    result: Any = None
    render_plan: RenderPlan | None = None
    status: CallStatus
    error: str | None = None
    started_at: Time
    finished_at: Time | None = None
    pre_manifest_id: str | None = None
    post_manifest_id: str | None = None

    def as_json(self) -> JsonObject:
        """Return the row as ``call --json`` and the API print it."""
        row = self.model_dump(mode="json")
        if self.render_plan is not None:
            row["render_plan"] = self.render_plan.model_dump(mode="json", exclude_none=True)
        return row
