"""Requests of a tool for the token of a sign-in, and the replies on their way back to its process.

The process that makes the call decides; the tool has no file, variable or argument with a token.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.runtime.jobs import Job

MOST_REQUESTS = 1_000
"""How often a call requests a token."""


class TokenRequests:
    """The requests of one call, one at a time; ``error`` is the last refusal."""

    def __init__(self, job: Job) -> None:
        self._token = job.token
        self._count = 0
        self._reply: JsonObject | None = None
        self.is_open = False
        self.error: CovaltError | None = None

    def request(self, name: str) -> None:
        """Begin to get the token of the sign-in ``name``; a second request before the reply has no effect."""
        if self.is_open:
            return
        self._count += 1
        self.is_open = True
        # In another thread: a refresh may take half a minute, in which the limits of the call must be checked.
        threading.Thread(target=self._get, args=(name,), daemon=True).start()

    def _get(self, name: str) -> None:
        try:
            if self._token is None or self._count > MOST_REQUESTS:
                raise CovaltError("this call gets no token", code="sign_in_needed")
            self._reply = {"token": self._token(name)}
        except CovaltError as error:
            self.error = error
            self._reply = {"error": {"code": "sign_in_needed", "message": error.message}}
        except Exception:  # noqa: BLE001 - without a reply, the tool would wait until its time limit
            self.error = CovaltError(
                f"the token of {name[:60]!r} cannot be read", code="sign_in_needed"
            )
            self._reply = {"error": {"code": "sign_in_needed", "message": self.error.message}}

    def reply(self) -> JsonObject | None:
        """Return the reply to the tool, or None before there is one."""
        reply = self._reply
        if reply is not None:
            self._reply, self.is_open = None, False
        return reply
