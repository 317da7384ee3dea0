"""The API's conversation: a chat's messages, and going back in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.conversations import messages
from covalt_git.conversations.conversation import Conversation
from covalt_git.models.commit_record import MessageRecord
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.operations.results import Change, Notes

if TYPE_CHECKING:
    from covalt_git.conversations.conversation import Message
    from covalt_git.conversations.messages import Place
    from covalt_git.workspaces.writer import Writer

_TITLE = 200
_WHICH = "Its id or the end of it, the application's id, or the id of its manifest or the beginning of it."
_BRANCH = "What to call the new branch; null: numbered."


class ListMessages(Request):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


class GetMessage(Request):
    """Which message."""

    chat_id: str = Field(max_length=200)
    message: str | None = Field(None, max_length=200, description=f"{_WHICH} null: the last one.")


class AddMessage(Request):
    """A message: what was said, the application's own id for it, or both."""

    chat_id: str = Field(max_length=200)
    role: str = Field("user", max_length=200, description="user, assistant, system, tool, ...")
    text: str | None = None
    ref: str | None = Field(None, max_length=200, description="The application's own id.")
    parent: str | None = Field(
        None, max_length=200, description="What it follows; null: the last of the active branch."
    )
    branch: str | None = Field(None, max_length=200, description=_BRANCH)


class RetryMessage(Request):
    """A message of a user to answer again, or another message to replace."""

    chat_id: str = Field(max_length=200)
    message: str | None = Field(None, max_length=200, description=f"{_WHICH} null: the last one.")
    branch: str | None = Field(None, max_length=200, description=_BRANCH)


class EditMessage(Request):
    """What to put beside a message."""

    chat_id: str = Field(max_length=200)
    message: str = Field(max_length=200, description=_WHICH)
    text: str | None = None
    ref: str | None = Field(None, max_length=200, description="The application's own id.")
    role: str | None = Field(None, max_length=200, description="null: that of the other.")
    branch: str | None = Field(None, max_length=200, description=_BRANCH)


class SwitchToMessage(Request):
    """Which message to go to."""

    chat_id: str = Field(max_length=200)
    message: str = Field(max_length=200, description=_WHICH)


class ContinueMessage(Request):
    """A message to go on from."""

    chat_id: str = Field(max_length=200)
    message: str | None = Field(None, max_length=200, description=f"{_WHICH} null: the last one.")
    branch: str | None = Field(None, max_length=200, description=_BRANCH)


class MessageRow(Result):
    """A message and its place in the conversation."""

    id: str
    ref: str | None = Field(description="The application's own id.")
    role: str
    title: str = Field(description="The text in one line, or the application's id.")
    text: str | None
    by: str
    created_at: str
    parent_id: str | None = Field(description="The message before it.")
    own_manifest_id: str = Field(description="The commit that the message is.")
    manifest_id: str = Field(description="Where to go on from it: the last of its calls.")
    number: int = Field(description="Which of its siblings it is, the oldest being 1.")
    siblings: int = Field(description="How many messages follow the same one, with itself.")
    branches: tuple[str, ...] = Field(description="The branches whose last message it is.")
    active: bool = Field(description="Whether the active branch goes through it.")


class MessageList(Result):
    """A chat's messages, each behind its parent, siblings from the oldest on."""

    messages: tuple[MessageRow, ...]
    active_branch: str


class MessageDetail(MessageRow):
    """A message, and what changed from where it began to its last call."""

    changes: tuple[Change, ...]


class MessagePlace(Result):
    """Where the chat is now: its branch, the last message on it, and what changed in the folder."""

    branch: str
    manifest_id: str | None = Field(description="null: nothing has happened on the branch yet.")
    message_id: str | None = Field(description="null: the branch begins before the first message.")
    changes: tuple[Change, ...]
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


@operation(errors=(404,))
def list_messages(context: Context, request: ListMessages) -> MessageList:
    """List a chat's messages as the tree that retries and edits have made of them."""
    chat = context.chat(request.chat_id)
    found = Conversation.of(chat).messages.values()
    return MessageList(
        messages=tuple(MessageRow.of(one, title=_title(one)) for one in found),
        active_branch=chat.active_branch(),
    )


@operation(errors=(404,))
def get_message(context: Context, request: GetMessage) -> MessageDetail:
    """Tell about one message: its text, its place, and what its calls changed."""
    chat = context.chat(request.chat_id)
    found = Conversation.of(chat).find(request.message)
    began = chat.manifest(found.own_manifest_id).parent_id
    changes = chat.changes(began, found.manifest_id)
    return MessageDetail.of(found, title=_title(found), changes=changes)


@operation(changes=True, errors=(404, 409))
def add_message(context: Context, request: AddMessage) -> MessagePlace:
    """Add a message to the conversation; calls are made for it with its id.

    After a parent that others follow already it goes on a new branch, ``continue-1`` and so on.
    """
    words = MessageRecord(role=request.role, text=request.text, ref=request.ref)
    with context.writing(context.chat(request.chat_id)) as writer:
        place = messages.add(writer, words, parent=request.parent, branch=request.branch)
    return _place(place, writer)


@operation(changes=True, errors=(404, 409))
def retry_message(context: Context, request: RetryMessage) -> MessagePlace:
    """Start a branch, ``retry-1`` and so on, for another answer to a message of the role ``user``.

    It starts after that message, with the files from before its calls.  For a message of another role,
    it starts before that message, and what is added there replaces it.
    """
    with context.writing(context.chat(request.chat_id)) as writer:
        place = messages.retry(writer, request.message, branch=request.branch)
    return _place(place, writer)


@operation(changes=True, errors=(404, 409))
def edit_message(context: Context, request: EditMessage) -> MessagePlace:
    """Put another message beside one, on a new branch, ``edit-1`` and so on.

    The files are those that the other message began with.
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


@operation(changes=True, errors=(404, 409))
def switch_to_message(context: Context, request: SwitchToMessage) -> MessagePlace:
    """Go to the branch that leads farthest on from a message; of several, to the newest."""
    with context.writing(context.chat(request.chat_id)) as writer:
        place = messages.switch(writer, request.message)
    return _place(place, writer)


@operation(changes=True, errors=(404, 409))
def continue_message(context: Context, request: ContinueMessage) -> MessagePlace:
    """Go on from a message and its calls: on the branch that ends with it, or on a new one.

    The new one is ``continue-1`` and so on.
    """
    with context.writing(context.chat(request.chat_id)) as writer:
        place = messages.continue_from(writer, request.message, branch=request.branch)
    return _place(place, writer)


def _title(message: Message) -> str:
    return message.line[:_TITLE]


def _place(place: Place, writer: Writer) -> MessagePlace:
    return MessagePlace.of(place, notes=writer.fresh_notes())
