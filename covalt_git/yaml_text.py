"""Strict YAML text to plain JSON values and back, with the line and column of every key and value.

The only module that imports ``yaml``, and of it only the parser: what a text means is decided here,
by the core schema of YAML 1.2.  Whatever two readers could see differently is refused and named:
duplicate keys, tags, merge keys, several documents, numbers that JSON cannot hold.  What the values
should be is for the models to say.

The parser hands out events one at a time and we keep our own stack, because the composer of libyaml
calls itself at every level: 30,000 opening brackets end the process.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
import string
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Protocol

import yaml
from yaml import events as kinds
from yaml.scanner import ScannerError

from covalt_git.canonical_json import NotJsonError
from covalt_git.errors import CovaltError, Problem
from covalt_git.models import problems as codes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from yaml.error import Mark

MAX_BYTES: Final = 1 << 20
MAX_NODES: Final = 20_000
MAX_DEPTH: Final = 64
MAX_DIGITS: Final = 400
"""Characters of an integer: a double has at most 309 digits, and every Python reads this many."""

_Place = int | tuple[int, "_Places"]
"""Where a value starts, as a character of the text; for a dict or a list with those inside it."""

_Places = dict[str, tuple[int, _Place]] | list[_Place]
"""For each key where it starts and the place of its value, or the place of each list item."""


class YamlProblems(CovaltError):  # noqa: N818 - it names what it holds, often more than one
    """A text that is not YAML, or not YAML that every reader understands alike."""

    code = "invalid_yaml"

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{count} in {path!r}", problems=sorted(problems))


@dataclass(frozen=True)
class Document:
    """The value of one YAML text, which can say where each of its parts stands.

    What an alias repeats is one object in ``data``, as in every YAML reader: do not change it.
    """

    path: str
    data: Any
    _text: str = field(repr=False, compare=False)
    _place: _Place | None = field(repr=False, compare=False)

    def locate(self, loc: Sequence[str | int], *, key: bool = False) -> tuple[int, int]:
        """Return line and column, from 1, of the value at ``loc``, or with ``key`` of its key.

        Parts that the document does not have are skipped, because pydantic puts the names of
        union members and of missing keys into ``loc``; so the answer is the deepest value that
        is there.
        """
        if self._place is None:
            return 1, 1
        place = self._place
        key_at: int | None = None
        for part in loc:
            inside = place[1] if isinstance(place, tuple) else []
            if isinstance(inside, dict) and isinstance(part, str) and part in inside:
                key_at, place = inside[part]
            elif isinstance(inside, list) and isinstance(part, int) and 0 <= part < len(inside):
                key_at, place = None, inside[part]
        value_at = place[0] if isinstance(place, tuple) else place
        return self._lines.locate(value_at if key_at is None or not key else key_at)

    @cached_property
    def _lines(self) -> _Lines:
        return _Lines(self._text)


def load(
    text: bytes | str,
    path: str,
    *,
    max_bytes: int = MAX_BYTES,
    max_nodes: int = MAX_NODES,
    max_depth: int = MAX_DEPTH,
) -> Document:
    """Return what ``text`` says; ``path`` is what people are told it was read from.

    ``max_nodes`` bounds the values, those that aliases repeat counted each time; ``max_depth``
    bounds the dicts and lists around a value.

    Raises:
        YamlProblems: with everything that is wrong, up to where reading had to end.
    """
    text = _decoded(text, path, max_bytes)
    reader = _Reader(text, path, max_nodes=max_nodes, max_depth=max_depth)
    reader.read()
    if reader.problems:
        raise YamlProblems(path, reader.problems)
    if not reader.documents.data:
        return Document(path, None, text, None)
    return Document(path, reader.documents.data[0], text, reader.documents.places[0])


def load_file(
    file: Path,
    path: str,
    *,
    max_bytes: int = MAX_BYTES,
    max_nodes: int = MAX_NODES,
    max_depth: int = MAX_DEPTH,
) -> Document:
    """Return what the regular file ``file`` says; see :func:`load`.

    Raises:
        YamlProblems: also when the file cannot be read, is too large or is not a regular file.
    """
    try:
        with open(file, "rb", opener=_open_at_once) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _refusal(path, codes.UNREADABLE, "not a regular file")
            text = stream.read(max_bytes + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise _refusal(path, codes.UNREADABLE, f"cannot be read: {reason}") from None
    except ValueError:  # the path holds a NUL
        raise _refusal(path, codes.UNREADABLE, "not a path that a file can have") from None
    return load(text, path, max_bytes=max_bytes, max_nodes=max_nodes, max_depth=max_depth)


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting, as a pipe would until somebody writes into it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _refusal(path: str, code: str, message: str, hint: str = "") -> YamlProblems:
    """Return the problem of a file as a whole."""
    return YamlProblems(path, [Problem(path, 0, 0, code, message, hint)])


_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""What YAML 1.2 (5.1) does not allow; and the byte order mark and the line ends of YAML 1.1 that
YAML 1.2 reads as text: two readers would see two documents."""

_HARMLESS: Final = string.printable.encode().translate(None, b"\v\f")

_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_END = re.compile(r"\r\n?|\n")
_CONFLICT_ENDS = re.compile(r"^(?:<{7}|>{7})(?= |\r?$)", re.MULTILINE)
_CONFLICT_MIDDLE = re.compile(r"^={7}(?=\r?$)", re.MULTILINE)


class _Lines:
    """The lines of a text."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def locate(self, at: int) -> tuple[int, int]:
        """Return line and column, from 1, of the character ``at``."""
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1


def _decoded(text: bytes | str, path: str, max_bytes: int) -> str:
    """Return the text without its byte order mark, of characters that YAML allows.

    Raises:
        YamlProblems: naming the first byte or character that is not allowed.
    """
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    if len(text) > max_bytes:
        raise _refusal(path, codes.TOO_LARGE, f"larger than {max_bytes} bytes")
    text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        characters = text.decode("utf-8")
    except UnicodeDecodeError as error:
        before = text[: error.start].decode("utf-8")
        line, col = _Lines(before).locate(len(before))
        message = f"the byte 0x{text[error.start]:02x} is not UTF-8"
        problem = Problem(
            path, line, col, codes.UNREADABLE, message, "save the file with the encoding UTF-8"
        )
        raise YamlProblems(path, [problem]) from None
    if text.translate(None, _HARMLESS):  # far quicker than to search, and enough for most texts
        _refuse_forbidden_characters(characters, path)
    # libyaml reads a block scalar without the last line end as another text than YAML 1.2 does.
    return characters if characters.endswith("\n") else characters + "\n"


def _refuse_forbidden_characters(text: str, path: str) -> None:
    found = _FORBIDDEN.search(text)
    if found is None:
        return
    number = ord(found[0])
    escape = f"\\x{number:02x}" if number <= 0xFF else f"\\u{number:04x}"  # noqa: PLR2004
    line, col = _Lines(text).locate(found.start())
    message = f"the character U+{number:04X} cannot stand in YAML"
    hint = f"remove it, or write `{escape}` between double quotes"
    raise YamlProblems(path, [Problem(path, line, col, codes.SYNTAX, message, hint)])


class _Event(Protocol):
    """What we read of the parsers' events; each kind has only some of it."""

    start_mark: Mark
    end_mark: Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None


def _events(text: str) -> Callable[[], _Event | None]:
    """Return what gives the next event of ``text``, by libyaml where PyYAML has it."""
    if not yaml.__with_libyaml__:
        return _pure_python_events(text)
    parser: Any = yaml.CBaseLoader(text)
    next_event: Callable[[], _Event | None] = parser.get_event
    return next_event


def _end_of_readable(text: str) -> int:
    """Return where the last event ends before the one that cannot be made."""
    next_event = _events(text)
    end = 0
    with contextlib.suppress(UnicodeDecodeError):
        while (event := next_event()) is not None:
            end = event.end_mark.index
    return end


def _pure_python_events(text: str) -> Callable[[], _Event | None]:
    """Return what gives the next event by PyYAML's own parser, as strict on escapes as libyaml."""
    parser: Any = yaml.BaseLoader(text)

    def refuse_escape() -> NoReturn:
        raise ScannerError(None, None, "found invalid Unicode character escape", parser.get_mark())

    def next_event() -> _Event | None:
        try:
            event: _Event | None = parser.get_event()
        except (ValueError, OverflowError):  # chr() of an escape beyond Unicode
            refuse_escape()
        if isinstance(event, kinds.ScalarEvent) and _SURROGATE.search(event.value):
            refuse_escape()
        return event

    return next_event


class _OpenMapping:
    """A mapping whose end has not come yet; ``key`` is the one that waits for its value."""

    __slots__ = ("anchor", "at", "data", "height", "key", "key_at", "nodes_before", "places")

    def __init__(self, event: _Event, nodes_before: int) -> None:
        self.at = event.start_mark.index
        self.anchor = event.anchor
        self.nodes_before = nodes_before
        self.height = 1
        self.data: dict[str, Any] = {}
        self.places: dict[str, tuple[int, _Place]] = {}
        self.key: str | None = None
        self.key_at = 0

    def put(self, value: Any, place: _Place) -> None:
        """Give the waiting key its value."""
        key = self.key
        assert key is not None
        self.data[key] = value
        self.places[key] = (self.key_at, place)
        self.key = None


class _OpenList:
    """A list whose end has not come yet."""

    __slots__ = ("anchor", "at", "data", "height", "nodes_before", "places")

    key: Final = ""
    """A list never waits for a key."""

    def __init__(self, event: _Event | None, nodes_before: int) -> None:
        self.at = event.start_mark.index if event else 0
        self.anchor = event.anchor if event else None
        self.nodes_before = nodes_before
        self.height = 1
        self.data: list[Any] = []
        self.places: list[_Place] = []

    def put(self, value: Any, place: _Place) -> None:
        """Add an item."""
        self.data.append(value)
        self.places.append(place)


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A finished value that an alias can repeat."""

    value: Any
    inside: _Places | None
    nodes: int
    height: int


_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER_END: Final = 10 ** (MAX_DIGITS - 1)
_TEXT_STARTS: Final = frozenset(string.printable) - frozenset("+-.0123456789~nNtTfF")
"""With these no constant and no number starts; characters beyond ASCII are only looked at later."""

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_ODD_KEYS: Final = frozenset({"<<", "", "~", "null", "Null", "NULL"})
_GLUED_KEY = re.compile(r"(?<![^\s\[{,])\?(?=\S)")
"""libyaml reads ``{?a: 1}`` as the key ``a``, YAML 1.2 as the key ``?a``."""

_NO_KEY: Final = "\ud800"
"""Stands for a key that could not be read; no text can be equal to it."""

_TAG = re.compile(r"(?:&[\w-]+(?:\s|#[^\r\n]*+)*+)?(!(?:<[^>\s]*>|[^\s,\[\]{}]*))")
"""A tag with the anchor that may stand before it."""

_TAG_DIRECTIVE = re.compile(r"(?:^|(?<=\r))(%TAG[ \t][^\r\n]*)", re.MULTILINE)
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n?|\n))*(%[^\r\n]*)")
"""A directive with the empty lines and comments above it."""

_YAML_1 = re.compile(r"%YAML[ \t]+1\.[0-9]+(?:[ \t]+#.*|[ \t]*)")


class _Explanation(NamedTuple):
    """What a message of libyaml or of PyYAML means to a person."""

    said: str
    message: str
    hint: str
    code: str = codes.SYNTAX
    where_it_began: bool = False
    """Whether to show where it began, instead of where the parser gave up."""


class _EndOfReadingError(Exception):
    """What follows cannot be read; the problem is noted."""


class _Reader:
    """Builds data and places from the parser's events, and notes what is wrong."""

    def __init__(self, text: str, path: str, *, max_nodes: int, max_depth: int) -> None:
        self.problems: list[Problem] = []
        self.documents = _OpenList(None, 0)
        self._text = text
        self._path = path
        self._max_nodes = max_nodes
        self._max_depth = max_depth
        self._nodes = 0
        self._top: _OpenMapping | _OpenList = self.documents
        self._parents: list[_OpenMapping | _OpenList] = []
        self._anchors: dict[str, _Anchored | _OpenMapping | _OpenList] = {}

    def read(self) -> None:
        """Read the whole text, or as much as can be read."""
        try:
            self._check_conflict()
            self._check_directives()
            self._read_events()
        except _EndOfReadingError:
            return
        except yaml.MarkedYAMLError as error:
            self._note_syntax(error)
        except UnicodeDecodeError:  # of the %-escapes of a tag, which libyaml does not check
            at = self._text.find("!", _end_of_readable(self._text))
            self._note(at, codes.TAG, "a tag that is not UTF-8", "remove the tag")

    def _check_conflict(self) -> None:
        """Refuse the ends of a conflict anywhere: a list in brackets would take them for texts."""
        if "<<<<<<<" not in self._text and ">>>>>>>" not in self._text:
            return
        conflict = _CONFLICT_ENDS.search(self._text)
        if conflict:
            self._note_conflict(conflict.start())
            raise _EndOfReadingError

    def _check_directives(self) -> None:
        """Refuse all but ``%YAML 1.x``; libyaml would need seconds for a thousand ``%TAG``."""
        if "%" not in self._text:
            return
        found = _TAG_DIRECTIVE.search(self._text)
        if not found:
            found = _DIRECTIVE.match(self._text)
            while found and _YAML_1.fullmatch(found[1]):
                found = _DIRECTIVE.match(self._text, found.end())
        if found:
            directive = _shortened(found[1])
            message = f"the directive {directive!r}"
            self._end_reading(found.start(1), codes.SYNTAX, message, "remove the line")

    def _read_events(self) -> None:
        """Read event by event.

        Four of five events are scalars, so they are read right here: a call for each of them
        would take a tenth of the time that reading takes.
        """
        next_event = _events(self._text)
        scalar = kinds.ScalarEvent
        read_as: dict[type, Callable[[_Event], None]] = {
            kinds.MappingStartEvent: self._read_mapping_start,
            kinds.SequenceStartEvent: self._read_list_start,
            kinds.MappingEndEvent: self._read_end,
            kinds.SequenceEndEvent: self._read_end,
            kinds.AliasEvent: self._read_alias,
            kinds.DocumentStartEvent: self._read_document_start,
            kinds.DocumentEndEvent: self._ignore,
            kinds.StreamStartEvent: self._ignore,
            kinds.StreamEndEvent: self._ignore,
        }
        glued = (
            {mark.end() for mark in _GLUED_KEY.finditer(self._text)} if "?" in self._text else ()
        )
        top = self._top
        while (event := next_event()) is not None:
            kind: type = type(event)
            if kind is not scalar:
                read_as[kind](event)
                top = self._top
                continue
            text = event.value
            at = event.start_mark.index
            if event.tag is not None or event.anchor is not None:
                self._read_properties(event, at)
            if top.key is None:
                top.key = text
                top.key_at = at
                if text in top.data or text in _ODD_KEYS or at in glued:
                    self._check_key(top, event)
                continue
            self._nodes += 1
            if self._nodes > self._max_nodes:
                self._refuse_nodes(at)
            if not event.style and text[:1] not in _TEXT_STARTS:
                top.put(self._plain(text, at), at)
            else:
                top.put(text, at)

    def _ignore(self, event: _Event) -> None:
        """Read what says nothing."""

    def _read_document_start(self, event: _Event) -> None:
        if self.documents.data:
            self._end_reading(
                event.start_mark.index,
                codes.SYNTAX,
                "a second document starts here",
                "keep one document, or remove the `---`",
            )

    def _read_properties(self, event: _Event, at: int) -> None:
        """Note a scalar's tag and keep what its anchor names."""
        if event.tag is not None:
            self._note_tag(event)
        if event.anchor is not None:
            value = event.value if event.style else self._plain(event.value, at)
            self._anchors[event.anchor] = _Anchored(value, None, 1, 0)

    def _check_key(self, top: _OpenMapping, event: _Event) -> None:
        key = event.value
        at = event.start_mark.index
        if key in _ODD_KEYS and not event.style:
            self._note_odd_key(key, at)
        elif self._text[at - 1] == "?":
            hint = "write a space behind the '?', or quote the key"
            self._note(at - 1, codes.BAD_KEY, f"a '?' glued to the key {_shortened(key)!r}", hint)
        elif key in top.data:
            line, _ = self._lines.locate(top.places[key][0])
            hint = f"keep this one or the one in line {line}"
            self._note(at, codes.DUPLICATE_KEY, f"duplicate key {_shortened(key)!r}", hint)
            top.key = _NO_KEY  # the next one of its name is told of the first

    def _note_odd_key(self, key: str, at: int) -> None:
        if key == "<<":
            hint = 'write out the keys that it merges, or quote it: `"<<"`'
            self._note(at, codes.MERGE_KEY, "the merge key '<<'", hint)
        elif key:
            hint = f'quote it: `"{key}"`'
            self._note(at, codes.BAD_KEY, f"the key {key!r} means nothing, not a text", hint)
        else:
            self._note(at, codes.BAD_KEY, "a value without a key", 'write an empty key as `""`')

    def _read_mapping_start(self, event: _Event) -> None:
        self._open(_OpenMapping(event, self._nodes), event)

    def _read_list_start(self, event: _Event) -> None:
        self._open(_OpenList(event, self._nodes), event)

    def _open(self, opened: _OpenMapping | _OpenList, event: _Event) -> None:
        if event.tag is not None:
            self._note_tag(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = opened
        if self._top.key is None:
            hint = "write the key as one plain text"
            self._note(opened.at, codes.BAD_KEY, "a key that is a mapping or a list", hint)
        if len(self._parents) >= self._max_depth:
            self._end_reading(opened.at, codes.TOO_LARGE, self._too_deep)
        self._nodes += 1
        if self._nodes > self._max_nodes:
            self._refuse_nodes(opened.at)
        self._parents.append(self._top)
        self._top = opened

    def _read_end(self, event: _Event) -> None:  # noqa: ARG002 - it only says that it is the end
        ended = self._top
        top = self._top = self._parents.pop()
        if ended.height >= top.height:
            top.height = ended.height + 1
        if ended.anchor is not None and self._anchors[ended.anchor] is ended:
            nodes = self._nodes - ended.nodes_before
            anchored = _Anchored(ended.data, ended.places, nodes, ended.height)
            self._anchors[ended.anchor] = anchored
        if top.key is None:
            top.key = _NO_KEY
        else:
            top.put(ended.data, (ended.at, ended.places))

    def _read_alias(self, event: _Event) -> None:
        at = event.start_mark.index
        top = self._top
        if top.key is None:
            self._note(at, codes.BAD_KEY, "a key that is an alias", "write the key itself")
            top.key = _NO_KEY
            return
        anchored = self._anchors.get(event.anchor or "")
        if not isinstance(anchored, _Anchored):
            self._note_bad_alias(event, known=anchored is not None)
            anchored = _Anchored(None, None, 1, 0)
        self._nodes += anchored.nodes
        if self._nodes > self._max_nodes:
            self._refuse_nodes(at, "repeat less through aliases")
        if len(self._parents) + anchored.height > self._max_depth:
            self._end_reading(at, codes.TOO_LARGE, self._too_deep)
        top.height = max(top.height, anchored.height + 1)
        top.put(anchored.value, at if anchored.inside is None else (at, anchored.inside))

    def _note_bad_alias(self, event: _Event, *, known: bool) -> None:
        name = _shortened(event.anchor or "")
        message = f"no anchor {name!r} above this alias"
        hint = f'quote a text that starts with a star: `"*{name}"`'
        if known:
            message = f"the alias {name!r} stands inside what it repeats"
            hint = "write the value out"
        self._note(event.start_mark.index, codes.ALIAS, message, hint)

    def _plain(self, text: str, at: int) -> str | int | float | bool | None:
        """Return what a text without quotes means (YAML 1.2, 10.3.2)."""
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INTEGER.fullmatch(text):
            if len(text) <= MAX_DIGITS:
                return int(text, 0) if text[1:2] in ("o", "x") else int(text)
            message = f"{_shortened(text)!r} is beyond what JSON numbers hold"
            self._note(at, codes.NOT_JSON, message, "quote it")
        elif _FLOAT.fullmatch(text):
            number = float(text)
            if abs(number) != float("inf"):
                return number
            message = f"{_shortened(text)!r} is beyond what JSON numbers hold"
            self._note(at, codes.NOT_JSON, message, "quote it")
        elif _NOT_FINITE.fullmatch(text):
            message = f"{text!r} is no JSON number"
            self._note(at, codes.NOT_JSON, message, f'quote it: `"{text}"`')
        return text

    def _refuse_nodes(self, at: int, hint: str = "") -> NoReturn:
        self._end_reading(at, codes.TOO_LARGE, f"more than {self._max_nodes} values", hint)

    @property
    def _too_deep(self) -> str:
        return f"more than {self._max_depth} mappings and lists inside each other"

    @cached_property
    def _lines(self) -> _Lines:
        return _Lines(self._text)

    def _note(self, at: int, code: str, message: str, hint: str = "") -> None:
        line, col = self._lines.locate(at)
        self.problems.append(Problem(self._path, line, col, code, message, hint))

    def _end_reading(self, at: int, code: str, message: str, hint: str = "") -> NoReturn:
        self._note(at, code, message, hint)
        raise _EndOfReadingError

    def _note_tag(self, event: _Event) -> None:
        at = event.start_mark.index
        written = _TAG.match(self._text, at)
        tag = _shortened(written[1] if written else f"{event.tag}")
        self._note(
            written.start(1) if written else at,
            codes.TAG,
            f"the tag {tag!r}",
            f"remove `{tag}`",
        )

    def _note_conflict(self, at: int) -> None:
        self._note(at, codes.SYNTAX, "a merge conflict marker", "resolve the merge conflict")

    def _note_syntax(self, error: yaml.MarkedYAMLError) -> None:
        conflict = _CONFLICT_MIDDLE.search(self._text)
        if conflict:
            self._note_conflict(conflict.start())
            return
        found_at = error.problem_mark.index if error.problem_mark else 0
        began_at = error.context_mark.index if error.context_mark else found_at
        found = self._text[found_at : found_at + 1]
        said = f"{error.problem}, at {found}"
        for explained in _EXPLANATIONS:
            if re.search(explained.said, said):
                at = began_at if explained.where_it_began else found_at
                message = explained.message.replace("{found}", repr(found))
                hint = explained.hint.replace("{found}", repr(found))
                self._note(at, explained.code, message, hint)
                return
        self._note(found_at, codes.SYNTAX, error.problem or "not YAML")


_EXPLANATIONS: Final = (
    _Explanation(
        "mapping values are not allowed",
        "a ':' where no key can start",
        "line the key up with those above, or quote a text that holds ': '",
    ),
    _Explanation(
        "could not find expected ':'",
        "a line without 'key:'",
        "write `key: value`, or indent what continues the text above",
        where_it_began=True,
    ),
    _Explanation(
        "expected key|expected '-'|expected <block end>",
        "this belongs to nothing above it",
        "line it up with the keys or items that it belongs to",
    ),
    _Explanation(
        "cannot start any token, at \t|found a tab",
        "a tab where only spaces can stand",
        "indent with spaces",
    ),
    _Explanation("cannot start any token", "a text that starts with {found}", "quote the text"),
    _Explanation(
        "expected ',' or '[]}]'.*, at $",
        "this bracket is never closed",
        "close it with `]` or `}`",
        where_it_began=True,
    ),
    _Explanation(
        "node content, at $", "the text ends inside brackets", "close them with `]` or `}`"
    ),
    _Explanation(
        "expected ',' or ']'",
        "no ',' or ']' after an item",
        "write `[a, b]`, or quote a text that holds brackets",
    ),
    _Explanation(
        "expected ',' or '}'",
        "no ',' or '}' after a value",
        "write `{a: 1, b: 2}`, or quote a text that holds brackets",
    ),
    _Explanation(
        "expected (?:the )?node content",
        "no value before {found}",
        "add it, or quote a text that holds {found}",
    ),
    _Explanation(
        "sequence entries are not allowed",
        "a list cannot start here",
        "start it on a line of its own, or quote a text that starts with '- '",
    ),
    _Explanation(
        "unexpected end of stream",
        "this quoted text never ends",
        "close it with the quote that it starts with",
        where_it_began=True,
    ),
    _Explanation(
        "unexpected document",
        "a line of '---' or '...' in a quoted text",
        "indent the line",
    ),
    _Explanation(
        "unknown escape",
        "an escape that YAML does not have",
        "write a backslash as `\\\\`, or use single quotes",
    ),
    _Explanation(
        "Unicode character escape",
        "an escape that is no character",
        "write the character itself",
    ),
    _Explanation(
        "alphabetic or numeric", "no name after '&' or '*'", "quote a text that starts so"
    ),
    _Explanation("undefined tag handle", "a tag", "remove it", code=codes.TAG),
    _Explanation("incompatible", "a version of YAML that is not 1.2", "remove the line"),
    _Explanation("directive", "a directive that YAML does not have", "remove the line"),
    _Explanation("<document start>", "more text after the end", "remove it, or indent it"),
)
"""Searched in order in what the parsers say, with the character where they gave up behind it."""


_PLAIN = re.compile(r"[^\W\d](?:[\w./@+~$*()%,;!?'=-]|:(?=[\w/])| (?=[\w(]))*")
"""Texts that every reader takes for themselves: they start with a letter and stay simple."""

_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_MAX_SIMPLE_KEY: Final = 1000
"""Past 1,024 characters a parser no longer looks for the colon."""

_MAX_SHOWN: Final = 60


def dump(data: Any, header: str = "") -> str:
    """Return ``data`` as YAML for files that the machine writes, below ``header`` as a comment.

    One fact a line and keys sorted, so that branches merge; a text is quoted wherever a reader of
    YAML 1.1 or 1.2 could see something else in it.  ``load(dump(data)).data == data``, as far as
    the limits of :func:`load` go.

    Raises:
        NotJsonError: naming the place of what is not a JSON value, or deeper than ``MAX_DEPTH``.
    """
    comment = [f"# {_escaped(line)}".rstrip() for line in header.splitlines()]
    return "\n".join([*comment, *_written(data, "$", 0)]) + "\n"


def _written(value: Any, place: str, depth: int) -> Iterator[str]:
    """Give the lines of a value, the first without what stands before it."""
    if not isinstance(value, dict | list) or not value:
        yield _written_leaf(value, place)
        return
    if depth == MAX_DEPTH:
        raise NotJsonError(f"{place}: this is nested too deeply")
    if isinstance(value, list):
        for position, item in enumerate(value):
            first, *rest = _written(item, f"{place}[{position}]", depth + 1)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
        return
    yield from _written_mapping(value, place, depth)


def _written_mapping(value: dict[str, Any], place: str, depth: int) -> Iterator[str]:
    for key in value:
        if type(key) is not str:
            raise NotJsonError(f"{place}: the key {key!r} is not a string")
    for key in sorted(value):
        item = value[key]
        before = f"{_written_text(key, place)}:"
        if len(before) > _MAX_SIMPLE_KEY:
            yield f"? {before[:-1]}"
            before = ":"
        lines = _written(item, f"{place}.{key}", depth + 1)
        if isinstance(item, dict | list) and item:
            yield before
            yield from (f"  {line}" for line in lines)
        else:
            yield f"{before} {next(lines)}"


def _written_leaf(value: Any, place: str) -> str:
    """Return a value without values in it, on one line."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    kind = type(value)
    if kind is str:
        return _written_text(value, place)
    if kind is int:
        if abs(value) < _INTEGER_END:
            return str(value)
        raise NotJsonError(f"{place}: an integer beyond what JSON numbers hold")
    if kind is float and math.isfinite(value):
        # YAML 1.1 takes 1e+16 for a text.
        mantissa, exponent, power = repr(value).partition("e")
        return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else repr(value)
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    raise NotJsonError(f"{place}: a {kind.__name__} is not a JSON value")


def _written_text(text: str, place: str) -> str:
    if _SURROGATE.search(text):
        raise NotJsonError(f"{place}: half of a surrogate pair is not text")
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _escaped(json.dumps(text, ensure_ascii=False))


def _escaped(text: str) -> str:
    """Return ``text`` with escapes for what cannot stand in YAML."""
    return _FORBIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _shortened(text: str) -> str:
    """Return as much of ``text`` as a message should show."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
