"""JSON values: canonical bytes, JSON Schema, pointers and differences."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
"""A JSON object with any keys."""
