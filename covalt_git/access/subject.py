"""Subject of access decisions: the properties of a tool on which they depend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from covalt_git.models.held_back import HeldBack
    from covalt_git.models.tool_properties import Security


class Subject(Protocol):
    """Subject of a decision: a :class:`~covalt_git.models.tool.Tool`, or its row in the index."""

    @property
    def tool_id(self) -> str:
        """Its id."""

    @property
    def path(self) -> str:
        """The id in the form of role patterns."""

    @property
    def enabled(self) -> bool:
        """Whether it can be called at all."""

    @property
    def held_back(self) -> HeldBack | None:
        """Why it is disabled regardless of all settings."""

    @property
    def security(self) -> Security | None:
        """Its requirements on callers."""
