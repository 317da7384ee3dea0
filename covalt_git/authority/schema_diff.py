"""Difference between two JSON Schemas of one value, keyword by keyword.

Every difference is reported, and counts as wider unless it is certainly narrower.  Each keyword is an
additional condition (JSON Schema 2020-12, section 7.6), so a schema is narrower if each of its changed
keywords is narrower.  This is true only if every step from the root keeps the direction: under ``not``
or ``oneOf``, or with ``unevaluatedProperties``, a narrower part can make the schema wider.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.authority.facts import Judgement, unclear
from covalt_git.json_values import canonical_json, pointer
from covalt_git.json_values.difference import same
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.authority.facts import Loc
    from covalt_git.json_values import JsonObject

    _Pair = tuple[Loc, Any, Any]
    """Path of two subschemas, the old one and the new one; either may be :data:`_ABSENT`."""

_MAX_DEPTH = 40
_ABSENT: Final = object()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOTES = _words(
    "title description default examples deprecated readOnly writeOnly $comment $schema $id $anchor "
    "$defs definitions $vocabulary contentEncoding contentMediaType contentSchema"
)
"""Keywords that reject no value; definitions are compared where a reference leads to them."""

_STEPS = {
    "properties",
    "items",
    "prefixItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    pointer.REF,
}
"""Keywords that become narrower if a schema inside them does."""

_BY_NAME = _words("properties patternProperties dependentSchemas")
_IN_LIST = _words("prefixItems allOf anyOf oneOf")
_SINGLE = _words(
    "items additionalProperties contains not if then else propertyNames unevaluatedItems "
    "unevaluatedProperties"
)
_SETS = _words("enum type required")
_MOST = _words("maximum exclusiveMaximum maxLength maxItems maxProperties")
_LEAST = _words("minimum exclusiveMinimum minLength minItems minProperties")
_CONDITIONS = (
    _MOST
    | _LEAST
    | _words("type enum const pattern format multipleOf uniqueItems items additionalProperties")
)
"""Keywords that reject no value if absent, and can only reject more values if present."""

_WITHOUT_EFFECT = {
    "items": True,
    "additionalProperties": True,
    "uniqueItems": False,
    **dict.fromkeys(("minItems", "minLength", "minProperties"), 0),
}

_REFERENCES = (pointer.REF, "$dynamicRef")
"""Keywords whose equal values can refer to different schemas in two documents."""

_DEPENDENT = re.compile(r'"(unevaluated\w+|\$dynamic\w+|\$id)":')
"""Keywords that make a subschema depend on more than its text and its references."""


def judge_schemas(old: JsonObject, new: JsonObject) -> list[Judgement]:
    """Return the differences between two schemas, each with its path in the new one."""
    if same(old, new):
        return []
    return list(dict.fromkeys(_Comparison(old, new).parts(old, new, (), keeps=True)))


class _Comparison:
    """Comparison of two schema documents, with the pairs of subschemas that are already compared."""

    def __init__(self, *roots: JsonObject) -> None:
        self._roots = roots
        self._compared: set[tuple[int, int, bool]] = set()
        # An $id at the root names the whole document; one inside of it moves the base of its references.
        bodies = [{key: root[key] for key in root if key != "$id"} for root in roots]
        self._dependent = {word for body in bodies for word in _DEPENDENT.findall(_text(body))}

    def parts(self, old: Any, new: Any, loc: Loc, *, keeps: bool) -> Iterator[Judgement]:
        """Yield the differences of two subschemas; ``keeps``: the steps to them keep the direction.

        A pair is compared once, even if it is recursive or several references lead to it.
        """
        old, new = map(self._resolve, self._roots, (old, new))
        keeps = keeps and not self._dependent
        if len(loc) > _MAX_DEPTH:
            yield unclear(f"{_name(loc)} is nested too deeply to be compared", loc)
        elif not isinstance(old, dict) or not isinstance(new, dict):
            if not same(old, new):
                words = f"{_name(loc)} is {_shortened(new)}, was {_shortened(old)}"
                yield _judged(words, loc, keeps=keeps, tighter=new is False)
        elif (id(old), id(new), keeps) not in self._compared:
            # A recursive schema would never end, and many references to one pair would be reported each time.
            self._compared.add((id(old), id(new), keeps))
            for keyword in sorted((old.keys() | new.keys()) - _NOTES):
                yield from self._keyword(keyword, old, new, loc, keeps=keeps)

    def _keyword(
        self, keyword: str, old: JsonObject, new: JsonObject, loc: Loc, *, keeps: bool
    ) -> Iterator[Judgement]:
        old_value, new_value = _value(keyword, old), _value(keyword, new)
        if old_value is _ABSENT and new_value is _ABSENT:
            return
        at = (*loc, keyword) if keyword in new else loc
        inside = self._inside(keyword, old_value, new_value)
        if inside is not None:
            for steps, inner_old, inner_new in inside:
                place = (*loc, keyword, *steps)
                if inner_old is _ABSENT or inner_new is _ABSENT:
                    yield from _declared(old, new, place, keeps=keeps)
                else:
                    yield from self.parts(
                        inner_old, inner_new, place, keeps=keeps and keyword in _STEPS
                    )
        # In these lists, the order has no meaning.
        elif keyword in _SETS and isinstance(old_value, list) and isinstance(new_value, list):
            yield from _members(keyword, old_value, new_value, at, keeps=keeps)
        elif not same(old_value, new_value) or any(
            word in _text({keyword: new_value}) for word in _REFERENCES
        ):
            tighter = _is_tighter(keyword, old_value, new_value)
            keeps = keeps and (tighter or _is_tighter(keyword, new_value, old_value))
            new_value, old_value = new.get(keyword, _ABSENT), old.get(keyword, _ABSENT)
            words = f"{_name(loc)}: {keyword} {_shortened(new_value)}, was {_shortened(old_value)}"
            yield _judged(words, at, keeps=keeps, tighter=tighter)

    def _inside(self, keyword: str, old: Any, new: Any) -> list[_Pair] | None:
        """Return the pairs of schemas inside a keyword; None if they cannot be paired."""
        both = (old, new)
        if keyword == pointer.REF:
            targets = [
                self._target(root, reference)
                for root, reference in zip(self._roots, both, strict=True)
            ]
            return None if _ABSENT in targets else [((), targets[0], targets[1])]
        if all(isinstance(value, dict) for value in both):
            if keyword in _SINGLE:
                return [((), old, new)]
            if keyword == "properties" or (keyword in _BY_NAME and old.keys() == new.keys()):
                names = sorted(old.keys() | new.keys())
                return [((name,), old.get(name, _ABSENT), new.get(name, _ABSENT)) for name in names]
        listed = keyword in _IN_LIST and all(isinstance(value, list) for value in both)
        if listed and len(old) == len(new):
            # There, the position is the meaning; elsewhere an inserted schema would shift all others.
            order = range(len(old)) if keyword == "prefixItems" else _same_first(old, new)
            return [((at,), old[old_at], new[at]) for at, old_at in enumerate(order)]
        return None

    def _resolve(self, root: JsonObject, schema: Any) -> Any:
        """Return the target of a schema that only consists of a reference; other schemas unchanged."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict) or schema.keys() - _NOTES != {pointer.REF}:
                break
            target = self._target(root, schema[pointer.REF])
            if target is _ABSENT:
                break
            schema = target
        # The same meaning; as a dict, it is compared keyword by keyword.
        return {} if schema is True else schema

    def _target(self, root: JsonObject, reference: Any) -> Any:
        if not isinstance(reference, str) or "$id" in self._dependent:
            return _ABSENT
        try:
            return pointer.target(root, reference)
        except pointer.BadReferenceError:
            return _ABSENT


def _same_first(old: list[Any], new: list[Any]) -> list[int]:
    """Return the position in ``old`` of the pair of each schema in ``new``: an equal one, else the next without a pair."""
    rest = list(range(len(old)))
    pairs: dict[int, int] = {}
    for at, schema in enumerate(new):
        equal = next((position for position in rest if same(old[position], schema)), None)
        if equal is not None:
            pairs[at] = equal
            rest.remove(equal)
    return [pairs[at] if at in pairs else rest.pop(0) for at in range(len(new))]


def _value(keyword: str, schema: JsonObject) -> Any:
    """Return the value of a keyword; a value without effect counts as absent."""
    value = schema.get(keyword, _ABSENT)
    if value is _ABSENT and keyword in {"properties", "required"}:
        return {} if keyword == "properties" else []
    if value is _WITHOUT_EFFECT.get(keyword) or (keyword in _WITHOUT_EFFECT and value == {}):
        return _ABSENT
    return [value] if keyword == "type" and isinstance(value, str) else value


def _declared(old: JsonObject, new: JsonObject, loc: Loc, *, keeps: bool) -> Iterator[Judgement]:
    """Judge a property that only one of two schemas declares; a closed schema without it rejects it.

    A schema that says that it is open accepts any value of it.  One that says neither may describe a function that
    ignores what is not declared, so a new property may let it do more.
    """
    gained = loc[-1] in _value("properties", new)
    declaring, other = (new, old) if gained else (old, new)
    at = loc if gained else loc[:-2]
    is_open = other.get("additionalProperties") is True or not other.keys() - _NOTES - {"type"}
    if is_open and "patternProperties" not in other:
        declared = declaring["properties"][loc[-1]]
        if declared is False or (isinstance(declared, dict) and declared.keys() - _NOTES):
            old_words, new_words = ("any value", _shortened(declared))[:: 1 if gained else -1]
            words = f"{_name(loc)}: {new_words}, was {old_words}"
            yield _judged(words, at, keeps=keeps, tighter=gained)
        return
    closed = other.get("additionalProperties") is False and "patternProperties" not in other
    words = f"accepts a new argument {_name(loc)}"
    if not gained:
        words = f"no longer {'accepts' if closed else 'declares'} the argument {_name(loc)}"
    yield _judged(words, at, keeps=keeps and closed, tighter=not gained)


def _members(
    keyword: str, old: list[Any], new: list[Any], loc: Loc, *, keeps: bool
) -> Iterator[Judgement]:
    """Yield the values that a keyword newly lists, and the values that it no longer lists."""
    old_texts, new_texts = (
        {_text(value) for value in (*listed, *(["integer"] if "number" in listed else []))}
        for listed in (old, new)
    )
    for differing, word in (
        (new_texts - old_texts, "now includes"),
        (old_texts - new_texts, "no longer includes"),
    ):
        if differing:
            words = f"{_name(loc)}: {keyword} {word} {', '.join(sorted(differing))}"
            tighter = (differing <= new_texts) == (keyword == "required")
            yield _judged(words, loc, keeps=keeps, tighter=tighter)


def _is_tighter(keyword: str, old: Any, new: Any) -> bool:
    """Return whether the new value of a keyword certainly rejects all that the old one rejects."""
    if new is _ABSENT or keyword not in _CONDITIONS:
        return False
    if old is _ABSENT or (new is False and keyword in _SINGLE):
        return True
    # True is an int in Python, and no bound in JSON Schema.
    numbers = not any(
        isinstance(bound, bool) or not isinstance(bound, int | float) for bound in (old, new)
    )
    return numbers and ((keyword in _MOST and new <= old) or (keyword in _LEAST and new >= old))


def _judged(words: str, loc: Loc, *, keeps: bool, tighter: bool) -> Judgement:
    # Below `not` and its like, a narrower part makes the whole wider: nothing certain can be said.
    if not keeps:
        return unclear(words, loc)
    return Judgement("narrowing" if tighter else "widening", words, loc=loc)


def _name(loc: Loc) -> str:
    """Return the name of the value that a subschema describes: ``rows[].name``, or ``the arguments``."""
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


def _text(value: Any) -> str:
    return canonical_json.dumps(value).decode()


def _shortened(value: Any) -> str:
    return "none" if value is _ABSENT else shorten(_text(value))
