"""One permission of a project, which acts on a machine after its user has trusted it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject


class Permission(NamedTuple):
    """One permission of a project.

    Attributes:
        fact: What it permits, exactly; equal facts are the same permission.
        words: The same for a user, with hidden characters escaped.
        toolset_id: The toolset that it is for; None if it is for the project.
    """

    fact: JsonObject
    words: str
    toolset_id: str | None = None

    @property
    def digest(self) -> str:
        """The digest of the fact."""
        return canonical_json.digest(self.fact)
