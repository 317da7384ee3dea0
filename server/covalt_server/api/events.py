"""Event stream of the API: the changes of chats and toolsets, for pages and applications that update."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from flask import current_app, has_request_context
from flask import request as http_request
from pydantic import Field

from covalt_git.errors import CovaltError
from covalt_git.issuers.verification import SKEW_S
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Events, Request, operation
from covalt_git.project import Project
from covalt_server import request_context
from covalt_server.api.call_streams import HEARTBEAT_S, LOOK_S, event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flask import Config

    from covalt_git.index.change_feed import ChangeFeed, FeedChange
    from covalt_git.models.access_token import AccessToken

MOST_STREAMS = 16
"""Number of clients that wait at once, as each takes a thread of the server; others have to poll."""

RETRY_MS = 2000
"""Pause after which a browser connects again, in milliseconds."""

_WAITING = threading.BoundedSemaphore(MOST_STREAMS)


class FollowEvents(Request):
    """The position to continue after."""

    after: str | None = Field(
        None, max_length=60, description="The id of the last event that was received."
    )
    poll: bool = Field(
        default=False,
        description="End the answer after the next events, or after 15 seconds without one.",
    )


@operation()
def events(_: Context, request: FollowEvents) -> Events:
    """Follow the changes of all chats by server-sent events, each with its ``id`` and JSON as ``data``.

    - ``CommitAdded``: ``chat_id``, ``manifest_id``, ``source``
    - ``CallChanged`` when a call becomes pending, starts or ends: ``chat_id``, ``call_id``,
      ``tool_id``, ``status``
    - ``ApprovalChanged``: ``chat_id``, ``execution_id``, ``call_id``, ``tool_id``, ``state``
    - ``ChatChanged`` when its title, its branches or its active branch change: ``chat_id``
    - ``ChatsChanged`` when a chat is created or deleted
    - ``ProblemsChanged`` when a store is damaged: ``chat_id``, ``code``; under ``covalt-git dev``
      also when a file of a toolset changes, without fields
    - ``EventsLost`` when the server cannot continue after ``after`` or ``Last-Event-ID``: read
      everything again

    Events of chats and tools that do not exist for the role are not sent.  Changes of other
    processes are reported within a second, and those of other nodes within some seconds.  If many clients wait, the answer ends at once, and the client
    has to connect again after its ``retry`` time.
    """
    after = request.after
    if has_request_context():
        after = http_request.headers.get("Last-Event-ID", after)
    feed = request_context.feed()
    position = feed.position() if after is None else after
    waits = _WAITING.acquire(blocking=False)
    # The parts are read after this function has returned, when Flask has no current app any more.
    token = request_context.token() if has_request_context() else None
    parts = _follow(feed, position, current_app.config, token, once=request.poll, waits=waits)
    leaving = ExitStack()  # as it may be closed more than once
    if waits:
        leaving.callback(_WAITING.release)
    return Events(parts, leaving.close)


def _follow(
    feed: ChangeFeed,
    position: str,
    config: Config,
    token: AccessToken | None,
    *,
    once: bool,
    waits: bool,
) -> Iterator[bytes]:
    """Yield the events that exist for a role; empty parts let the server notice a disconnect."""
    root, role, stopping = (config[f"COVALT_{name}"] for name in ("ROOT", "ROLE", "STOPPING"))
    opening, silent_s = f"retry: {RETRY_MS}\n".encode(), 0.0
    while True:
        changes = feed.after(position)
        position = changes[-1].position if changes else position
        visible = _visible(changes, root, role, token) if changes else []
        yield opening + b"".join(map(_event, visible))
        ends = once and (visible or silent_s >= HEARTBEAT_S)
        if opening or ends or silent_s >= HEARTBEAT_S:
            # Without data, a client only stores the id, from which it continues.
            yield f"id: {position}\n\n".encode()
            silent_s = 0.0
        has_expired = token is not None and token.expires + SKEW_S <= time.time()
        if ends or not waits or stopping.is_set() or has_expired:
            return
        opening = b""
        silent_s += LOOK_S
        time.sleep(LOOK_S)


def _visible(
    changes: list[FeedChange], root: Path, role: str | None, token: AccessToken | None
) -> list[FeedChange]:
    """Return the changes that exist for the role with the current ``covalt.yaml``."""
    try:
        # The project is read again for each poll: covalt.yaml may take rights away from the role of an open
        # stream (test_a_role_that_is_taken_away_ends_its_events).
        project = Project.cached(root, role)
        project = project if token is None else project.held_by(token)
    except CovaltError:  # the role's access is unknown
        return [change for change in changes if change.chat_id is None]
    chats, visibility, approvals = project.chats, project.visibility, project.approvals()
    return [
        change
        for change in changes
        if (change.chat_id is None or chats.has(change.chat_id))
        and (
            change.tool_id is None
            or visibility.sees(change.tool_id)
            # A role may decide about calls of tools that it may not call.
            or (change.kind == "ApprovalChanged" and approvals.exists(change.tool_id))
        )
    ]


def _event(change: FeedChange) -> bytes:
    named = {"chat_id": change.chat_id, "tool_id": change.tool_id}
    facts = {name: value for name, value in named.items() if value is not None}
    return event(change.position, change.kind, {**facts, **dict(change.facts)})


OPERATIONS = (events,)
