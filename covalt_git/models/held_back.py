"""Reasons why a tool of an MCP server is held back: disabled regardless of all settings."""

from typing import Literal

HeldBack = Literal["new", "changed", "schema"]

WHY_HELD_BACK: dict[HeldBack, str] = {
    "new": "its definition has not been accepted",
    "changed": "its definition has changed since it was accepted",
    "schema": "its input schema is invalid",
}
"""Each reason as the end of a sentence."""
