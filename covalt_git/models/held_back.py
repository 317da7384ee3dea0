"""Reasons why a tool of an MCP server, of a document or a registered tool is held back: disabled regardless of all settings."""

from typing import Literal

HeldBack = Literal["new", "changed", "schema", "not_granted", "entry_changed", "no_request", "task"]

WHY_HELD_BACK: dict[HeldBack, str] = {
    "new": "its definition has not been accepted",
    "changed": "its definition has changed since it was accepted",
    "schema": "its input schema is invalid",
    "not_granted": "it is not granted",
    "entry_changed": "its entry has changed since it was granted",
    "task": "its server runs it only as a task of MCP, which covalt-git cannot call yet",
    "no_request": "its entry has neither protocol_meta.http nor protocol_meta.mcp",
}
"""Each reason as the end of a sentence."""

CORRECTS_SCHEMA = (
    "a newer version of the server may correct it; otherwise report it to the server's author"
)
"""Hint for a tool with an invalid input schema: the user cannot change it."""
