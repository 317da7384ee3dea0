"""The calls that are followed: what each of them tells, for whoever listens now or comes back.

The events of a call are numbered from 1, and its last one is called ``end``.  They stay here while it
runs and for a while afterwards, so that a client whose connection broke goes on where it was.  A call
that nobody listens to any more is cancelled, unless it was asked to go on.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from covalt_git.calls.running import Cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.errors import CovaltError
    from covalt_git.models.base import JsonObject
    from covalt_server.api_calls import CallAnswer

GRACE_S = 0.15
"""How long a call goes on that nobody listens to, unless it is to go on anyway.

It takes half a second more to end one that does not look at its cancellation, and a stream that was
closed stops its call within one.
"""

KEPT_S = 300.0
KEPT_STREAMS = 64
"""For how long, and of how many calls that have ended, the events are kept."""

KEPT_EVENTS = 4096
KEPT_EVENT_BYTES = 4 << 20
"""How many events of one call are kept, and how large they may be; the first ones go first."""

KEPT_BYTES = 64 << 20
"""How large all that is kept of calls that have ended may be."""

HEARTBEAT_S = 15.0
LOOK_S = 0.1
END = "end"
"""The id of a call's last event."""

OnDisconnect = Literal["cancel", "continue"]


def event(number: str, name: str, facts: JsonObject) -> bytes:
    """Return one thing that a call tells, as server-sent events are written."""
    data = json.dumps(facts, ensure_ascii=False)
    return f"event: {name}\nid: {number}\ndata: {data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Followed:
    """The call that a stream is about, its arguments as canonical JSON."""

    call_id: str
    chat_id: str
    tool_id: str
    args: bytes


class CallStream:
    """What one call tells; for use by many threads."""

    def __init__(
        self, call: Followed, *, on_disconnect: OnDisconnect = "cancel", grace_s: float = GRACE_S
    ) -> None:
        self.call = call
        self.cancel = Cancel()
        self.ended_at: float | None = None
        self.outcome: CallAnswer | CovaltError | None = None
        self._inquiry: Inquiry | None = None
        self._changed = threading.Condition()
        self._events: deque[bytes] = deque()
        self._count = 0
        self.size = 0
        self._grace_s = None if on_disconnect == "continue" else grace_s
        self._listeners = 0
        self._alone: threading.Timer | None = None

    def tell(self, name: str, **facts: object) -> None:
        """Add an event, unless the last one is there."""
        with self._changed:
            if self.ended_at is not None:
                return
            self._add(str(self._count + 1), name, facts)
            while len(self._events) > KEPT_EVENTS or self.size > KEPT_EVENT_BYTES:
                self.size -= len(self._events.popleft())

    def end(
        self, name: str, outcome: CallAnswer | CovaltError | None = None, **facts: object
    ) -> None:
        """Add the last event; ``outcome`` is what became of the call, or why it was refused."""
        with self._changed:
            self.outcome = outcome
            self._add(END, name, facts)
            self.ended_at = time.monotonic()

    def ask(self, inquiry: Inquiry) -> None:
        """Tell what the call asks, and once nobody waits for the answers any more."""
        with self._changed:
            self._inquiry = inquiry
            asked = {key: one.model_dump(mode="json") for key, one in inquiry.questions.items()}
            self.tell("Question", question_id=inquiry.id, questions=asked)
        inquiry.on_end(lambda: self.tell("QuestionClosed", question_id=inquiry.id))

    def asking(self) -> Inquiry | None:
        """Return what the call asks now, if it does."""
        with self._changed:
            found = self._inquiry
        return found if found is not None and found.open() else None

    def until_ended_or_asking(self) -> Inquiry | None:
        """Wait until the call has ended, or asks something; return what."""
        while True:
            with self._changed:
                asks = self.asking()
                if asks is not None or self.ended_at is not None:
                    return asks
                self._changed.wait(LOOK_S)

    def _add(self, number: str, name: str, facts: JsonObject) -> None:
        told = event(number, name, facts)
        self._events.append(told)
        self._count += 1
        self.size += len(told)
        self._changed.notify_all()

    def listen(self) -> Callable[[], None]:
        """Count somebody who listens from now on, until what this returns is called."""
        with self._changed:
            self._listeners += 1
            if self._alone is not None:
                self._alone.cancel()
                self._alone = None
        leaving = ExitStack()  # as it may be closed more than once
        leaving.callback(self._leave)
        return leaving.close

    def _leave(self) -> None:
        with self._changed:
            self._listeners -= 1
            if self._listeners or self.ended_at is not None or self._grace_s is None:
                return
            self._alone = threading.Timer(self._grace_s, self._give_up)
            self._alone.daemon = True
            self._alone.start()

    def _give_up(self) -> None:
        with self._changed:
            if not self._listeners:
                self.cancel.set_as("nobody listened to it any more")

    def events(self, after: int = 0, *, heartbeat_s: float = HEARTBEAT_S) -> Iterator[bytes]:
        """Yield the events behind a number as they come, and a comment where none came for so long.

        In between an empty part, by which the server finds out whether anybody is there.
        """
        silent_s = 0.0
        look_s = min(LOOK_S, heartbeat_s)
        with self._changed:  # whatever a client says that it has, the end is told
            after = min(after, self._count - (self.ended_at is not None))
        while True:
            with self._changed:
                if self._count <= after and self.ended_at is None:
                    self._changed.wait(look_s)
                new = list(self._events)[-(self._count - after) :] if self._count > after else []
                after, ended = self._count, self.ended_at is not None
            silent_s = 0.0 if new else silent_s + look_s
            if silent_s >= heartbeat_s:
                silent_s = 0.0
                yield b": nothing new\n\n"
            yield b"".join(new)
            if ended:
                return


class CallStreams:
    """The streams of one server; for use by many threads."""

    def __init__(self, *, grace_s: float = GRACE_S) -> None:
        self.grace_s = grace_s
        self._lock = threading.Lock()
        self._streams: dict[str, CallStream] = {}

    def open(
        self, call: Followed, *, on_disconnect: OnDisconnect, goes_on: bool = False
    ) -> tuple[CallStream, bool]:
        """Return the stream of a call, and whether it is a new one.

        Of a call that ``goes_on`` after it had waited for a person, what ended then is no stream.
        """
        with self._lock:
            self._forget()
            found = self._streams.get(call.call_id)
            if found is not None and not (goes_on and found.ended_at is not None):
                return found, False
            made = CallStream(call, on_disconnect=on_disconnect, grace_s=self.grace_s)
            self._streams[call.call_id] = made
            return made, True

    def get(self, call_id: str) -> CallStream | None:
        """Return the stream of a call, or None where its events are not kept here."""
        with self._lock:
            self._forget()
            return self._streams.get(call_id)

    def drop(self, made: CallStream) -> None:
        """Let go of a stream that told nothing of its call."""
        with self._lock:
            if self._streams.get(made.call.call_id) is made:
                del self._streams[made.call.call_id]

    def _forget(self) -> None:
        """Let go of what ended long ago, and of the oldest where those are too many."""
        ended = sorted(
            (one.ended_at, key) for key, one in self._streams.items() if one.ended_at is not None
        )
        size = sum(self._streams[key].size for _, key in ended)
        left = len(ended)
        for ended_at, key in ended:
            is_old = ended_at < time.monotonic() - KEPT_S
            if is_old or left > KEPT_STREAMS or size > KEPT_BYTES:
                left -= 1
                size -= self._streams.pop(key).size
