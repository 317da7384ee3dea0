"""Encoding of lists and objects in URLs, headers, cookies and forms, by the styles of OpenAPI and RFC 6570.

The table "Style Examples" of OpenAPI 3.0.4 and 3.1.1 is the source of the forms; ``tests/http_tools/test_styles.yaml``
has it.  Where a value would contain its own separator unencoded, it is refused: the host would read another value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from covalt_git.templating.url_templates import EncodedValue, as_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject

SEPARATORS: Final = {"comma": ",", "space": " ", "pipe": "|", "tab": "\t"}
"""The character between items, by style; it is encoded in URLs, except for a comma."""

_RESERVED: Final = ":/?@!$'()*,;="
"""Reserved characters that do not end a value of a query.  ``&``, ``+``, ``#`` and brackets are encoded always."""


class AmbiguousValueError(Exception):
    """Why a host would read another value than the argument's."""


class Pair(NamedTuple):
    """A name and the items of its value in a query, form, header or cookie."""

    name: str
    items: list[str]
    separator: str = ","
    is_reserved_allowed: bool = False
    is_json: bool = False

    @property
    def encoded(self) -> str:
        """The pair in a query or form."""
        separator = "," if self.separator == "," else quote(self.separator, safe="")
        safe = _RESERVED if self.is_reserved_allowed else ""
        if len(self.items) > 1:
            safe = safe.replace(",", "")
            self._check(self.separator if self.separator != "," else "")
        return f"{quote(self.name, safe='')}={separator.join(quote(item, safe=safe) for item in self.items)}"

    @property
    def joined(self) -> str:
        """The items in one text, where nothing is encoded."""
        if len(self.items) > 1:
            self._check(self.separator)
        return self.separator.join(self.items)

    def _check(self, separator: str) -> None:
        names = {",": "a comma", " ": "a space", "|": "a |", "\t": "a tab"}
        if separator and any(separator in item for item in self.items):
            raise AmbiguousValueError(
                f"has an item with {names[separator]}, which the host would read as two items"
            )


def items_of(value: Any, style: str | None) -> list[str]:
    """Return the items of a list, or the keys and values of an object; any other value is one item."""
    if style == "json":
        return [as_text(value)]
    if isinstance(value, list):
        return [as_text(item) for item in value]
    if isinstance(value, dict) and style in SEPARATORS:
        entries = ((key, as_text(inner)) for key, inner in value.items() if inner is not None)
        return [text for entry in entries for text in entry]
    return [as_text(value)]


def entries_of(value: JsonObject, separator: str) -> list[str]:
    """Return the entries of an object as ``key=value`` for a header; refuse what would be another entry."""
    entries = [(key, as_text(inner)) for key, inner in value.items() if inner is not None]
    for key, text in entries:
        if separator in key or "=" in key or separator in text:
            raise AmbiguousValueError("has a key or value that the host would read as two")
    return [f"{key}={text}" for key, text in entries]


def in_path(name: str, value: Any, style: str | None, *, explode: bool) -> Any:
    """Return the value of a path parameter in its style; a value without a style is returned as it is."""
    if style == "json":
        return as_text(value)
    if style not in {"label", "matrix"} and not isinstance(value, dict):
        return value
    if value is None or (isinstance(value, dict) and style not in {"comma", "label", "matrix"}):
        return value
    is_list, is_object = isinstance(value, list), isinstance(value, dict)
    if is_object and explode:
        pairs = [(key, as_text(inner)) for key, inner in value.items() if inner is not None]
        items = [(f"{key}={text}", f"{_quoted(key)}={_quoted(text)}") for key, text in pairs]
    else:
        texts = items_of(value, "comma")
        items = [(text, _quoted(text)) for text in texts]
    if style == "matrix":
        return _matrix(name, items, explode=explode, is_object=is_object)
    first, separator = ("", ",")
    if style == "label":
        first = "." if items else ""
        separator = "." if explode and (is_list or is_object) else ","
        if separator == "." and any("." in text for text, _ in items):
            raise AmbiguousValueError("has an item with a dot, which the host would read as two")
    return _joined(first, separator, items)


def _matrix(
    name: str, items: list[tuple[str, str]], *, explode: bool, is_object: bool
) -> EncodedValue:
    """Return the form ``;name=value`` (RFC 6570, section 3.2.7), without ``=`` for an empty value."""
    if explode and not is_object:
        items = [
            (
                f"{name}={text}" if text else name,
                f"{_quoted(name)}={encoded}" if text else _quoted(name),
            )
            for text, encoded in items
        ]
    if explode:
        return _joined(";" if items else "", ";", items)
    whole = _joined("", ",", items)
    if not items:
        return whole
    equals = "=" if whole.text else ""
    return EncodedValue(f";{name}{equals}{whole.text}", f";{_quoted(name)}{equals}{whole.encoded}")


def _joined(first: str, separator: str, items: list[tuple[str, str]]) -> EncodedValue:
    return EncodedValue(
        first + separator.join(text for text, _ in items),
        first + separator.join(encoded for _, encoded in items),
    )


def _quoted(text: str) -> str:
    return quote(text, safe="")


def pairs_of(
    values: JsonObject,
    style: str | None = None,
    *,
    explode: bool | None = None,
    is_reserved_allowed: bool = False,
) -> Iterator[Pair]:
    """Yield values of a query or form: a list repeated, an object as JSON, except as the style says."""
    separator = SEPARATORS.get(style or "", ",")
    for name, value in values.items():
        # An empty list has no value (RFC 6570, section 2.3); `a=` would be a list with an empty text.
        if value is None or (value == [] and style != "json"):
            continue
        if isinstance(value, dict) and style == "deep":
            if any("[" in key or "]" in key for key in value):
                raise AmbiguousValueError(
                    "has a key with a bracket, which would name another value"
                )
            inner = {f"{name}[{key}]": part for key, part in value.items()}
            yield from pairs_of(inner, style, is_reserved_allowed=is_reserved_allowed)
        elif value == {} and style in SEPARATORS:
            continue
        elif isinstance(value, dict) and style in SEPARATORS and explode:
            yield from pairs_of(value, is_reserved_allowed=is_reserved_allowed)
        elif isinstance(value, list) and (explode or style in {None, "repeat", "deep"}):
            for item in value:
                inner_style = None if style in SEPARATORS else style
                yield from pairs_of(
                    {name: item}, inner_style, is_reserved_allowed=is_reserved_allowed
                )
        else:
            is_json = isinstance(value, dict) and style not in SEPARATORS
            is_json |= isinstance(value, list) and style == "json"
            yield Pair(name, items_of(value, style), separator, is_reserved_allowed, is_json)
