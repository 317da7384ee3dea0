"""Names in JSON that was printed: the keys of objects, by their path."""

import json
from collections.abc import Iterator
from typing import Any

OPAQUE = (
    *(".args", ".result", ".expected", ".input_schema", ".output_schema", ".manifest", ".meta"),
    *(".config", ".renderer_config", ".headers", ".env", ".parts[].before", ".parts[].after"),
)
"""Ends of the places whose values are of users, toolsets and tools."""

MAPS = {"fields", "files", "machine", "ports", "secrets", "texts"}
"""Keys of objects whose own keys are data: paths, hosts, names of secrets, facts about this machine."""


def json_values(text: str) -> Iterator[Any]:
    """Yield the JSON values that are printed one after the other."""
    while text := text.lstrip():
        value, end = json.JSONDecoder().raw_decode(text)
        yield value
        text = text[end:]


def json_keys(value: Any, at: str) -> Iterator[str]:
    """Yield the path of each key in a JSON value, but none of what users and tools wrote."""
    if isinstance(value, list):
        for part in value:
            yield from json_keys(part, f"{at}[]")
    elif isinstance(value, dict):
        is_map = at.rpartition(".")[2] in MAPS
        for key, part in value.items():
            place = f"{at}.*" if is_map else f"{at}.{key}"
            yield place
            if not place.endswith(OPAQUE):
                yield from json_keys(part, place)
