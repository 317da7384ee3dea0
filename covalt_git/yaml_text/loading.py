"""Loader of a document from a file or bytes, with the checks that precede the parser."""

from __future__ import annotations

import os
import re
import stat
import string
from typing import TYPE_CHECKING, Final, NoReturn

from covalt_git.errors import Problem
from covalt_git.problems import codes
from covalt_git.text.display import shorten
from covalt_git.yaml_text.characters import FORBIDDEN
from covalt_git.yaml_text.document import MAX_DEPTH, Lines, YamlDocument, YamlProblems
from covalt_git.yaml_text.reader import read
from covalt_git.yaml_text.syntax_errors import CONFLICT

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 16 << 20
MAX_NODES: Final = 300_000

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_HARMLESS: Final = string.printable.encode().translate(None, b"\v\f")
_CONFLICT_ENDS = r"(?m)^(?:<{7}|>{7})(?= |\r?$)"
_TAG_DIRECTIVE = r"(?m)(?:^|(?<=\r))(%TAG[ \t][^\r\n]*)"
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n?|\n))*(%[^\r\n]*)")
"""A directive with the empty lines and comments above it."""

_YAML_1 = r"%YAML[ \t]+1\.[0-9]+(?:[ \t]+#.*|[ \t]*)"


def load(
    text: bytes | str,
    path: str,
    *,
    max_bytes: int = MAX_BYTES,
    max_nodes: int = MAX_NODES,
    max_depth: int = MAX_DEPTH,
) -> YamlDocument:
    """Return the document of ``text``; ``path`` is the path for messages.

    ``max_nodes`` is the maximum number of values, where values of aliases are counted each time;
    ``max_depth`` is the maximum number of dicts and lists around a value.

    Raises:
        YamlProblems: with all problems up to the place where parsing stopped.
    """
    # Half of a surrogate pair becomes bytes that are not UTF-8, and is refused with its place as they are.
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    if len(text) > max_bytes:
        raise _refusal(path, codes.TOO_LARGE, f"larger than {max_bytes} bytes")
    characters = _decoded(text.removeprefix(_BYTE_ORDER_MARK), path)
    _refuse_conflict(characters, path)
    _refuse_directives(characters, path)
    return read(characters, path, max_nodes=max_nodes, max_depth=max_depth)


def load_file(file: Path, path: str) -> YamlDocument:
    """Return the document of a file; see :func:`load`.

    Raises:
        YamlProblems: also when the file cannot be read, is too large or is not a regular file.
    """
    return load(read_file(file, path), path)


def read_file(file: Path, path: str, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file, at most ``max_bytes + 1`` bytes.

    Raises:
        YamlProblems: when it cannot be read, or is not a regular file.
    """
    try:
        with open(file, "rb", opener=_open_nonblocking) as stream:
            # Of the open file: at its path, there could be another one when it is opened.
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _refusal(path, codes.UNREADABLE, "not a regular file")
            return stream.read(max_bytes + 1)  # with one byte more, `load` refuses it as too large
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise _refusal(path, codes.UNREADABLE, f"cannot be read: {reason}") from None
    except ValueError:  # the path contains a NUL
        raise _refusal(path, codes.UNREADABLE, "not a valid path") from None


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file without blocking: a pipe would block until it has a writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _refusal(path: str, code: str, message: str) -> YamlProblems:
    """Return the problem of a file as a whole."""
    return YamlProblems(path, [Problem(path, 0, 0, code, message)])


def _refuse(text: str, path: str, at: int, code: str, message: str, hint: str) -> NoReturn:
    """Raise an error at the index ``at`` of ``text``."""
    line, col = Lines(text).locate(at)
    raise YamlProblems(path, [Problem(path, line, col, code, message, hint)]) from None


def _decoded(text: bytes, path: str) -> str:
    """Return the text with a line break at the end, after a check for forbidden characters."""
    try:
        characters = text.decode("utf-8")
    except UnicodeDecodeError as error:
        valid = text[: error.start].decode("utf-8")
        message = f"the byte 0x{text[error.start]:02x} is not UTF-8"
        hint = "save the file with the encoding UTF-8"
        _refuse(valid, path, len(valid), codes.UNREADABLE, message, hint)
    if text.translate(None, _HARMLESS):  # much faster than the search, and enough for most texts
        _refuse_forbidden_characters(characters, path)
    # Without the last line break, libyaml reads another block scalar than YAML 1.2 specifies.
    return characters if characters.endswith("\n") else characters + "\n"


def _refuse_forbidden_characters(text: str, path: str) -> None:
    character = re.search(FORBIDDEN, text)
    if character is None:
        return
    number = ord(character[0])
    escape = f"\\x{number:02x}" if number <= 0xFF else f"\\u{number:04x}"  # noqa: PLR2004
    message = f"the character U+{number:04X} is not allowed in YAML"
    hint = f"remove it, or write `{escape}` between double quotes"
    _refuse(text, path, character.start(), codes.SYNTAX, message, hint)


def _refuse_conflict(text: str, path: str) -> None:
    """Raise an error for conflict markers, which are valid texts within brackets."""
    if "<<<<<<<" not in text and ">>>>>>>" not in text:
        return
    conflict = re.search(_CONFLICT_ENDS, text)
    if conflict:
        _refuse(text, path, conflict.start(), CONFLICT.code, CONFLICT.message, CONFLICT.hint)


def _refuse_directives(text: str, path: str) -> None:
    """Raise an error for directives except ``%YAML 1.x``: libyaml takes seconds for 1,000 ``%TAG``."""
    if "%" not in text:
        return
    # Anywhere, as the directives of the next document can follow the end of one.
    directive = re.search(_TAG_DIRECTIVE, text)
    if not directive:
        directive = _DIRECTIVE.match(text)
        while directive and re.fullmatch(_YAML_1, directive[1]):
            directive = _DIRECTIVE.match(text, directive.end())
    if directive:
        message = f"the directive {shorten(directive[1])!r}"
        _refuse(text, path, directive.start(1), codes.SYNTAX, message, "remove the line")
