"""Conversation of a chat, read from its commits: the tree of its messages.

The commits between a message and the next one, along first parents, belong to the message: the calls
for it, and the users' changes of files.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.models.base import StrictModel
from covalt_git.workspaces import commits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from covalt_git.models.commit_record import Source
    from covalt_git.workspaces.chat import ChatStore

_FEWEST_DIGITS = 4


class Message(StrictModel):
    """A message and its place in the conversation.

    Attributes:
        parent_id: the message before it.
        own_manifest_id: the commit of the message.
        manifest_id: the commit to continue from: the message's last call, or without calls the last change of
            files by a user, or else the message itself.  If several branches have one, it is that of the
            active branch, else the newest.
        number: its position among its siblings; 1 is the oldest.
        siblings: the number of messages with the same parent, itself included.
        branches: the branches that end with this message and its calls.
        active: whether it is on the active branch.
    """

    id: str
    role: str
    text: str | None
    ref: str | None
    by: str
    created_at: str
    parent_id: str | None
    own_manifest_id: str
    manifest_id: str
    number: int
    siblings: int
    branches: tuple[str, ...]
    active: bool

    @property
    def line(self) -> str:
        """The message in one line: its text, or the application's id."""
        return commits.one_line(self.ref or "" if self.text is None else self.text)


class _Step(NamedTuple):
    """The fields of a commit that the conversation needs; the ``message_id`` of a message is its own id.

    ``order`` orders commits by their time in milliseconds, and then by the ids of their records.
    """

    parent: str | None
    source: Source
    message_id: str | None
    order: tuple[str, str]
    is_call: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """Tree of the messages in the branches of a chat.

    The keys of ``messages`` are the commits of the messages; each message is after its parent and its older siblings.
    """

    chat: ChatStore
    steps: dict[str, _Step]
    messages: dict[str, Message]
    _owner: dict[str, str | None]
    _tips: dict[str, list[str]]
    _line: frozenset[str]

    @classmethod
    def of(cls, chat: ChatStore) -> Conversation:
        """Read the conversation of a chat."""
        steps = {oid: _step(chat, oid) for oid in chat.reachable()}
        owner = _owners(steps)
        tips = _tips(steps, owner, {branch.manifest_id for branch in chat.branches()})
        talk = cls(chat, steps, {}, owner, tips, frozenset(_above(steps, chat.head())))
        talk.messages.update(talk._placed())
        return talk

    def find(self, text: str | None) -> Message:
        """Return the message that ``text`` names, or the last one of the active branch.

        ``text`` is the id of the message or the end of that id, the application's id, or the id of the message's
        first or last commit or the beginning of that id.

        Raises:
            UnknownNameError: if no message has that name; the hint has the most similar one.
            CovaltError: if several messages have that name, or the active branch has no message.
        """
        if text is None:
            return self._last()
        messages = self.messages.values()
        found = [one for one in messages if text in {one.id, one.ref}]
        if not found and len(text) >= _FEWEST_DIGITS:
            found = [
                one
                for one in messages
                if one.id.endswith(text)
                or one.own_manifest_id.startswith(text)
                or one.manifest_id.startswith(text)
            ]
            if len(found) > 1:
                raise CovaltError(
                    f"{text!r} names several messages",
                    hint=f"write the whole id: {', '.join(one.id for one in found[:3])}",
                )
        if not found:
            known = [name for one in messages for name in (one.id, one.ref) if name]
            list_with = f"covalt-git chat message list {self.chat.id}"
            raise UnknownNameError("message", text, known, list_with=list_with)
        # A commit that git copied is the same message twice.
        return max(found, key=lambda one: one.active)

    def check_new(self, ref: str | None) -> None:
        """Check that no message has this application's id yet.

        Raises:
            CovaltError: if a message has it.
        """
        if ref is not None and any(ref in {one.id, one.ref} for one in self.messages.values()):
            raise CovaltError(
                f"there is a message {ref!r}",
                hint=f"covalt-git chat message show {self.chat.id} {ref}",
                code="message_exists",
                http_status=409,
            )

    def continuation(self, message: Message) -> tuple[str | None, str]:
        """Return the branch that ends with a message, and the commit to continue it from.

        If several branches end with the message, it is the active one, else the newest.  None if no branch does.
        """
        ends = [branch for branch in self.chat.branches() if branch.name in message.branches]
        if not ends:
            return None, message.manifest_id
        best = max(ends, key=lambda one: (one.active, self._newness(one.manifest_id)))
        assert best.manifest_id is not None  # it ends with a message
        return best.name, best.manifest_id

    def longest_branch(self, message: Message) -> tuple[str, Message]:
        """Return the branch with the most messages after ``message``, and its last message.

        Raises:
            CovaltError: if the message is only on a merged line, so that no branch leads to it by first parents.
        """
        found = []
        for branch in self.chat.branches():
            history = list(self._messages_above(branch.manifest_id))
            if message.own_manifest_id in history:
                later = history.index(message.own_manifest_id)
                rank = (later, self._newness(branch.manifest_id), branch.active)
                found.append((rank, branch.name, self.messages[history[0]]))
        if not found:
            raise CovaltError(
                f"the message {message.id} is only in a merged branch, so no branch can be switched to it",
                hint="to continue on a new branch after this message:"
                f" covalt-git chat message continue {self.chat.id} {message.id}",
            )
        _, name, leaf = max(found, key=lambda one: one[0])
        return name, leaf

    def message_of(self, oid: str | None) -> Message | None:
        """Return the message to which a commit belongs: the last one before it, or itself."""
        owner = self._owner.get(oid) if oid is not None else None
        return self.messages[owner] if owner is not None else None

    def first_files(self, message: Message) -> str:
        """Return the commit whose files the first call of a message started with."""
        oid = message.own_manifest_id
        return self._best([self._last_before_calls(oid, tip) for tip in self._tips[oid]])

    def _placed(self) -> Iterator[tuple[str, Message]]:
        """Yield each message with its own commit, after its parent."""
        children: dict[str | None, list[str]] = {}
        for oid, step in self.steps.items():
            if step.source == "message":
                parent = None if step.parent is None else self._owner[step.parent]
                children.setdefault(parent, []).append(oid)
        for siblings in children.values():
            siblings.sort(key=self._newness)
        ends: dict[str | None, list[str]] = {}
        for branch in self.chat.branches():
            if branch.manifest_id is not None:
                ends.setdefault(self._owner[branch.manifest_id], []).append(branch.name)
        waiting = list(reversed(children.get(None, [])))
        ids = {}
        while waiting:
            oid = waiting.pop()
            step = self.steps[oid]
            parent = None if step.parent is None else self._owner[step.parent]
            siblings = children[parent]
            manifest = self.chat.manifest(oid)
            words = manifest.record.message
            assert words is not None  # see _step
            ids[oid] = manifest.record.id
            yield (
                oid,
                Message(
                    id=manifest.record.id,
                    role=words.role,
                    text=words.text,
                    ref=words.ref,
                    by=manifest.record.by,
                    created_at=manifest.created_at,
                    parent_id=None if parent is None else ids[parent],
                    own_manifest_id=oid,
                    manifest_id=self._best([self._last_call(oid, tip) for tip in self._tips[oid]]),
                    number=siblings.index(oid) + 1,
                    siblings=len(siblings),
                    branches=tuple(ends.get(oid, ())),
                    active=oid in self._line,
                ),
            )
            waiting.extend(reversed(children.get(oid, [])))

    def _last(self) -> Message:
        head = self.chat.head()
        found = None if head is None else self._owner[head]
        if found is None:
            raise CovaltError(
                f"the branch {self.chat.active_branch()!r} has no message yet",
                hint=f"covalt-git chat message add {self.chat.id} TEXT",
            )
        return self.messages[found]

    def _last_call(self, message: str, tip: str) -> str:
        """Return the last call for a message in the first-parent history of ``tip``, else :meth:`_last_before_calls`."""
        own = self.steps[message].message_id
        for oid in _above(self.steps, tip):
            step = self.steps[oid]
            if oid == message:
                break
            if step.is_call and step.message_id == own:
                return oid
        return self._last_before_calls(message, tip)

    def _last_before_calls(self, message: str, tip: str) -> str:
        """Return the last commit before any call of a message, in the first-parent history of ``tip``."""
        line = itertools.takewhile(lambda oid: oid != message, _above(self.steps, tip))
        last = message
        for oid in reversed(list(line)):
            if self.steps[oid].is_call:
                break
            last = oid
        return last

    def _best(self, found: Sequence[str]) -> str:
        """Return the commit on the active branch; if none is, the newest commit."""
        return max(found, key=lambda oid: (oid in self._line, self._newness(oid)))

    def _newness(self, oid: str | None) -> tuple[str, ...]:
        return () if oid is None else (*self.steps[oid].order, oid)

    def _messages_above(self, head: str | None) -> Iterator[str]:
        """Yield the messages in the first-parent history of a commit, newest first."""
        found = None if head is None else self._owner[head]
        while found is not None:
            yield found
            parent = self.steps[found].parent
            found = None if parent is None else self._owner[parent]


def of_call(chat: ChatStore, text: str) -> str:
    """Return the id of the message that a call on the active branch is for.

    In a chat without messages every id is valid: the application stores the conversation.

    Raises:
        UnknownNameError: if the message does not exist; the hint has the most similar one.
        CovaltError: if the message is not on the active branch.
    """
    oid = chat.head()
    while oid is not None:
        step = _step(chat, oid)
        if step.source == "message" and text in {step.message_id, _ref(chat, oid)}:
            return str(step.message_id)
        oid = step.parent
    talk = Conversation.of(chat)
    if not talk.messages:
        return text
    message = talk.find(text)
    if not message.active:
        raise CovaltError(
            f"the branch {chat.active_branch()!r} does not contain the message {text!r}",
            hint=f"covalt-git chat message switch {chat.id} {text}",
            code="message_elsewhere",
            http_status=409,
        )
    return message.id


def _step(chat: ChatStore, oid: str) -> _Step:
    """Read the fields of a commit that the conversation needs."""
    manifest = chat.manifest(oid)
    source, message_id = manifest.source, manifest.message_id
    if source == "message" and manifest.record.message is None:
        source = "push"  # git copied the commit, with the trailers of a message
    if source == "message":
        message_id = manifest.record.id
    order = manifest.created_at, manifest.record.id
    is_call = source != "push" and manifest.record.call is not None
    return _Step(manifest.parent_id, source, message_id, order, is_call)


def _ref(chat: ChatStore, oid: str) -> str | None:
    words = chat.manifest(oid).record.message
    return None if words is None else words.ref


def _above(steps: dict[str, _Step], oid: str | None) -> Iterator[str]:
    while oid is not None:
        yield oid
        oid = steps[oid].parent


def _owners(steps: dict[str, _Step]) -> dict[str, str | None]:
    """Return the last message at or above each commit, along first parents."""
    owner: dict[str, str | None] = {}
    for start in steps:
        path = []
        found = None
        for oid in _above(steps, start):
            if oid in owner:
                found = owner[oid]
                break
            path.append(oid)
            if steps[oid].source == "message":
                found = oid
                break
        owner.update(dict.fromkeys(path, found))
    return owner


def _tips(
    steps: dict[str, _Step], owner: dict[str, str | None], heads: Collection[str | None]
) -> dict[str, list[str]]:
    """Return the last commits of each message: the head of a branch, or a commit before another message or a merge."""
    # A step that no other one follows is the end of a merged branch.
    followed = {step.parent for step in steps.values()}
    left = {step.parent for step in steps.values() if step.source == "message"}
    tips: dict[str, list[str]] = {}
    for oid, message in owner.items():
        if message is not None and (oid in heads or oid in left or oid not in followed):
            tips.setdefault(message, []).append(oid)
    return tips
