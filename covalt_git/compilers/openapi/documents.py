"""Documents of an API description: JSON or YAML with the place of each part, and the references between them.

A reference leads to a part of the same document, or to a file that the caller's reader knows.  No URL is ever
requested.  All documents of a description share the limits.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from covalt_git import yaml_text
from covalt_git.errors import CovaltError, Problem
from covalt_git.json_values import canonical_json
from covalt_git.json_values.pointer import REF
from covalt_git.yaml_text import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.json_values.pointer import Loc

    ReadFile = Callable[[str], bytes | None]
    """Return the content of a file by its path from the folder of the document; None if it does not exist."""

MAX_BYTES: Final = 20_000_000
MAX_VALUES: Final = 2_000_000
MAX_DEPTH: Final = 64

_MAX_DIGITS = 400
_MAX_CHAIN = 50
"""The longest chain of references to references; longer ones are considered circular."""

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_EMPTY = re.compile(r"\[\s*\]|\{\s*\}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_UNREAD = frozenset({"example", "examples", "default", "enum", "const"})
"""Keys whose values are data, in which ``$ref`` and ``$id`` have no meaning."""

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "schemas"})
"""Keys whose values are objects with names as keys."""


class BadDocumentError(CovaltError):
    """A text that is not a JSON or YAML document, is too large, or describes no API."""

    code = "bad_document"


_IDENTIFIERS = {"$id": "", "$anchor": "#", "$dynamicAnchor": "#"}
"""Keywords that give a schema an identifier, and the prefix of it in a reference."""


class ApiDocument:
    """The value of one document, with the places of its parts."""

    def __init__(
        self, path: str, text: str, data: Any, locate: Callable[..., tuple[int, int]]
    ) -> None:
        self.path = path
        self.data = data
        self.locate = locate
        # A search of the text is much faster than one of the values, and most documents have none.
        self._has_resources = any(key in text for key in _IDENTIFIERS)

    @cached_property
    def resources(self) -> dict[str, DocumentPart]:
        """The schemas with an identifier of their own, by it: ``$id`` without the fragment, ``#name`` for anchors."""
        resources: dict[str, DocumentPart] = {}
        waiting: list[DocumentPart] = []
        if self._has_resources:
            waiting.append(DocumentPart(self, (), self.data))
        while waiting:
            node = waiting.pop()
            if isinstance(node.value, dict):
                for key, name in _IDENTIFIERS.items():
                    identifier = node.value.get(key)
                    if isinstance(identifier, str):
                        resources.setdefault(name + identifier.removesuffix("#"), node)
            waiting += reversed(list(node.children()))
        return resources


class DocumentPart(NamedTuple):
    """A part of a document."""

    document: ApiDocument
    loc: Loc
    value: Any

    def at(self, *keys: str | int) -> DocumentPart:
        """Return the part below this one; its value is None if it is missing."""
        value = self.value
        for key in keys:
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                value = None
        return DocumentPart(self.document, (*self.loc, *keys), value)

    def entries(self) -> Iterator[tuple[str, DocumentPart]]:
        """Yield the entries of an object, without extensions; nothing for other values."""
        if isinstance(self.value, dict):
            for key, value in self.value.items():
                if not key.startswith("x-"):
                    yield key, DocumentPart(self.document, (*self.loc, key), value)

    def all_entries(self) -> Iterator[tuple[str, DocumentPart]]:
        """Yield the entries of an object whose keys are names, so that ``x-`` has no meaning."""
        if isinstance(self.value, dict):
            for key, value in self.value.items():
                yield key, DocumentPart(self.document, (*self.loc, key), value)

    def elements(self) -> Iterator[DocumentPart]:
        """Yield the items of a list; nothing for other values."""
        if isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield DocumentPart(self.document, (*self.loc, index), value)

    def children(self) -> Iterator[DocumentPart]:
        """Yield the parts in which references and identifiers have a meaning."""
        has_names = bool(self.loc) and self.loc[-1] in _NAMED
        for key, inner in self.all_entries() if has_names else self.entries():
            if has_names or key not in _UNREAD:
                yield inner
        yield from self.elements()

    def text(self, key: str) -> str:
        """Return the text at a key; empty for other values."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        """Return whether the value at a key is true."""
        return isinstance(self.value, dict) and self.value.get(key) is True

    @property
    def reference(self) -> str | None:
        """Its ``$ref``, if it is a text."""
        reference = self.value.get(REF) if isinstance(self.value, dict) else None
        return reference if isinstance(reference, str) else None

    @property
    def place(self) -> tuple[int, int]:
        """Line and column of its key, or of the item of a list."""
        return self.document.locate(self.loc, key=True)

    @property
    def identity(self) -> tuple[str, Loc]:
        """What distinguishes it from all other parts of the description."""
        return self.document.path, self.loc


class Documents:
    """A description: its document, and the files to which that refers."""

    def __init__(self, text: bytes | str, path: str, read_file: ReadFile | None) -> None:
        self.faults = Faults()
        self._read_file = read_file
        self._bytes = MAX_BYTES
        self._values = MAX_VALUES
        self._others: dict[str, ApiDocument | str] = {}
        self.main = self._loaded(text, path)
        self._others[posixpath.normpath(path)] = self.main

    @property
    def root(self) -> DocumentPart:
        """The document as a whole."""
        return DocumentPart(self.main, (), self.main.data)

    def follow(self, node: DocumentPart) -> DocumentPart:
        """Return the part to which the references of a part lead; a part without a value if they lead nowhere."""
        start = node
        for _ in range(_MAX_CHAIN):
            reference = node.reference
            if reference is None:
                return node
            target = self.resolve(node, reference)
            if target is None:
                return node._replace(value=None)
            node = target
        self.faults.add(start, "this $ref leads back to itself")
        return node._replace(value=None)

    def resolve(self, node: DocumentPart, reference: str) -> DocumentPart | None:
        """Return the part to which a reference at ``node`` leads; None, and a problem, if it is missing."""
        target = self._target(node, reference)
        if isinstance(target, DocumentPart):
            return target
        self.faults.add(node.at(REF), f"$ref {reference[:200]!r} {target}")
        return None

    def _target(self, node: DocumentPart, reference: str) -> DocumentPart | str:
        address, _, fragment = reference.partition("#")
        document = node.document
        start = DocumentPart(document, (), document.data)
        if address:
            resource = self.main.resources.get(address) or document.resources.get(address)
            if resource is None:
                other = self._file(document, address)
                if isinstance(other, str):
                    return other
                resource = DocumentPart(other, (), other.data)
            start = resource
        elif document.resources:
            start = self._own_resource(node)
        try:
            decoded = unquote(fragment, errors="strict")
        except UnicodeDecodeError:
            return "is not UTF-8"
        if decoded and not decoded.startswith("/"):
            anchored = start.document.resources.get(f"#{decoded}")
            return anchored or f"leads nowhere: there is no anchor {decoded[:80]!r}"
        target = _stepped(start, decoded)
        if target is None and start.loc:
            # In a schema with $id, many authors still write references from the beginning of the document.
            target = _stepped(DocumentPart(start.document, (), start.document.data), decoded)
        return target or "leads nowhere"

    def _own_resource(self, node: DocumentPart) -> DocumentPart:
        """Return the nearest schema with ``$id`` around a part, or the document."""
        part = DocumentPart(node.document, (), node.document.data)
        nearest = part
        for key in node.loc:
            part = part.at(key)
            if isinstance(part.value, dict) and isinstance(part.value.get("$id"), str):
                nearest = part
        return nearest

    def _file(self, document: ApiDocument, address: str) -> ApiDocument | str:
        """Return the document of a file beside another one, or the reason why it is missing."""
        if _SCHEME.match(address):
            return "is a URL, which is not fetched"
        decoded = unquote(address)
        folder = posixpath.dirname(document.path)
        path = posixpath.normpath(posixpath.join(folder, decoded))
        # Backslashes and NUL separate or end paths on some systems.
        if path.startswith(("../", "/")) or path == ".." or re.search(r"[\\\x00-\x1f:]", decoded):
            return "is outside of the folder of the document"
        if path not in self._others:
            self._others[path] = self._read(path)
        return self._others[path]

    def _read(self, path: str) -> ApiDocument | str:
        content = self._read_file(path) if self._read_file else None
        if content is None:
            return f"is in the file {path!r}, which does not exist here"
        try:
            return self._loaded(content, path)
        except BadDocumentError as error:
            first = error.problems[0] if error.problems else None
            why = f"{path}:{first.line}:{first.col}: {first.message}" if first else error.message
            return f"is in the file {path!r}: {why}"

    def _loaded(self, text: bytes | str, path: str) -> ApiDocument:
        size = len(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        if size > self._bytes:
            raise BadDocumentError(f"{path!r} is larger than {MAX_BYTES:,} bytes")
        document, values = load(text, path, max_values=self._values)
        self._bytes -= size
        self._values -= values
        return document


class Faults:
    """The problems of a description: each once, and not more than a reader would read."""

    MOST: Final = 1000

    def __init__(self) -> None:
        self._problems: dict[tuple[str, Loc, str], Problem] = {}

    def add(self, node: DocumentPart, message: str, hint: str = "") -> None:
        """Add a warning at a part."""
        key = (node.document.path, node.loc, message)
        if key in self._problems or len(self._problems) >= self.MOST:
            return
        line, col = node.place
        path = node.document.path
        self._problems[key] = Problem(path, line, col, BAD_PART, message, hint, "warning")

    def in_order(self) -> tuple[Problem, ...]:
        """Return the problems by their places."""
        return tuple(sorted(self._problems.values()))


BAD_PART: Final = "CG222"
"""Code of a part of a document that is wrong or not supported, and is left out."""


def load(text: bytes | str, path: str, *, max_values: int = MAX_VALUES) -> tuple[ApiDocument, int]:
    """Return the document of a text, and at most how many values it has.

    Raises:
        BadDocumentError: if it is neither JSON nor YAML, or exceeds a limit.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadDocumentError(f"{path!r} is not UTF-8 at byte {error.start}") from None
    text = text.removeprefix("\ufeff")
    if text[:200].lstrip()[:1] in {"{", "["}:
        try:
            return _load_json(text, path, max_values)
        except _NotJsonSyntaxError as error:
            if path.endswith(".json"):
                raise BadDocumentError(f"{path}:{error}") from None
    return _load_yaml(text, path, max_values)


class _NotJsonSyntaxError(Exception):
    """The text is not JSON, but may be YAML."""


def _load_json(text: str, path: str, max_values: int) -> tuple[ApiDocument, int]:
    values = 1 + text.count(",") + text.count("[") + text.count("{")
    if values > max_values:
        bare = _STRING.sub("0", text)
        empties = len(_EMPTY.findall(bare))
        values = 1 + bare.count(",") + bare.count("[") + bare.count("{") - empties
        if values > max_values:
            raise BadDocumentError(f"{path!r} has more than {MAX_VALUES:,} values")
    try:
        data = _JSON.decode(text)
    except json.JSONDecodeError as error:
        raise _NotJsonSyntaxError(canonical_json.syntax_problem(error)) from None
    except RecursionError:
        raise _too_deep(path) from None
    if _is_deep(data):
        raise _too_deep(path)
    if _SURROGATE.search(text):
        data = _without_surrogates(data)
    return ApiDocument(path, text, data, _JsonPlaces(text).locate), values


def _load_yaml(text: str, path: str, max_values: int) -> tuple[ApiDocument, int]:
    try:
        document = yaml_text.load(
            text, path, max_bytes=MAX_BYTES * 4, max_nodes=max_values, max_depth=MAX_DEPTH
        )
    except yaml_text.YamlProblems as error:
        message = f"{path!r} cannot be read as an API document"
        hint = "an OpenAPI document or a GraphQL schema is expected"
        raise BadDocumentError(message, hint=hint, problems=error.problems) from None
    return ApiDocument(path, text, document.data, document.locate), document.values


def _too_deep(path: str) -> BadDocumentError:
    return BadDocumentError(f"{path!r} has more than {MAX_DEPTH} nested objects and lists")


def _is_deep(data: Any) -> bool:
    level = [data]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _without_surrogates(value: Any) -> Any:
    """Return a value whose texts UTF-8 can represent."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() if not value.isascii() else value
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return [_without_surrogates(item) for item in value] if isinstance(value, list) else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        [(repeated, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise BadDocumentError(f"the key {repeated[:80]!r} is in an object twice")
    return value


def _integer(digits: str) -> int:
    # Python takes the square of the digits to parse an integer.
    if len(digits) > _MAX_DIGITS:
        raise BadDocumentError(f"a number of {len(digits):,} digits is too large")
    return int(digits)


def _double(digits: str) -> float:
    double = float(digits)
    if math.isinf(double):
        raise BadDocumentError(f"{digits[:40]} is too large for a JSON number")
    return double


def _no_constant(name: str) -> float:
    raise _NotJsonSyntaxError(f"1:1: {name} is not JSON")


_JSON = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_double,
    parse_constant=_no_constant,
)
_SKIP: Final[Any] = json.JSONDecoder(parse_int=len)
_STRING_AT: Final[Any] = json.decoder.scanstring  # type: ignore[attr-defined]
"""The decoder's function for one text, which the stubs of the standard library do not have."""


class _JsonPlaces:
    """Places in a JSON text, which are searched when they are needed, one level at a time.

    The decoder of the standard library skips values, so that a level costs as little as parsing it.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._levels: dict[int, dict[str | int, tuple[int, int]]] = {}

    def locate(self, loc: Loc, *, key: bool = False) -> tuple[int, int]:
        """Return line and column, from 1, of the value at ``loc``, or with ``key`` of its key."""
        at = key_at = self._skip_space(0)
        for part in loc:
            level = self._level(at)
            if part not in level:
                break
            key_at, at = level[part]
        return self._lines.locate(key_at if key else at)

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self._text)

    def _level(self, start: int) -> dict[str | int, tuple[int, int]]:
        """Return the places of the keys and values of the object or list that begins at ``start``."""
        if start not in self._levels:
            self._levels[start] = dict(self._entries(start))
        return self._levels[start]

    def _entries(self, start: int) -> Iterator[tuple[str | int, tuple[int, int]]]:
        text = self._text
        opening = text[start]
        if opening not in "{[":
            return
        at = self._skip_space(start + 1)
        index = 0
        while text[at] not in "}]":
            key: str | int = index
            key_at = at
            if opening == "{":
                key, at = _STRING_AT(text, at + 1)
                at = self._skip_space(self._skip_space(at) + 1)
            yield key, (key_at, at)
            at = self._skip_space(_SKIP.scan_once(text, at)[1])
            if text[at] == ",":
                at = self._skip_space(at + 1)
            index += 1

    def _skip_space(self, at: int) -> int:
        space = _SPACE.match(self._text, at)
        return space.end() if space else at


def _stepped(start: DocumentPart, pointer: str) -> DocumentPart | None:
    node = start
    for step in pointer.split("/")[1:]:
        key: str | int = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node.value, list) and _INDEX.fullmatch(str(key)):
            key = int(key)
        if isinstance(node.value, dict):
            if key not in node.value:
                return None
        elif not isinstance(node.value, list) or not isinstance(key, int) or key >= len(node.value):
            return None
        node = node.at(key)
    return node
