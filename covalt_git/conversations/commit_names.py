"""Names of commits: the texts by which a user, an application or an agent can refer to a commit of a chat.

A name can be:

1.  the full id of a commit
2.  the id of a message, which means the last commit of the message's own calls
3.  the id of a call, or of another record
4.  ``HEAD``, the active branch; or the name of a branch, which means its newest commit
5.  the application's id of a message, like 2
6.  the unique beginning of a commit's id, or the unique end of a call's id (4 characters or more)
7.  one of these with ``~N``, which goes N commits back along first parents; ``~`` is ``~1``

The first that matches decides, with an exception.  The names of 4 and 5 are chosen by users and agents.  An agent could
choose ``HEAD~1`` or the beginning of an id, and a user would restore another commit than the name seems to say.  So a
name is ambiguous if it matches 4 or 5, and means another commit by 6 (7 characters or more) or 7.

A text with the form of a full id has no other meaning.  ``message:ID`` can only match 2 or 5, in case an application's id
has that form, or is also the name of a branch.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from covalt_git.conversations.conversation import Conversation
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import canonical_json
from covalt_git.workspaces.chat import DELETED
from covalt_git.workspaces.lease import LOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.workspaces.chat import ChatStore

NAMES = (
    "A branch, HEAD, the id of a commit or its beginning, the id of a message or a call, or the "
    "application's id of a message; ~N after it goes N commits back."
)
"""What may be written, for descriptions."""

_MESSAGE = "message:"
# Python refuses to parse some thousand digits, with an error of its own.
_BACK = re.compile(r"(?P<name>.+)~(?P<steps>[0-9]{0,6})")
_FEWEST_DIGITS = 4
_ABBREVIATED = 7
"""Digits from which git abbreviates an id; a shorter branch name, such as ``2026``, is no id."""

_OWN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PART_OF_AN_ID = re.compile(r"[0-9a-f-]+")
"""The beginning of a commit's id, or the end of a call's, which has hyphens from its 13th character on."""
_DIGITS = re.compile(rf"[0-9a-f]{{{_FEWEST_DIGITS},64}}")
_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?|\d:\d\d|\b(?:ago|today|yesterday|minutes?|hours?|days?|weeks?)\b"
)
_FULL = (40, 64)
"""Digits of a full id, in repositories of SHA-1 and of SHA-256."""

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
    is_short_id = len(name) >= _ABBREVIATED and _PART_OF_AN_ID.fullmatch(name) is not None
    if head is not None and not is_short_id and not _OWN_ID.fullmatch(name):
        return head
    if is_full_id(name):
        # An agent may have chosen this text as a name. But approvals name their commits by full ids, so a full id means
        # only its commit, even if no branch reaches that any more
        # (test_a_full_id_is_never_taken_for_a_chosen_name).
        if name in _known(chat):
            return name
        raise _unknown(chat, name)
    messages, records, references, applications, abbreviated = _matches(chat, name)
    oids = messages or records
    if not oids:
        # Both meanings, so that a name that an agent has chosen is ambiguous and not a trap
        # (test_no_chosen_name_is_taken_for_an_id).
        chosen = [head] if head is not None else references or applications
        meant = abbreviated if is_short_id or not chosen else []
        oids = sorted({*chosen, *(meant or _back(chat, name))})
    if len(oids) > 1:
        few = ", ".join(oid[:SHOWN_DIGITS] for oid in oids[:_MOST_NAMED])
        raise CovaltError(
            f"{name!r} means {len(oids)} commits",
            hint=f"write one of {few}",
            code="ambiguous",
            http_status=409,
        )
    if not oids:
        raise _unknown(chat, name)
    return oids[0]


def _back(chat: ChatStore, name: str) -> list[str]:
    """Return the commit of a name such as ``main~2``, if it has that form and there is one."""
    back = _BACK.fullmatch(name)
    if back is None:
        return []
    try:
        line = chat.log(resolve(chat, back["name"]))
    except UnknownCommitError:
        return []
    steps = int(back["steps"] or 1)
    return [commit.id for commit in itertools.islice(line, steps, steps + 1)]


def _known(chat: ChatStore) -> set[str]:
    """Return the commits of all branches, of deleted ones and of lost work: the command that restores one has its id."""
    return {
        *chat.reachable(),
        *chat.store.refs(DELETED).values(),
        *chat.store.refs(LOST).values(),
    }


def is_full_id(name: str) -> bool:
    """Return whether a text has the form of a full id of a commit."""
    return len(name) in _FULL and _DIGITS.fullmatch(name) is not None


def of_call(chat: ChatStore, call_id: str) -> str:
    """Return the id of the commit of a call, whatever names others have chosen.

    Raises:
        UnknownCommitError: if the chat has no commit of the call.
    """
    for oid in chat.reachable():
        if call_id in chat.store.read_commit(oid).message:
            commit = chat.outline(oid)
            if commit.source_ref == call_id and commit.record.call is not None:
                return oid
    raise UnknownCommitError(chat.id, call_id)


def _matches(chat: ChatStore, name: str) -> Iterator[list[str]]:
    """Yield the commits that match by each rule, in the order of the rules; branches and full ids are not among them."""
    commits = chat.reachable()
    message_id = name.removeprefix(_MESSAGE)
    # The text of a message says whether it can have the name, so most commits are not parsed.
    encoded = canonical_json.dumps(message_id).decode()[1:-1]
    mentions = [
        chat.outline(oid) for oid in commits if encoded in chat.store.read_commit(oid).message
    ]
    messages = [(commit, commit.record.message) for commit in mentions if commit.record.message]
    yield _lasts(chat, [commit.id for commit, _ in messages if commit.record.id == message_id])
    yield [commit.id for commit in mentions if commit.source_ref == name]
    yield _lasts(chat, [commit.id for commit, words in messages if words.ref == message_id])
    # If an application stores its messages itself, its calls have ids of messages that the chat does not have.
    line = {commit.id for commit in chat.log(chat.head())}
    calls = [commit for commit in mentions if commit.message_id == message_id]
    calls.sort(key=lambda commit: (commit.id in line, commit.created_at, commit.id))
    yield [commit.id for commit in calls[-1:]]
    # With deleted branches, whose commits are named by their ids in the command that restores them.
    oids = _known(chat) if _DIGITS.fullmatch(name) else ()
    matches = {oid for oid in oids if oid.startswith(name)}
    matches |= {
        commit.id for commit in mentions if commit.record.call and commit.record.id.endswith(name)
    }
    yield sorted(matches) if len(name) >= _FEWEST_DIGITS else []


def _lasts(chat: ChatStore, own: list[str]) -> list[str]:
    """Return the last commit of the message that has one of the commits ``own``; if several messages do, ``own``."""
    return [Conversation(chat).messages[oid].manifest_id for oid in own] if len(own) == 1 else own


def _unknown(chat: ChatStore, name: str) -> CovaltError:
    heads = {branch.name: branch.manifest_id for branch in chat.branches()}
    if heads == {"main": None}:
        return CovaltError(
            f"chat {chat.id!r} has no commit yet",
            hint=f"the first call, upload or edit makes one: covalt-git chat upload {chat.id} FILE",
            http_status=404,
        )
    # Ids are suggested only for a name that looks like an id, which was probably mistyped.
    digits = max(len(name), SHOWN_DIGITS)
    ids = (oid[:digits] for oid in chat.reachable()) if _DIGITS.fullmatch(name) else ()
    error = UnknownCommitError(chat.id, name, [*heads, *ids])
    if _DATE.search(name):
        error.hint = f"a date cannot name a commit; list the ids with their times: covalt-git chat log {chat.id} --all"
    return error
