"""Resources, resource templates, prompts and skills that the MCP servers of a toolset have listed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access import approval_reasons_of_any
from covalt_git.manifests.override_keys import overridden_tool
from covalt_git.models.tool import Tool
from covalt_git.models.toolset_state import LocalOverride
from covalt_git.toolsets.effective_tools import Overrides

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.models.rules import PolicyRule
    from covalt_git.models.sources.tool_lock import LockedOffer, ToolLock
    from covalt_git.toolsets.toolset import Toolset

_NONE = LocalOverride()
_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_NAMES = re.compile(r"[A-Za-z0-9_.]+(?:,[A-Za-z0-9_.]+)*")


class ServerOffer(NamedTuple):
    """A resource, a template, a prompt or a skill in the lock of a server.

    Attributes:
        tool: A tool with its id and its approval, which rules are asked about.
        key: Its key among the accepted definitions of the toolset's state.
        is_accepted: Whether the user has accepted exactly this definition.
    """

    tool: Tool
    key: str
    toolset: Toolset
    server_id: str
    namespace: str
    locked: LockedOffer
    is_accepted: bool

    @property
    def id(self) -> str:
        """The id that the patterns of roles and rules, and the keys of overrides, match."""
        return self.tool.tool_id

    @property
    def definition(self) -> JsonObject:
        """The definition as the server listed it."""
        return self.locked.listed

    def needs_approval(self, rules: Iterable[PolicyRule]) -> bool:
        """Return whether any reading of it may require approval, which nothing that is read can wait for."""
        return bool(self.approval_reasons(rules))

    def approval_reasons(self, rules: Iterable[PolicyRule]) -> tuple[str, ...]:
        """Return why a reading of it may require approval; empty if none does.

        A rule about arguments counts if it can have them all, whatever their values: those of a template are in a URI
        that only the server can read.
        """
        return approval_reasons_of_any(rules, self.tool, self.arguments)

    @property
    def arguments(self) -> frozenset[str] | None:
        """The names of all arguments that a reading of it can have; None if they are not known."""
        if self.locked.kind in {"resource", "skill"}:
            return frozenset()
        if self.locked.kind == "template":
            return _variables(self.locked.upstream)
        try:
            declared = self.definition.get("arguments") or ()
            return frozenset(str(argument["name"]) for argument in declared)
        except (TypeError, KeyError):  # a lock can come from a pull
            return None

    @property
    def approval_is_waived(self) -> bool:
        """Whether it needs no approval because the project's override says so."""
        return self.tool.confirmation_is_settled and not self.tool.confirmation


def _variables(template: str) -> frozenset[str] | None:
    """Return the names of the variables of a URI template; None if they may not be all that its URIs have.

    Only ``{name}`` and ``{a,b}`` of RFC 6570 are read: a value of another operator, such as ``{+rest}`` and ``{?rest*}``,
    can have further parts, which the server may read as arguments of any name.
    """
    texts = _EXPRESSION.split(template)
    if any("{" in text or "}" in text for text in texts[::2]):
        return None
    if not all(_NAMES.fullmatch(names) for names in texts[1::2]):
        return None
    return frozenset(name for names in texts[1::2] for name in names.split(","))


def offers_of(toolset: Toolset) -> Iterator[ServerOffer]:
    """Yield what the enabled servers of a toolset have listed, also what is not accepted."""
    for server in toolset.manifest.mcp_servers if toolset.manifest else ():
        reading = toolset.locks.get(server.id)
        if reading is not None and reading.value is not None and server.enabled:
            yield from offers_in(toolset, server.id, reading.value)


def skill_uris(toolset: Toolset, namespace: str) -> list[str]:
    """Return the URIs of the skills that a server has listed, also of accepted ones that it does not list any more."""
    locks = [reading.value for reading in toolset.locks.values() if reading.value is not None]
    return [
        offer.upstream
        for lock in locks
        if lock.namespace == namespace
        for offer in (*lock.offers.values(), *lock.replaced_skills.values())
        if offer.kind == "skill"
    ]


def offers_in(toolset: Toolset, server_id: str, lock: ToolLock) -> Iterator[ServerOffer]:
    """Yield what the lock of a server of a toolset lists, also what is not accepted."""
    manifest, state = toolset.manifest, toolset.state
    if manifest is None:
        return
    overrides = {
        overridden_tool(manifest.id, override.tool_id, state): override
        for override in manifest.tool_overrides
    }
    for name, locked in lock.offers.items():
        offer_id = lock.offer_id(name)
        both = Overrides(overrides.get(offer_id, _NONE), state.overrides.get(offer_id, _NONE))
        tool = Tool(
            tool_id=offer_id,
            toolset_id=toolset.id,
            name=offer_id,
            input_schema={},
            **both.confirmation(None, by_toolset=False, destructive=False),
        )
        key = f"{lock.namespace}:{name}"
        yield ServerOffer(
            tool,
            key,
            toolset,
            server_id,
            lock.namespace,
            locked,
            state.accepted.get(key) == locked.computed_digest,
        )
