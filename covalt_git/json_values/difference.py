"""Equality of JSON values: true is not 1, and 1 is 1.0."""

from __future__ import annotations

from typing import Any


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
