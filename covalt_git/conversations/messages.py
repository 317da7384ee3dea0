"""Going on and back in a conversation: messages are commits, retries and edits are branches.

A message is made first; the calls that are made for it descend from it and name it.

==========  ==========================================================  ==============
retry       starts where the message started                            ``retry-N``
edit        another message in its place, with the files it began with  ``edit-N``
switch      goes to the branch that leads farthest on from it           that branch
continue    goes on from it: from the last of its calls                 ``continue-N``
==========  ==========================================================  ==============
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.conversations.conversation import Conversation
from covalt_git.errors import CovaltError
from covalt_git.models.commit_record import CommitRecord, MessageRecord
from covalt_git.names import check_id, new_id
from covalt_git.workspaces import branches, commits
from covalt_git.workspaces.chat import HEADS, MovedError
from covalt_git.workspaces.switching import Journal

if TYPE_CHECKING:
    from covalt_git.models.chats import FileChange
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

_REF = re.compile(r"[!-~]{1,200}")


class BadMessageError(CovaltError):
    """A message that cannot be stored as it is."""

    code = "bad_message"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chat is after a step of the conversation, and what changed in its folder."""

    branch: str
    manifest_id: str | None
    message_id: str | None
    changes: tuple[FileChange, ...]


def add(
    writer: Writer, words: MessageRecord, *, parent: str | None = None, branch: str | None = None
) -> Place:
    """Add a message after ``parent``, the last one of the active branch unless named.

    After a message that others follow it goes on a new branch, ``branch`` or ``continue-N``.

    Raises:
        BadMessageError: when it has neither text nor id, or one that cannot be stored.
        MessageExistsError: when there is a message of that application's id.
        UnknownNameError: naming the nearest message.
        BranchExistsError: when ``branch`` is taken.
    """
    _check_words(words)
    chat = writer.chat
    head = writer.save_edits()
    name: str | None = chat.active_branch()
    start = head
    if words.ref is not None:
        Conversation.of(chat).check_new(words.ref)
    if parent is not None:
        talk = Conversation.of(chat)
        name, start = talk.way_on(talk.find(parent))
    starts_branch = branch is not None or name is None
    name = _new_branch(chat, branch, "continue") if starts_branch or name is None else name
    record = _record(writer, words, start)
    oid = _make(writer, record, start, parents=() if start is None else (start,))
    before = None if starts_branch else start
    return _go(writer, head, name, oid, before=before, moves=True, message_id=record.id)


def retry(writer: Writer, message: str | None = None, *, branch: str | None = None) -> Place:
    """Start a branch where a message started, the last one unless named, to answer anew.

    Raises:
        UnknownNameError: naming the nearest message.
        BranchExistsError: when ``branch`` is taken.
    """
    chat = writer.chat
    head = writer.save_edits()
    talk = Conversation.of(chat)
    retried = talk.find(message)
    name = _new_branch(chat, branch, "retry")
    start = talk.steps[retried.own_manifest_id].parent
    return _go(writer, head, name, start, moves=start is not None, message_id=retried.parent_id)


def edit(
    writer: Writer,
    message: str,
    *,
    text: str | None = None,
    ref: str | None = None,
    role: str | None = None,
    branch: str | None = None,
) -> Place:
    """Put another message beside one, on a new branch, with the files that the other began with.

    Those are the files it was written with and what a person added right after it.  The role is the
    other's unless given.

    Raises:
        BadMessageError: when it has neither text nor id, or one that cannot be stored.
        MessageExistsError: when there is a message of that application's id.
        UnknownNameError: naming the nearest message.
        BranchExistsError: when ``branch`` is taken.
    """
    chat = writer.chat
    head = writer.save_edits()
    talk = Conversation.of(chat)
    edited = talk.find(message)
    words = MessageRecord(role=role or edited.role, text=text, ref=ref)
    _check_words(words)
    talk.check_new(ref)
    name = _new_branch(chat, branch, "edit")
    before = talk.steps[edited.own_manifest_id].parent
    files = talk.beginning(edited)
    record = _record(writer, words, files)
    oid = _make(writer, record, files, parents=() if before is None else (before,))
    return _go(writer, head, name, oid, moves=True, message_id=record.id)


def switch(writer: Writer, message: str) -> Place:
    """Go to the branch that leads farthest on from a message: with most messages, then the newest.

    Raises:
        UnknownNameError: naming the nearest message.
        CovaltError: when no branch goes through it, only what was merged.
    """
    chat = writer.chat
    head = writer.save_edits()
    talk = Conversation.of(chat)
    name, leaf = talk.farthest(talk.find(message))
    return _go(writer, head, name, chat.branch(name).manifest_id, message_id=leaf.id)


def continue_from(
    writer: Writer, message: str | None = None, *, branch: str | None = None
) -> Place:
    """Go on from a message: on the branch that ends with it, else on a new one from its manifest.

    Raises:
        UnknownNameError: naming the nearest message.
        BranchExistsError: when ``branch`` is taken.
    """
    chat = writer.chat
    head = writer.save_edits()
    talk = Conversation.of(chat)
    found = talk.find(message)
    name, start = talk.way_on(found)
    if name is not None and branch is None:
        return _go(writer, head, name, start, message_id=found.id)
    name = _new_branch(chat, branch, "continue")
    return _go(writer, head, name, start, moves=True, message_id=found.id)


def _go(
    writer: Writer,
    head: str | None,
    name: str,
    oid: str | None,
    *,
    message_id: str | None,
    before: str | None = None,
    moves: bool = False,
) -> Place:
    """Go from the saved active branch to ``oid`` on another, or on the same one without its files."""
    chat = writer.chat
    changes: list[FileChange] = []
    if name != chat.active_branch():
        journal = Journal(old=head, new=oid, head=HEADS + name, moves=moves, before=before)
        changes = writer.switch(journal)
    elif oid != head and not chat.store.swap_ref(HEADS + name, head, oid):
        raise MovedError(f"the branch {name!r} has moved", hint="try again")
    return Place(name, oid, message_id, tuple(changes))


def _record(writer: Writer, words: MessageRecord, files: str | None) -> CommitRecord:
    at, notes = commits.now(), writer.noted(files)
    return CommitRecord(id=new_id(), at=at, by=writer.by, message=words, workspace=notes)


def _make(
    writer: Writer, record: CommitRecord, files: str | None, *, parents: tuple[str, ...]
) -> str:
    """Store a message, with the files of a manifest; no branch is at it."""
    words = record.message
    assert words is not None
    said = words.ref if words.text is None else words.text.strip()
    tree = writer.chat.state(files).tree
    return writer.make("message", record, tree, parents, subject=f"{words.role}: {said}")


def _new_branch(chat: ChatStore, name: str | None, purpose: str) -> str:
    if name is None:
        return branches.free_name(chat, purpose)
    branches.check_free(chat, name)
    return name


def _check_words(words: MessageRecord) -> None:
    check_id(words.role, "message role")
    if words.text is None and words.ref is None:
        raise BadMessageError(
            "a message has a text, or the application's own id for it", hint="give one of them"
        )
    if words.ref is not None and not _REF.fullmatch(words.ref):
        raise BadMessageError(
            f"{words.ref!r} cannot be an application's id of a message",
            hint="write up to 200 visible ASCII characters, without spaces",
        )
    try:
        (words.text or "").encode("utf-8")
    except UnicodeEncodeError:
        raise BadMessageError(
            "the text holds what is no character", hint="write it as UTF-8"
        ) from None
