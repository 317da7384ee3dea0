"""What a call that runs may ask whoever made it, in the shape that MCP has for it.

The shapes are those of the MCP specification, revision 2026-07-28: "Elicitation", "Sampling", "Roots".
A question of an MCP server passes through as it came, and so does its answer.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from covalt_git.models.base import JsonObject, StrictModel

QuestionMethod = Literal["elicitation/create", "sampling/createMessage", "roots/list"]
QuestionKind = Literal["form", "url", "sampling", "roots"]
"""What a client can be asked: to have a person fill in a form or open an address, for what its model
says, for the folders it works in."""


class Question(StrictModel):
    """A request of MCP to a client; ``params`` as they stand on the wire."""

    method: QuestionMethod
    params: JsonObject = Field(default_factory=dict)

    @property
    def kind(self) -> QuestionKind:
        """What somebody has to be able to do to answer it."""
        match self.method:
            case "sampling/createMessage":
                return "sampling"
            case "roots/list":
                return "roots"
        return "url" if self.params.get("mode") == "url" else "form"

    @property
    def message(self) -> str:
        """What a person is told; empty where only a program is asked."""
        told = self.params.get("message")
        return told if isinstance(told, str) else ""


class AskedQuestion(StrictModel):
    """That a call asked something, as its record tells it.

    What was answered is not in it: a person said that to a tool, once, and histories are cloned.  What
    matters of it is in what the tool did.
    """

    method: QuestionMethod
    message: str = Field("", description="What the person was told.")
    answer: Literal["accept", "decline", "cancel", "given"] | None = Field(
        None, description="What they did; given: a program answered. None: nobody did."
    )
