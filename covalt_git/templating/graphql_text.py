"""GraphQL text of requests: its tokens, the variables of an operation, and selections that callers write.

A selection is the text between the braces after a field, ``title director { name }``.  Callers write fields, their
arguments and aliases; fragments, directives and variables are refused.  It is parsed and written again, so no text of
a caller gets into a query as it is.  (GraphQL specification, October 2021, sections 2.1 to 2.9.)
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH: Final = 8
"""Most selections inside each other that a caller can write."""

MAX_FIELDS: Final = 1000
"""Most fields of a selection that a caller writes."""

_MAX_LETTERS: Final = 100_000
_MAX_VALUE_DEPTH: Final = 16

NAME: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")

_TOKEN = re.compile(
    r"""
      (?P<ignored> [\s,\ufeff]+ | \#[^\n\r]* )
    | (?P<name> [_A-Za-z][_0-9A-Za-z]* )
    | (?P<float> -?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?![\w.]) )
    | (?P<int> -?(?:0|[1-9][0-9]*)(?![\w.]) )
    | (?P<block> \"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\" )
    | (?P<string> "(?:[^"\\\n\r]|\\.)*" )
    | (?P<mark> \.\.\. | [!$&():=@\[\]{|}] )
    """,
    re.VERBOSE | re.DOTALL,
)
_SCALARS = frozenset({"int", "float", "string"})
_OF_TYPE = frozenset("[]!")
_WORDS = {"true": "boolean", "false": "boolean", "null": "null"}


class BadSelectionError(Exception):
    """A selection that is invalid; the message is the end of a sentence that begins with its argument."""


class Token(NamedTuple):
    """A token: its kind, its text, and its position in characters from 0; the kind ``end`` is the end of the text."""

    kind: str
    text: str
    at: int


class Literal(NamedTuple):
    """A value in a selection.

    ``kind`` is int, float, string, boolean, null, enum, list or object; ``value`` is its text, a text's content, the
    items of a list, or the pairs of an object.
    """

    kind: str
    value: Any

    def __str__(self) -> str:
        match self.kind:
            case "string":
                return json.dumps(self.value, ensure_ascii=False)
            case "list":
                return f"[{', '.join(map(str, self.value))}]"
            case "object":
                return f"{{{', '.join(f'{name}: {value}' for name, value in self.value)}}}"
            case _:
                return str(self.value)


class SelectedField(NamedTuple):
    """A field of a selection; ``fields`` is None for a field without a selection of its own."""

    name: str
    alias: str | None
    args: tuple[tuple[str, Literal], ...]
    fields: tuple[SelectedField, ...] | None

    def __str__(self) -> str:
        alias = f"{self.alias}: " if self.alias else ""
        args = ", ".join(f"{name}: {value}" for name, value in self.args)
        selection = "" if self.fields is None else f" {{ {written(self.fields)} }}"
        return f"{alias}{self.name}{f'({args})' if args else ''}{selection}"


def written(fields: tuple[SelectedField, ...]) -> str:
    """Return a selection as text, without braces around it."""
    return " ".join(map(str, fields))


def parsed_selection(text: str) -> tuple[SelectedField, ...]:
    """Return the fields of a selection, which may have braces around it.

    Raises:
        BadSelectionError: if it is not a selection, or exceeds a limit.
    """
    if len(text) > _MAX_LETTERS:
        raise BadSelectionError(f"is longer than {_MAX_LETTERS:,} characters")
    return _Parser(text).selection()


def variables(query: str) -> dict[str, str]:
    """Return the types of the variables that the operations of a document declare; ``=`` ends one with a default."""
    types: dict[str, str] = {}
    tokens = [token for token in _tokens(query) if token.kind != "unknown"]
    depth = 0
    for at, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        depth += {"{": 1, "}": -1}.get(token.text, 0)
        if (
            token.text == "$"
            and not depth
            and [after.text for after in tokens[at + 2 : at + 3]] == [":"]
        ):
            text, end = "", at + 3
            while end < len(tokens) and (
                tokens[end].text in _OF_TYPE or tokens[end].kind == "name"
            ):
                text += tokens[end].text
                end += 1
            has_default = end < len(tokens) and tokens[end].text == "="
            types[tokens[at + 1].text] = text + ("=" if has_default else "")
    return types


def _tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text; a character that begins no token is one of the kind ``unknown``."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            yield Token("unknown", text[at], at)
            at += 1
            continue
        if match.lastgroup != "ignored":
            yield Token(match.lastgroup or "", match[0], at)
        at = match.end()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._end = Token("end", "", len(text))
        self._token = next(self._tokens, self._end)
        self._count = 0

    def selection(self) -> tuple[SelectedField, ...]:
        has_braces = self._takes("{")
        fields = self._fields(1)
        if has_braces:
            self._expect("}")
        if self._token.kind != "end":
            raise self._unexpected("a field")
        return fields

    def _fields(self, depth: int) -> tuple[SelectedField, ...]:
        if depth > MAX_DEPTH:
            raise BadSelectionError(f"has more than {MAX_DEPTH} selections inside each other")
        fields = []
        while self._token.kind == "name":
            fields.append(self._field(depth))
        if self._token.text == "...":
            raise BadSelectionError("has a fragment, which is not supported: name the fields")
        if not fields:
            raise self._unexpected("a field")
        return tuple(fields)

    def _field(self, depth: int) -> SelectedField:
        self._count += 1
        if self._count > MAX_FIELDS:
            raise BadSelectionError(f"has more than {MAX_FIELDS:,} fields")
        name, alias = self._name("a field"), None
        if self._takes(":"):
            name, alias = self._name("a field"), name
            alias = alias if alias != name else None
        args: list[tuple[str, Literal]] = []
        if self._takes("("):
            while not self._takes(")"):
                args.append(self._pair())
        if self._token.text == "@":
            raise BadSelectionError("has a directive, which is not supported")
        fields = None
        if self._takes("{"):
            fields = self._fields(depth + 1)
            self._expect("}")
        return SelectedField(name, alias, tuple(args), fields)

    def _pair(self, depth: int = 1) -> tuple[str, Literal]:
        name = self._name("an argument")
        self._expect(":")
        return name, self._value(depth)

    def _value(self, depth: int) -> Literal:
        token = self._token
        if depth > _MAX_VALUE_DEPTH:
            raise BadSelectionError(f"has a value of more than {_MAX_VALUE_DEPTH} levels")
        if token.text == "$":
            raise BadSelectionError("has a variable, which is not supported: write the value")
        if token.kind in _SCALARS:
            self._next()
            return Literal(token.kind, self._content(token))
        if token.kind == "name":
            self._next()
            return Literal(_WORDS.get(token.text, "enum"), token.text)
        if self._takes("["):
            items = []
            while not self._takes("]"):
                items.append(self._value(depth + 1))
            return Literal("list", items)
        if self._takes("{"):
            pairs = []
            while not self._takes("}"):
                pairs.append(self._pair(depth + 1))
            return Literal("object", pairs)
        raise self._unexpected("a value")

    def _content(self, token: Token) -> str:
        if token.kind != "string":
            return token.text
        try:
            # The escapes are those of JSON (section 2.9.4); half of a surrogate pair is no text.
            content: str = json.loads(token.text)
            content.encode()
        except ValueError:
            raise BadSelectionError(f"has an invalid text {token.text[:40]}") from None
        return content

    def _name(self, what: str) -> str:
        if self._token.kind != "name":
            raise self._unexpected(what)
        return self._next().text

    def _takes(self, mark: str) -> bool:
        is_here = self._token.kind == "mark" and self._token.text == mark
        if is_here:
            self._next()
        return is_here

    def _expect(self, mark: str) -> None:
        if not self._takes(mark):
            raise self._unexpected(repr(mark))

    def _next(self) -> Token:
        token, self._token = self._token, next(self._tokens, self._end)
        return token

    def _unexpected(self, expected: str) -> BadSelectionError:
        if self._token.kind == "end":
            return BadSelectionError(f"ends where {expected} is expected")
        place = f"{self._token.text[:40]!r} at character {self._token.at + 1}"
        return BadSelectionError(f"has {place}, where {expected} is expected")
