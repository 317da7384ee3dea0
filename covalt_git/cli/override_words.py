"""The fields of an override, as the options of ``tool override`` call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

FIELDS = {
    "name": "name_override",
    "description": "description_override",
    "renderer": "renderer",
    "renderer-config": "renderer_config",
    "confirm": "requires_confirmation",
    "enabled": "enabled",
}
"""What may be overridden, by the words of this command."""


def words_of(fields: Collection[str]) -> str:
    """Return fields of an override as this command calls them."""
    return ", ".join(word for word, field in FIELDS.items() if field in fields)
