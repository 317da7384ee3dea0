"""How a result is shown, as clients are told it: the call's render plan, and where its files are read.

A plan names files as ``workspace:<path>`` and ``toolset:<path>``; no client could open those, so that
each of them stands beside its address.  Both are as the call left them: a file of the workspace is one
of the manifest that it made, the toolset's page the one that was kept with the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mcp_types as types

from covalt_git.gateway import resource_uris
from covalt_git.models.renderers import FILE_KEYS

if TYPE_CHECKING:
    from collections.abc import Collection

    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import RenderPlan

SHOWN = "shown"
"""What a link says of a file that a call shows and did not change."""


def plan_with_addresses(plan: RenderPlan, chat_id: str, manifest_id: str) -> JsonObject:
    """Return a plan as JSON, with ``files``: the address of each that it names."""
    told = plan.model_dump(mode="json", exclude_none=True, exclude={"artifact"})
    files = _files(plan, chat_id, manifest_id)
    return {**told, "files": files} if files else told


def links(
    plan: RenderPlan, chat_id: str, manifest_id: str, *, known: Collection[types.ContentBlock]
) -> list[types.ContentBlock]:
    """Return links to the workspace's files that a plan shows, but for those that are ``known``.

    The toolset's page is no news to whoever reads the result: it is the same each time.
    """
    there = {one.uri for one in known if isinstance(one, types.ResourceLink)}
    return [
        types.ResourceLink(uri=uri, name=name.removeprefix("workspace:"), description=SHOWN)
        for name, uri in _files(plan, chat_id, manifest_id).items()
        if name.startswith("workspace:") and uri not in there
    ]


def _files(plan: RenderPlan, chat_id: str, manifest_id: str) -> dict[str, str]:
    found = {}
    for key in FILE_KEYS:
        name = plan.config.get(key)
        if not isinstance(name, str):
            continue
        place, _, path = name.partition(":")
        if place == "workspace" and resource_uris.can_be_named(path):
            found[name] = resource_uris.file(chat_id, path, manifest_id=manifest_id)
        elif place == "toolset" and plan.artifact is not None:
            found[name] = resource_uris.artifact(chat_id, manifest_id)
    return found
