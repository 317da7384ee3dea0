"""Models of a call in the queue, and of its end, which servers and workers exchange."""

from typing import Any, Literal

from pydantic import Field

from covalt_git.json_values import JsonObject
from covalt_git.models.access_token import AccessToken
from covalt_git.models.base import Int, One, StrictModel
from covalt_git.models.elicitation import QuestionKind
from covalt_git.models.reported_refs import ReportedRefs


class Caller(StrictModel):
    """The principal of a queued call; ``token`` has the facts of its access token, and never the token."""

    id: str
    role: str | None = None
    protocol: Literal["http", "mcp"] | None = None
    token: AccessToken | None = None


class QueuedAllowance(StrictModel):
    """Further calls that a decision allows a script."""

    calls: Int
    same: tuple[str, ...] = ()


class QueuedDecision(StrictModel):
    """Approval of a pending call, which runs it."""

    execution_id: str
    reason: str | None = None
    allow: QueuedAllowance | None = None
    later: bool = False
    answers: dict[str, JsonObject] | None = Field(
        None, description="Answers of the user who decided, by the keys of the questions."
    )


class QueuedCall(StrictModel):
    """A call that a worker makes, or approves and runs.

    Attributes:
        only_chat: the id and the creation time of the only chat that exists for the caller.
        can_ask: the kinds of elicitation requests that the client of the call can answer.
        pages: the URL of the page of an approval, with ``{execution_id}`` in place of its id.
        tag: the tag of the workers that may make it; empty for workers without tags.
        is_serial: whether it needs the lock of its chat as long as it runs.
        project: the commit of the project that it runs, if the server has its project from a git repository.
        queued_at: when it was put in the queue, in seconds since 1970.
        reported: the refs of the chat as the server knows them, if they are on a git server.
    """

    v: One = 1
    call_id: str
    chat_id: str
    tool_id: str
    args: JsonObject
    message_id: str | None = None
    caller: Caller
    only_chat: tuple[str, str] | None = None
    can_ask: tuple[QuestionKind, ...] = ()
    pages: str | None = None
    decision: QueuedDecision | None = None
    tag: str = ""
    is_serial: bool = True
    project: str | None = None
    queued_at: float = 0.0
    reported: ReportedRefs | None = None

    @property
    def key(self) -> str:
        """The name under which the queue has it: a call that was pending is made a second time, when it is approved."""
        return self.call_id if self.decision is None else self.decision.execution_id


class RemoteError(StrictModel):
    """An error that refused a call at a worker; ``body`` is its form in the API."""

    message: str
    hint: str
    code: str
    http_status: Int
    exit_code: Int
    body: JsonObject
    renewed: str | None = Field(None, description="The approval that replaced the decided one.")


class QueuedEnd(StrictModel):
    """The end of a queued call: its commit, its approval, or the error that refused it.

    Attributes:
        manifest_id: its commit.
        repeated: whether it had been made before under its id.
        call: a call without a commit, as a row with its links and fields.
        execution_id: the approval for which it waits.
        error: why it was refused, or failed without a record.
        reported: the refs of the chat as the worker has pushed them, if they are on a git server.
    """

    v: One = 1
    manifest_id: str | None = None
    repeated: bool = False
    call: dict[str, Any] | None = None
    execution_id: str | None = None
    error: RemoteError | None = None
    reported: ReportedRefs | None = None
