"""What a client asks for in its address: the names of the tools, and how they are found.

::

    /mcp?names=short&mode=search

Hosts differ in what they take, and one server answers all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import mcp_types as types
from mcp import MCPError

from covalt_git.gateway.naming import STYLES
from covalt_git.gateway.own_tools import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from covalt_git.gateway.gateway import Gateway


def asked_for(gateway: Gateway, query: Mapping[str, str]) -> Gateway:
    """Return the gateway as the parameters of an address want it; others are not ours.

    Raises:
        MCPError: for a value that there is not.
    """
    chosen: dict[str, Any] = {}
    for key, field, known in (("names", "style", STYLES), ("mode", "mode", get_args(Mode))):
        value = query.get(key)
        if value is not None:
            chosen[field] = _known(key, value, known)
    return replace(gateway, **chosen) if chosen else gateway


def _known(key: str, value: str, known: Collection[str]) -> str:
    if value in known:
        return value
    told = f"the address says {key}={value!r}, which is none of {', '.join(known)}"
    raise MCPError(types.INVALID_PARAMS, told)
