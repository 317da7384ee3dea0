"""Operations on the messages of a chat: list, add, retry, edit, and return to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from covalt_git.conversations import messages
from covalt_git.conversations.conversation import Conversation
from covalt_git.models.commit_record import MessageRecord
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    MANAGE_CHATS,
    ChatRequest,
    EquivalentCall,
    Result,
    any_of,
    operation,
)
from covalt_git.operations.results import Change, MessageFacts, Notes

if TYPE_CHECKING:
    from covalt_git.conversations.conversation import Message
    from covalt_git.conversations.messages import MessageStep
    from covalt_git.workspaces.writer import Writer

_TITLE = 200
_WHICH = "Its id or a suffix of it, the application's id, or its commit's id or a prefix of it."
_BRANCH = "Name of the new branch; null: numbered."
_STARTS_BRANCH = ("workspace:branch", "workspace:checkout")
"""The needs of an operation that can start a branch, and then checks it out."""


class GetMessage(ChatRequest):
    """Request: the message to return."""

    message: str | None = Field(None, max_length=200, description=f"{_WHICH} null: the last one.")


Ref = Annotated[
    str | None,
    Field(
        max_length=200,
        description="The application's own id.",
        json_schema_extra={"pattern": "^[!-~]+$"},
    ),
]


class AddMessage(ChatRequest):
    """A message: its text, the application's own id for it, or both."""

    model_config = any_of("text", "ref")

    role: str = Field("user", max_length=200, description="user, assistant, system, tool, ...")
    text: str | None = None
    ref: Ref = None
    parent: str | None = Field(
        None,
        max_length=200,
        description="The previous message; null: the last of the active branch.",
    )
    branch: str | None = Field(None, max_length=200, description=_BRANCH)


class RetryMessage(GetMessage):
    """A message of a user that gets another answer, or another message that is replaced."""

    branch: str | None = Field(None, max_length=200, description=_BRANCH)


class EditMessage(ChatRequest):
    """A message to add as a sibling of another one."""

    message: str = Field(max_length=200, description=_WHICH)
    text: str | None = None
    ref: Ref = None
    role: str | None = Field(
        None, max_length=200, description="null: the role of the other message."
    )
    branch: str | None = Field(None, max_length=200, description=_BRANCH)


class SwitchToMessage(ChatRequest):
    """Request: the message to switch to."""

    message: str = Field(max_length=200, description=_WHICH)


class ContinueMessage(RetryMessage):
    """Request: the message to continue from."""


class MessageRow(MessageFacts):
    """A message and its place in the conversation."""

    title: str = Field(description="The text in one line, or the application's id.")
    manifest_id: str = Field(description="The commit to continue from: the last of its calls.")
    branches: tuple[str, ...] = Field(description="The branches whose last message it is.")
    active: bool = Field(description="Whether the active branch contains it.")


class MessageList(Result):
    """A chat's messages, each after its parent, siblings from the oldest to the newest."""

    messages: tuple[MessageRow, ...]
    active_branch: str


class MessageDetail(MessageRow):
    """A message, and the changes by its calls."""

    changes: tuple[Change, ...]


class MessagePlace(Result):
    """The chat's current branch, the last message on it, and the changes of the workspace."""

    branch: str
    manifest_id: str | None = Field(description="null: the branch has no commits.")
    message_id: str | None = Field(description="null: the branch has no messages.")
    changes: tuple[Change, ...]
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


@operation(errors=(404,))
def list_messages(context: Context, request: ChatRequest) -> MessageList:
    """List a chat's messages as a tree; retries and edits make siblings."""
    chat = context.chat(request.chat_id)
    all_messages = Conversation(chat).messages.values()
    return MessageList(
        messages=tuple(MessageRow.of(message, title=_title(message)) for message in all_messages),
        active_branch=chat.active_branch(),
    )


@operation(errors=(404,))
def get_message(context: Context, request: GetMessage) -> MessageDetail:
    """Return one message: its text, its place in the tree, and the changes by its calls."""
    chat = context.chat(request.chat_id)
    message = Conversation(chat).find(request.message)
    began = chat.outline(message.own_manifest_id).parent_id
    changes = chat.changes(began, message.manifest_id)
    return MessageDetail.of(message, title=_title(message), changes=changes)


def _added(request: AddMessage) -> list[EquivalentCall]:
    """Return calls that do the same; with a parent or a branch, the message may start a branch."""
    # Whether a branch starts depends on the messages that exist once the chat is locked, so any call of the two tools
    # counts (test_a_message_switches_the_branch_only_for_a_role_that_may_switch).
    starts_branch = request.parent is not None or request.branch is not None
    return [EquivalentCall(tool_id, None) for tool_id in _STARTS_BRANCH] if starts_branch else []


@operation(changes=True, errors=(404, 409), calls=_added, repeats=True)
def add_message(context: Context, request: AddMessage) -> MessagePlace:
    """Add a message to the conversation; calls refer to it by its id.

    If the parent already has a following message, it starts a new branch, ``continue-1`` and so on.  With a parent or
    a branch, the role needs the tools ``workspace.branch`` and ``workspace.checkout``.
    """
    words = MessageRecord(role=request.role, text=request.text, ref=request.ref)
    with context.writing(context.chat(request.chat_id)) as writer:
        place = messages.add(writer, words, parent=request.parent, branch=request.branch)
    return _place(place, writer)


@operation(changes=True, errors=(404, 409), needs=_STARTS_BRANCH, repeats=True)
def retry_message(context: Context, request: RetryMessage) -> MessagePlace:
    """Start a branch, ``retry-1`` and so on, for another answer to a message of the role ``user``.

    The branch starts after that message, with the files from before its calls.  For a message of another role,
    the branch starts before that message, and the next message there replaces it.
    """
    with context.writing(context.chat(request.chat_id)) as writer:
        place = messages.retry(writer, request.message, branch=request.branch)
    return _place(place, writer)


@operation(changes=True, errors=(404, 409), needs=(MANAGE_CHATS,), repeats=True)
def edit_message(context: Context, request: EditMessage) -> MessagePlace:
    """Add a changed version of a message, on a new branch, ``edit-1`` and so on.

    The files are those from before the calls of the original message.
    """
    with context.writing(context.chat(request.chat_id)) as writer:
        place = messages.edit(
            writer,
            request.message,
            text=request.text,
            ref=request.ref,
            role=request.role,
            branch=request.branch,
        )
    return _place(place, writer)


@operation(changes=True, errors=(404, 409), needs=("workspace:checkout",), repeats=True)
def switch_to_message(context: Context, request: SwitchToMessage) -> MessagePlace:
    """Check out the branch with the most messages after a message; of several, the newest."""
    with context.writing(context.chat(request.chat_id)) as writer:
        place = messages.switch(writer, request.message)
    return _place(place, writer)


@operation(changes=True, errors=(404, 409), needs=_STARTS_BRANCH, repeats=True)
def continue_message(context: Context, request: ContinueMessage) -> MessagePlace:
    """Continue after a message and its calls, on the branch that ends with it or on a new branch.

    The new branch is ``continue-1`` and so on.
    """
    with context.writing(context.chat(request.chat_id)) as writer:
        place = messages.continue_from(writer, request.message, branch=request.branch)
    return _place(place, writer)


def _title(message: Message) -> str:
    return message.line[:_TITLE]


def _place(place: MessageStep, writer: Writer) -> MessagePlace:
    return MessagePlace.of(place, notes=writer.fresh_notes())
