"""Names of the fields of an override in the options of ``tool override``."""

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
"""Fields by option name."""


def words_of(fields: Collection[str]) -> str:
    """Return the option names of fields."""
    return ", ".join(word for word, field in FIELDS.items() if field in fields)
