"""Files of the workspace as lines of text.

Only a line feed ends a line; other line separators are part of the text.  So a file that is read and
written again is the same, byte for byte.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_toolset import get_context

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024 * 1024
MAX_LINE = MIB
"""Maximum length of a line in bytes; longer lines are not readable text."""

MAX_WHOLE = 4 * MIB
"""Maximum size in bytes of a file that is read into memory."""

_BEGINNING = 8000
"""A file with a zero byte among the first bytes, this many, is binary, as in git."""


class NotText(ValueError):  # noqa: N818 - it names what a file is
    """A file is not text; the message has the reason, without the file's name."""


def files_below(path: str) -> Iterator[tuple[str, Path]]:
    """Yield all files below a folder, or the file at ``path``, each with its path in the workspace.

    Links are not followed, and special files are skipped.  Folders without read permission come last,
    as files that cannot be read.

    Raises:
        ValueError: when the path does not exist, or is outside of the workspace.
    """
    context = get_context()
    top = context.path(path)
    root = context.path(".")
    if top.is_file():
        yield top.relative_to(root).as_posix(), top
        return
    if not top.is_dir():
        raise ValueError(f"there is no file or folder {path!r} in the workspace")
    closed: list[Path] = []
    for place, folders, names in os.walk(
        top, onerror=lambda error: closed.append(Path(error.filename))
    ):
        folders.sort()
        for name in sorted(names):
            file = Path(place, name)
            if _is_regular(file):
                yield file.relative_to(root).as_posix(), file
    yield from ((folder.relative_to(root).as_posix(), folder) for folder in closed)


def existing_file(path: str) -> Path:
    """Return the absolute path of a file of the workspace.

    Raises:
        ValueError: if the file does not exist, or is outside of the workspace.
    """
    found = get_context().path(path)
    if found.is_dir():
        raise ValueError(f"{path!r} is a folder, not a file")
    if not found.is_file():
        raise ValueError(f"there is no file {path!r} in the workspace")
    return found


def read_lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file with their ends, and read no further than the caller iterates.

    Raises:
        NotText: at the first line that is not text.
    """
    try:
        with file.open("rb") as stream:
            if b"\0" in stream.peek(_BEGINNING)[:_BEGINNING]:
                raise NotText("binary")
            number = 0
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise NotText(f"line {number} is longer than {MAX_LINE // MIB} MiB")
                yield _decoded(line, number)
    except OSError as error:
        raise NotText(str(error.strerror).lower()) from None


def read_all_lines(file: Path) -> list[str]:
    """Return all lines of a file with their ends.

    Raises:
        NotText: when the file is not text, or larger than ``MAX_WHOLE``.
    """
    try:
        size = file.stat().st_size
    except OSError as error:
        raise NotText(str(error.strerror).lower()) from None
    if size > MAX_WHOLE:
        raise NotText(f"{size} bytes are more than {MAX_WHOLE // MIB} MiB")
    return list(read_lines(file))


def split_lines(text: str) -> list[str]:
    """Return the lines of a text with their ends."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def split_end(line: str) -> tuple[str, str]:
    r"""Return a line without its end, and the end: ``\n``, ``\r\n`` or empty text."""
    for end in ("\r\n", "\n"):
        if line.endswith(end):
            return line[: -len(end)], end
    return line, ""


def _is_regular(file: Path) -> bool:
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError:
        return True  # reading it raises the error


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise NotText(f"line {number} is not UTF-8") from None
