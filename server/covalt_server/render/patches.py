"""Parser of git's unified patches: files, and lines with their numbers on both sides.

The format is git's (diff-format, "Generating patch text with -p").  The counts in the header of a hunk decide where
it ends, because a deleted line may begin with ``-- a/``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# Nine digits at most: int() refuses texts of more than 4,300 digits, and a patch may come from a tool.
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_OCTAL_OR_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}
_NOTHING = "/dev/null"
_OCTAL_DIGITS = 3

Kind = Literal["hunk", "same", "add", "del", "note"]


class PatchLine(NamedTuple):
    """One line of a hunk, with its line numbers on both sides.

    The header of a hunk has in ``start`` the numbers of the next line on both sides.
    """

    kind: Kind
    text: str
    old: int | None = None
    new: int | None = None
    start: tuple[int, int] | None = None


@dataclass(slots=True)
class PatchedFile:
    """One file of a patch; ``what`` lists the changes besides lines, such as a new mode."""

    path: str = ""
    what: list[str] = field(default_factory=list)
    lines: list[PatchLine] = field(default_factory=list)

    def count(self, kind: Kind) -> int:
        """Return the number of lines of one kind."""
        return sum(line.kind == kind for line in self.lines)


def read_patch(patch: str) -> list[PatchedFile]:
    """Return the files of a patch, in its order; empty if the text is not a patch."""
    files: list[PatchedFile] = []
    lines = iter(patch.split("\n"))
    old_mode = ""
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "diff":
            files.append(PatchedFile(_name_of_both(rest)))
            continue
        if word == "---" and (not files or files[-1].lines):
            files.append(PatchedFile())
        if not files:
            continue
        file = files[-1]
        if word in {"---", "+++"}:
            file.path = _side(rest) or file.path
        elif hunk := _HUNK.match(line):
            file.lines.append(PatchLine("hunk", line, start=_start(hunk)))
            file.lines += _hunk(lines, hunk)
        elif word == "\\" and file.lines:
            file.lines.append(PatchLine("note", line))
        elif line.startswith("old mode "):
            old_mode = line.rpartition(" ")[2]
        elif line.startswith("new mode "):
            file.what.append(f"mode {old_mode} → {line.rpartition(' ')[2]}")
        elif line.startswith("new file mode "):
            file.what.append("added")
        elif line.startswith("deleted file mode "):
            file.what.append("deleted")
        elif line.startswith(("rename from ", "copy from ")):
            how = {"rename": "renamed", "copy": "copied"}[word]
            file.what.append(f"{how} from {_unquoted(rest.removeprefix('from '))}")
        elif line.startswith(("rename to ", "copy to ")):
            file.path = _unquoted(rest.removeprefix("to "))
        elif line.startswith(("Binary files ", "GIT binary patch")):
            file.what.append("binary")
    return files


def _start(header: re.Match[str]) -> tuple[int, int]:
    # A side without lines has the number of the line before.
    old, new = (int(header[at]) + (header[at + 1] == "0") for at in (1, 3))
    return old, new


def _hunk(lines: Iterator[str], header: re.Match[str]) -> Iterator[PatchLine]:
    old, new = int(header[1]), int(header[3])
    old_left, new_left = (1 if header[at] is None else int(header[at]) for at in (2, 4))
    while old_left > 0 or new_left > 0:
        line = next(lines, None)
        if line is None:
            return
        if line.startswith("\\"):
            yield PatchLine("note", line)
        elif line.startswith("+"):
            yield PatchLine("add", line, new=new)
            new, new_left = new + 1, new_left - 1
        elif line.startswith("-"):
            yield PatchLine("del", line, old=old)
            old, old_left = old + 1, old_left - 1
        else:  # mail programs may remove the space of an empty line
            yield PatchLine("same", line or " ", old=old, new=new)
            old, new = old + 1, new + 1
            old_left, new_left = old_left - 1, new_left - 1


def _name_of_both(rest: str) -> str:
    """Return the name in ``--git a/name b/name``; renames have their names in other lines."""
    names = rest.removeprefix("--git ")
    if names.endswith('"'):
        return _without_prefix(_unquoted(names[names.rfind(' "') + 1 :]))
    # Names may contain " b/", so they are split by their equal lengths.
    return _without_prefix(names[len(names) // 2 + 1 :])


def _side(name: str) -> str:
    """Return the name in a ``---`` or ``+++`` line; an empty string for a side without the file."""
    name = name.partition("\t")[0]
    return "" if name == _NOTHING else _without_prefix(_unquoted(name))


def _without_prefix(name: str) -> str:
    return name[2:] if name[:2] in {"a/", "b/"} else name


def _unquoted(name: str) -> str:
    """Return a name without git's quoting, which writes bytes in octal (``core.quotePath``)."""
    if len(name) < len('""') or not name.startswith('"') or not name.endswith('"'):
        return name
    return _OCTAL_OR_ESCAPE.sub(_plain_byte, name[1:-1].encode("utf-8", "surrogatepass")).decode(
        "utf-8", "replace"
    )


def _plain_byte(escape: re.Match[bytes]) -> bytes:
    written = escape[1]
    if len(written) == _OCTAL_DIGITS:
        return bytes([int(written, 8) & 0xFF])
    return _ESCAPES.get(written, written)
