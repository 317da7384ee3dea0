"""Parser of Python source: bytes to a syntax tree, or an error with its position."""

from __future__ import annotations

import ast
import contextlib
import io
import platform
import re
import sys
import threading
import tokenize
import warnings
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SOURCE_BYTES = 1024 * 1024

_PARSING = threading.RLock()
_SINCE_3_12 = re.compile(r"\s*(type\s+\w+\s*[\[=]|(async\s+)?def\s+\w+\s*\[|class\s+\w+\s*\[)")
"""The beginning of a line with an alias or a type parameter, which Python 3.11 does not parse."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_LINE_END_OF_TEXT = re.compile(r"\r\n|\r|\n")


class PythonSyntaxError(CovaltError):
    """Source that cannot be parsed; ``line`` and ``col`` count from 1.

    ``certain`` is false for source that only this reader refuses: an import may run it.
    """

    code = "python_syntax"

    def __init__(self, line: int, col: int, message: str, *, certain: bool = True) -> None:
        super().__init__(message)
        self.line = line
        self.col = col
        self.certain = certain


def parse(source: bytes) -> ast.Module:
    """Return the syntax tree of the module that an import would run.

    Raises:
        PythonSyntaxError: if the source is not valid Python, too large, or not UTF-8.
    """
    if len(source) > MAX_SOURCE_BYTES:
        message = f"the file is larger than {MAX_SOURCE_BYTES // 1024} KiB"
        raise PythonSyntaxError(1, 1, message, certain=False)
    # Python 3.11 refuses null bytes without a position.
    if (place := source.find(b"\0")) >= 0:
        raise _error_at(source, place, "the file contains a null byte")
    text = _decode(source)
    try:
        # Bytes, not text: an import parses the bytes too, so the tree is that of the imported code.
        return _parse_tree(source)
    except SyntaxError as error:
        raise _syntax_error(text, error) from None
    # Python's parser raises MemoryError when its own stack is full.
    except (RecursionError, MemoryError):
        raise PythonSyntaxError(1, 1, "this is nested too deeply", certain=False) from None
    except ValueError as error:
        raise PythonSyntaxError(1, 1, str(error), certain=False) from None


def parse_text(text: str) -> ast.Module | None:
    """Return the syntax tree of a text, whatever encoding it declares; None if it is no Python, or too large."""
    if len(text) > MAX_SOURCE_BYTES:
        return None
    try:
        return _parse_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: if the text is not an expression.
    """
    with _without_warnings():
        return ast.parse(text, mode="eval").body


def _parse_tree(source: bytes | str) -> ast.Module:
    with _without_warnings():
        return ast.parse(source)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppress warnings about a tool's source, in one thread at a time.

    Python before 3.11.8 fails if threads parse concurrently, because they share a counter of the depth
    (https://github.com/python/cpython/issues/106905).  Warning filters are shared in all versions.
    """
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _syntax_error(text: str, error: SyntaxError) -> PythonSyntaxError:
    """Return the error with its column in characters; Python counts bytes when it parses bytes."""
    try:
        _parse_tree(text)
    except SyntaxError as text_error:
        error = text_error
    message = str(error.msg or "this is not Python")
    line, col = max(1, error.lineno or 1), max(1, error.offset or 1)
    # Python 3.11 says "invalid syntax", which does not lead an author to the version.
    if sys.version_info < (3, 12) and _SINCE_3_12.match(error.text or ""):
        message = f"this needs Python 3.12, and covalt-git runs {platform.python_version()}"
    return PythonSyntaxError(line, col, message[:1].lower() + message[1:])


def _decode(source: bytes) -> str:
    """Decode UTF-8; with another declared encoding, Python would run a different text."""
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The position in the codec's error does not include the byte order mark.
        start = error.start + len(source) - len(error.object)
        not_utf8 = _error_at(source, start, "this is not UTF-8")
        # The search for a declaration refuses these bytes too, so that it gets others in their place.
        in_ascii = source.decode("ascii", "replace").encode("ascii", "replace")
        not_utf8.certain = _declares_utf8(in_ascii)
        raise not_utf8 from None
    if not _declares_utf8(source):
        message = "the file declares an encoding other than UTF-8"
        raise PythonSyntaxError(1, 1, message, certain=False)
    return text


def _declares_utf8(source: bytes) -> bool:
    """Return whether Python reads a source as UTF-8, as it does without a declaration of an encoding."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError:
        encoding = "unknown"
    return encoding in {"utf-8", "utf-8-sig"}


def _error_at(source: bytes, place: int, message: str) -> PythonSyntaxError:
    lines = split_lines(source[:place])
    col = len(lines[-1].decode("utf-8", "replace")) + 1
    return PythonSyntaxError(len(lines), col, message)


def split_lines(source: bytes) -> list[bytes]:
    """Return the lines, split where Python ends a line, without line ends."""
    return _LINE_END.split(source)


def column_of(source: bytes, line: int, column: int) -> int:
    """Return a column in characters, from 1; a syntax tree counts bytes, from 0."""
    if not column:
        return 1
    return len(split_lines(source)[line - 1][:column].decode("utf-8", "replace")) + 1


def line_places(text: str) -> list[int]:
    """Return the places where the lines of a text start, as Python counts them."""
    return [0, *(line_end.end() for line_end in _LINE_END_OF_TEXT.finditer(text))]
