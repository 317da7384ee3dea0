"""Changes of a conversation: new messages are commits; retries and edits of messages are branches.

The commit of a message comes first.  The calls for it come after it, and contain its id.

==========  =============================================================  ==============
retry       starts after a user's message, or before another message       ``retry-N``
edit        adds a new version of a message, with the files from before    ``edit-N``
switch      checks out the branch with the most messages after a message   that branch
continue    starts at the last call of a message                           ``continue-N``
==========  =============================================================  ==============
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.conversations.conversation import Conversation
from covalt_git.errors import CovaltError
from covalt_git.models.commit_record import MessageRecord
from covalt_git.names import check_id, new_id
from covalt_git.workspaces import branches

if TYPE_CHECKING:
    from covalt_git.models.chats import FileChange
    from covalt_git.workspaces.writer import Writer

_USER = "user"
_REF = re.compile(r"[!-~]{1,200}")


class BadMessageError(CovaltError):
    """A message that cannot be stored."""

    code = "bad_message"


@dataclass(frozen=True, slots=True)
class MessageStep:
    """Branch, commit and message of a chat after a step of the conversation, and the changed files."""

    branch: str
    manifest_id: str | None
    message_id: str | None
    changes: tuple[FileChange, ...]


def add(
    writer: Writer, words: MessageRecord, *, parent: str | None = None, branch: str | None = None
) -> MessageStep:
    """Add a message after ``parent``, by default the last message of the active branch.

    If other messages follow ``parent``, the new one is on a new branch, ``branch`` or ``continue-N``.

    Raises:
        BadMessageError: if it has neither text nor id, or one that cannot be stored.
        CovaltError: if a message already has the application's id.
        UnknownNameError: if ``parent`` does not exist; the hint has the most similar message.
        BranchExistsError: when ``branch`` exists.
    """
    _check_words(words)
    chat = writer.chat
    head = writer.commit_changes()
    name: str | None = chat.active_branch()
    start = head
    if words.ref is not None or parent is not None:
        talk = Conversation(chat)
        talk.check_new(words.ref)
        if parent is not None:
            name, start = talk.continuation(talk.find(parent))
    tip = start
    if branch is not None or name is None:
        name, tip = branches.new_name(chat, branch, "continue"), None
    # The message has the files of the commit that it follows: those of the workspace may be of another branch.
    oid, message_id = _commit(writer, words, start, start)
    changes = writer.switch(name, old=head, before=tip, new=oid)
    return MessageStep(name, oid, message_id, tuple(changes))


def retry(writer: Writer, message: str | None = None, *, branch: str | None = None) -> MessageStep:
    """Start a branch for another answer to a user's message, or in place of another message.

    The branch starts after a user's message and before its calls; for another message, at the message's
    parent.  Without ``message``, it is for the last message.

    Raises:
        UnknownNameError: if the message does not exist; the hint has the most similar one.
        BranchExistsError: when ``branch`` exists.
    """
    chat = writer.chat
    head = writer.commit_changes()
    talk = Conversation(chat)
    retried = talk.find(message)
    name = branches.new_name(chat, branch, "retry")
    # A user's message stays, as it is the prompt that the application answers again; another message is the answer.
    if retried.role == _USER:
        start: str | None = talk.first_files(retried)
        last: str | None = retried.id
    else:
        start, last = talk.commit_before(retried), retried.parent_id
    changes = writer.switch(name, old=head, before=None, new=start)
    return MessageStep(name, start, last, tuple(changes))


def edit(
    writer: Writer,
    message: str,
    *,
    text: str | None = None,
    ref: str | None = None,
    role: str | None = None,
    branch: str | None = None,
) -> MessageStep:
    """Add a new version of a message on a new branch, with the files from before the message's calls.

    These are the files of its commit, and those that a user added between it and its first call.  The
    new message has the same role unless one is passed.

    Raises:
        BadMessageError: if it has neither text nor id, or one that cannot be stored.
        CovaltError: if a message already has the application's id.
        UnknownNameError: if the message does not exist; the hint has the most similar one.
        BranchExistsError: when ``branch`` exists.
    """
    chat = writer.chat
    head = writer.commit_changes()
    talk = Conversation(chat)
    edited = talk.find(message)
    words = MessageRecord(role=role or edited.role, text=text, ref=ref)
    _check_words(words)
    talk.check_new(ref)
    name = branches.new_name(chat, branch, "edit")
    start = talk.commit_before(edited)
    oid, message_id = _commit(writer, words, talk.first_files(edited), start)
    changes = writer.switch(name, old=head, before=None, new=oid)
    return MessageStep(name, oid, message_id, tuple(changes))


def switch(writer: Writer, message: str) -> MessageStep:
    """Check out the branch with the most messages after ``message``; of several, the newest.

    Raises:
        UnknownNameError: if the message does not exist; the hint has the most similar one.
        CovaltError: if the message is only on a merged line, so that no branch leads to it by first parents.
    """
    chat = writer.chat
    head = writer.commit_changes()
    talk = Conversation(chat)
    name, leaf = talk.longest_branch(talk.find(message))
    at = chat.branch(name).manifest_id
    changes = writer.switch(name, old=head, before=at, new=at)
    return MessageStep(name, at, leaf.id, tuple(changes))


def continue_from(
    writer: Writer, message: str | None = None, *, branch: str | None = None
) -> MessageStep:
    """Check out the branch that ends with a message, or a new branch at the message's last commit.

    Raises:
        UnknownNameError: if the message does not exist; the hint has the most similar one.
        BranchExistsError: when ``branch`` exists.
    """
    chat = writer.chat
    head = writer.commit_changes()
    talk = Conversation(chat)
    continued = talk.find(message)
    name, start = talk.continuation(continued)
    tip: str | None = start
    if name is None or branch is not None:
        name, tip = branches.new_name(chat, branch, "continue"), None
    changes = writer.switch(name, old=head, before=tip, new=start)
    return MessageStep(name, start, continued.id, tuple(changes))


def _commit(
    writer: Writer, words: MessageRecord, files: str | None, parent: str | None
) -> tuple[str, str]:
    """Store a commit of a message, with the files of another commit; return its id and the message's."""
    message_id = new_id()
    text = words.ref if words.text is None else words.text.strip().partition("\n")[0]
    oid = writer.make(
        "message",
        writer.snapshot_at(files),
        parent,
        subject=f"{words.role}: {text}",
        id=message_id,
        message=words,
    )
    return oid, message_id


def _check_words(words: MessageRecord) -> None:
    check_id(words.role, "message role")
    if words.text is None and words.ref is None:
        raise BadMessageError(
            "a message needs a text, the id that the application gave it, or both",
            hint="give at least one of them",
        )
    if words.ref is not None and not _REF.fullmatch(words.ref):
        raise BadMessageError(
            f"{words.ref!r} cannot be an application's id of a message",
            hint="write up to 200 visible ASCII characters, without spaces",
        )
    # JSON can have half of a surrogate pair, and a commit's message is UTF-8.
    try:
        (words.text or "").encode("utf-8")
    except UnicodeEncodeError:
        raise BadMessageError(
            "the text has half of a surrogate pair, which UTF-8 cannot encode",
            hint="remove it, or write the whole character",
        ) from None
