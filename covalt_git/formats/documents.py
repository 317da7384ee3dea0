"""Documents in JSON, JSON with comments, YAML and TOML, with the place of each problem."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from covalt_git import yaml_text
from covalt_git.errors import CovaltError, Problem
from covalt_git.json_values import canonical_json
from covalt_git.problems import codes
from covalt_git.yaml_text.document import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.json_values.pointer import Loc

Kind = Literal["json", "yaml", "toml", "folder"]
"""The syntax of a document; a folder can be in a ZIP."""

MAX_BYTES: Final = 64 << 20
_MAX_JSON_VALUES: Final = 3_000_000

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_COMMENTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?P<blank>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))')
_LAST_COMMAS = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?P<blank>,)(?=\s*[\]}])')
_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$|^(\d+):(\d+): ")
_encode = json.JSONEncoder(ensure_ascii=False).encode
_SURROGATE = re.compile(r"\\u[dD][89abAB]")


class FormatError(CovaltError):
    """A document that cannot be converted."""

    code = "bad_format"
    http_status = 422


class Document:
    """A parsed document, or the files of a folder or ZIP.

    ``path`` is the path in messages.  ``files`` are the files of a folder by path; its value is None.
    """

    def __init__(
        self,
        path: str,
        kind: Kind,
        value: Any,
        text: str = "",
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self.path = path
        self.kind = kind
        self.value = value
        self.text = text
        self.files = dict(files or {})

    @property
    def stem(self) -> str:
        """The file's name without its extensions, which is the default id of a toolset."""
        name = self.path.rstrip("/").rpartition("/")[2].strip(".")
        return name.partition(".")[0] or "tools"

    def with_value(self, value: Any) -> Document:
        """Return the document with a corrected value."""
        return Document(self.path, self.kind, value, self.text, self.files)

    def problem(
        self, loc: Loc, message: str, hint: str = "", code: str = codes.BAD_VALUE
    ) -> Problem:
        """Return a problem at a place of the document."""
        line, col = self._places.locate(loc) if self._places else (0, 0)
        pointer = "/".join(str(part) for part in loc)
        return Problem(
            self.path, line, col, code, f"{pointer}: {message}" if loc else message, hint
        )

    @cached_property
    def _places(self) -> yaml_text.YamlDocument | None:
        """The places of a JSON or YAML document; YAML 1.2 includes JSON."""
        try:
            text = without_comments(self.text) if self.kind == "json" else self.text
            return yaml_text.load(text, self.path, max_bytes=MAX_BYTES, max_nodes=_MAX_JSON_VALUES)
        except yaml_text.YamlProblems:
            return None


def refuse(path: str, problems: Iterable[Problem]) -> FormatError:
    """Return the error of a document with problems."""
    found = sorted(set(problems))
    count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
    return FormatError(f"{count} in {path!r}; nothing was written", problems=found)


def parse(content: bytes, path: str) -> list[Document]:
    """Return the document of a file, in each syntax that it can have.

    A text that begins with a bracket is JSON.  Others are YAML, TOML or both.

    Raises:
        FormatError: with all problems of the text.
    """
    if len(content) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES >> 20} MiB"
        raise refuse(path, [Problem(path, 0, 0, codes.TOO_LARGE, message, "split it")])
    begins = content.removeprefix(_BYTE_ORDER_MARK).lstrip()[:2]
    is_json = begins[:1] in (b"{", b"[") or begins in (b"//", b"/*")
    if is_json and not path.endswith(".toml"):
        return [_json(content, path)]
    return _yaml_or_toml(content, path)


def _json(content: bytes, path: str) -> Document:
    content = content.removeprefix(_BYTE_ORDER_MARK)
    text = content.decode("utf-8", "replace")
    try:
        value = canonical_json.loads(content)
    except canonical_json.NotJsonError as error:
        plain = without_comments(text).encode()
        if plain == content:
            raise _json_problems(content, path, error) from None
        try:
            value = canonical_json.loads(plain)
        except canonical_json.NotJsonError as second:
            raise _json_problems(plain, path, second) from None
    if _too_deep(value):
        raise refuse(path, [Problem(path, 0, 0, codes.TOO_LARGE, _DEEP)])
    if _SURROGATE.search(text) and not _is_unicode(value):
        message = "a text contains an unpaired surrogate"
        raise _json_problems(content, path, canonical_json.NotJsonError(message))
    return Document(path, "json", value, text)


def _json_problems(content: bytes, path: str, error: canonical_json.NotJsonError) -> FormatError:
    """Return all problems that the YAML reader finds, or the first that the JSON reader found."""
    place = _AT_LINE.match(error.message)
    if place is None:
        try:
            yaml_text.load(content, path, max_bytes=MAX_BYTES, max_nodes=_MAX_JSON_VALUES)
        except yaml_text.YamlProblems as found:
            return refuse(path, found.problems)
    line, col = (int(place[3]), int(place[4])) if place else (0, 0)
    message = _AT_LINE.sub("", error.message)
    return refuse(path, [Problem(path, line, col, codes.SYNTAX, message[:1].lower() + message[1:])])


def _yaml_or_toml(content: bytes, path: str) -> list[Document]:
    found: list[Document] = []
    errors: list[FormatError] = []
    if not path.endswith(".toml"):
        try:
            document = yaml_text.load(content, path)
            found.append(Document(path, "yaml", document.data, document.text))
        except yaml_text.YamlProblems as error:
            errors.append(refuse(path, error.problems))
    if not path.endswith((".yaml", ".yml")):
        try:
            found.append(_toml(content, path))
        except FormatError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return [one for one in found if isinstance(one.value, dict | list)] or found


def _toml(content: bytes, path: str) -> Document:
    try:
        text = content.decode("utf-8")
        value = tomllib.loads(text)
        canonical_json.dumps(value)  # refuses dates and times, which JSON does not have
    except UnicodeDecodeError:
        problem = Problem(path, 0, 0, codes.UNREADABLE, "the text is not UTF-8")
        raise refuse(path, [problem]) from None
    except tomllib.TOMLDecodeError as error:
        place = _AT_LINE.search(str(error))
        line, col = (int(place[1]), int(place[2])) if place else (0, 0)
        message = _AT_LINE.sub("", str(error))
        problem = Problem(path, line, col, codes.SYNTAX, message[:1].lower() + message[1:])
        raise refuse(path, [problem]) from None
    except (canonical_json.NotJsonError, RecursionError) as error:
        raise refuse(path, [Problem(path, 0, 0, codes.NOT_JSON, str(error)[:200])]) from None
    if _too_deep(value):
        raise refuse(path, [Problem(path, 0, 0, codes.TOO_LARGE, _DEEP)])
    return Document(path, "toml", value, text)


_DEEP = f"more than {MAX_DEPTH} nested mappings and lists"


def without_comments(text: str) -> str:
    """Return JSON with spaces in place of comments and of commas before a closing bracket."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0]) if found["blank"] else found[0]

    return _LAST_COMMAS.sub(blank, _COMMENTS.sub(blank, text))


def _too_deep(value: Any) -> bool:
    waiting = [(value, 1)]
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, dict | list):
            if depth > MAX_DEPTH:
                return True
            inner = one.values() if isinstance(one, dict) else one
            waiting += [(item, depth + 1) for item in inner if isinstance(item, dict | list)]
    return False


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def json_text(value: Any) -> str:
    """Return JSON for people: indented, with the keys in their order.

    It is the text of ``json.dumps`` with ``indent=2``, which takes three times as long.
    """
    return _indented(value, "\n") + "\n"


def _indented(value: Any, line: str) -> str:
    inner = f"{line}  "
    if isinstance(value, dict) and value:
        items = (f"{_encode(key)}: {_indented(one, inner)}" for key, one in value.items())
        return f"{{{inner}{f',{inner}'.join(items)}{line}}}"
    if isinstance(value, list) and value:
        return f"[{inner}{f',{inner}'.join(_indented(one, inner) for one in value)}{line}]"
    return _encode(value)


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
