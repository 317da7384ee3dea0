"""Task that an MCP server made of a running call: its id is stored with the call, and it outlives the call's process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from covalt_git.workspaces.lock import CancelledError

if TYPE_CHECKING:
    from covalt_git.calls.running import Cancel
    from covalt_git.models.calls import PendingCall
    from covalt_git.workspaces.writer import Writer


class HeldTask:
    """The task of a call that runs under the lock of ``writer``, if its server makes one of it.

    Attributes:
        has_ended: set once the server has said how the task ended.
    """

    def __init__(self, writer: Writer, call: PendingCall) -> None:
        self._writer = writer
        self._call = call
        self._lock = threading.Lock()
        self._is_over = False
        self.has_ended = threading.Event()

    def hold(self, task_id: str) -> None:
        """Store the id of the task, so that the answer can be fetched after the end of this process."""
        # In a thread that a cancelled call does not wait for: without the lock of the chat, the call would be written
        # over the next one that runs.
        with self._lock:
            if not self._is_over:
                self._call = self._call.model_copy(update={"server_task": task_id})
                self._writer.put_call(self._call)

    def end(self, cancel: Cancel) -> None:
        """Store no later id, and leave the task to its server if this process stops before the task has ended.

        The call then becomes pending, and is not recorded.  The answer of an ended task is recorded now: its server may
        have forgotten it.

        Raises:
            CancelledError: if the task was left.
        """
        with self._lock:
            self._is_over = True
        is_left = cancel.is_stop and not self.has_ended.is_set()
        if self._call.server_task is None or not is_left:
            return
        self._writer.put_call(self._call.model_copy(update={"status": "pending"}))
        raise CancelledError(
            "the server was stopped; the answer of the MCP server is fetched when it starts again"
        )
