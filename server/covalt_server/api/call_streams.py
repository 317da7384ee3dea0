"""Events of calls as server-sent events, for clients that listen or reconnect.

Events are numbered from 1; the id of the last one is ``end``.  They are stored while the call runs and
until it expires, so that a client that lost its connection can resume.  A call is cancelled when its
last client disconnects, unless a client requested that it continue.
"""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.calls.background import BackgroundCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.errors import CovaltError
    from covalt_git.json_values import JsonObject

GRACE_S = 0.15
"""How long a call without clients runs before it is cancelled, in seconds.

A call that ignores its cancellation is ended half a second later, so that a closed stream ends its call
within one second.
"""

HEARTBEAT_S = 15.0
LOOK_S = 0.1
END = "end"
"""The id of a call's last event."""

OnDisconnect = Literal["cancel", "continue"]


def event(number: str, name: str, facts: JsonObject) -> bytes:
    """Return an event in the format of server-sent events."""
    data = json.dumps(facts, ensure_ascii=False)
    return f"event: {name}\nid: {number}\ndata: {data}\n\n".encode()


class Followed(NamedTuple):
    """Identity of the call of a stream; ``args`` are canonical JSON."""

    call_id: str
    chat_id: str
    tool_id: str
    args: bytes


class CallStream(BackgroundCall[bytes, "CallOutcome | CovaltError"]):
    """Server-sent events of one call; thread-safe.

    Attributes:
        latest: the facts of the last event of each name.
    """

    def __init__(self, call: Followed, *, on_disconnect: OnDisconnect = "cancel") -> None:
        super().__init__()
        self.call = call
        self.latest: dict[str, JsonObject] = {}
        self._grace_s = None if on_disconnect == "continue" else GRACE_S
        self._listeners = 0

    def add_event(self, name: str, **facts: object) -> None:
        """Add an event, unless the call has ended."""
        with self.changed:
            self.latest[name] = facts
            data = event(str(self.count + 1), name, facts)
            self.report(data, len(data))

    def add_last_event(
        self, name: str, outcome: CallOutcome | CovaltError | None = None, **facts: object
    ) -> None:
        """Add the last event; ``outcome`` is the result of the call, or the error that refused it."""
        data = event(END, name, facts)
        self.end(outcome, data, len(data))

    def ask(self, inquiry: Inquiry) -> None:
        """Send an elicitation request to the clients, and an event when it is closed."""
        super().ask(inquiry)
        questions = {
            key: question.model_dump(mode="json") for key, question in inquiry.questions.items()
        }
        self.add_event("Question", question_id=inquiry.id, questions=questions)
        inquiry.on_end(lambda: self.add_event("QuestionClosed", question_id=inquiry.id))

    def until_ended_or_asking(self, timeout_s: float) -> Inquiry | None:
        """Wait until the call has ended or has an open elicitation request; return the request, if there is one."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_over() or self.asking(), timeout_s)
            return self.asking()

    def until_ended(self, timeout_s: float) -> bool:
        """Wait until the call has ended; return whether it has."""
        with self.changed:
            return self.changed.wait_for(self.is_over, timeout_s)

    def listen(self) -> Callable[[], None]:
        """Count a client that listens; it stops listening when the returned function is called."""
        with self.changed:
            self._listeners += 1
        leaving = ExitStack()  # as it may be closed more than once
        leaving.callback(self._leave)
        return leaving.close

    def _leave(self) -> None:
        with self.changed:
            self._listeners -= 1
            if not (self._listeners or self.is_over() or self._grace_s is None):
                # Not at once: a client that lost its connection can resume the stream
                # (test_a_client_that_reconnects_resumes_where_it_was).
                alone = threading.Timer(self._grace_s, self._cancel)
                alone.daemon = True
                alone.start()

    def _cancel(self) -> None:
        with self.changed:
            # A client may have come back since the timer was started.
            if not self._listeners:
                self.cancel.set_as("its last client disconnected")

    def events(self, after: int = 0, *, heartbeat_s: float = HEARTBEAT_S) -> Iterator[bytes]:
        """Yield the events after a number as they arrive, and a comment after each ``heartbeat_s`` without one.

        Empty parts in between let the server notice that the client has disconnected.
        """
        silent_s, ended = 0.0, False
        look_s = min(LOOK_S, heartbeat_s)
        with self.changed:  # the last event is sent whatever number the client names
            after = min(after, self.count - self.is_over())
        while not ended:
            with self.changed:
                if self.count <= after and not self.is_over():
                    self.changed.wait(look_s)
                (new, after), ended = self.after(after), self.is_over()
            silent_s = 0.0 if new else silent_s + look_s
            # Proxies close a connection on which nothing is sent; clients ignore comments.
            if silent_s >= heartbeat_s:
                silent_s = 0.0
                yield b": nothing new\n\n"
            yield b"".join(new)
