"""Whether a JSON Schema accepts more than another, keyword by keyword.

Every keyword of a schema is one more condition (JSON Schema 2020-12, section 7.6), so that one which
is gone loosens and one which came tightens; where both schemas have it, :data:`_COMPARED` says which
way is looser.  A new property loosens even where any was taken before, because it means something
from now on.  What nobody can tell is told as such.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from covalt_git import canonical_json
from covalt_git.authority.facts import Judged, Loc, Verdict, unclear
from covalt_git.json_schema import BadSchemaError, value_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from covalt_git.models.base import JsonObject

_MAX_DEPTH = 40

_NOTES = frozenset(
    [
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$schema",
        "$id",
        "$anchor",
        "$defs",
        "definitions",
        "$vocabulary",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    ]
)
"""Keywords that accept and refuse nothing."""

_TYPES = frozenset(["null", "boolean", "integer", "number", "string", "array", "object"])

_ABOUT = {
    "string": "minLength maxLength pattern format",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    "array": "minItems maxItems uniqueItems items prefixItems contains minContains maxContains "
    "unevaluatedItems",
    "object": "minProperties maxProperties required properties additionalProperties "
    "patternProperties propertyNames dependentRequired dependentSchemas unevaluatedProperties",
}
_TYPE_OF = {keyword: kind for kind, words in _ABOUT.items() for keyword in words.split()}
"""Which type of value a keyword says something about."""


def judge_schemas(old: JsonObject, new: JsonObject) -> list[Judged]:
    """Return what the new schema accepts beyond the old one, and what it does no longer."""
    return list(dict.fromkeys(_compare(_Pair(old, new, (old, new), (), frozenset()))))


class _Pair:
    """Two schemas of one value, each with the document that it is part of.

    ``above`` are the pairs that it is part of: what is met again within itself differs in nothing else.
    """

    def __init__(
        self, old: Any, new: Any, roots: tuple[Any, Any], loc: Loc, above: frozenset[str]
    ) -> None:
        self.roots = roots
        self.old = _resolved(old, roots[0])
        self.new = _resolved(new, roots[1])
        self.loc = loc
        self.above = above
        self.key = f"{_text(self.old)}\0{_text(self.new)}"

    def inner(self, old: Any, new: Any, *steps: str | int) -> _Pair:
        """Return a part of both."""
        return _Pair(old, new, self.roots, (*self.loc, *steps), self.above | {self.key})

    def alike(self, old: Any, new: Any) -> bool:
        """Tell whether two parts are one, what they refer to included."""
        if not _same(old, new):
            return False
        return '"$ref"' not in _text(old) or _same(*self.roots)

    @property
    def name(self) -> str:
        """The value as people call it: ``rows[].name``."""
        return value_name(self.loc)


def value_name(loc: Loc) -> str:
    """Return the value that a place in a schema is about: ``rows[].name``, or ``the arguments``."""
    words = ""
    steps = iter(loc)
    for step in steps:
        if step == "properties":
            words += f".{next(steps, '')}"
        elif step in {"items", "prefixItems"}:
            words += "[]"
        elif step in {"additionalProperties", "patternProperties"}:
            words += ".*"
    return repr(words.removeprefix(".")) if words else "the arguments"


def _resolved(schema: Any, root: Any) -> JsonObject:
    """Return a schema as an object, what a lone local ``$ref`` leads to in its place."""
    for _ in range(_MAX_DEPTH):
        if schema is False:
            return {"enum": []}
        if not isinstance(schema, dict):
            return {}
        if not isinstance(schema.get("$ref"), str) or set(schema) - _NOTES != {"$ref"}:
            return schema
        target = _target(root, schema["$ref"])
        if target is None:
            return schema
        schema = target
    return {"$ref": "#"}


def _target(root: Any, reference: str) -> Any:
    if not reference.startswith("#/"):
        return root if reference == "#" else None
    found = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found


def _compare(pair: _Pair) -> Iterator[Judged]:
    old, new = pair.old, pair.new
    if len(pair.loc) > _MAX_DEPTH:
        yield unclear(f"{pair.name} is nested too deeply to be compared", pair.loc)
        return
    if pair.key in pair.above or pair.alike(old, new):
        return
    whole = _against_alternatives(pair)
    if whole is not None:
        yield from whole
        return
    listed = _listed_values(pair)
    if listed is not None:
        yield from listed
        return
    yield from _types(pair)
    yield from _values(pair)
    yield from _bounds(pair)
    yield from _properties(pair)
    shared = _kinds(old) & _kinds(new)
    for keyword in sorted((set(old) | set(new)) - _NOTES - _TOGETHER):
        if _TYPE_OF.get(keyword, "") and _TYPE_OF[keyword] not in shared:
            continue  # it says nothing about what both accept
        yield from _keyword(pair, keyword)


def _keyword(pair: _Pair, keyword: str) -> Iterator[Judged]:
    old, new, loc = pair.old, pair.new, (*pair.loc, keyword)
    if keyword not in new:
        if not _idle(keyword, old[keyword]):
            yield Judged("widening", f"{pair.name} is free of {_shown(keyword, old)}", loc=pair.loc)
    elif keyword not in old:
        if not _idle(keyword, new[keyword]):
            yield Judged("narrowing", f"{pair.name} is held to {_shown(keyword, new)}", loc=loc)
    elif keyword in _COMPARED:
        yield from _COMPARED[keyword](pair, keyword)
    elif not pair.alike(old[keyword], new[keyword]):
        yield unclear(f"{pair.name} is held to another {keyword}", loc)


def _idle(keyword: str, value: Any) -> bool:
    """Tell whether a keyword with that value accepts everything."""
    return (keyword in {"items", "contains", "propertyNames"} and value in (True, {})) or (
        keyword == "uniqueItems" and value is False
    )


# Types, enumerations and bounds


def _kinds(schema: JsonObject) -> frozenset[str]:
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


def _types(pair: _Pair) -> Iterator[Judged]:
    old, new = _exact_types(pair.old), _exact_types(pair.new)
    loc = (*pair.loc, "type") if "type" in pair.new else pair.loc
    if new - old:
        what = "anything" if new >= _TYPES else _listed(new - old)
        yield Judged("widening", f"{pair.name} may be {what} as well", loc=loc)
    if old - new:
        what = _listed(new) or "nothing"
        yield Judged("narrowing", f"{pair.name} may only be {what}", loc=loc)


def _allowed(schema: JsonObject) -> set[str] | None:
    """Return the values that a schema lists, as canonical JSON; None where it lists none."""
    if "const" in schema:
        return {_text(schema["const"])}
    listed = schema.get("enum")
    return {_text(value) for value in listed} if isinstance(listed, list) else None


def _listed_values(pair: _Pair) -> list[Judged] | None:
    """Compare schemas of which one lists its values, by trying each; None where none does."""
    old, new = _allowed(pair.old), _allowed(pair.new)
    if (old is None and new is None) or '"$ref"' in _text([pair.old, pair.new]):
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
        words = f"{pair.name} may be {_listed(gained)} as well"
        found.append(Judged("widening", words, loc=loc))
    if old is None:
        words = f"{pair.name} has to be {_listed(new or set())}"
        found.append(Judged("narrowing", words, loc=loc))
    elif lost:
        words = f"{pair.name} may no longer be {_listed(lost)}"
        found.append(Judged("narrowing", words, loc=loc))
    return found


def _accepts(schema: JsonObject, value: str) -> bool:
    return not value_problems(schema, json.loads(value))


def _values(pair: _Pair) -> Iterator[Judged]:
    old, new = _allowed(pair.old), _allowed(pair.new)
    keyword = "const" if "const" in pair.new else "enum"
    loc = (*pair.loc, keyword) if keyword in pair.new else pair.loc
    if old is None and new is None:
        return
    if new is None:
        yield Judged("widening", f"{pair.name} is no longer one of a few values", loc=loc)
    elif old is None:
        yield Judged("narrowing", f"{pair.name} has to be {_listed(new)}", loc=loc)
    else:
        if new - old:
            yield Judged("widening", f"{pair.name} may be {_listed(new - old)} as well", loc=loc)
        if old - new:
            yield Judged("narrowing", f"{pair.name} may no longer be {_listed(old - new)}", loc=loc)


_BOUNDS = (
    ("most", "number", "maximum", "exclusiveMaximum"),
    ("least", "number", "minimum", "exclusiveMinimum"),
    ("most", "string", "maxLength", ""),
    ("least", "string", "minLength", ""),
    ("most", "array", "maxItems", ""),
    ("least", "array", "minItems", ""),
    ("most", "object", "maxProperties", ""),
    ("least", "object", "minProperties", ""),
)


def _bounds(pair: _Pair) -> Iterator[Judged]:
    shared = _kinds(pair.old) & _kinds(pair.new)
    for side, kind, keyword, exclusive in _BOUNDS:
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


# Objects


def _properties(pair: _Pair) -> Iterator[Judged]:
    old, new = pair.old, pair.new
    if "object" not in _kinds(old) & _kinds(new):
        return
    named = [_object(schema.get("properties")) for schema in (old, new)]
    patterns = [schema.get("patternProperties", {}) for schema in (old, new)]
    others = [schema.get("additionalProperties", True) for schema in (old, new)]
    if not pair.alike(*patterns):
        yield unclear(
            f"{pair.name} is held to other patternProperties", (*pair.loc, "patternProperties")
        )
    for name in sorted(set(named[0]) | set(named[1])):
        step = pair.inner(
            named[0].get(name, others[0]), named[1].get(name, others[1]), "properties", name
        )
        if name not in named[0]:
            certain = others[0] is False
            yield Judged(
                "widening", f"takes a new argument {step.name}", certain=certain, loc=step.loc
            )
        elif name not in named[1] and others[1] is False:
            yield Judged("narrowing", f"takes no argument {step.name} any more", loc=pair.loc)
        else:
            yield from _compare(step)
    yield from _others(pair, *others)
    required = [set(_names(schema.get("required"))) for schema in (old, new)]
    for name in sorted(required[0] - required[1]):
        words = f"{pair.inner(True, True, 'properties', name).name} may be left out"
        yield Judged("widening", words, loc=pair.loc)
    for name in sorted(required[1] - required[0]):
        words = f"{pair.inner(True, True, 'properties', name).name} has to be given"
        yield Judged("narrowing", words, loc=(*pair.loc, "required"))


def _others(pair: _Pair, old: Any, new: Any) -> Iterator[Judged]:
    loc = (*pair.loc, "additionalProperties")
    if pair.alike(old, new):
        return
    if old is False:
        yield Judged("widening", f"{pair.name} may hold what is not declared", loc=loc)
    elif new is False:
        yield Judged("narrowing", f"{pair.name} may hold only what is declared", loc=loc)
    else:
        yield from _compare(pair.inner(old, new, "additionalProperties"))


# Schemas inside schemas


def _referred(pair: _Pair, keyword: str) -> Iterator[Judged]:
    old, new = (
        _target(root, schema[keyword])
        for root, schema in zip(pair.roots, (pair.old, pair.new), strict=True)
    )
    if old is None or new is None:
        if pair.old[keyword] != pair.new[keyword]:
            yield unclear(f"{pair.name} is what {pair.new[keyword]!r} says", (*pair.loc, keyword))
        return
    yield from _compare(pair.inner(old, new))


def _inner(pair: _Pair, keyword: str) -> Iterator[Judged]:
    yield from _compare(pair.inner(pair.old[keyword], pair.new[keyword], keyword))


def _alternatives(pair: _Pair, keyword: str) -> Iterator[Judged]:
    """Compare ``anyOf``: another one accepts more; ``oneOf`` is only clear while its parts stay."""
    yield from _parts(pair, keyword, more="widening", certain=keyword == "anyOf")


def _against_alternatives(pair: _Pair) -> list[Judged] | None:
    """Compare a schema with one that is nothing but ``anyOf``, where it is part of an alternative."""
    old, new = (_only_alternatives(schema) for schema in (pair.old, pair.new))
    if (old is None) == (new is None):
        return None
    for at, one in enumerate(new or old or []):
        if new is not None:
            found = list(_compare(pair.inner(pair.old, one, "anyOf", at)))
            if all(each.verdict == "widening" and each.certain for each in found):
                words = f"{pair.name} may be {_alternative_text(new, at)} as well"
                return [*found, Judged("widening", words, loc=(*pair.loc, "anyOf"))]
        else:
            found = list(_compare(pair.inner(one, pair.new)))
            if all(each.verdict == "narrowing" for each in found):
                words = f"{pair.name} may no longer be {_alternative_text(old or [], at)}"
                return [*found, Judged("narrowing", words, loc=pair.loc)]
    return None


def _only_alternatives(schema: JsonObject) -> list[Any] | None:
    listed = schema.get("anyOf")
    return listed if set(schema) - _NOTES == {"anyOf"} and isinstance(listed, list) else None


def _alternative_text(listed: list[Any], without: int) -> str:
    """Return the other alternatives in words."""
    others = [one for at, one in enumerate(listed) if at != without]
    names = [one.get("type") if isinstance(one, dict) else None for one in others]
    if all(isinstance(name, str) for name in names):
        return ", ".join(str(name) for name in names)
    return "something else"


def _conditions(pair: _Pair, keyword: str) -> Iterator[Judged]:
    yield from _parts(pair, keyword, more="narrowing", certain=True)


def _parts(pair: _Pair, keyword: str, *, more: str, certain: bool) -> Iterator[Judged]:
    old, new, loc = pair.old[keyword], pair.new[keyword], (*pair.loc, keyword)
    if pair.alike(old, new):
        return
    if not isinstance(old, list) or not isinstance(new, list):
        yield unclear(f"{pair.name} is held to another {keyword}", loc)
        return
    gone = [one for one in old if not any(pair.alike(one, other) for other in new)]
    came = [one for one in new if not any(pair.alike(one, other) for other in old)]
    if len(gone) == len(came):
        found: list[Judged] = []
        for one, other in zip(gone, came, strict=True):
            found += _compare(pair.inner(one, other, keyword, new.index(other)))
        if certain or not found:
            yield from found
        else:
            yield unclear(f"{pair.name} has other alternatives in {keyword}", loc)
        return
    if not certain or (gone and came):
        yield unclear(f"{pair.name} has other alternatives in {keyword}", loc)
        return
    grown = bool(came) == (more == "widening")
    count = len(came or gone)
    words = f"{keyword} has {count} {'more' if came else 'fewer'}"
    verdict: Verdict = "widening" if grown else "narrowing"
    yield Judged(verdict, f"{pair.name} is {'looser' if grown else 'stricter'}: {words}", loc=loc)


def _positions(pair: _Pair, keyword: str) -> Iterator[Judged]:
    old, new = pair.old[keyword], pair.new[keyword]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _compare(pair.inner(one, other, keyword, at))
    else:
        yield unclear(f"{pair.name} is held to other {keyword}", (*pair.loc, keyword))


def _multiple(pair: _Pair, keyword: str) -> Iterator[Judged]:
    old, new, loc = pair.old[keyword], pair.new[keyword], (*pair.loc, keyword)
    if _same(old, new):
        return
    words = f"{pair.name}: multipleOf {new:g}, was {old:g}"
    if isinstance(old, int) and isinstance(new, int) and new and old % new == 0:
        yield Judged("widening", words, loc=loc)
    elif isinstance(old, int) and isinstance(new, int) and old and new % old == 0:
        yield Judged("narrowing", words, loc=loc)
    else:
        yield unclear(words, loc)


def _unique(pair: _Pair, keyword: str) -> Iterator[Judged]:
    old, new = pair.old[keyword], pair.new[keyword]
    if old is True and new is False:
        yield Judged("widening", f"{pair.name} may hold a value twice", loc=(*pair.loc, keyword))
    elif old is False and new is True:
        yield Judged("narrowing", f"{pair.name} may hold no value twice", loc=(*pair.loc, keyword))


_COMPARED: dict[str, Callable[[_Pair, str], Iterator[Judged]]] = {
    "$ref": _referred,
    "items": _inner,
    "prefixItems": _positions,
    "propertyNames": _inner,
    "anyOf": _alternatives,
    "oneOf": _alternatives,
    "allOf": _conditions,
    "multipleOf": _multiple,
    "uniqueItems": _unique,
}

_TOGETHER = frozenset(
    {"type", "enum", "const", "properties", "additionalProperties", "patternProperties", "required"}
    | {keyword for _, _, *keywords in _BOUNDS for keyword in keywords}
)
"""Keywords that are compared together with others."""


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _names(value: Any) -> Sequence[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return canonical_json.dumps(value).decode()


def _same(one: Any, other: Any) -> bool:
    return _text(one) == _text(other)


def _listed(texts: set[str]) -> str:
    return ", ".join(sorted(texts))


def _shown(keyword: str, schema: JsonObject) -> str:
    value = schema[keyword]
    return f"{keyword} {value!r}" if isinstance(value, str | int | float) else keyword
