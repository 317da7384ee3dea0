"""Questions that a running call may ask, in the shapes of MCP.

They are those of the specification, revision 2026-07-28: "Elicitation", "Sampling" and "Roots".  A
question of an MCP server is passed on unchanged, and so is its answer.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from covalt_git.json_values import JsonObject
from covalt_git.models.base import StrictModel

QuestionMethod = Literal["elicitation/create", "sampling/createMessage", "roots/list"]
QuestionKind = Literal["form", "url", "sampling", "roots"]
"""What a client can be asked: to let its user fill in a form or open a URL, for a reply of its model, for
its folders."""


class Question(StrictModel):
    """A request of MCP to a client; ``params`` as they stand on the wire."""

    method: QuestionMethod
    params: JsonObject = Field(default_factory=dict)

    @property
    def kind(self) -> QuestionKind:
        """The kind of question, which a respondent must be able to answer."""
        match self.method:
            case "sampling/createMessage":
                return "sampling"
            case "roots/list":
                return "roots"
        return "url" if self.params.get("mode") == "url" else "form"

    @property
    def message(self) -> str:
        """The message for the user; empty if only a program is asked."""
        told = self.params.get("message")
        return told if isinstance(told, str) else ""


class QuestionRecord(StrictModel):
    """Record of a question; the answer is not in it, because histories are cloned.

    A user gave it to a tool, once.  Its effect is in what the tool did.
    """

    method: QuestionMethod
    message: str = Field("", description="What the person was told.")
    answer: Literal["accept", "decline", "cancel", "given"] | None = Field(
        None, description="What they did; given: a program answered. None: nobody did."
    )
