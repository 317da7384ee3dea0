"""Model of a refused or asked call: a line of ``data/decisions.jsonl``."""

from typing import Literal

from pydantic import Field

from covalt_git.models.base import Digest, StrictModel, Time


class DecisionRecord(StrictModel):
    """A call that was refused, or that requires approval.  It has no argument, token or claim, but the caller's id."""

    v: Literal[1] = 1
    id: str = Field(description="UUIDv7.")
    at: Time
    by: str = Field(description="Principal that made the request.")
    role: str | None = Field(None, description="Its role; None: the default role.")
    protocol: str | None = Field(
        None, description="mcp or http; None: a command or the Python API."
    )
    tool_id: str
    decision: Literal["hidden", "denied", "asked"] = Field(
        description="hidden: the tool does not exist for the role."
    )
    code: str | None = Field(None, description="Code of the error that the caller got.")
    reasons: tuple[str, ...] = Field(
        (), description="The rules, patterns and settings that decided."
    )
    args_digest: Digest | None = Field(
        None, description="SHA-256 of the arguments as canonical JSON; None: they are not known."
    )
    chat_id: str | None = Field(None, description="The chat, once the call has one.")
    call_id: str | None = None
    execution_id: str | None = Field(None, description="The approval that the decision is about.")
    parent: str | None = Field(None, description="The script that made the call.")
