"""The conversation of a chat, read from its commits: the tree of its messages.

What stands between a message and the next one, on a line of first parents, belongs to that place of
the conversation: the calls that are made for the message, and what people do to the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.models.base import StrictModel
from covalt_git.workspaces import commits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from covalt_git.models.commit_record import Source
    from covalt_git.workspaces.chat import ChatStore

_FEWEST_DIGITS = 4


class MessageExistsError(CovaltError):
    """The chat has a message of that id of the application's."""

    code = "message_exists"
    http_status = 409


class MessageElsewhereError(CovaltError):
    """The active branch does not go through the message."""

    code = "message_elsewhere"
    http_status = 409


class Message(StrictModel):
    """A message and its place in the conversation.

    Attributes:
        parent_id: the message before it.
        own_manifest_id: the commit that the message is.
        manifest_id: where to go on from it: the last of its calls, on the active branch if it goes
            through the message, else the newest.  Before the first call it is what a person added
            right after the message, or the message itself.
        number: which of its siblings it is, the oldest being 1.
        siblings: how many messages have the same parent, itself among them.
        branches: those whose last message it is.
        active: whether the active branch goes through it.
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


@dataclass(frozen=True, slots=True)
class _Step:
    """As much of a manifest as the conversation needs; ``message_id`` of a message is its own.

    ``made`` orders manifests by when they were made: to the millisecond, and then by their records'
    ids, which are finer.
    """

    parent: str | None
    source: Source
    message_id: str | None
    made: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The tree of a chat's messages, as its branches hold it.

    ``messages`` are by their own manifest, each behind its parent, siblings from the oldest on.
    """

    chat: ChatStore
    steps: dict[str, _Step]
    messages: dict[str, Message]
    _owner: dict[str, str | None]
    _tips: dict[str, list[str]]
    _line: frozenset[str]

    @classmethod
    def of(cls, chat: ChatStore) -> Conversation:
        """Read it."""
        steps = {oid: _step(chat, oid) for oid in chat.reachable()}
        owner = _owners(steps)
        tips = _tips(steps, owner, {branch.manifest_id for branch in chat.branches()})
        talk = cls(chat, steps, {}, owner, tips, frozenset(_above(steps, chat.head())))
        talk.messages.update(talk._placed())
        return talk

    def find(self, text: str | None) -> Message:
        """Return the message that ``text`` names, or the last one of the active branch.

        It is the message's id or the end of it, the application's id, or an id or the beginning of
        one of the message's manifest or of its last.

        Raises:
            UnknownNameError: naming the nearest one; CovaltError where several are meant.
        """
        if text is None:
            return self._last()
        found = [one for one in self.messages.values() if text in {one.id, one.ref}]
        if not found and len(text) >= _FEWEST_DIGITS:
            found = [
                one
                for one in self.messages.values()
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
            known = [name for one in self.messages.values() for name in (one.id, one.ref) if name]
            raise UnknownNameError("message", text, known, list_with=self._list_with)
        # A commit that git copied is the same message twice.
        return max(found, key=lambda one: one.active)

    def check_new(self, ref: str | None) -> None:
        """Make sure that no message has that id of the application's.

        Raises:
            MessageExistsError: when one has.
        """
        if ref is not None and any(ref in {one.id, one.ref} for one in self.messages.values()):
            raise MessageExistsError(
                f"there is a message {ref!r}",
                hint=f"covalt-git chat message show {self.chat.id} {ref}",
            )

    def way_on(self, message: Message) -> tuple[str | None, str]:
        """Return where a message goes on: the branch that ends with it and its manifest.

        Of several the active one, else the newest; the branch is None where all of them go further.
        """
        ends = [branch for branch in self.chat.branches() if branch.name in message.branches]
        if not ends:
            return None, message.manifest_id
        best = max(ends, key=lambda one: (one.active, self._newness(one.manifest_id)))
        assert best.manifest_id is not None  # it ends with a message
        return best.name, best.manifest_id

    def farthest(self, message: Message) -> tuple[str, Message]:
        """Return the branch that leads farthest on from a message, and the last message of it.

        Raises:
            CovaltError: when no branch goes through it, only what was merged.
        """
        found = []
        for branch in self.chat.branches():
            below = list(self._messages_down_to(branch.manifest_id))
            if message.own_manifest_id in below:
                length = below.index(message.own_manifest_id)
                rank = (length, self._newness(branch.manifest_id), branch.active)
                found.append((rank, branch.name, self.messages[below[0]]))
        if not found:
            raise CovaltError(
                f"no branch goes through the message {message.id}: it was merged",
                hint=f"covalt-git chat message continue {self.chat.id} {message.id}",
            )
        _, name, leaf = max(found, key=lambda one: one[0])
        return name, leaf

    def beginning(self, message: Message) -> str:
        """Return the manifest with the files that the work on a message began with."""
        return self._best(
            [self._quiet_end(message.own_manifest_id, tip) for tip in self._runs(message)]
        )

    @property
    def _list_with(self) -> str:
        return f"covalt-git chat message list {self.chat.id}"

    def _last(self) -> Message:
        head = self.chat.head()
        found = None if head is None else self._owner[head]
        if found is None:
            raise CovaltError(
                f"the branch {self.chat.active_branch()!r} has no message yet",
                hint=f"covalt-git chat message add {self.chat.id} TEXT",
            )
        return self.messages[found]

    def _placed(self) -> Iterator[tuple[str, Message]]:
        """Yield every message by its own manifest, each behind its parent."""
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
                    manifest_id=self._best([self._run_end(oid, tip) for tip in self._tips[oid]]),
                    number=siblings.index(oid) + 1,
                    siblings=len(siblings),
                    branches=tuple(ends.get(oid, ())),
                    active=oid in self._line,
                ),
            )
            waiting.extend(reversed(children.get(oid, [])))

    def _runs(self, message: Message) -> Sequence[str]:
        return self._tips[message.own_manifest_id]

    def _run(self, message: str, tip: str) -> list[str]:
        """Return what was made after a message and before the next, on the line of ``tip``."""
        run = []
        while tip != message:
            run.append(tip)
            parent = self.steps[tip].parent
            assert parent is not None  # the message is above
            tip = parent
        return run[::-1]

    def _run_end(self, message: str, tip: str) -> str:
        """Return the last manifest of a message's own calls on a line, else :meth:`_quiet_end`."""
        mine = self.steps[message].message_id
        for oid in reversed(self._run(message, tip)):
            step = self.steps[oid]
            if step.source == "tool_run" and step.message_id == mine:
                return oid
        return self._quiet_end(message, tip)

    def _quiet_end(self, message: str, tip: str) -> str:
        """Return the message with all that people added right after it, before any call."""
        end = message
        for oid in self._run(message, tip):
            if self.steps[oid].source == "tool_run":
                break
            end = oid
        return end

    def _best(self, found: Sequence[str]) -> str:
        """Return the manifest that is on the active branch, else the newest."""
        return max(found, key=lambda oid: (oid in self._line, self._newness(oid)))

    def _newness(self, oid: str | None) -> tuple[str, ...]:
        return () if oid is None else (*self.steps[oid].made, oid)

    def _messages_down_to(self, head: str | None) -> Iterator[str]:
        """Yield the messages of a line, the last one first."""
        found = None if head is None else self._owner[head]
        while found is not None:
            yield found
            parent = self.steps[found].parent
            found = None if parent is None else self._owner[parent]


def of_call(chat: ChatStore, text: str) -> str:
    """Return the id of the message that a call on the active branch is for.

    A chat without messages takes any id: its conversation is kept by the application.

    Raises:
        UnknownNameError: naming the nearest message.
        MessageElsewhereError: when the active branch does not go through it.
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
        raise MessageElsewhereError(
            f"the branch {chat.active_branch()!r} does not go through the message {text!r}",
            hint=f"covalt-git chat message switch {chat.id} {text}",
        )
    return message.id


def _step(chat: ChatStore, oid: str) -> _Step:
    """Return the part of a manifest that the conversation needs."""
    manifest = chat.manifest(oid)
    source, message_id = manifest.source, manifest.message_id
    if source == "message" and manifest.record.message is None:
        source = "push"  # a commit of git's with the trailers of a message
    if source == "message":
        message_id = manifest.record.id
    made = manifest.created_at, manifest.record.id
    return _Step(manifest.parent_id, source, message_id, made)


def _ref(chat: ChatStore, oid: str) -> str | None:
    words = chat.manifest(oid).record.message
    return None if words is None else words.ref


def _above(steps: dict[str, _Step], oid: str | None) -> Iterator[str]:
    while oid is not None:
        yield oid
        oid = steps[oid].parent


def _owners(steps: dict[str, _Step]) -> dict[str, str | None]:
    """Return the newest message at or above each manifest, along first parents."""
    owner: dict[str, str | None] = {}
    for start in steps:
        way = []
        found = None
        for oid in _above(steps, start):
            if oid in owner:
                found = owner[oid]
                break
            way.append(oid)
            if steps[oid].source == "message":
                found = oid
                break
        owner.update(dict.fromkeys(way, found))
    return owner


def _tips(
    steps: dict[str, _Step], owner: dict[str, str | None], heads: Collection[str | None]
) -> dict[str, list[str]]:
    """Return by message where each line of its manifests ends: at a branch, or before the next message.

    Another line may go on from there: what was made on it is none of this one's.
    """
    followed = {step.parent for step in steps.values()}  # others end what was merged
    left = {step.parent for step in steps.values() if step.source == "message"}
    tips: dict[str, list[str]] = {}
    for oid, message in owner.items():
        if message is not None and (oid in heads or oid in left or oid not in followed):
            tips.setdefault(message, []).append(oid)
    return tips
