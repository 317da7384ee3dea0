"""Elicitation, sampling and roots: requests of a running call to its client.

They have the form of MCP 2026-07-28 ("Elicitation", "Sampling", "Roots").  Requests of an MCP server,
and the client's responses, are forwarded unchanged.
"""

from typing import Literal

from pydantic import Field

from covalt_git.json_values import JsonObject
from covalt_git.models.base import StrictModel

QuestionMethod = Literal["elicitation/create", "sampling/createMessage", "roots/list"]
QuestionKind = Literal["form", "url", "sampling", "roots"]
"""What the client does: show a form or open a URL for its user, call its model, list its folders."""


class Question(StrictModel):
    """An MCP request to a client, with the ``params`` of the protocol."""

    method: QuestionMethod
    params: JsonObject = Field(default_factory=dict)

    @property
    def kind(self) -> QuestionKind:
        """The capability that a client needs to answer."""
        match self.method:
            case "sampling/createMessage":
                return "sampling"
            case "roots/list":
                return "roots"
        return "url" if self.params.get("mode") == "url" else "form"

    @property
    def message(self) -> str:
        """The message for the user; empty if the request is not for the user."""
        message = self.params.get("message")
        return message if isinstance(message, str) else ""


class QuestionRecord(StrictModel):
    """Record of a request to the client.

    It does not contain the response, which was for the tool only: chats can be cloned.
    """

    method: QuestionMethod
    message: str = Field("", description="Message for the user.")
    answer: Literal["accept", "decline", "cancel", "given"] | None = Field(
        None,
        description="Action of the user; given: the client answered. None: no answer.",
    )
