"""Comparison of schemas that were read with those that pydantic generates."""

from typing import Any

OWN_FORMATS = ("decimal", "complex", "byte-size")
"""Formats that only the reader writes: they mark texts that are parsed."""


def plain(schema: Any) -> Any:
    """Write a schema without what does not change its meaning: each constant as a choice of one, and no own format."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "const" in schema:
        schema = {key: value for key, value in schema.items() if key != "const"} | {
            "enum": [schema["const"]]
        }
    if schema.get("format") in OWN_FORMATS:
        schema = {key: value for key, value in schema.items() if key != "format"}
    return {key: plain(value) for key, value in schema.items()}
