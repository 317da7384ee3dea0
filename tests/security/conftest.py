"""The project that attacks are tried in."""

from tests.calls.conftest import new_world, served, world

__all__ = ["new_world", "served", "world"]
