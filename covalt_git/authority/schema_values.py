"""Types, listed values and bounds of two JSON Schemas, compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from covalt_git.authority.facts import Judged
from covalt_git.authority.schema_pairs import canonical, listed_text
from covalt_git.json_schema import BadSchemaError, value_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.authority.schema_pairs import Pair
    from covalt_git.models.base import JsonObject

_TYPES = frozenset(["null", "boolean", "integer", "number", "string", "array", "object"])


def kinds_of(schema: JsonObject) -> frozenset[str]:
    """Return the types that a schema accepts; ``number`` where any number is, of whichever kind."""
    said = schema.get("type")
    names = [said] if isinstance(said, str) else said if isinstance(said, list) else _TYPES
    kinds = {name for name in names if isinstance(name, str)}
    allowed = _allowed(schema)
    if allowed is not None:
        kinds &= {name for value in allowed for name in _types_of(json.loads(value))}
    return frozenset(kinds | {"number"} if "integer" in kinds else kinds)


def _types_of(value: Any) -> frozenset[str]:
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return frozenset({"integer", "number"})
    named = {float: "number", str: "string", list: "array", dict: "object"}
    return frozenset({named.get(type(value), "null")})


def _exact_types(schema: JsonObject) -> set[str]:
    said = schema.get("type")
    names = [said] if isinstance(said, str) else said if isinstance(said, list) else _TYPES
    kinds = {name for name in names if isinstance(name, str)}
    return kinds | {"integer"} if "number" in kinds else kinds


def compare_types(pair: Pair) -> Iterator[Judged]:
    """Yield the types that are accepted as well, and those that are no longer."""
    old, new = _exact_types(pair.old), _exact_types(pair.new)
    loc = (*pair.loc, "type") if "type" in pair.new else pair.loc
    if new - old:
        what = "anything" if new >= _TYPES else listed_text(new - old)
        yield Judged("widening", f"{pair.name} may be {what} as well", loc=loc)
    if old - new:
        what = listed_text(new) or "nothing"
        yield Judged("narrowing", f"{pair.name} may only be {what}", loc=loc)


def _allowed(schema: JsonObject) -> set[str] | None:
    """Return the values that a schema lists, as canonical JSON; None where it lists none."""
    if "const" in schema:
        return {canonical(schema["const"])}
    listed = schema.get("enum")
    return {canonical(value) for value in listed} if isinstance(listed, list) else None


def compare_listed(pair: Pair) -> list[Judged] | None:
    """Compare schemas of which one lists its values, by trying each; None where none does."""
    old, new = _allowed(pair.old), _allowed(pair.new)
    if (old is None and new is None) or '"$ref"' in canonical([pair.old, pair.new]):
        return None
    try:
        gained = {one for one in new or () if _accepts(pair.new, one) > _accepts(pair.old, one)}
        lost = {one for one in old or () if _accepts(pair.old, one) > _accepts(pair.new, one)}
    except BadSchemaError:
        return None
    loc = pair.loc + tuple(key for key in ("const", "enum") if key in pair.new)[:1]
    found = []
    if new is None:
        found.append(Judged("widening", f"{pair.name} is no longer one of a few values", loc=loc))
    elif gained:
        words = f"{pair.name} may be {listed_text(gained)} as well"
        found.append(Judged("widening", words, loc=loc))
    if old is None:
        words = f"{pair.name} has to be {listed_text(new or set())}"
        found.append(Judged("narrowing", words, loc=loc))
    elif lost:
        words = f"{pair.name} may no longer be {listed_text(lost)}"
        found.append(Judged("narrowing", words, loc=loc))
    return found


def _accepts(schema: JsonObject, value: str) -> bool:
    return not value_problems(schema, json.loads(value))


def compare_values(pair: Pair) -> Iterator[Judged]:
    """Yield what became of the values that are listed, where they cannot be tried."""
    old, new = _allowed(pair.old), _allowed(pair.new)
    keyword = "const" if "const" in pair.new else "enum"
    loc = (*pair.loc, keyword) if keyword in pair.new else pair.loc
    if old is None and new is None:
        return
    if new is None:
        yield Judged("widening", f"{pair.name} is no longer one of a few values", loc=loc)
    elif old is None:
        yield Judged("narrowing", f"{pair.name} has to be {listed_text(new)}", loc=loc)
    else:
        if new - old:
            yield Judged(
                "widening", f"{pair.name} may be {listed_text(new - old)} as well", loc=loc
            )
        if old - new:
            yield Judged(
                "narrowing", f"{pair.name} may no longer be {listed_text(old - new)}", loc=loc
            )


BOUNDS = (
    ("most", "number", "maximum", "exclusiveMaximum"),
    ("least", "number", "minimum", "exclusiveMinimum"),
    ("most", "string", "maxLength", ""),
    ("least", "string", "minLength", ""),
    ("most", "array", "maxItems", ""),
    ("least", "array", "minItems", ""),
    ("most", "object", "maxProperties", ""),
    ("least", "object", "minProperties", ""),
)


def compare_bounds(pair: Pair) -> Iterator[Judged]:
    """Yield the bounds that are wider or narrower, those of numbers with what they exclude."""
    shared = kinds_of(pair.old) & kinds_of(pair.new)
    for side, kind, keyword, exclusive in BOUNDS:
        if kind not in shared:
            continue
        old = _bound(pair.old, side, keyword, exclusive)
        new = _bound(pair.new, side, keyword, exclusive)
        if old == new:
            continue
        written = next((one for one in (keyword, exclusive) if one and one in pair.new), "")
        loc = (*pair.loc, written) if written else pair.loc
        words = f"{pair.name}: {keyword} {_bound_text(new)}, was {_bound_text(old)}"
        yield Judged("widening" if new > old else "narrowing", words, loc=loc)


def _bound(schema: JsonObject, side: str, keyword: str, exclusive: str) -> tuple[float, bool, bool]:
    """Return a bound so that the looser one is the larger: its number, whether it is one itself, and a sign."""
    sign = 1 if side == "most" else -1
    none = float("inf")
    if side == "least" and not exclusive:
        none = 0.0  # lengths and counts
    found = [(none, True)]
    for name, included in ((keyword, True), (exclusive, False)):
        value = schema.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.append((sign * float(value), included))
    number, included = min(found)
    return number, included, side == "most"


def _bound_text(bound: tuple[float, bool, bool]) -> str:
    number, included, most = bound
    if number == float("inf"):
        return "none"
    text = f"{number if most else -number:g}"
    return text if included else f"{text} (itself excluded)"
