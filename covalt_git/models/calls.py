"""Models of tool calls: pending and finished calls, errors, approvals."""

import re
from typing import Any, Literal

from pydantic import Field

from covalt_git import timestamps
from covalt_git.json_values import JsonObject, field_projection
from covalt_git.models.base import Digest, Int, StrictModel, Time
from covalt_git.models.elicitation import Question
from covalt_git.names import BUILTIN_NAMESPACE, REGISTRY_NAMESPACE

_OBJECTS = ("path", "file", "query", "command", "url")
_PATCHES = ("patch", "diff")
_PATCHED_FILE = re.compile(
    r"^--- (?:a/)?(?P<old>[^\t\r\n]+).*\n\+\+\+ (?:b/)?(?P<new>[^\t\r\n]+)"
    r"|^\*\*\* (?:Add|Update|Delete) File: (?P<named>[^\r\n]+)",
    re.MULTILINE,
)
_MOST_FILES = 3
_MOST_LETTERS = 200

MAY_BE_SCRIPTS = (f"{BUILTIN_NAMESPACE}:", f"{REGISTRY_NAMESPACE}:")
"""Beginnings of the ids of tools whose calls can be scripts: an alias can forward to ``workspace:run_script``."""

CallStatus = Literal["pending", "running", "success", "error"]
ApprovalState = Literal["pending", "approved", "denied", "expired", "superseded"]
SandboxLevel = Literal["full", "landlock", "seatbelt", "process"]


_LINE_SIGN = " \N{RETURN SYMBOL} "


def main_argument(tool_id: str, args: JsonObject) -> str:
    """Return the argument that names what a call works on, in one line; empty if no argument does.

    The source of a script does not: it names tools that the role of a reader may not see.

    It is the first of ``path``, ``file``, ``query``, ``command`` and ``url``, else the files of a ``patch`` or
    ``diff``, else the first string of up to 200 characters.  If the arguments have none of these, the first argument
    that is an object is searched in the same way.
    """
    if "script" in args and tool_id.startswith(MAY_BE_SCRIPTS):
        return ""
    inner = next((value for value in args.values() if isinstance(value, dict)), {})
    for values in (args, inner):
        patched = [_patched_files(values.get(name)) for name in _PATCHES]
        ordered = [*(values.get(name) for name in _OBJECTS), *patched, *values.values()]
        for value in ordered:
            if isinstance(value, str) and 0 < len(value) <= _MOST_LETTERS and not value.isspace():
                # A sign between lines: a script of several commands would read as one command.
                lines = (" ".join(line.split()) for line in value.splitlines())
                return _LINE_SIGN.join(filter(None, lines))
    return ""


def _patched_files(patch: object) -> str:
    """Return the first files that a patch changes, and how many others; empty if it is not a patch."""
    if not isinstance(patch, str):
        return ""
    # Both lines together, because a line that a patch removes may begin with `--` itself.
    files = (
        match["named"] or (match["new"] if match["new"] != "/dev/null" else match["old"])
        for match in _PATCHED_FILE.finditer(patch)
    )
    names = list(dict.fromkeys(files))
    more = [f"+{len(names) - _MOST_FILES}"] if len(names) > _MOST_FILES else []
    return ", ".join(names[:_MOST_FILES] + more)


class CallError(StrictModel):
    """Why a call failed.

    ``code`` is a code of ``problems/call_codes.md``, which ``covalt-git explain`` prints.
    """

    code: str
    message: str
    hint: str = ""
    traceback: str = Field("", description="Traceback, with lines of the tool only.")

    def __str__(self) -> str:
        """Return the content of the specification's ``error`` column."""
        return f"{self.code}: {self.message}"


class FileReference(StrictModel):
    """A reference to bytes in the tree of ``refs/covalt/records``."""

    ref: Digest
    size: Int


class RenderPlan(StrictModel):
    """The renderer of a call's result, and its configuration with all expressions resolved.

    File names are ``workspace:<path>`` or ``toolset:<path>``.  ``artifact`` refers to the toolset's page
    at the time of the call, so that the result looks the same after an update.
    """

    renderer: str
    config: JsonObject = Field(default_factory=dict)
    error: str | None = Field(None, description="Why the result is not shown as configured.")
    artifact: FileReference | None = None


class ToolsetVersion(StrictModel):
    """The toolset of a call, at the time of the call."""

    id: str
    version: str
    digest: Digest
    commit: str | None = Field(
        None,
        description="Commit of the project, if the node has it from a git repository.",
    )

    @property
    def text(self) -> str:
        """The text of the trailer ``Covalt-Toolset``."""
        return f"{self.id} {self.version} {self.digest}"


class TokenRecord(StrictModel):
    """The access token of an issuer with which a call was made: who made it for whom, and never the token."""

    issuer: str
    subject: str
    jti: str | None = None
    checks: tuple[str, ...] = Field(description="The checks that it has passed, in their order.")


_NOT_TIMED = frozenset({"denied", "expired", "interrupted"})
"""Codes of calls that did not run, or whose end was recorded later by another process."""


def run_start(
    status: CallStatus | None, error: str | None, started_at: str, approved_at: str | None
) -> str | None:
    """Return when a call began to run: after its approval, if it needed one; None if it did not run."""
    if status == "pending" or (error or "").partition(":")[0] in _NOT_TIMED:
        return None
    return approved_at or started_at


class PendingCall(StrictModel):
    """A pending or running call: the content of ``refs/covalt/calls/<call_id>``, or of ``running-call``.

    A pending call with a ``server_task`` waits for the answer of its MCP server, because the process that made it has
    ended; if it needed an approval, that is decided.
    """

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
    base: str | None = Field(None, description="Last commit of the branch at the time of the call.")
    execution_id: str | None = None
    toolset: ToolsetVersion
    parent: str | None = Field(None, description="The script that makes the call.")
    line: Int | None = Field(None, description="The line of the script.")
    waived_by: str | None = Field(None, description="The approval that allowed the call.")
    token: TokenRecord | None = Field(None, description="The access token of an issuer.")
    server_task: str | None = Field(
        None, description="The task that the MCP server made of the call, on another machine."
    )
    server_answer: JsonObject | None = Field(
        None,
        description="How this task ended, until it can be recorded on the branch of the call.",
    )

    @property
    def tool_call(self) -> "ToolCall":
        """The call as a row of the table ``tool_calls``."""
        shared = self.model_dump(include=set(ToolCall.model_fields))
        return ToolCall(**shared, pre_manifest_id=self.base)


class Approval(StrictModel):
    """An approval of one call, pending or decided: ``refs/covalt/approvals/<execution_id>``.

    It is valid for exactly this call: the same principal, chat, branch, tool definition, arguments,
    base commit and uncommitted files.  It is decided once, and does not change after that.
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
    role: str | None = Field(None, description="Role of the caller; it is checked again.")
    reasons: tuple[str, ...] = ()
    message_id: str | None = None
    base: str | None = None
    # Without it, a swap of a file in node_modules/, which is in no commit, would run with the approval.
    unstored: Digest | None = Field(
        None, description="Digest of a list of the files that commits leave out."
    )
    commits: dict[str, str] = Field(
        {}, description="The commits that arguments named when the call was requested."
    )
    questions: dict[str, Question] = Field(
        {}, description="What the call asks a user, who answers after approving it, by key."
    )
    token: TokenRecord | None = Field(None, description="The access token of an issuer.")
    token_digest: Digest | None = Field(
        None, description="Digest of this token, for which alone the approval is."
    )
    created_at: Time
    expires_at: Time
    state: ApprovalState = "pending"
    decided_by: str | None = None
    decided_at: Time | None = None
    decision_reason: str | None = Field(None, description="Why, as the user said who decided.")
    superseded_by: str | None = None

    @property
    def ran_at(self) -> str | None:
        """When the approved call began to run; None if it was not approved."""
        return self.decided_at if self.state == "approved" else None

    @property
    def waited_s(self) -> int | None:
        """Whole seconds from the request to the decision; None while it is pending."""
        if self.decided_at is None:
            return None
        return timestamps.seconds_between(self.created_at, self.decided_at)


class ToolCall(StrictModel):
    """A call, with the columns of the specification's table ``tool_calls``; JSON columns are parsed.

    ``links`` and ``fields`` are those of the commit's record, and not columns.
    """

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
    links: tuple[int, ...] = Field((), exclude=True)
    fields: tuple[str, ...] = Field((), exclude=True)

    @property
    def returned(self) -> Any:
        """The result that a caller gets: the whole, or the parts that its source names."""
        return field_projection.project(self.result, self.fields)

    def as_json(self) -> JsonObject:
        """Return the row in the format of ``call --json`` and the API."""
        row = self.model_dump(mode="json")
        if self.render_plan is not None:
            row["render_plan"] = self.render_plan.model_dump(mode="json", exclude_none=True)
        return row
