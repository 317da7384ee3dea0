"""One permission of a project, which acts on a machine after its user has trusted it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.json_values import canonical_json
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from covalt_git.json_values import JsonObject

    Reach = Mapping[str, Collection[str]]

_SHOWN_NAMES = 20
_NOWHERE: Reach = MappingProxyType({})


class Permission(NamedTuple):
    """One permission of a project.

    Attributes:
        fact: What it permits, exactly; equal facts are the same permission.
        words: A description of the fact for users, without the names of ``reach``.
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
        """The words with the names that it reaches, on one line, as a user reads them before deciding.

        Whatever the words have been made of, no part of them can look like another line or be moved out of sight.
        """
        names = sorted(filter(None, self.reach))
        listed = ", ".join(names[:_SHOWN_NAMES])
        if len(names) > _SHOWN_NAMES:
            listed += f" and {len(names) - _SHOWN_NAMES} more"
        text = f"{self.words}: {listed}" if names else self.words
        return display.count_spaces(display.in_line(text))

    def beyond(self, consented: Reach) -> Permission | None:
        """Return the part of it that a consent with this reach does not cover; None if the consent covers it."""
        reach = {
            name: limits
            for name, limits in self.reach.items()
            if name not in consented or not set(consented[name]) <= set(limits)
        }
        return self._replace(reach=reach) if reach else None
