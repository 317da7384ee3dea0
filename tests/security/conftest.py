"""The project that attacks are tried in."""

from __future__ import annotations

from tests.calls.conftest import new_world, world

__all__ = ["new_world", "world"]
