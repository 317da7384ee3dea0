"""References to workspace files in results: the JSON of the SDK's ``File``, ``Image``, ``Audio``, ``Embedded``.

Results of MCP and HTTP tools have the same references.  An embedded resource also has a ``uri``, and can
have a ``text`` instead of a file.
"""

from __future__ import annotations

from typing import Any

_FILE = {"file": str, "size": int, "media_type": str}
_SHAPES = (_FILE, {**_FILE, "uri": str}, {"uri": str, "media_type": str, "text": str})


def is_reference(value: Any) -> bool:
    """Return whether a value is a reference and has no other keys."""
    # With further keys it is not a reference: the file alone would be shown, and the other keys hidden.
    return isinstance(value, dict) and any(
        value.keys() == shape.keys() and all(isinstance(value[key], shape[key]) for key in shape)
        for shape in _SHAPES
    )
