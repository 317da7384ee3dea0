"""Conversation of a chat, read from its commits: the tree of its messages.

The commits between a message and the next one, along first parents, belong to the message: the calls
for it, and the users' changes of files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store.graph import parents_first
from covalt_git.models.base import StrictModel
from covalt_git.workspaces import commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
    """The fields of a commit that the conversation needs, and its place in it.

    Attributes:
        message_id: the id of the message that it is for; of a message, its own.
        order: its time, the id of its record and its own id, by which commits are sorted.
        message: the last message at or above it, along first parents.
        start: the last commit at or above it that is before any call of this message.
        last_call: the last call for this message at or above it.
    """

    parent: str | None = None
    is_message: bool = False
    is_call: bool = False
    message_id: str | None = None
    order: tuple[str, ...] = ()
    message: str | None = None
    start: str | None = None
    last_call: str | None = None


class Conversation:
    """Tree of the messages in the branches of a chat, as they are when it is read.

    Attributes:
        messages: the messages by their commits, each after its parent and its older siblings.
    """

    def __init__(self, chat: ChatStore) -> None:
        self.chat = chat
        self.messages: dict[str, Message] = {}
        self._branches = chat.branches()  # read once, because other processes may move them
        self._head = next((branch.manifest_id for branch in self._branches if branch.active), None)
        heads = {branch.manifest_id for branch in self._branches}
        self._steps = steps = _placed(chat, heads)
        self._line = set(_above(steps, self._head))
        # The last steps of a message: the head of a branch, or a step before another message or a merge.
        followed = {step.parent for step in steps.values()}
        lasts = heads | {step.parent for step in steps.values() if step.is_message}
        self._tips: dict[str | None, list[_Step]] = {}
        for oid in lasts | (steps.keys() - followed):
            self._tips.setdefault(steps[oid].message, []).append(steps[oid])
        self._add_messages()

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
        matches = [message for message in messages if text in {message.id, message.ref}]
        if not matches and len(text) >= _FEWEST_DIGITS:
            matches = [
                message
                for message in messages
                if message.id.endswith(text)
                or message.own_manifest_id.startswith(text)
                or message.manifest_id.startswith(text)
            ]
            if len(matches) > 1:
                raise CovaltError(
                    f"{text!r} names several messages",
                    hint=f"write the whole id: {', '.join(message.id for message in matches[:3])}",
                )
        if not matches:
            names = [name for message in messages for name in (message.id, message.ref) if name]
            list_with = f"covalt-git chat message list {self.chat.id}"
            raise UnknownNameError("message", text, names, list_with=list_with)
        # Git may have copied a commit to another branch, for example by a rebase. Then both copies have the same
        # message id, and the copy on the active branch is meant.
        return max(matches, key=lambda message: message.active)

    def check_new(self, ref: str | None) -> None:
        """Check that no message has this application's id yet.

        Raises:
            CovaltError: if a message has it.
        """
        messages = self.messages.values()
        if ref is not None and any(ref in {message.id, message.ref} for message in messages):
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
        ends = [branch for branch in self._branches if branch.name in message.branches]
        if not ends:
            return None, message.manifest_id
        best = max(ends, key=lambda branch: (branch.active, self._steps[branch.manifest_id].order))
        assert best.manifest_id is not None  # it ends with a message
        return best.name, best.manifest_id

    def longest_branch(self, message: Message) -> tuple[str, Message]:
        """Return the branch with the most messages after ``message``, and its last message.

        Raises:
            CovaltError: if the message is only on a merged line, so that no branch leads to it by first parents.
        """
        candidates = []
        for branch in self._branches:
            history = list(self._messages_above(branch.manifest_id))
            if message.own_manifest_id in history:
                later = history.index(message.own_manifest_id)
                rank = (later, self._steps[branch.manifest_id].order, branch.active)
                candidates.append((rank, branch.name, self.messages[history[0]]))
        if not candidates:
            raise CovaltError(
                f"the message {message.id} is only in a merged branch, so no branch can be switched to it",
                hint="to continue on a new branch after this message:"
                f" covalt-git chat message continue {self.chat.id} {message.id}",
            )
        _, name, leaf = max(candidates, key=lambda candidate: candidate[0])
        return name, leaf

    def message_of(self, oid: str | None) -> Message | None:
        """Return the message to which a commit belongs: the last one before it, or itself."""
        owner = self._steps.get(oid, _Step()).message
        return None if owner is None else self.messages[owner]

    def commit_before(self, message: Message) -> str | None:
        """Return the commit before the commit of a message."""
        return self._steps[message.own_manifest_id].parent

    def first_files(self, message: Message) -> str:
        """Return the commit whose files the first call of a message started with."""
        return self._best(tip.start for tip in self._tips[message.own_manifest_id])

    def _add_messages(self) -> None:
        """Add each message after its parent."""
        children: dict[str | None, list[str]] = {}
        for oid, step in self._steps.items():
            if oid is not None and step.is_message:
                children.setdefault(self._steps[step.parent].message, []).append(oid)
        for siblings in children.values():
            # By time and then by the ids of records: two messages can have the same millisecond
            # (test_messages_of_one_millisecond_keep_their_order).
            siblings.sort(key=lambda oid: self._steps[oid].order)
        ends: dict[str | None, list[str]] = {}
        for branch in self._branches:
            ends.setdefault(self._steps[branch.manifest_id].message, []).append(branch.name)
        waiting = children.get(None, [])[::-1]
        while waiting:
            oid = waiting.pop()
            waiting.extend(reversed(children.get(oid, [])))
            parent = self._steps[self._steps[oid].parent].message
            manifest = self.chat.manifest(oid)
            words = manifest.record.message
            assert words is not None  # as is_message
            self.messages[oid] = Message(
                id=manifest.record.id,
                role=words.role,
                text=words.text,
                ref=words.ref,
                by=manifest.record.by,
                created_at=manifest.created_at,
                parent_id=self._steps[parent].message_id,
                own_manifest_id=oid,
                manifest_id=self._best(tip.last_call or tip.start for tip in self._tips[oid]),
                number=children[parent].index(oid) + 1,
                siblings=len(children[parent]),
                branches=tuple(ends.get(oid, ())),
                active=oid in self._line,
            )

    def _last(self) -> Message:
        last = self.message_of(self._head)
        if last is None:
            raise CovaltError(
                f"the branch {self.chat.active_branch()!r} has no message yet",
                hint=f"covalt-git chat message add {self.chat.id} TEXT",
                http_status=404,
            )
        return last

    def _best(self, oids: Iterable[str | None]) -> str:
        """Return the commit on the active branch; if none is, the newest commit."""
        return str(max(oids, key=lambda oid: (oid in self._line, self._steps[oid].order)))

    def _messages_above(self, oid: str | None) -> Iterator[str]:
        """Yield the messages in the first-parent history of a commit, newest first."""
        while (message := self._steps[oid].message) is not None:
            yield message
            oid = self._steps[message].parent


def of_call(chat: ChatStore, text: str) -> str:
    """Return the id of the message that a call on the active branch is for.

    In a chat without messages every id is valid: the application stores the conversation.

    Raises:
        UnknownNameError: if the message does not exist; the hint has the most similar one.
        CovaltError: if the message is not on the active branch.
    """
    # Mostly the newest message of the branch; the whole conversation is read only if it is not on the branch.
    for manifest in chat.log(chat.head()):
        words = manifest.record.message
        if words is not None and text in {manifest.record.id, words.ref}:
            return manifest.record.id
    talk = Conversation(chat)
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


def _above(steps: Mapping[str | None, _Step], oid: str | None) -> Iterator[str]:
    while oid is not None:
        yield oid
        oid = steps[oid].parent


def _placed(chat: ChatStore, heads: Iterable[str | None]) -> dict[str | None, _Step]:
    """Read the commits of all branches, and find the place of each from that of its first parent."""
    steps = {oid: _step(chat, oid) for oid in chat.above(*heads)}
    placed: dict[str | None, _Step] = {None: _Step()}
    parents = {oid: (step.parent,) if step.parent else () for oid, step in steps.items()}
    for oid in parents_first(parents):
        step = steps[oid]
        message, start, last_call = placed[step.parent][-3:]
        if step.is_message:
            message, start, last_call = oid, oid, None
        elif step.is_call and step.message_id == placed[message].message_id:
            last_call = oid
        elif start == step.parent and not step.is_call:
            start = oid
        placed[oid] = _Step(*step[:-3], message, start, last_call)
    return placed


def _step(chat: ChatStore, oid: str) -> _Step:
    """Read the fields of a commit that the conversation needs."""
    manifest = chat.outline(oid)
    record = manifest.record
    is_message = record.message is not None
    message_id = record.id if is_message else manifest.message_id
    order = manifest.created_at, record.id, oid
    return _Step(manifest.parent_id, is_message, record.call is not None, message_id, order)
