"""What was granted to a toolset: the hosts its tools may reach, and the secrets they may send there.

A grant holds for exactly the files it was given for: the digest in it is the toolset's.  Nothing of
a toolset leaves this machine without one, also of the project's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.hosts import HostRule, Origin, Reach
from covalt_git.models.toolset_state import NetworkGrant, SecretGrant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.models.toolset_state import ToolsetState


class GrantNeededError(CovaltError):
    """A toolset would leave the sandbox for something that nobody granted to it, as it is now."""

    code = "grant_needed"
    http_status = 403


@dataclass(frozen=True, slots=True)
class Granted:
    """What a toolset may reach and send; ``stale`` holds the kinds of grants for other files."""

    toolset_id: str
    reach: Reach = field(default_factory=Reach)
    secrets: Mapping[str, Reach] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()

    def check_origin(self, origin: Origin) -> None:
        """Make sure that requests may go to that origin.

        Raises:
            GrantNeededError: with the command that grants it.
        """
        if not self.reach.covers(origin):
            raise self._needed("network", f"may not reach {origin}", f"network {rule_of(origin)}")

    def check_secret(self, name: str, origin: Origin) -> None:
        """Make sure that the secret may be sent to that origin.

        Raises:
            GrantNeededError: with the command that grants it.
        """
        reach = self.secrets.get(name)
        if reach is None or not reach.covers(origin):
            what = f"may not send the secret {name!r} to {origin.shown_host}"
            raise self._needed("secret", what, f"secret {name} {rule_of(origin)}")

    def _needed(self, kind: str, what: str, command: str) -> GrantNeededError:
        since = "; it has changed since that was granted" if kind in self.stale else ""
        return GrantNeededError(
            f"the toolset {self.toolset_id!r} {what}{since}",
            hint=f"covalt-git grant add {self.toolset_id} {command}",
        )


def granted(toolset_id: str, state: ToolsetState, digest: str) -> Granted:
    """Return what was granted to the toolset whose files have that digest.

    Raises:
        BadHostError: when a grant holds a host that is none.
    """
    network: list[HostRule] = []
    secrets: dict[str, Reach] = {}
    stale = set()
    for grant in state.grants.values():
        if not isinstance(grant, NetworkGrant | SecretGrant):
            continue
        if grant.digest != digest:
            stale.add(grant.kind)
        elif isinstance(grant, NetworkGrant):
            network += _rules(grant.hosts)
        else:
            before = secrets.get(grant.name, Reach()).rules
            secrets[grant.name] = Reach((*before, *_rules(grant.hosts)))
    return Granted(toolset_id, Reach(tuple(network)), secrets, frozenset(stale))


def _rules(hosts: Iterable[str]) -> Iterable[HostRule]:
    return [HostRule.parse(host) for host in hosts]


def rule_of(origin: Origin) -> str:
    """Return the rule that grants an origin."""
    if HostRule.parse(origin.shown_host).covers(origin):
        return origin.shown_host
    return str(origin)
