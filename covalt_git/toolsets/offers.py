"""Resources, resource templates and prompts that the MCP servers of a toolset have listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access import approval_reasons_of_any
from covalt_git.manifests.override_keys import overridden_tool
from covalt_git.models.tool import Tool
from covalt_git.models.toolset_state import LocalOverride
from covalt_git.toolsets.effective_tools import Overrides

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ApprovalRule
    from covalt_git.models.sources.tool_lock import LockedOffer
    from covalt_git.toolsets.toolset import Toolset

_NONE = LocalOverride()


class ServerOffer(NamedTuple):
    """A resource, a template or a prompt in the lock of a server.

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

    def needs_approval(self, rules: Iterable[ApprovalRule]) -> bool:
        """Return whether any reading of it may require approval, which nothing that is read can wait for.

        Rules about arguments count too: those of a template are in a URI that only the server can read.
        """
        return bool(approval_reasons_of_any(rules, self.tool))

    @property
    def approval_is_waived(self) -> bool:
        """Whether it needs no approval because the project's override says so."""
        return self.tool.confirmation_is_settled and not self.tool.confirmation


def offers_of(toolset: Toolset) -> Iterator[ServerOffer]:
    """Yield what the enabled servers of a toolset have listed, also what is not accepted."""
    manifest, state = toolset.manifest, toolset.state
    if manifest is None:
        return
    overrides = {
        overridden_tool(manifest.id, override.tool_id, state): override
        for override in manifest.tool_overrides
    }
    for server in manifest.mcp_servers:
        reading = toolset.locks.get(server.id)
        lock = None if reading is None else reading.value
        if lock is None or not server.enabled:
            continue
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
                server.id,
                lock.namespace,
                locked,
                state.accepted.get(key) == locked.computed_digest,
            )
