"""Names of commits: the texts by which a user, an application or an agent can refer to a commit of a chat.

The first of these that matches decides:

1.  the name of a branch means its newest commit; ``HEAD`` is the active branch
2.  the full id of a commit
3.  the id of a message means the last commit of the message's own calls
4.  the id of a call, or of another record
5.  the application's id of a message, like 3
6.  the unique beginning of a commit's id (4 digits or more), or the unique end of a call's id

``message:ID`` can only match 3 or 5, in case an application's id is also the name of a branch.  ``~N`` after a name
goes N commits back along first parents; ``~`` is ``~1``.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from covalt_git.conversations.conversation import Conversation
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import canonical_json
from covalt_git.workspaces.chat import DELETED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.models.chats import WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore

NAMES = (
    "A branch, HEAD, the id of a commit or its beginning, the id of a message or a call, or the "
    "application's id of a message; ~N after it goes N commits back."
)
"""What may be written, for descriptions."""

_MESSAGE = "message:"
_BACK = re.compile(r"(?P<name>.+)~(?P<steps>[0-9]{0,6})")
_FEWEST_DIGITS = 4
_DIGITS = re.compile(rf"[0-9a-f]{{{_FEWEST_DIGITS},64}}")
_MOST_NAMED = 4
SHOWN_DIGITS = 12
"""How much of a commit's id is shown to people."""


class UnknownCommitError(UnknownNameError):
    """No commit has that name; the error's code has the specification's word, manifest."""

    def __init__(
        self, chat_id: str, name: str, known: Iterable[str] = (), *, list_with: str = ""
    ) -> None:
        list_with = list_with or f"covalt-git chat log {chat_id} --all"
        super().__init__("manifest", name, known, list_with=list_with)
        self.message = f"no commit {name!r}"


def resolve(chat: ChatStore, name: str) -> str:
    """Return the full id of the commit that ``name`` means.

    The history of all branches is read, unless ``name`` is a branch or ``HEAD``.

    Raises:
        UnknownCommitError: if the name is unknown; the hint has the most similar branch or commit.
        CovaltError: if the name means several commits; the hint has their ids.
        CovaltError: if the chat has no commit yet.
    """
    heads = {branch.name: branch.manifest_id for branch in chat.branches()}
    head = chat.head() if name == "HEAD" else heads.get(name)
    if head is not None:
        return head
    found = _find(chat, name)
    back = _BACK.fullmatch(name)
    if found is None and back is not None:
        line = chat.log(resolve(chat, back["name"]))
        found = next(
            (one.id for one in itertools.islice(line, int(back["steps"] or 1), None)), None
        )
    if found is None:
        raise _unknown(chat, name)
    return found


def _find(chat: ChatStore, name: str) -> str | None:
    """Return the commit of a name that is not a branch; None if no commit matches."""
    if name.startswith(_MESSAGE):
        wanted = name.removeprefix(_MESSAGE)
        mentions = _mentions(chat, wanted)
        return _by_message_id(chat, wanted, mentions) or _by_application_id(chat, wanted, mentions)
    commits = chat.reachable()
    if name in commits:
        return name
    mentions = _mentions(chat, name)
    return (
        _by_message_id(chat, name, mentions)
        or _only(name, [one.id for one in mentions if one.source_ref == name])
        or _by_application_id(chat, name, mentions)
        or _by_part(chat, name, mentions)
    )


def _mentions(chat: ChatStore, name: str) -> list[WorkspaceManifest]:
    """Return the commits whose commit message contains a name; usually these are few."""
    written = canonical_json.dumps(name).decode()[1:-1]
    return [
        chat.manifest(oid)
        for oid in chat.reachable()
        if written in chat.store.read_commit(oid).message
    ]


def _by_message_id(chat: ChatStore, name: str, mentions: list[WorkspaceManifest]) -> str | None:
    matches = [one for one in mentions if one.record.message and one.record.id == name]
    return _last_of_message(chat, name, matches)


def _by_application_id(chat: ChatStore, name: str, mentions: list[WorkspaceManifest]) -> str | None:
    """Return the last commit of the message with the application's id, or of the calls for it.

    If an application stores its messages itself, its calls have ids of messages that the chat does not have.
    """
    matches = [one for one in mentions if one.record.message and one.record.message.ref == name]
    if matches:
        return _last_of_message(chat, name, matches)
    line = {one.id for one in chat.log(chat.head())}
    calls = [one for one in mentions if one.message_id == name]
    newest = max(calls, key=lambda one: (one.id in line, one.created_at, one.id), default=None)
    return None if newest is None else newest.id


def _last_of_message(chat: ChatStore, name: str, matches: list[WorkspaceManifest]) -> str | None:
    if not matches:
        return None
    own = _only(name, [one.id for one in matches])
    return Conversation.of(chat).messages[str(own)].manifest_id


def _by_part(chat: ChatStore, name: str, mentions: list[WorkspaceManifest]) -> str | None:
    found = set()
    if _DIGITS.fullmatch(name):
        known = {*chat.reachable(), *chat.store.refs(DELETED).values()}
        found = {oid for oid in known if oid.startswith(name)}
    if len(name) >= _FEWEST_DIGITS:
        calls = (one for one in mentions if one.record.call)
        found |= {one.id for one in calls if one.record.id.endswith(name)}
    return _only(name, sorted(found))


def _only(name: str, found: list[str]) -> str | None:
    """Return the only commit that was found; None if ``found`` is empty."""
    if len(found) > 1:
        few = ", ".join(oid[:SHOWN_DIGITS] for oid in found[:_MOST_NAMED])
        raise CovaltError(
            f"{name!r} means {len(found)} commits",
            hint=f"write one of {few}",
            code="ambiguous",
            http_status=409,
        )
    return found[0] if found else None


def _unknown(chat: ChatStore, name: str) -> CovaltError:
    heads = {branch.name: branch.manifest_id for branch in chat.branches()}
    if heads == {"main": None}:
        return CovaltError(
            f"chat {chat.id!r} has no commit yet",
            hint=f"the first call, upload or edit makes one: covalt-git chat upload {chat.id} FILE",
        )
    # Ids are suggested only for a name that looks like an id, which was probably mistyped.
    shown = max(len(name), SHOWN_DIGITS)
    ids = (oid[:shown] for oid in chat.reachable()) if _DIGITS.fullmatch(name) else ()
    return UnknownCommitError(chat.id, name, [*heads, *ids])
