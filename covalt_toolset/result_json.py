"""Lossless conversion of results to JSON.

Pydantic converts a model's NaN to null, drops one of two keys with the same text, and accepts unpaired
surrogates.  Here these are errors with their places.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from enum import Enum
from io import IOBase
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from covalt_toolset import json_path
from covalt_toolset.files import ContentReference, NoSuchFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Keep = Callable[[bytes], Any]

MAX_DEPTH = 128
"""The maximum depth of values, which is less than the limits of Python's stack and of JSON parsers."""

MAX_EXACT_INTEGER = 2**53 - 1
"""The largest integer that every JSON parser reads exactly (RFC 7493, section 2.2)."""

_ARRAYS = (Sequence, KeysView, ValuesView, ItemsView, Iterator)
_NOT_ARRAYS = (bytes, bytearray, memoryview, IOBase)


class ResultNotJson(TypeError):  # noqa: N818 - a public name of the SDK
    """JSON cannot represent the value at ``place``, because of ``reason``."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


def to_json(value: object, *, keep: Keep | None = None, large_integers: bool = False) -> Any:
    """Return ``value`` as JSON: dicts with text keys, lists, text, numbers, booleans and None.

    Models, dataclasses, enums, dates, paths, decimals, UUIDs and UTF-8 bytes are converted by pydantic, a
    :class:`ContentReference` (a file, an image) by its method.  A set becomes a list, sorted if possible, so
    that equal sets have equal JSON.  Bytes become the result of ``keep``, if that is passed.  Integers beyond 2^53
    are refused, except with ``large_integers``: other programs would round them.

    Raises:
        ResultNotJson: for the first value that JSON cannot represent.
    """
    return _converted(value, json_path.ROOT, way=_Way((), keep, large_integers=large_integers))


@dataclasses.dataclass(frozen=True, slots=True)
class _Way:
    """The ids of the values around the converted one, and the conversion of bytes."""

    above: tuple[int, ...]
    keep: Keep | None
    large_integers: bool

    def into(self, value: object, place: str) -> _Way:
        """Return the way to the parts of ``value``."""
        if id(value) in self.above:
            raise ResultNotJson(place, "contains itself")
        if len(self.above) >= MAX_DEPTH:
            raise ResultNotJson(place, f"is nested deeper than {MAX_DEPTH} levels")
        return dataclasses.replace(self, above=(*self.above, id(value)))


def _converted(value: Any, place: str, *, way: _Way) -> Any:
    # The narrower types first: a bool is an int, and a member of an enum can be a text or an int.
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _converted(value.value, place, way=way)
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, int):
        return int(value) if way.large_integers else _integer(value, place)
    if isinstance(value, float):
        return _number(value, place)
    if isinstance(value, PurePath):
        return _text(str(value), place)

    if isinstance(value, ContentReference):
        return _reference(value, place)
    if way.keep is not None and isinstance(value, bytes | bytearray | memoryview):
        return way.keep(bytes(value))

    way = way.into(value, place)
    # Of the type, because a class of models has the attribute too, and is not a value.
    if hasattr(type(value), "__pydantic_serializer__"):
        return _model(value, place, way=way)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _object(fields, place, way=way)
    if isinstance(value, Mapping):
        return _object(value, place, way=way)
    if isinstance(value, set | frozenset):
        return _array(_in_order(value), place, way=way)
    if isinstance(value, _ARRAYS) and not isinstance(value, _NOT_ARRAYS):
        return _array(value, place, way=way)
    return _converted(_by_pydantic(value, place), place, way=way)


def _reference(value: ContentReference, place: str) -> dict[str, Any]:
    try:
        return value.reference()
    except NoSuchFile as error:
        raise ResultNotJson(place, str(error)) from None


def _text(value: str, place: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ResultNotJson(place, "the text contains an unpaired surrogate") from None
    return str.__str__(value)  # a subclass can return another text from str()


def _integer(value: int, place: str) -> int:
    if abs(value) > MAX_EXACT_INTEGER:
        raise ResultNotJson(
            place, "an integer beyond 2^53 is not exact in JSON, return it as a string"
        )
    return int(value)


def _number(value: float, place: str) -> float:
    if not math.isfinite(value):
        raise ResultNotJson(place, f"{float(value)} is not a JSON number")
    return float(value)


def _object(value: Mapping[Any, Any], place: str, *, way: _Way) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    origins: dict[str, Any] = {}
    for key, inner in value.items():
        name = _key(key, place)
        if name in origins:
            raise ResultNotJson(
                place, f"the keys {origins[name]!r} and {key!r} are the same key in JSON"
            )
        origins[name] = key
        converted[name] = _converted(inner, json_path.member(place, name), way=way)
    return converted


def _key(key: Any, place: str) -> str:
    if isinstance(key, str) and not isinstance(key, Enum):
        return _text(key, place)
    try:
        (name,) = to_jsonable_python({key: None})
    except (ValueError, TypeError):
        raise ResultNotJson(place, f"{_type_name(key)} is not a key in JSON") from None
    return _text(name, place)


def _array(values: Iterable[Any], place: str, *, way: _Way) -> list[Any]:
    return [
        _converted(inner, json_path.item(place, index), way=way)
        for index, inner in enumerate(values)
    ]


def _in_order(values: set[Any] | frozenset[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return list(values)


def _by_pydantic(value: Any, place: str) -> Any:
    """Convert a value that is neither a number, text nor a container."""
    if isinstance(value, IOBase):  # pydantic would read an open file to its end
        raise ResultNotJson(place, f"{_type_name(value)} is not JSON")
    try:
        return to_jsonable_python(value)
    except UnicodeDecodeError:
        raise ResultNotJson(place, "bytes that are not UTF-8 text") from None
    except ValueError:
        raise ResultNotJson(place, f"{_type_name(value)} is not JSON") from None


def _model(value: Any, place: str, *, way: _Way) -> Any:
    """Convert a model by its own serializer, which its author can customize."""
    serializer = type(value).__pydantic_serializer__
    try:
        original = serializer.to_python(value, mode="python", by_alias=True, warnings=False)
    except ValueError as error:
        raise ResultNotJson(place, _reason(error)) from None
    try:
        converted = serializer.to_python(value, mode="json", by_alias=True)
    except ValueError as error:
        _converted(original, place, way=way)  # raises an error with the place of an invalid value
        raise ResultNotJson(place, _reason(error)) from None
    _check_lossless(original, converted, place)
    return _converted(converted, place, way=way)


def _reason(error: ValueError) -> str:
    text = str(error)
    if text.startswith("Circular reference"):
        return "contains itself"
    return text[:1].lower() + text[1:]


def _check_lossless(original: Any, converted: Any, place: str) -> None:
    """Compare a model's values with pydantic's JSON, which can lack values without an error."""
    if isinstance(original, float) and converted is None:
        _number(original, place)
    elif isinstance(original, dict) and isinstance(converted, dict):
        if len(original) > len(converted):
            # Names the two keys that became one, if the serializer has not left out a key on purpose.
            _object(dict.fromkeys(original), place, way=_Way((), None, large_integers=False))
            return
        for (name, inner), part in zip(converted.items(), original.values(), strict=False):
            _check_lossless(part, inner, json_path.member(place, name))
    elif isinstance(original, list | tuple) and isinstance(converted, list):
        for index, (part, inner) in enumerate(zip(original, converted, strict=False)):
            _check_lossless(part, inner, json_path.item(place, index))


def _type_name(value: Any) -> str:
    name = type(value).__name__
    return f"an {name}" if name[:1] in "aeiouAEIOU" else f"a {name}"
