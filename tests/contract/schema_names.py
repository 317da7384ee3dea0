"""Names in JSON Schemas: the keys that a document may have, by their path, and the values of enumerations."""

from collections.abc import Iterator
from typing import Any

_SAME_PLACE = ("anyOf", "oneOf", "allOf")
_ALSO_SAME_PLACE = ("then", "else")


def schema_names(
    schema: Any, definitions: dict[str, Any], at: str, above: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield ``at.key[].key`` for each key below a place, and ``at = value`` for each enumerated value.

    References to ``definitions`` are followed, so that the name of a model does not matter; a model that
    contains itself is followed once.  Of another one, ``at: name`` is yielded.
    """
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref", "").rpartition("/")[2]
    if reference and reference not in definitions:
        yield f"{at}: {reference}"
    elif reference and reference not in above:
        yield from schema_names(definitions[reference], definitions, at, (*above, reference))
    for name, part in schema.get("properties", {}).items():
        yield f"{at}.{name}"
        yield from schema_names(part, definitions, f"{at}.{name}", above)
    for part in [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]:
        yield from schema_names(part, definitions, f"{at}.*", above)
    for part in [*schema.get("prefixItems", ()), schema.get("items")]:
        yield from schema_names(part, definitions, f"{at}[]", above)
    for word in _SAME_PLACE:
        for part in schema.get(word, ()):
            yield from schema_names(part, definitions, at, above)
    for word in _ALSO_SAME_PLACE:
        yield from schema_names(schema.get(word), definitions, at, above)
    yield from (f"{at} = {value}" for value in schema.get("enum", ()))
    if "const" in schema:
        yield f"{at} = {schema['const']}"
