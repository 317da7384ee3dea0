"""Icons that MCP servers list, for clients: only those that the specification permits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mcp_types as types
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN = ("https://", "data:image/")
"""URLs of icons that the specification permits: a host would request others from the network of its user, or run them."""


def permitted(icons: Iterable[object]) -> list[types.Icon] | None:
    """Return those icons of a server that a host may load, or None without any."""
    listed = []
    for icon in icons:
        try:
            listed.append(types.Icon.model_validate(icon))
        except ValidationError:  # a lock can come from a pull
            continue
    return [icon for icon in listed if icon.src.startswith(_SHOWN)] or None
