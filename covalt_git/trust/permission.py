"""One permission of a project, which acts on a machine after its user has trusted it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from covalt_git.json_values import JsonObject

    Reach = Mapping[str, Collection[str]]

_NOWHERE: Reach = MappingProxyType({})


class Permission(NamedTuple):
    """One permission of a project.

    Attributes:
        fact: What it permits, exactly; equal facts are the same permission.
        words: The same for a user, with hidden characters escaped.
        toolset_id: The toolset that it is for; None if it is for the project.
        reach: What it is about, if that can grow and shrink: names, such as tools, and for each the digests of the
            rules that limit it.  A consent for it covers fewer names and more limits, too, so that a pull that
            narrows needs no new consent.
    """

    fact: JsonObject
    words: str
    toolset_id: str | None = None
    reach: Reach = _NOWHERE

    @property
    def key(self) -> str:
        """The digest of the fact, whatever its reach is."""
        return canonical_json.digest(self.fact)

    @property
    def digest(self) -> str:
        """The digest of the fact and its reach: of all that a user reviews."""
        if not self.reach:
            return self.key
        limits = {name: sorted(self.reach[name]) for name in sorted(self.reach)}
        return canonical_json.digest({"fact": self.fact, "reach": limits})

    @property
    def text(self) -> str:
        """The words with the names that it reaches."""
        names = ", ".join(sorted(filter(None, self.reach)))
        return f"{self.words}: {names}" if names else self.words

    def beyond(self, consented: Reach) -> Permission | None:
        """Return the part of it that a consent with this reach does not cover; None if the consent covers it."""
        reach = {
            name: limits
            for name, limits in self.reach.items()
            if name not in consented or not set(consented[name]) <= set(limits)
        }
        return self._replace(reach=reach) if reach else None
