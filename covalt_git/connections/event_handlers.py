"""Callbacks of a caller of a server, for events while it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from covalt_git.json_values import JsonObject


def _ignore(*_: object) -> None:
    """Ignore an event."""


class EventHandlers(NamedTuple):
    """Callbacks of a caller.

    ``ask`` and ``held`` run in threads of their own, and may wait.  The others run on the event loop of all connections, so
    they must return at once.

    Attributes:
        starting: receives lines about a server that starts.
        progress: receives the progress of a call: done, total or None, and a message.
        log: receives log messages of the server: level and message.
        held: receives the id of the task that the server made of a call, in a thread of its own.
        ended: called when the server has said how the task ended.
        leaves: returns whether the server keeps running the task of a cancelled call.  It does if the call is
            cancelled because this process stops: a later process collects the result.
        ask: answers an elicitation: method and parameters of the protocol, and a future that is cancelled
            when the server no longer waits for the answer.  None without a user.
    """

    starting: Callable[[str], None] = _ignore
    progress: Callable[[float, float | None, str], None] = _ignore
    log: Callable[[str, str], None] = _ignore
    held: Callable[[str], None] = _ignore
    ended: Callable[[], None] = _ignore
    leaves: Callable[[], bool] = lambda: False
    ask: Callable[[str, JsonObject, Future[None]], JsonObject] | None = None
