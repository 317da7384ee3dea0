"""URL templates with arguments: ``https://api.example.com/v1/forecast/{city}?days={days}``.

A template fixes the origin and the path before its first argument; no value can leave them.  Each value
is one encoded segment, including its ``/``; ``{+path}`` keeps the ``/`` of a value and encodes each
segment.  Empty segments are refused, and segments that a server could decode to ``.`` or ``..``.

References (``${NAME}``) are allowed as the base, ``${BASE_URL}/v1``, and in the query, but not in the
path, because servers log paths.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from covalt_git.errors import CovaltError
from covalt_git.hosts import BadHostError, origin_of
from covalt_git.templating.references import Reference, split
from covalt_git.text.normal_form import normalized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from covalt_git.hosts import WebOrigin

_ARGUMENT = re.compile(r"\{(?P<keeps_slashes>\+?)(?P<name>[A-Za-z_][\w-]*)\}|\$\$")
_STRAY = re.compile(r"[{}\s\\\x00-\x1f\x7f]")
_LITERAL = "/:@!$&'()*+,;=~%-._"
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DOTS = frozenset({".", ".."})


class BadTemplateError(CovaltError):
    """A template that is not a URL, or that does not fix the origin."""

    code = "bad_url_template"


class BadValueError(CovaltError):
    """An argument's value that the URL cannot contain; ``name`` is the argument."""

    code = "bad_url_value"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the argument {name!r} {why}")
        self.name = name
        self.why = why


class Argument(NamedTuple):
    """One argument of a template; with ``keeps_slashes``, each ``/`` of its value stays."""

    name: str
    keeps_slashes: bool
    text: str


class EncodedValue(NamedTuple):
    """A value of a path in a form of its own: the text that a server decodes, and the text in the URL."""

    text: str
    encoded: str


Piece = str | Reference | Argument


class UrlTemplate(NamedTuple):
    """A parsed template: the fixed beginning, the path after it, and the query."""

    base: Reference | None
    begins: str
    path: tuple[str | Argument, ...]
    query: tuple[tuple[Piece, ...], ...]

    @classmethod
    def parse(cls, text: str) -> UrlTemplate:
        """Parse a template.

        Raises:
            BadTemplateError: if it is invalid; the hint has a correction.
        """
        pieces = list(_pieces(text))
        base = pieces.pop(0) if pieces and isinstance(pieces[0], Reference) else None
        assert base is None or isinstance(base, Reference)
        path_pieces, query = _at_question_mark(pieces)
        path: list[str | Argument] = []
        for piece in path_pieces:
            if isinstance(piece, Reference):
                raise BadTemplateError(
                    f"{piece.text} is not allowed in the path, because servers log paths",
                    hint="send it as a header: headers: {Authorization: Bearer ${NAME}}",
                )
            path.append(piece)
        begins = path.pop(0) if path and isinstance(path[0], str) else ""
        assert isinstance(begins, str)
        _check_beginning(text, base, begins, settled=not path)
        return cls(base, begins, tuple(path), tuple(_pairs(query)))

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments, in order."""
        pieces = [*self.path, *(piece for pair in self.query for piece in pair)]
        return tuple(piece for piece in pieces if isinstance(piece, Argument))

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the required arguments."""
        return tuple(piece.name for piece in self.path if isinstance(piece, Argument))

    def expand(self, values: Mapping[str, Any], lookup: Callable[[Reference], str | None]) -> str:
        """Return the URL with values, in ASCII; query pairs without a value are omitted.

        Raises:
            BadValueError: if a path cannot contain a value.
            BadTemplateError: if the base's value is not a URL.
        """
        prefix = self._prefix(lookup)
        path = "".join(self._path(values))
        pairs = [text for pair in self.query if (text := _pair(pair, values, lookup)) is not None]
        url = prefix + path + ("?" + "&".join(pairs) if pairs else "")
        # Each part was checked already.  This is the promise itself, and holds whatever they overlook.
        if not url.startswith(prefix) or not is_within_folder(url, prefix) or not url.isascii():
            raise BadTemplateError("the URL would be outside the template's fixed beginning")
        return url

    def folder(self, lookup: Callable[[Reference], str | None]) -> str:
        """Return the folder that contains every URL of this template, with a trailing ``/``.

        Raises:
            BadTemplateError: if the base's value is not a URL.
        """
        return self._prefix(lookup).rpartition("/")[0] + "/"

    def _prefix(self, lookup: Callable[[Reference], str | None]) -> str:
        """Return the fixed beginning of the URL, which ends within the path."""
        if self.base is None:
            origin, rest = origin_of(self.begins)
            return f"{origin}{encode_literal(rest) or '/'}"
        base = lookup(self.base) or ""
        try:
            origin, rest = origin_of(base)
        except BadHostError:
            raise BadTemplateError(f"the value of {self.base.text} is not a URL") from None
        # After a query or fragment in it, the template's path would be a part of that, and nothing would check it.
        if "?" in rest or "#" in rest or any(is_way_up(segment) for segment in rest.split("/")):
            raise BadTemplateError(f"the value of {self.base.text} has more than a host and a path")
        return f"{origin}{encode_literal(rest).rstrip('/')}{encode_literal(self.begins) or '/'}"

    @property
    def _written_path(self) -> str:
        """The path as the manifest writes it, with the name of the base."""
        begins = origin_of(self.begins)[1] if self.base is None else self.base.text + self.begins
        pieces = (piece if isinstance(piece, str) else piece.text for piece in self.path)
        return begins + "".join(pieces)

    def _check_segment(self, name: str, segment: str) -> None:
        """Refuse a segment that is empty with its argument's value, or that a server may decode to ``..``."""
        if not name:
            return
        if not segment:
            raise BadValueError(name, f"leaves a part of {self._written_path} empty")
        if is_way_up(segment):
            why = f"would lead elsewhere than {self._written_path}"
            raise BadValueError(name, f"{why}: no part of it may be '.' or '..', encoded or not")

    def _path(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the path after the beginning; each segment is checked as servers would decode it."""
        # A segment can have several arguments and texts: `.` and `.` are harmless alone.
        segment_text = unquote(self.begins.rpartition("/")[2])
        named = ""
        for piece in self.path:
            if isinstance(piece, str):
                inner, slash, after = piece.partition("/")
                if slash:
                    self._check_segment(named, segment_text + unquote(inner))
                    segment_text, named = unquote(after.rpartition("/")[2]), ""
                else:
                    segment_text += unquote(inner)
                yield encode_literal(piece)
                continue
            segments = _segments(piece, values.get(piece.name))
            for position, segment in enumerate(segments):
                if position:
                    self._check_segment(piece.name, segment_text)
                    segment_text = ""
                    yield "/"
                segment_text += segment.text
                yield segment.encoded
            named = piece.name
        self._check_segment(named, segment_text)


def origin_of_template(url: str) -> WebOrigin | None:
    """Return the origin of a template's URLs; None if a variable determines it, or the template is invalid."""
    try:
        template = UrlTemplate.parse(url)
        return None if template.base is not None else origin_of(template.begins)[0]
    except (BadTemplateError, BadHostError):
        return None


def is_within_folder(url: str, folder: str) -> bool:
    """Return whether a URL is inside a folder of an origin, however a server decodes it."""
    origin, rest = origin_of(url)
    within, begins = origin_of(folder)
    path = rest.partition("?")[0] or "/"
    leads_up = any(is_way_up(segment) for segment in path.split("/"))
    return origin == within and path.startswith(begins) and not leads_up


def encode_literal(text: str) -> str:
    """Return text of a manifest encoded for a URL; existing percent escapes stay."""
    return quote(_BARE_PERCENT.sub("%25", text), safe=_LITERAL)


def encoded_list(items: Iterable[str]) -> str:
    """Return the encoded items, joined by commas (RFC 6570, section 3.2.1)."""
    return ",".join(quote(item, safe="") for item in items)


def as_text(value: Any) -> str:
    """Return a value as text for URLs, headers and forms: texts unchanged, other values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _pieces(text: str) -> Iterator[Piece]:
    for part in split(text):
        if isinstance(part, Reference):
            yield part
            continue
        plain = ""
        position = 0
        for match in _ARGUMENT.finditer(part):
            plain += part[position : match.start()]
            position = match.end()
            if match["name"] is None:
                plain += "$"
                continue
            if plain:
                yield _checked_plain(plain)
            plain = ""
            yield Argument(match["name"], bool(match["keeps_slashes"]), match[0])
        plain += part[position:]
        if plain:
            yield _checked_plain(plain)


def _checked_plain(text: str) -> str:
    stray = _STRAY.search(text)
    if stray is not None:
        raise BadTemplateError(
            f"{stray[0]!r} is not part of an argument"
            if stray[0] in "{}"
            else f"{stray[0]!r} is not allowed in a URL",
            hint=f"write {{name}} for an argument, or {quote(stray[0], safe='')}",
        )
    if "#" in text:
        raise BadTemplateError("the part after # is never sent", hint="remove it, or write %23")
    return text


def _at_question_mark(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    for position, piece in enumerate(pieces):
        if isinstance(piece, str) and "?" in piece:
            path_end, _, query_start = piece.partition("?")
            first = [*pieces[:position], *([path_end] if path_end else [])]
            return first, [*([query_start] if query_start else []), *pieces[position + 1 :]]
    return list(pieces), []


def _pairs(query: Sequence[Piece]) -> Iterator[tuple[Piece, ...]]:
    pair: list[Piece] = []
    for piece in query:
        if not isinstance(piece, str):
            pair.append(piece)
            continue
        first, *others = piece.split("&")
        pair += [first] if first else []
        for other in others:
            if pair:
                yield tuple(pair)
            pair = [other] if other else []
    if pair:
        yield tuple(pair)


def _check_beginning(text: str, base: Reference | None, begins: str, *, settled: bool) -> None:
    """Check that the host comes before the first argument, and that the path has no ``..``."""
    if base is not None:
        if (begins and not begins.startswith("/")) or (not begins and not settled):
            raise BadTemplateError(
                f"{base.text} includes the host and must be followed by /",
                hint=f"write {base.text}/...",
            )
    else:
        try:
            origin, rest = origin_of(begins)
        except BadHostError as error:
            if begins.startswith(("https://", "http://")) and "/" not in begins.partition("://")[2]:
                raise BadTemplateError(
                    "an argument cannot choose the host",
                    hint="write the host out: https://api.example.com/{name}",
                ) from None
            raise BadTemplateError(error.message, hint=error.hint) from None
        if not rest and not settled:
            raise BadTemplateError(
                "an argument cannot choose the host", hint=f"write {origin}/ before it"
            )
    segments = begins.partition("://" if base is None else "/")[2].split("/")
    # An argument can continue the last segment: then it is checked with the value.
    if any(is_way_up(segment) for segment in (segments if settled else segments[:-1])):
        raise BadTemplateError(
            f"the path of {text!r} has a . or .. segment", hint="remove . and .. from the path"
        )


def _segments(argument: Argument, value: Any) -> list[EncodedValue]:
    """Return the segments of an argument's value: one, or several with ``keeps_slashes``."""
    if value is None:
        raise BadValueError(argument.name, "is required for the URL")
    if isinstance(value, dict):
        raise BadValueError(argument.name, "is an object, which a path cannot contain")
    items = [as_text(item) for item in value] if isinstance(value, list) else [as_text(value)]
    if isinstance(value, EncodedValue):
        segments = [value]
    elif argument.keeps_slashes:
        segments = [_plain(segment) for segment in "/".join(items).split("/")]
    else:
        segments = [EncodedValue(",".join(items), encoded_list(items))]
    if any(_CONTROL.search(segment.text) for segment in segments):
        raise BadValueError(
            argument.name, "contains a control character, which a path cannot contain"
        )
    return segments


def _plain(text: str) -> EncodedValue:
    return EncodedValue(text, quote(text, safe=""))


def is_way_up(segment: str) -> bool:
    """Return whether a server could read ``.`` or ``..`` in a part of a path, after any number of decodings."""
    text = ""
    while text != segment:
        # A gateway before the server may decode the path as well, so `%252e` can become a dot.  Others replace characters
        # by those that look like them: a dot by U+2024 and U+FF0E, two by U+2025, and a slash by U+FF0F.
        text, segment = segment, normalized("NFKC", unquote(segment))
    # Some servers read a backslash as a slash, and drop the text after a semicolon.
    parts = re.split(r"[/\\]", segment)
    return any(part.partition(";")[0].strip() in _DOTS for part in parts)


def _pair(
    pair: Sequence[Piece],
    values: Mapping[str, Any],
    lookup: Callable[[Reference], str | None],
) -> str | None:
    written = ""
    for piece in pair:
        if isinstance(piece, str):
            written += encode_literal(piece)
            continue
        value = lookup(piece) if isinstance(piece, Reference) else values.get(piece.name)
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        written += encoded_list(as_text(item) for item in items)
    return written
