"""The project that attacks are tried in."""

from __future__ import annotations

from tests.calls.conftest import new_world, served, world

__all__ = ["new_world", "served", "world"]
