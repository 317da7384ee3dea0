"""Conversion of YAML events to values with their places, and the checks of each value.

It uses an explicit stack, so that deeply nested texts need no recursion.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from covalt_git.errors import Problem
from covalt_git.json_values.canonical_json import NotJsonError
from covalt_git.problems import codes
from covalt_git.text.display import shorten
from covalt_git.yaml_text.core_schema import NULLS, TEXT_STARTS, resolve
from covalt_git.yaml_text.document import Lines, YamlDocument, YamlProblems
from covalt_git.yaml_text.events import MarkedYAMLError, kinds, open_events
from covalt_git.yaml_text.surroundings import surroundings_of
from covalt_git.yaml_text.syntax_errors import CONFLICT, explanation

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.yaml_text.document import Place, Places
    from covalt_git.yaml_text.events import Event

_ODD_KEYS: Final = NULLS | {"<<"}
_GLUED_KEY = re.compile(r"(?<![^\s\[{,])\?(?=\S)")
"""A '?' without a space after it: ``{?a: 1}`` has the key ``a`` in libyaml, and ``?a`` in YAML 1.2."""

_NO_KEY: Final = "\ud800"
"""Placeholder of an invalid key, which is not equal to any text."""

_TAG = re.compile(r"(?:&[\w-]+(?:\s|#[^\r\n]*+)*+)?(!(?:<[^>\s]*>|[^\s,\[\]{}]*))")
"""A tag, optionally after an anchor."""

_CONFLICT_MIDDLE = r"(?m)^={7}(?=\r?$)"


def read(text: str, path: str, *, max_nodes: int, max_depth: int) -> YamlDocument:
    """Return the document of ``text``, which ``loading`` has checked.

    Raises:
        YamlProblems: with all problems up to the place where parsing stopped.
    """
    reader = _Reader(text, path, max_nodes=max_nodes, max_depth=max_depth)
    reader.read_events()
    if reader.problems:
        raise YamlProblems(path, reader.problems)
    documents = reader.documents
    if not documents.data:
        return YamlDocument(path, None, text, 0)
    return YamlDocument(path, documents.data[0], text, documents.places[0], reader.values)


class _OpenMapping:
    """A mapping before its end event; ``key`` is the last key, if its value has not been read yet."""

    __slots__ = ("anchor", "at", "data", "height", "key", "key_at", "nodes_before", "places")

    def __init__(self, event: Event, nodes_before: int) -> None:
        self.at = event.start_mark.index
        self.anchor = event.anchor
        self.nodes_before = nodes_before
        self.height = 1
        self.data: dict[str, Any] = {}
        self.places: dict[str, tuple[int, Place]] = {}
        self.key: str | None = None
        self.key_at = 0

    def put(self, value: Any, place: Place) -> None:
        """Add the value of the last key."""
        key = self.key
        assert key is not None
        self.data[key] = value
        self.places[key] = (self.key_at, place)
        self.key = None


class _OpenList:
    """A list whose end has not come yet."""

    __slots__ = ("anchor", "at", "data", "height", "nodes_before", "places")

    key: Final = ""
    """A list has no keys."""

    def __init__(self, event: Event | None, nodes_before: int) -> None:
        self.at = event.start_mark.index if event else 0
        self.anchor = event.anchor if event else None
        self.nodes_before = nodes_before
        self.height = 1
        self.data: list[Any] = []
        self.places: list[Place] = []

    def put(self, value: Any, place: Place) -> None:
        self.data.append(value)
        self.places.append(place)


class _Anchored(NamedTuple):
    """A complete value with an anchor."""

    value: Any
    inside: Places | None
    nodes: int
    height: int


class _Reader:
    """Builder of data and places from the parser's events, which collects problems."""

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

    def read_events(self) -> None:
        """Read all events.

        Four of five events are scalars.  They are read inline: function calls would add a tenth of the
        time.
        """
        next_event = open_events(self._text)
        scalar = kinds.ScalarEvent
        read_as: dict[type, Callable[[Event], None]] = {
            kinds.MappingStartEvent: lambda start: self._open(
                _OpenMapping(start, self._nodes), start
            ),
            kinds.SequenceStartEvent: lambda start: self._open(
                _OpenList(start, self._nodes), start
            ),
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
        event: Event | None = None
        top = self._top
        try:
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
                if not event.style and text[:1] not in TEXT_STARTS:
                    top.put(self._plain(text, at), at)
                else:
                    top.put(text, at)
        except MarkedYAMLError as error:
            self._note_syntax(error)
        except UnicodeDecodeError:  # in the first tag after the last event
            at = self._text.find("!", event.end_mark.index if event else 0)
            self._note(at, codes.TAG, "a tag that is not UTF-8", "remove the tag")

    @property
    def values(self) -> int:
        """The number of values that were read."""
        return self._nodes

    def _ignore(self, event: Event) -> None:
        """Ignore an event without content."""

    def _read_document_start(self, event: Event) -> None:
        if self.documents.data:
            self._end_reading(
                event.start_mark.index,
                codes.SYNTAX,
                "a second document starts here",
                "keep one document, or remove the `---`",
            )

    def _read_properties(self, event: Event, at: int) -> None:
        """Report a scalar's tag, and store the value of its anchor."""
        if event.tag is not None:
            self._note_tag(event)
        if event.anchor is not None:
            value = event.value if event.style else self._plain(event.value, at)
            self._anchors[event.anchor] = _Anchored(value, None, 1, 0)

    def _check_key(self, top: _OpenMapping, event: Event) -> None:
        key = event.value
        at = event.start_mark.index
        if key in _ODD_KEYS and not event.style:
            self._note_odd_key(key, at)
        elif self._text[at - 1] == "?":
            hint = "write a space after the '?', or quote the key"
            message = f"no space between '?' and the key {shorten(key)!r}"
            self._note(at - 1, codes.BAD_KEY, message, hint)
        elif key in top.data:
            line, _ = self._lines.locate(top.places[key][0])
            hint = f"keep this one or the one in line {line}"
            self._note(at, codes.DUPLICATE_KEY, f"duplicate key {shorten(key)!r}", hint)
            top.key = _NO_KEY  # so that another duplicate is also compared with the first key

    def _note_odd_key(self, key: str, at: int) -> None:
        if key == "<<":
            hint = 'write out the keys that it merges, or quote it: `"<<"`'
            self._note(at, codes.MERGE_KEY, "the merge key '<<'", hint)
        elif key:
            hint = f'quote it: `"{key}"`'
            self._note(
                at,
                codes.BAD_KEY,
                f"the key {key} means null in YAML, but a key must be a text",
                hint,
            )
        else:
            self._note(at, codes.BAD_KEY, "a value without a key", 'write an empty key as `""`')

    def _open(self, opened: _OpenMapping | _OpenList, event: Event) -> None:
        if event.tag is not None:
            self._note_tag(event)
        # An alias that is met before the end is inside of its own value: a circle, which JSON cannot have.
        if event.anchor is not None:
            self._anchors[event.anchor] = opened
        if self._top.key is None:
            hint = "write the key as one plain text"
            self._note(opened.at, codes.BAD_KEY, "a key that is a mapping or a list", hint)
        if len(self._parents) >= self._max_depth:
            self._refuse_depth(opened.at)
        self._nodes += 1
        if self._nodes > self._max_nodes:
            self._refuse_nodes(opened.at)
        self._parents.append(self._top)
        self._top = opened

    def _read_end(self, event: Event) -> None:  # noqa: ARG002 - an end event has no content
        ended = self._top
        top = self._top = self._parents.pop()
        if ended.height >= top.height:
            top.height = ended.height + 1
        # A value in it may have taken over the name of its anchor.
        if ended.anchor is not None and self._anchors[ended.anchor] is ended:
            nodes = self._nodes - ended.nodes_before
            anchored = _Anchored(ended.data, ended.places, nodes, ended.height)
            self._anchors[ended.anchor] = anchored
        if top.key is None:
            top.key = _NO_KEY
        else:
            top.put(ended.data, (ended.at, ended.places))

    def _read_alias(self, event: Event) -> None:
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
        # The value is in memory once, but each reader of the document walks it for each alias: ten aliases of ten
        # aliases, a few levels deep, are billions of values (test_bombs_are_refused_at_the_default_limits).
        self._nodes += anchored.nodes
        if self._nodes > self._max_nodes:
            self._refuse_nodes(at, "repeat less through aliases")
        if len(self._parents) + anchored.height > self._max_depth:
            self._refuse_depth(at)
        top.height = max(top.height, anchored.height + 1)
        top.put(anchored.value, at if anchored.inside is None else (at, anchored.inside))

    def _note_bad_alias(self, event: Event, *, known: bool) -> None:
        name = shorten(event.anchor or "")
        if known:
            message = f"the alias {name!r} is inside the value that it repeats"
            hint = "write the value instead"
        else:
            message = f"there is no anchor {name!r} above this alias"
            hint = f'quote a text that starts with a star: `"*{name}"`'
        self._note(event.start_mark.index, codes.ALIAS, message, hint)

    def _plain(self, text: str, at: int) -> str | int | float | bool | None:
        """Return the value of a plain scalar; its text if the value is invalid."""
        try:
            return resolve(text)
        except NotJsonError as error:
            self._note(at, codes.NOT_JSON, error.message, error.hint)
            return text

    def _refuse_nodes(self, at: int, hint: str = "") -> NoReturn:
        self._end_reading(at, codes.TOO_LARGE, f"more than {self._max_nodes} values", hint)

    def _refuse_depth(self, at: int) -> NoReturn:
        message = f"more than {self._max_depth} nested mappings and lists"
        self._end_reading(at, codes.TOO_LARGE, message)

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self._text)

    def _note(self, at: int, code: str, message: str, hint: str = "") -> None:
        line, col = self._lines.locate(at)
        self.problems.append(Problem(self._path, line, col, code, message, hint))

    def _end_reading(self, at: int, code: str, message: str, hint: str = "") -> NoReturn:
        self._note(at, code, message, hint)
        raise YamlProblems(self._path, self.problems)

    def _note_tag(self, event: Event) -> None:
        at = event.start_mark.index
        written = _TAG.match(self._text, at)
        if written:
            at = written.start(1)
        tag = shorten(written[1] if written else f"{event.tag}")
        self._note(at, codes.TAG, f"the tag {tag!r}", f"remove `{tag}`")

    def _note_syntax(self, error: MarkedYAMLError) -> None:
        # Only after an error: a line of seven equals signs can be part of a valid text.
        conflict = re.search(_CONFLICT_MIDDLE, self._text)
        if conflict:
            self._note(conflict.start(), CONFLICT.code, CONFLICT.message, CONFLICT.hint)
            return
        at = error.problem_mark.index if error.problem_mark else 0
        pattern = explanation(error.problem or "not YAML", self._text[at : at + 1])
        if pattern.code == codes.SYNTAX:
            around = surroundings_of(self._text, at)
            placed = around.explanation(at, self._lines, is_structural=pattern.structural)
            if placed is not None:
                self._note(placed.at, pattern.code, placed.message, placed.hint)
                return
        if pattern.at_start and error.context_mark:
            at = error.context_mark.index
        self._note(at, pattern.code, pattern.message, pattern.hint)
