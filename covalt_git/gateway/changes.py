"""When what there is for clients becomes other: files are edited while clients look on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.project_watch import Changes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from covalt_git.models.prompts import Prompt
    from covalt_git.models.tool import Tool


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is for clients; none of it where ``covalt.yaml`` or the index cannot be used.

    ``resources`` has the digest of its toolset for each address, as more than that is not known of what
    it holds.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)


class OfferChanges:
    """Waits until ``offered`` of a project returns something else; close it to end the waiting."""

    def __init__(self, root: Path, offered: Callable[[], Offer]) -> None:
        self._offered = offered
        self._changes = Changes(root)
        self.offer = self._now()

    def wait(self) -> tuple[Offer, Offer] | None:
        """Wait until it does, and return what it offered and what it offers; None once it was closed."""
        while self._changes.wait():
            began = time.monotonic()
            before, now = self.offer, self._now()
            self._changes.looked(time.monotonic() - began)
            if now != before:
                self.offer = now
                return before, now
        return None

    def close(self) -> None:
        """End the waiting."""
        self._changes.close()

    def _now(self) -> Offer:
        try:
            return self._offered()
        except CovaltError:
            return Offer()
