"""Documents in JSON, JSON with comments, YAML and TOML, with the place of each problem."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic_core import to_json

from covalt_git import yaml_text
from covalt_git.errors import CovaltError, Problem, in_order
from covalt_git.json_values import canonical_json
from covalt_git.json_values.levels import has_more_levels
from covalt_git.problems import codes
from covalt_git.yaml_text.document import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from covalt_git.json_values.pointer import Loc

Kind = Literal["json", "yaml", "toml", "folder"]
"""The syntax of a document; a folder can be in a ZIP."""

MAX_BYTES: Final = 64 << 20
_MAX_JSON_VALUES: Final = 3_000_000

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_COMMENTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?P<blank>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))')
_LAST_COMMAS = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?P<blank>,)(?=\s*[\]}])')
_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$|^(\d+):(\d+): ")
_YAML_START = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_SURROGATE = re.compile(r"\\u[dD][89abAB]")


class FormatError(CovaltError):
    """A document that cannot be converted."""

    code = "bad_format"
    http_status = 422


class BadPartsError(FormatError):
    """A document with wrong servers or skills, and others that could be converted without them.

    ``parts`` are the wrong ones, as JSON pointers or paths.
    """

    def __init__(self, path: str, parts: Collection[str], problems: Iterable[Problem]) -> None:
        result = in_order(problems)
        count = "1 part is" if len(parts) == 1 else f"{len(parts)} parts are"
        them = "it" if len(parts) == 1 else "them"
        hint = f"correct {them}, or leave {them} out: covalt-git convert --skip-bad"
        super().__init__(
            f"{count} wrong in {path!r}; nothing was written", hint=hint, problems=result
        )
        self.parts = tuple(sorted(parts))


@dataclass
class Document:
    """A parsed document, or the files of a folder or ZIP.

    ``path`` is the path in messages.  ``files`` are the files of a folder by path, and ``executable`` the paths of those
    that can be executed.  ``left_out`` are wrong parts and files that it no longer has, and why.  ``positions`` are the
    places of lists without some of their items, and the positions that the others have in the text.  ``elsewhere`` has the
    items of a list, with their positions, that only the program of the file can have.  ``name`` is that of
    the part of a file that this document is, and ``file_value`` is that of the file, for what it says about the part.
    """

    path: str
    kind: Kind
    value: Any
    text: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    executable: Collection[str] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    positions: Mapping[Loc, Sequence[int]] = field(default_factory=dict)
    elsewhere: Sequence[tuple[int, Any]] = ()
    name: str = ""
    file_value: Any = None

    def written_loc(self, loc: Loc) -> Loc:
        """Return the place that a value has in the text, which can have items that were left out."""
        for path, positions in self.positions.items():
            at, *inner = loc[len(path) :] or ("",)
            if loc[: len(path)] == path and isinstance(at, int):
                return (*path, positions[at], *inner)
        return loc

    @property
    def stem(self) -> str:
        """The file's name without its extensions, which is the default id of a toolset."""
        if self.name:
            return self.name
        name = self.path.rstrip("/").rpartition("/")[2].strip(".")
        return name.partition(".")[0] or "tools"

    def problem(
        self, loc: Loc, message: str, hint: str = "", code: str = codes.BAD_VALUE
    ) -> Problem:
        """Return a problem at a place of the document."""
        loc = self.written_loc(loc)
        line, col = self._place(loc)
        pointer = "/".join(str(part) for part in loc)
        return Problem(
            self.path, line, col, code, f"{pointer}: {message}" if loc else message, hint
        )

    def _place(self, loc: Loc) -> tuple[int, int]:
        """Return the line and the column of a value; 0 if they are not known."""
        if len(self._yaml_documents) > 1 and loc:
            return self._yaml_documents[int(loc[0])].locate(loc[1:])
        return next((document.locate(loc) for document in self._yaml_documents), (0, 0))

    @cached_property
    def _yaml_documents(self) -> list[yaml_text.YamlDocument]:
        """The documents of JSON or YAML with the places of their values; YAML 1.2 includes JSON."""
        texts = [without_comments(self.text)] if self.kind == "json" else _yaml_texts(self.text)
        limits = {"max_bytes": MAX_BYTES, "max_nodes": _MAX_JSON_VALUES}
        try:
            return [yaml_text.load(item, self.path, **limits) for item in texts]
        except yaml_text.YamlProblems:
            return []


def refuse(path: str, problems: Iterable[Problem]) -> FormatError:
    """Return the error of a document with problems."""
    ordered = in_order(problems)
    count = "1 problem" if len(ordered) == 1 else f"{len(ordered)} problems"
    return FormatError(f"{count} in {path!r}; nothing was written", problems=ordered)


def parse(content: bytes, path: str) -> Document:
    """Return the document of a file.

    A text that begins with a bracket is JSON.  Others are YAML, or TOML if YAML has no object or list there.

    Raises:
        FormatError: with all problems of the text.
    """
    if len(content) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES >> 20} MiB"
        raise refuse(path, [Problem(path, 0, 0, codes.TOO_LARGE, message, "split it")])
    begins = content.removeprefix(_BYTE_ORDER_MARK).lstrip()[:2]
    is_json = begins[:1] in (b"{", b"[") or begins in (b"//", b"/*")
    # A TOML file may begin with a bracket, as JSON does.
    if path.endswith(".toml"):
        return _toml(content, path)
    if is_json:
        return _json(content, path)
    try:
        several = _objects_by_document(content, path)
        if several is not None:
            return several
        document = yaml_text.load(content, path)
        if isinstance(document.data, dict | list):
            return Document(path, "yaml", document.data, document.text)
    except yaml_text.YamlProblems as error:
        if path.endswith((".yaml", ".yml")):
            raise refuse(path, error.problems) from None
    return _toml(content, path)


def _objects_by_document(content: bytes, path: str) -> Document | None:
    """Return a document whose value is a list, of a YAML file with an object of some ``kind`` in each document.

    Raises:
        YamlProblems: with the problems of one of them.
    """
    text = content.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")
    texts = _yaml_texts(text)
    if len(texts) == 1 or not all(re.search(r"^kind:", item, re.MULTILINE) for item in texts):
        return None
    result = [yaml_text.load(item, path).data for item in texts]
    are_objects = all(isinstance(item, dict) for item in result)
    return Document(path, "yaml", result, text) if are_objects else None


def _yaml_texts(text: str) -> list[str]:
    """Return the YAML documents of a text, each after as many line breaks as there are lines before it."""
    starts = [0, *(result.start() for result in _YAML_START.finditer(text)), len(text)]
    result = []
    for start, end in pairwise(starts):
        lines = text[start:end].splitlines()
        if any(item.strip() and not item.startswith(("#", "---")) for item in lines):
            # So that the lines of problems are those of the file.
            result.append("\n" * text.count("\n", 0, start) + text[start:end])
    return result or [text]


def _text(content: bytes, path: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        problem = Problem(path, 0, 0, codes.UNREADABLE, "the text is not UTF-8")
        raise refuse(path, [problem]) from None


def _json(content: bytes, path: str) -> Document:
    text = _text(content.removeprefix(_BYTE_ORDER_MARK), path)
    plain = text
    try:
        try:
            value = canonical_json.loads(text)
        except canonical_json.NotJsonError:
            # Only after an error: most files have no comments.
            plain = without_comments(text)
            value = canonical_json.loads(plain)
        # Half of a pair is valid JSON, and no text that can be stored or sent.
        if _SURROGATE.search(text):
            canonical_json.dumps(value)
    except canonical_json.NotJsonError as error:
        raise _json_problems(plain, path, error) from None
    return _checked(Document(path, "json", value, text))


def _json_problems(text: str, path: str, error: canonical_json.NotJsonError) -> FormatError:
    """Return all problems that the YAML reader finds, or the first that the JSON reader found."""
    if _AT_LINE.search(error.message) is None:
        try:
            yaml_text.load(text, path, max_bytes=MAX_BYTES, max_nodes=_MAX_JSON_VALUES)
        except yaml_text.YamlProblems as result:
            return refuse(path, result.problems)
    return _syntax_error(path, error.message)


def _syntax_error(path: str, message: str) -> FormatError:
    """Return the error of a parser, whose message can have a line and a column."""
    place = _AT_LINE.search(message)
    line, col = (int(item) for item in place.groups() if item) if place else (0, 0)
    message = _AT_LINE.sub("", message)
    return refuse(path, [Problem(path, line, col, codes.SYNTAX, message[:1].lower() + message[1:])])


def _toml(content: bytes, path: str) -> Document:
    text = _text(content, path)
    try:
        value = tomllib.loads(text)
        canonical_json.dumps(value)  # refuses dates and times, which JSON does not have
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, str(error)) from None
    except (canonical_json.NotJsonError, RecursionError) as error:
        raise refuse(path, [Problem(path, 0, 0, codes.NOT_JSON, str(error)[:200])]) from None
    return _checked(Document(path, "toml", value, text))


def without_comments(text: str) -> str:
    """Return JSON with spaces in place of comments and of commas before a closing bracket."""

    def blank(result: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", result[0]) if result["blank"] else result[0]

    return _LAST_COMMAS.sub(blank, _COMMENTS.sub(blank, text))


def _checked(document: Document) -> Document:
    """Return a document, unless it has too many levels."""
    if has_more_levels(document.value, MAX_DEPTH):
        message = f"more than {MAX_DEPTH} nested mappings and lists"
        raise refuse(document.path, [Problem(document.path, 0, 0, codes.TOO_LARGE, message)])
    return document


def json_text(value: Any) -> str:
    """Return JSON for people: indented, with the keys in their order."""
    return to_json(value, indent=2).decode() + "\n"


def toml_text(value: Mapping[str, Any]) -> str:
    """Return TOML of nested tables; a table that is in a list is written inline."""
    lines: list[str] = []
    _table(value, (), lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def _table(value: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    plain = {key: inner for key, inner in value.items() if not isinstance(inner, dict)}
    if path and (plain or not value):
        lines += ["", f"[{'.'.join(map(_toml_key, path))}]"]
    lines += [f"{_toml_key(key)} = {_toml_value(inner)}" for key, inner in plain.items()]
    for key, inner in value.items():
        if isinstance(inner, dict):
            _table(inner, (*path, key), lines)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        items = (f"{_toml_key(key)} = {_toml_value(inner)}" for key, inner in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if value is None:
        raise FormatError("TOML has no null")
    # A string of JSON is a basic string of TOML, except for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
