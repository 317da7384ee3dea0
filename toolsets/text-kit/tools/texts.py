"""Files of the workspace as lines of text, without changes.

A line ends with its line feed and nothing else, so that what is read and written again is the same
to the byte, whatever other signs of a line's end it holds.
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
"""Bytes of a file at most, where it has to be in memory whole."""

_BEGINNING = 8000
"""Where a zero byte says that a file is binary, as git has it."""


class NotText(ValueError):  # noqa: N818 - it names what a file is
    """Why a file is not read; the message does not name it."""


def files_below(path: str) -> Iterator[tuple[str, Path]]:
    """Yield each file of a folder, or the one file, with its path in the workspace, in order.

    Links are not followed, and special files are skipped.  Folders without read permission come last,
    as files that cannot be read.

    Raises:
        ValueError: when nothing is there, or it leads out of the workspace.
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
    """Return where a file of the workspace is.

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
    """Yield a file's lines with their ends, reading no more of it than is asked for.

    Raises:
        NotText: as soon as it turns out not to be text.
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
        NotText: when it is not text, or too large to be read whole.
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
    """Return a line without its end, and the end: a line feed, one behind a carriage return, or none."""
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
