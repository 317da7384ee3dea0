"""Source bytes into Python's syntax tree, or the place where they are not Python."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import threading
import tokenize
import warnings
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SOURCE_BYTES = 1024 * 1024

_PARSING = threading.RLock()
_LINE_END = re.compile(rb"\r\n|\r|\n")


class PythonSyntaxError(CovaltError):
    """The source is not Python that can be read; ``line`` and ``col`` count from 1."""

    code = "python_syntax"

    def __init__(self, line: int, col: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.col = col


def parse(source: bytes) -> ast.Module:
    """Return the module that an import of these bytes would run.

    Raises:
        PythonSyntaxError: where they do not parse, are too large, or are not UTF-8.
    """
    if len(source) > MAX_SOURCE_BYTES:
        raise PythonSyntaxError(1, 1, f"the file is larger than {MAX_SOURCE_BYTES // 1024} KiB")
    if (place := source.find(b"\0")) >= 0:
        raise _error_at(source, place, "there is a null byte in the text")
    text = _decoded(source)
    try:
        # The bytes, as an import would read them: no other text may stand behind them.
        return _parsed(source)
    except SyntaxError as error:
        raise _syntax_error(text, error) from None
    except (RecursionError, MemoryError):
        raise PythonSyntaxError(1, 1, "this is nested too deeply") from None
    except ValueError as error:
        raise PythonSyntaxError(1, 1, str(error)) from None


def parse_expression(text: str) -> ast.expr:
    """Return an expression.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: where it is none.
    """
    with _quietly():
        return ast.parse(text, mode="eval").body


def _parsed(source: bytes | str) -> ast.Module:
    with _quietly():
        return ast.parse(source)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Parse without warnings, which are about the tool's text and not about ours; one at a time.

    Of what threads parse at once Python before 3.11.8 counts the depth in one place, and fails over
    it (https://github.com/python/cpython/issues/106905); whose warnings are shown, any Python does.
    """
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _syntax_error(text: str, error: SyntaxError) -> PythonSyntaxError:
    """Return the error with its place in characters, which Python counts in text but not in bytes."""
    try:
        _parsed(text)
    except SyntaxError as counted:
        error = counted
    message = str(error.msg or "this is not Python")
    line, col = max(1, error.lineno or 1), max(1, error.offset or 1)
    return PythonSyntaxError(line, col, message[:1].lower() + message[1:])


def _decoded(source: bytes) -> str:
    """Return the text, which is UTF-8: under a declared encoding it could be another program."""
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from behind a byte order mark.
        start = error.start + len(source) - len(error.object)
        raise _error_at(source, start, "this is not UTF-8") from None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError:
        encoding = "unknown"
    if encoding not in {"utf-8", "utf-8-sig"}:
        raise PythonSyntaxError(1, 1, "a Python tool is UTF-8, and declares nothing else")
    return text


def _error_at(source: bytes, place: int, message: str) -> PythonSyntaxError:
    before = split_lines(source[:place])
    col = len(before[-1].decode("utf-8", "replace")) + 1
    return PythonSyntaxError(len(before), col, message)


def split_lines(source: bytes) -> list[bytes]:
    """Return the lines as Python counts them, without their ends."""
    return _LINE_END.split(source)
