"""Whether a JSON Schema accepts more than another, keyword by keyword.

Every keyword of a schema is one more condition (JSON Schema 2020-12, section 7.6), so that one which
is gone loosens and one which came tightens; where both schemas have it, :data:`_COMPARED` says which
way is looser.  A new property loosens even where any was taken before, because it means something
from now on.  What nobody can tell is told as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.authority.facts import Judged, Verdict, unclear
from covalt_git.authority.schema_pairs import MAX_DEPTH, NOTES, Pair, same, target_of
from covalt_git.authority.schema_values import (
    BOUNDS,
    compare_bounds,
    compare_listed,
    compare_types,
    compare_values,
    kinds_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from covalt_git.models.base import JsonObject

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
    return list(dict.fromkeys(_compare(Pair(old, new, (old, new), (), frozenset()))))


def _compare(pair: Pair) -> Iterator[Judged]:
    old, new = pair.old, pair.new
    if len(pair.loc) > MAX_DEPTH:
        yield unclear(f"{pair.name} is nested too deeply to be compared", pair.loc)
        return
    if pair.key in pair.above or pair.alike(old, new):
        return
    whole = _against_alternatives(pair)
    if whole is not None:
        yield from whole
        return
    listed = compare_listed(pair)
    if listed is not None:
        yield from listed
        return
    yield from compare_types(pair)
    yield from compare_values(pair)
    yield from compare_bounds(pair)
    yield from _properties(pair)
    shared = kinds_of(old) & kinds_of(new)
    for keyword in sorted((set(old) | set(new)) - NOTES - _TOGETHER):
        if _TYPE_OF.get(keyword, "") and _TYPE_OF[keyword] not in shared:
            continue  # it says nothing about what both accept
        yield from _keyword(pair, keyword)


def _keyword(pair: Pair, keyword: str) -> Iterator[Judged]:
    old, new, loc = pair.old, pair.new, (*pair.loc, keyword)
    if keyword == "minContains":
        yield from _least_contained(pair)
    elif keyword not in new:
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
    return (keyword in {"items", "propertyNames"} and value in (True, {})) or (
        keyword == "uniqueItems" and value is False
    )


# Objects


def _properties(pair: Pair) -> Iterator[Judged]:
    old, new = pair.old, pair.new
    if "object" not in kinds_of(old) & kinds_of(new):
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


def _others(pair: Pair, old: Any, new: Any) -> Iterator[Judged]:
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


def _referred(pair: Pair, keyword: str) -> Iterator[Judged]:
    old, new = (
        target_of(root, schema[keyword])
        for root, schema in zip(pair.roots, (pair.old, pair.new), strict=True)
    )
    if old is None or new is None:
        if pair.old[keyword] != pair.new[keyword]:
            yield unclear(f"{pair.name} is what {pair.new[keyword]!r} says", (*pair.loc, keyword))
        return
    yield from _compare(pair.inner(old, new))


def _inner(pair: Pair, keyword: str) -> Iterator[Judged]:
    yield from _compare(pair.inner(pair.old[keyword], pair.new[keyword], keyword))


def _alternatives(pair: Pair, keyword: str) -> Iterator[Judged]:
    """Compare ``anyOf``: another one accepts more; ``oneOf`` is only clear while its parts stay."""
    yield from _parts(pair, keyword, more="widening", certain=keyword == "anyOf")


def _against_alternatives(pair: Pair) -> list[Judged] | None:
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
    return listed if set(schema) - NOTES == {"anyOf"} and isinstance(listed, list) else None


def _alternative_text(listed: list[Any], without: int) -> str:
    """Return the other alternatives in words."""
    others = [one for at, one in enumerate(listed) if at != without]
    names = [one.get("type") if isinstance(one, dict) else None for one in others]
    if all(isinstance(name, str) for name in names):
        return ", ".join(str(name) for name in names)
    return "something else"


def _conditions(pair: Pair, keyword: str) -> Iterator[Judged]:
    yield from _parts(pair, keyword, more="narrowing", certain=True)


def _parts(pair: Pair, keyword: str, *, more: str, certain: bool) -> Iterator[Judged]:
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


def _positions(pair: Pair, keyword: str) -> Iterator[Judged]:
    old, new = pair.old[keyword], pair.new[keyword]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _compare(pair.inner(one, other, keyword, at))
    else:
        yield unclear(f"{pair.name} is held to other {keyword}", (*pair.loc, keyword))


def _multiple(pair: Pair, keyword: str) -> Iterator[Judged]:
    old, new, loc = pair.old[keyword], pair.new[keyword], (*pair.loc, keyword)
    if same(old, new):
        return
    words = f"{pair.name}: multipleOf {new:g}, was {old:g}"
    if isinstance(old, int) and isinstance(new, int) and new and old % new == 0:
        yield Judged("widening", words, loc=loc)
    elif isinstance(old, int) and isinstance(new, int) and old and new % old == 0:
        yield Judged("narrowing", words, loc=loc)
    else:
        yield unclear(words, loc)


def _least_contained(pair: Pair) -> Iterator[Judged]:
    """Compare ``minContains``, which is 1 where it is not said; without ``contains`` it says nothing."""
    if "contains" not in pair.old or "contains" not in pair.new:
        return
    old, new = (schema.get("minContains", 1) for schema in (pair.old, pair.new))
    if not same(old, new):
        loc = (*pair.loc, "minContains" if "minContains" in pair.new else "contains")
        words = f"{pair.name}: minContains {new}, was {old}"
        yield Judged("widening" if new < old else "narrowing", words, loc=loc)


def _unique(pair: Pair, keyword: str) -> Iterator[Judged]:
    old, new = pair.old[keyword], pair.new[keyword]
    if old is True and new is False:
        yield Judged("widening", f"{pair.name} may hold a value twice", loc=(*pair.loc, keyword))
    elif old is False and new is True:
        yield Judged("narrowing", f"{pair.name} may hold no value twice", loc=(*pair.loc, keyword))


_COMPARED: dict[str, Callable[[Pair, str], Iterator[Judged]]] = {
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
    | {keyword for _, _, *keywords in BOUNDS for keyword in keywords}
)
"""Keywords that are compared together with others."""


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _names(value: Any) -> Sequence[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _shown(keyword: str, schema: JsonObject) -> str:
    value = schema[keyword]
    return f"{keyword} {value!r}" if isinstance(value, str | int | float) else keyword
