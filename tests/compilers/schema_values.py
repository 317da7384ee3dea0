"""Values of a JSON schema for hypothesis: of each type, union and format, also of recursive schemas."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from covalt_git.json_values import JsonObject, pointer

FORMATS: dict[str, st.SearchStrategy[Any]] = {
    "date": st.dates().map(str),
    "date-time": st.datetimes()
    .map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%SZ}")
    .filter(lambda text: len(text) == 20),
    "uuid": st.uuids().map(str),
    "email": st.sampled_from(["a@b.example", "x.y@c.example"]),
    "uri": st.sampled_from(["https://a.example/x?y=1&z", "urn:a:b"]),
    "byte": st.sampled_from(["YWJj", "eA=="]),
    "ipv4": st.just("192.0.2.1"),
}
TEXTS = st.text(alphabet="abAB01 /?&=%é+;:.|'\"<>[]{}\\#\t", min_size=1, max_size=8)
ANYTHING = st.one_of(st.integers(-5, 5), TEXTS, st.booleans())


def values(schema: Any, definitions: Any, depth: int = 0) -> Any:
    """Return a strategy for most values of a schema; some of them may not match it."""
    if not isinstance(schema, dict) or not schema:
        return ANYTHING
    reference = pointer.reference_of(schema)
    if reference is not None:
        target = definitions[pointer.name_of(schema)]
        rest = {key: value for key, value in schema.items() if key != pointer.REF}
        return st.deferred(lambda: values(_merged(target, rest), definitions, depth + 1))
    for key in ("oneOf", "anyOf"):
        if key in schema:
            rest = {name: value for name, value in schema.items() if name != key}
            return _one_of(
                values(_with_target(_merged(rest, inner), definitions), definitions, depth + 1)
                for inner in schema[key]
            )
    if "allOf" in schema:
        whole = {name: value for name, value in schema.items() if name != "allOf"}
        for inner in schema["allOf"]:
            whole = _merged(whole, _with_target(inner, definitions))
        return values(whole, definitions, depth)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type") or ("object" if "properties" in schema else None)
    if isinstance(kind, list):
        return _one_of(values(schema | {"type": name}, definitions, depth) for name in kind)
    return _of_type(kind, schema, definitions, depth)


def _of_type(kind: Any, schema: Any, definitions: Mapping[str, JsonObject], depth: int) -> Any:
    match kind:
        case "string":
            if schema.get("format") in FORMATS:
                return FORMATS[schema["format"]]
            if "pattern" in schema:
                matching: Any = st.from_regex(schema["pattern"], fullmatch=True)
                return matching.filter(lambda text: text.isprintable() and bool(text))
            smallest = max(schema.get("minLength", 1), 1)
            largest = min(schema.get("maxLength", smallest + 8), smallest + 8)
            return st.text("abc /?&=é+;:.|", min_size=smallest, max_size=max(largest, smallest))
        case "integer" | "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", -1000))
            high = schema.get("maximum", schema.get("exclusiveMaximum", low + 2000))
            whole = st.integers(int(low), min(int(high), int(low) + 100_000))
            step = schema.get("multipleOf")
            return whole.map(lambda number: round(number / step) * step) if step else whole
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            smallest = schema.get("minItems", 0)
            most = 0 if depth > 4 else min(schema.get("maxItems", smallest + 3), smallest + 3)
            items = values(schema.get("items", {}), definitions, depth + 1)
            unique = repr if schema.get("uniqueItems") else None
            return st.lists(
                items, min_size=smallest, max_size=max(most, smallest), unique_by=unique
            )
        case "object":
            properties = schema.get("properties", {})
            required = schema.get("required", [])
            parts = {
                name: values(properties.get(name, {}), definitions, depth + 1) for name in required
            }
            optional = {
                name: values(inner, definitions, depth + 1)
                for name, inner in properties.items()
                if name not in required and depth < 3
            }
            return st.fixed_dictionaries(parts, optional=optional)
    return ANYTHING


def _one_of(strategies: Iterable[Any]) -> Any:
    return st.one_of(list(strategies))


def _with_target(schema: Any, definitions: Mapping[str, JsonObject]) -> Any:
    if pointer.reference_of(schema) is None:
        return schema
    rest = {key: value for key, value in schema.items() if key != pointer.REF}
    return _merged(_with_target(definitions[pointer.name_of(schema)], definitions), rest)


def _merged(first: Any, second: Any) -> Any:
    """Return the keywords of two schemas, with the properties and requirements of both."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return first if isinstance(first, dict) else second
    whole = first | second
    for key in ("allOf", "required"):
        if key in first and key in second:
            whole[key] = (
                list(dict.fromkeys([*first[key], *second[key]]))
                if key == "required"
                else [*first[key], *second[key]]
            )
    if "properties" in first and "properties" in second:
        names = first["properties"].keys() | second["properties"].keys()
        whole["properties"] = {
            name: _merged(first["properties"].get(name, {}), second["properties"].get(name, {}))
            for name in sorted(names)
        }
    return whole


def plain(value: Any) -> Any:
    """Return a decoded value as JSON has it: identifiers and dates as texts."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, UUID):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat().replace("+00:00", "Z")
    return value
