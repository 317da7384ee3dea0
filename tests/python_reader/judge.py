"""Comparison of the schema that is read from a tool's source with what a call accepts, value by value.

Values come from both schemas, from pydantic's own instances, and from single changes of these: near misses.  What a
schema accepts is decided by its keywords and by formats as their standards define them; a text that a standard leaves
to its reader, such as a time without a zone, decides nothing.
"""

import ast
import base64
import functools
import ipaddress
import json
import re
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from typing import Any, NamedTuple

import hypothesis
import jsonschema_rs
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from covalt_git.json_values import canonical_json, json_schema
from covalt_git.python_reader.source import ToolDefinition
from covalt_toolset import InvalidToolArguments, ToolSignatureError, invoke, json_path, to_json
from covalt_toolset.signature import ToolArgument, read_signature
from tests.examples import examples
from tests.python_reader.comparison import plain

MOST_SHOWN = 4
MOST_SIZE = 120
_SMALL: list[Any] = [1, "x", [], None]
_MOST_DEPTH = 4


class Disagreement(NamedTuple):
    """A value about which the listed schema and the call disagree."""

    place: str
    value: Any
    listed: str
    call: str

    def __str__(self) -> str:
        return f"{self.place} = {json.dumps(self.value)}: listed {self.listed}, call {self.call}"


class _Words(NamedTuple):
    """Constants of the source and of the schemas, which near misses are made of."""

    texts: list[str]
    numbers: list[Any]
    keys: list[str]


# Formats


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def has(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, OverflowError, re.error):
            return False
        return True

    return has


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text, re.ASCII | re.DOTALL) is not None


def _is_uuid(version: int | None) -> Callable[[str], bool]:
    def has(text: str) -> bool:
        if not _matches(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")(text):
            return False
        return version is None or uuid.UUID(text).version == version

    return has


def _both(*has: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: all(one(text) for one in has)


def _never(_: str) -> bool:
    return False


def _always(_: str) -> bool:
    return True


_DAY = _both(_matches(r"\d{4}-\d\d-\d\d"), _parses(date.fromisoformat))
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_ZONED = rf"{_CLOCK}(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_MOMENT = _both(lambda text: _DAY(text[:10]), _matches(rf"\d{{4}}-\d\d-\d\dT{_ZONED}"))
_UUID_LIKE = _matches(r"\s*(urn:uuid:)?\{?[0-9a-fA-F-]{32,40}\}?\s*")
_URL = _matches(
    r"https?://[a-z0-9]+(\.[a-z0-9]+)*\.[a-z]+(:[1-9]\d{1,3})?(/[a-z0-9]*)*(\?[a-z0-9=]*)?"
)

_FORMATS: dict[str, tuple[Callable[[str], bool], Callable[[str], bool]]] = {
    # The texts that surely have the format, and those that may have it.
    "date": (_DAY, _DAY),
    "date-time": (_MOMENT, _matches(r"\d{4}-\d\d-\d\d.\d\d:\d\d.*")),
    "time": (_matches(_ZONED), _matches(r"\d\d:\d\d.*")),
    "duration": (
        _matches(r"P(\d+W|(?=\d|T\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)"),
        lambda text: any(part.isdigit() for part in text),
    ),
    "uri": (_URL, lambda text: ":" in text),
    "path": (_always, _always),
    "binary": (_always, _always),
    "password": (_always, _always),
    "ipv4": (_parses(ipaddress.IPv4Address),) * 2,
    "ipv6": (_parses(ipaddress.IPv6Address),) * 2,
    "ipv4network": (_both(_matches(".*/.*"), _parses(ipaddress.IPv4Network)), _parses(ipaddress.IPv4Interface)),
    "ipv6network": (_both(_matches(".*/.*"), _parses(ipaddress.IPv6Network)), _parses(ipaddress.IPv6Interface)),
    "ipv4interface": (_parses(ipaddress.IPv4Interface),) * 2,
    "ipv6interface": (_parses(ipaddress.IPv6Interface),) * 2,
    "ipvanyaddress": (_parses(ipaddress.ip_address),) * 2,
    "ipvanynetwork": (_both(_matches(".*/.*"), _parses(ipaddress.ip_network)), _parses(ipaddress.ip_interface)),
    "ipvanyinterface": (_parses(ipaddress.ip_interface),) * 2,
    "regex": (_both(_matches(r"[a-z0-9^$\[\]*+-]*"), _parses(re.compile)), lambda text: _parses(re.compile)(text) or "\\" in text or "(" in text),
    "base64": (_parses(functools.partial(base64.b64decode, validate=True)), _parses(base64.b64decode)),
    "base64url": (_parses(base64.urlsafe_b64decode), _always),
    "decimal": (_matches(r"-?\d+(\.\d+)?"), lambda text: any(part.isalnum() for part in text)),
    "complex": (_never, _always),
    "byte-size": (_matches(r"\d+(KB|MB)"), _always),
    **{f"uuid{version or ''}": (_is_uuid(version), _UUID_LIKE) for version in (None, 1, 3, 4, 5, 6, 7, 8)},
}  # fmt: skip

TEXTS = {
    "date": [
        "2026-01-31",
        "2999-12-31",
        "1969-12-31",
        "2024-02-29",
        "2023-02-29",
        "2026-13-01",
        "2026-1-1",
        "1704067200",
    ],
    "date-time": [
        "2026-01-31T12:00:00Z",
        "2999-12-31T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2026-01-31T12:00:00+02:00",
        "2026-01-31",
        "T12:00:00Z",
    ],
    "time": ["12:00:00Z", "23:59:59+01:00", "24:00", "noon", "12"],
    "duration": ["P1D", "PT1H30M", "P3W", "P1DT2S", "one day", "", "P"],
    "uri": ["https://example.com", "http://a.example.org:8080/b?c=1", "example.com", "", "a b"],
    "path": ["a/b.txt", "", "/x", "a b"],
    "ipv4": ["127.0.0.1", "1.2.3.4", "256.1.1.1", "1.2.3", "::1"],
    "ipv6": ["::1", "2001:db8::8", "1.2.3.4", "::g", ":"],
    "ipv4network": ["10.0.0.0/8", "192.168.0.0/16", "10.0.0.0/33", "::/0"],
    "ipv6network": ["2001:db8::/32", "::/0", "::/129", "10.0.0.0/8"],
    "ipv4interface": ["10.0.0.1/8", "10.0.0.1", "10.0.0.1/33"],
    "ipv6interface": ["2001:db8::1/32", "::1", "::1/129"],
    "ipvanyaddress": ["127.0.0.1", "::1", "x"],
    "ipvanynetwork": ["10.0.0.0/8", "::/0", "x"],
    "ipvanyinterface": ["10.0.0.1/8", "::1/64", "x"],
    "regex": ["^a+$", "[a-z]*", "[", "*"],
    "byte-size": ["5KB", "+5", "-0", " -0_0.0", "5", "-1", "+5 KB", "5 xx"],
    "base64": ["YWJj", "YQ==", "", "YW", "é", "/w==", "YW Jj"],
    "base64url": ["YWJj", "YQ==", "", "_w=="],
    "decimal": ["1.5", "-3", "x"],
    **{
        f"uuid{version or ''}": [
            str(uuid.uuid3(uuid.NAMESPACE_DNS, "a")),
            str(uuid.uuid5(uuid.NAMESPACE_DNS, "a")),
            "0e6b1f5c-8f4d-4b0e-9d0a-3b1f0c6c1a11",
            "c232ab00-9414-11ec-b3c8-9f68deced846",
            "0e6b1f5c-8f4d",
            "g" * 36,
        ]
        for version in (None, 1, 3, 4, 5, 6, 7, 8)
    },
}
"""Texts that have each format, and texts that do not."""


@functools.lru_cache(maxsize=1024)
def _validators(schema: bytes) -> tuple[jsonschema_rs.Draft202012Validator, ...]:
    """Return two validators: of the texts that surely have their formats, and of those that may have them."""
    return tuple(
        jsonschema_rs.Draft202012Validator(
            canonical_json.loads(schema),
            validate_formats=True,
            formats={name: pair[at] for name, pair in _FORMATS.items()},
            pattern_options=jsonschema_rs.RegexOptions(),
        )
        for at in (0, 1)
    )


def listed(schema: Mapping[str, Any], value: Any, *, with_formats: bool = True) -> bool | None:
    """Return whether a schema accepts a value; None if that depends on how a format is understood.

    Without formats, as those of a parameter that ``validate`` reports: no list of covalt-git refuses a text by them.
    """
    if json_schema.value_problems(dict(schema), value):
        return False
    if not with_formats:
        return True
    surely, perhaps = (one.is_valid(value) for one in _validators(canonical_json.dumps(schema)))
    return surely if surely is perhaps else None


# Values


def values(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Return a strategy of values that a schema accepts, for the keywords that pydantic writes."""
    if not isinstance(schema, Mapping) or depth > 12:
        return st.none()
    inner = functools.partial(values, definitions=definitions, depth=depth + 1)
    if "$ref" in schema:
        target = definitions.get(schema["$ref"].rpartition("/")[2], {})
        return inner({**target, **{key: one for key, one in schema.items() if key != "$ref"}})
    if "const" in schema or "enum" in schema:
        return st.sampled_from([schema["const"]] if "const" in schema else list(schema["enum"]))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            choices = schema[key]
            return st.one_of(
                [inner(one) for one in (choices if depth < _MOST_DEPTH else choices[-1:])]
            )
    if "allOf" in schema:
        return inner({key: one for part in schema["allOf"] for key, one in part.items()})
    match schema.get("type"):
        case "integer" | "number" as kind:
            return _numbers(schema, kind)
        case "string":
            return _texts(schema)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return _arrays(schema, inner, depth)
        case "object":
            return _objects(schema, inner, depth)
    return st.sampled_from([None, 0, "a", 1.5, [], {}, True, ["a"], {"a": 1}])


def _numbers(schema: Mapping[str, Any], kind: str) -> st.SearchStrategy[Any]:
    step = schema.get("multipleOf", 1 if kind == "integer" else 0.25)
    bounds = [
        schema[key]
        for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
        if key in schema
    ]
    chosen = [bound + turn * step for bound in bounds or [0] for turn in (-2, -1, 0, 1, 2)]
    chosen += [0, step, 1, 5 if kind == "integer" else 2.5]
    return st.sampled_from(chosen) | st.integers(-20, 20).map(lambda turn: turn * step)


def _texts(schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
    if schema.get("format") in TEXTS:
        return st.sampled_from(TEXTS[schema["format"]])
    least, most = (
        schema.get("minLength", 0),
        schema.get("maxLength", schema.get("minLength", 0) + 3),
    )
    if "pattern" in schema:
        pattern = schema["pattern"]
        for written, known in _PROPERTIES.items():
            pattern = pattern.replace(written, known)
        with suppress(re.error):
            re.compile(pattern)
            return st.from_regex(pattern, alphabet=st.characters(codec="ascii")) | st.from_regex(
                pattern
            )
    return st.text("ab1 é", min_size=least, max_size=max(least, min(most, least + 3)))


_PROPERTIES = {
    r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}": r"\w",
    r"\p{Nd}": r"\d",
    r"\P{Nd}": r"\D",
    r"\p{White_Space}": r"\s",
    r"\P{White_Space}": r"\S",
}
"""Properties of Unicode in patterns, and nearly the same in Python."""

_BEYOND_ASCII = "éß٣²\u0301\u0085\u00a0\u2028\ufeff\u200dK\u203fⓐ"
"""Letters, digits, marks, blanks and joiners that languages of patterns put into different classes."""


def _arrays(schema: Mapping[str, Any], inner: Any, depth: int) -> st.SearchStrategy[Any]:
    first = schema.get("prefixItems", [])
    if first:
        least = schema.get("minItems", 0)
        parts = [inner(one) for one in first]
        sizes = st.integers(least, min(len(first), schema.get("maxItems", len(first))))
        return sizes.flatmap(lambda size: st.tuples(*parts[:size]).map(list))
    least = schema.get("minItems", 0)
    most = min(schema.get("maxItems", least + 2), least + 2)
    if depth > _MOST_DEPTH:
        most = least
    key = canonical_json.dumps if schema.get("uniqueItems") else None
    return st.lists(
        inner(schema.get("items", {})) if most else st.nothing(),
        min_size=least,
        max_size=most,
        unique_by=key,
    )


def _objects(schema: Mapping[str, Any], inner: Any, depth: int) -> st.SearchStrategy[Any]:
    known, needed = schema.get("properties", {}), schema.get("required", [])
    least = schema.get("minProperties", 0)
    required = {name: inner(known.get(name, {})) for name in needed}
    optional = {name: inner(one) for name, one in known.items() if name not in needed}
    fixed = st.fixed_dictionaries(required, optional=optional if depth <= _MOST_DEPTH else {})
    others = schema.get("additionalProperties", True)
    if known or others is False or depth > _MOST_DEPTH:
        return fixed
    names = schema.get("propertyNames", {})
    keys = (
        inner({"type": "string", **names})
        if names
        else st.sampled_from(["a", "1", "-2", "1.5", "true", "bb"])
    )
    most = max(least, min(schema.get("maxProperties", least + 2), least + 2))
    more = inner(others if isinstance(others, Mapping) else {})
    return st.dictionaries(
        keys.filter(lambda one: isinstance(one, str)), more, min_size=least, max_size=most
    )


JSON = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -1, 5.0, 1.5, "", "a", "1", "true", "2026-01-31", "null"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab1"), inner, max_size=2),
    max_leaves=3,
)  # fmt: skip


def drawn(strategy: st.SearchStrategy[Any], number: int) -> list[Any]:
    """Return values that hypothesis draws, the same in each run with the same ``COVALT_EXAMPLES``."""
    found: dict[str, Any] = {}

    @settings(
        max_examples=examples(number),
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(value: Any) -> None:
        found[json.dumps(value, sort_keys=True)] = value

    collect()
    return list(found.values())


@functools.cache
def _any_json(number: int) -> list[Any]:
    return drawn(JSON, number)


def instances(annotation: Any) -> st.SearchStrategy[Any]:
    """Return a strategy of the JSON of instances that hypothesis makes of a type; of null for what it cannot make."""

    def written(value: Any) -> Any:
        try:
            return to_json(value)
        except ValueError:
            return None

    return st.from_type(annotation).map(written)


# Near misses


def near(value: Any, words: _Words) -> Iterator[Any]:
    """Yield the values that differ from a value in one place by one step; each place and kind of change in its turn."""
    yield from _in_turn(_near(value, words))


def _near(value: Any, words: _Words) -> list[Iterator[Any]]:
    """Return iterators of the changes of each place by each kind."""
    found = [_stepped(value), _of_words(value, words), _of_types(value)]
    places = (
        range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
    )
    for place in places:
        found += [_put(value, place, changes) for changes in _near(value[place], words)]
    return found


def _put(value: Any, place: Any, changes: Iterator[Any]) -> Iterator[Any]:
    for other in changes:
        changed = value.copy()
        changed[place] = other
        yield changed


def _in_turn(iterators: Iterable[Iterator[Any]]) -> Iterator[Any]:
    pending = list(iterators)
    while pending:
        for one in [*pending]:
            try:
                yield next(one)
            except StopIteration:
                pending.remove(one)


def _of_types(value: Any) -> Iterator[Any]:
    yield from (None, True, "x", 1, 1.5, [], {}, [value], {"x": value}, 0, False, "")


def _of_words(value: Any, words: _Words) -> Iterator[Any]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from words.numbers
    elif isinstance(value, str):
        yield from words.texts
    elif isinstance(value, dict):
        for name in (*words.keys, "extra", "1"):
            for key, given in value.items():
                yield {name if other == key else other: part for other, part in value.items()}
                yield {**value, name: given}
            yield from ({**value, name: more} for more in _SMALL)


def _stepped(value: Any) -> Iterator[Any]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from (
            value + 1,
            value - 1,
            value + 0.5,
            float(value),
            str(value),
            value - 0.5,
            -value,
            value * 2,
        )
    elif isinstance(value, str):
        yield from (
            f"{value}x",
            value[:-1],
            f"x{value}",
            value[1:],
            value.upper(),
            f" {value}",
            value.lower(),
        )
        yield from (
            f"{value} ",
            value.title(),
            f"{value}\n",
            value * 2,
            f"-{value}",
            f"{value}0",
            f"{value}.0",
        )
        yield from _beyond_ascii(value)
        yield from (int(value) for _ in [0] if re.fullmatch(r"-?\d{1,9}", value, re.ASCII))
    elif isinstance(value, list):
        yield from ([*value[:at], *value[at + 1 :]] for at in range(len(value)))
        yield value[::-1]
        yield from ([*value, one] for one in (*value[-1:], 1, 1.0, "x", None, {}))
        yield [*value, *value]
    elif isinstance(value, dict):
        yield {**value, "extra": 1}
        yield from ({other: part for other, part in value.items() if other != key} for key in value)
        for key in value:
            for other in _stepped(key):
                if isinstance(other, str) and other not in value:
                    yield {other if name == key else name: part for name, part in value.items()}


def _beyond_ascii(text: str) -> Iterator[str]:
    """Yield texts with one character that is not ASCII: in place of each one, and at the end."""
    for other in _BEYOND_ASCII:
        yield other * len(text) or other
        yield f"{text}{other}"
        yield from (f"{text[:at]}{other}{text[at + 1 :]}" for at in range(min(len(text), 4)))


def words_of(source: str, *schemas: Any) -> _Words:
    """Return the constants of a source and of schemas."""
    texts: dict[str, None] = {}
    numbers: dict[str, Any] = {}
    keys: dict[str, None] = {}
    constants: list[Any] = [*_constants(schemas)]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant):
            constants.append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            keys[node.target.id] = None
            keys[re.sub("_(.)", lambda found: found[1].upper(), node.target.id)] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            texts |= {node.id: None, node.id.lower(): None}  # members of enumerations
    keys |= dict.fromkeys(_property_names(schemas))
    for value in constants:
        if isinstance(value, str) and len(value) < 20 and not _is_unclear(value):
            texts[value] = None
            keys |= {name: None for name in [value] if name.isidentifier() or "-" in name}
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6:
            for other in (value, value + 1, value - 1, value + 0.5, value - 0.5, -value):
                numbers[repr(other)] = other
            if isinstance(value, int) and 0 <= value < 6:
                texts |= {"a" * (value + turn): None for turn in (0, 1)}
    return _Words(list(texts)[:40], list(numbers.values())[:60], list(keys)[:20])


def _property_names(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        yield from part.get("properties", {})
        part = list(part.values())
    for one in part if isinstance(part, list | tuple) else ():
        yield from _property_names(one)


def _constants(part: Any) -> Iterator[Any]:
    if isinstance(part, Mapping):
        for key, one in part.items():
            if key not in ("description", "title", "pattern", "type", "format", "$ref"):
                yield from _constants(one)
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _constants(one)
    else:
        yield part


# The judgement


def named_unread(found: ToolDefinition, name: str) -> bool:
    """Return whether ``unread`` names a parameter, or the whole signature."""
    return name in found.unread or "" in found.unread


def disagreements(
    found: ToolDefinition, function: Callable[..., object], source: str, number: int = 16
) -> list[Disagreement]:
    """Return values about which the schema of ``found`` and a call of ``function`` disagree, the first of each kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _disagreements(found, function, source, number)


def _disagreements(
    found: ToolDefinition, function: Callable[..., object], source: str, number: int
) -> list[Disagreement]:
    try:
        signature = read_signature(function)
    except ToolSignatureError as error:
        return (
            []
            if found.unread or found.defect
            else [Disagreement("f", None, "accepts", f"refuses: {error}")]
        )
    if found.defect:
        return [Disagreement("f", None, f"no call can run it: it {found.defect}", "reads it")]
    read, described = found.input_schema, signature.input_schema
    words = words_of(source, read, described)
    problems = []
    whole: dict[str, Any] = {}
    for argument in signature.parameters:
        name, is_unread = argument.public, named_unread(found, argument.name)
        if name not in read["properties"] and not is_unread:
            problems.append(Disagreement(name, None, "lacks this argument", "has it"))
            continue
        samples = _samples(argument, read, described, number)
        accepted = [one for one in samples if not _refusal(function, name, one)]
        near_ones = _near_samples(accepted, words, number)
        alone = _only(read, name)
        problems += _of_values(alone, function, name, [*samples, *near_ones], is_unread=is_unread)
        if accepted:
            whole[name] = min(accepted, key=lambda one: (one is None, len(json.dumps(one))))
            problems += _of_results(found, function, {**whole}, name, accepted)
        elif name in described["required"] and not is_unread:
            problems.append(
                Disagreement(name, None, "accepts a value", "accepts none that was drawn")
            )
    if any(named_unread(found, argument.name) for argument in signature.parameters):
        return problems
    return problems + _of_keys(
        found, function, whole, [*words.keys, *(one.name for one in signature.parameters)]
    )


def _only(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the schema of one argument, as an object of it alone."""
    properties = {key: one for key, one in schema["properties"].items() if key == name}
    return {"type": "object", "properties": properties, "$defs": schema.get("$defs", {})}


def _samples(
    argument: ToolArgument, read: Mapping[str, Any], described: Mapping[str, Any], number: int
) -> list[Any]:
    schemas = [schema for schema in (read, described) if argument.public in schema["properties"]]
    parts = [(one["properties"][argument.public], one.get("$defs", {})) for one in schemas]
    if len(parts) > 1 and plain(parts[0]) == plain(parts[1]):
        parts = parts[1:]
    strategies = [values(*part) for part in parts]
    try:
        found = drawn(st.one_of(*strategies, instances(argument.annotation)), number * 4)
    except Exception:  # noqa: BLE001 - hypothesis does not know the type, and says so in many ways
        found = drawn(st.one_of(*strategies), number * 3)
    found = [*found, *_any_json(number)]
    different = {json.dumps(one, sort_keys=True): one for one in found}
    return [one for one in different.values() if not _is_unclear(one)]


def _is_unclear(value: Any) -> bool:
    """Return whether a value has a number that rounding changes, or a text that is not Unicode."""
    if isinstance(value, dict | list):
        return any(
            map(_is_unclear, [*value, *value.values()] if isinstance(value, dict) else value)
        )
    if isinstance(value, str):
        return any("\ud800" <= one <= "\udfff" for one in value)
    return isinstance(value, float) and (0 < abs(value) < 1e-6 or abs(value) > 2**53)


def _near_samples(accepted: list[Any], words: _Words, number: int) -> list[Any]:
    """Return near misses of accepted values of different shapes."""
    shapes: dict[str, list[Any]] = {}
    for one in sorted(accepted, key=lambda one: len(json.dumps(one))):
        if len(json.dumps(one)) <= MOST_SIZE:
            shapes.setdefault(_shape(one), []).append(one)
    chosen = [one for some in shapes.values() for one in (some[-1], *some[: len(some) > 1])]
    chosen.sort(key=lambda one: -len(json.dumps(one)))
    found: dict[str, Any] = {}
    for other in _in_turn([near(one, words) for one in chosen[:8]]):
        found[json.dumps(other, sort_keys=True)] = other
        if len(found) >= examples(number * 16):
            break
    return list(found.values())


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{','.join(sorted(f'{key}:{_shape(one)}' for key, one in value.items()))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_shape, value[:3]))}]"
    return type(value).__name__


def _refusal(function: Callable[..., object], name: str, value: Any) -> str:
    """Return why a call refuses the value of one argument, whatever the others are; "" if it does not."""
    try:
        invoke(function, {name: value})
    except InvalidToolArguments as error:
        own = [one for one in error.problems if json_path.parts(one.path)[:1] == [name]]
        return "; ".join(f"{one.path}: {one.message}" for one in own)
    except (TypeError, RuntimeError):
        return ""  # another argument is missing, or the workspace
    except Exception as error:  # noqa: BLE001 - a call must not fail, whatever its arguments are
        return f"fails: {error!r}"
    return ""


def _of_values(
    schema: dict[str, Any],
    function: Callable[..., object],
    name: str,
    tried: list[Any],
    *,
    is_unread: bool,
) -> list[Disagreement]:
    kinds: dict[str, list[Disagreement]] = {}
    for value in tried:
        is_listed, refusal = listed(schema, {name: value}), _refusal(function, name, value)
        if is_unread and is_listed is False:
            is_listed = listed(schema, {name: value}, with_formats=False)
        is_broken = refusal.startswith("fails")
        if (
            is_listed is None
            or is_listed is not bool(refusal)
            or (is_listed and is_unread and not is_broken)
        ):
            continue  # a parameter that is named as unread accepts more
        verdicts = (
            ("accepts", f"refuses ({refusal[:200]})") if is_listed else ("refuses", "accepts")
        )
        kinds.setdefault(verdicts[0], []).append(Disagreement(name, value, *verdicts))
    ordered = [sorted(some, key=lambda one: len(json.dumps(one.value))) for some in kinds.values()]
    return [one for some in ordered for one in some[:MOST_SHOWN]]


def _of_keys(
    found: ToolDefinition, function: Callable[..., object], whole: dict[str, Any], names: list[str]
) -> list[Disagreement]:
    """Return the disagreements about missing and unknown arguments."""
    cases = {
        f"without {name}": {key: one for key, one in whole.items() if key != name} for name in whole
    }
    cases |= {
        f"also {name}": {**whole, name: 1}
        for name in [*names, "extra", "workspace"]
        if name not in whole
    }
    problems = []
    for place, arguments in {"all": whole, **cases}.items():
        is_listed, refusal = listed(found.input_schema, arguments), ""
        try:
            invoke(function, arguments)
        except InvalidToolArguments as error:
            refusal = f"refuses ({str(error)[:200]})"
        except RuntimeError:
            pass
        if is_listed is not None and is_listed is bool(refusal):
            problems.append(
                Disagreement(
                    place, arguments, "accepts" if is_listed else "refuses", refusal or "accepts"
                )
            )
    return problems


def _of_results(
    found: ToolDefinition,
    function: Callable[..., object],
    whole: dict[str, Any],
    name: str,
    accepted: list[Any],
) -> list[Disagreement]:
    """Return the results of a function that its listed schema refuses."""
    problems: list[Disagreement] = []
    for value in accepted if found.output_schema is not None else ():
        try:
            written = to_json(invoke(function, {**whole, name: value}))
        except (InvalidToolArguments, RuntimeError, ValueError):
            continue  # other arguments come later; no call has a result that is not JSON
        if listed(found.output_schema or {}, written) is False:
            problems.append(
                Disagreement(name, value, f"refuses the result {json.dumps(written)}", "returns it")
            )
    return problems[:MOST_SHOWN]
