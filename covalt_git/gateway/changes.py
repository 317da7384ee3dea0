"""When the tools that there are for clients become others: files are edited while clients look on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.following import Changes

if TYPE_CHECKING:
    from covalt_git.gateway.gateway import Gateway
    from covalt_git.models.tool import Tool


class ToolChanges:
    """Waits until the tools of a gateway are others than they were; close it to end the waiting."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._changes = Changes(gateway.root)
        self._last = self._now()

    def wait(self) -> bool:
        """Wait until they are others; False once it was closed."""
        while self._changes.wait():
            began = time.monotonic()
            now = self._now()
            self._changes.looked(time.monotonic() - began)
            if now != self._last:
                self._last = now
                return True
        return False

    def close(self) -> None:
        """End the waiting."""
        self._changes.close()

    def _now(self) -> dict[str, Tool] | None:
        """Return the tools, or None where covalt.yaml or the index cannot be used."""
        try:
            return self._gateway.tools()
        except CovaltError:
            return None
