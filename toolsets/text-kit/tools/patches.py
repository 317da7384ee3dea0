"""Strict parser of unified patches, and their application to lines; a patch must match exactly.

The format is that of ``git diff`` (git's documentation, "Generating patch text with -p").  Only changed
text is supported: renames, modes and binary patches are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tools.texts import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

NOWHERE = "/dev/null"

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(r'\\([abtnvfr"\\]|[0-3][0-7]{2})')
_SIGNS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_HARMLESS = ("index ", "new file mode 100644", "deleted file mode ")
_MAX_QUOTED = 80
_SIGNATURE = "-- \n"
"""The line after the last hunk of ``git format-patch``, which is not a removed line ``- ``."""


@dataclass(frozen=True)
class Hunk:
    """One hunk of a patch.

    Attributes:
        at: the line of the patch where the hunk begins, from 1.
        start: the first line in the old file, from 1.
        old: the expected lines of the old file, with their ends.
        new: the lines that replace them.
    """

    at: int
    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    added: int
    removed: int


@dataclass(frozen=True)
class FilePatch:
    """The part of a patch for one file; ``old`` is None for a new file, ``new`` for a deleted one."""

    at: int
    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]

    @property
    def path(self) -> str:
        """The path of the file, relative to the workspace."""
        return self.new or self.old or ""


def read_patch(text: str, name: str) -> list[FilePatch]:
    """Return the parts of a patch, one for each file; messages call the patch ``name``.

    Raises:
        ValueError: with the first line that is not part of a unified patch.
    """
    return _Reader(split_lines(text), name).files()


def apply_hunks(lines: Sequence[str], file: FilePatch) -> tuple[list[str], list[str]]:
    """Return the new lines of a file, and the mismatches, as ``path:line: reason``."""
    made: list[str] = []
    problems: list[str] = []
    taken = 0
    for number, hunk in enumerate(file.hunks, 1):
        begin = hunk.start - 1
        label = f"hunk {number} (line {hunk.at} of the patch)"
        if begin < taken:
            problems.append(
                f"{file.path}:{hunk.start}: {label} begins before the one above it ends"
            )
            continue
        made += lines[taken:begin]
        if wrong := _mismatch(lines, hunk, begin):
            line, why = wrong
            problems.append(f"{file.path}:{line}: {label} does not apply: {why}")
        elif hunk.new and not hunk.new[-1].endswith("\n") and begin + len(hunk.old) < len(lines):
            problems.append(
                f"{file.path}:{hunk.start}: {label} ends the file, and there are lines below"
            )
        made += hunk.new
        taken = begin + len(hunk.old)
    made += lines[taken:]
    if not problems and any(not line.endswith("\n") for line in made[:-1]):
        problems.append(f"{file.path}:{len(lines)}: the patch adds below a line without an end")
    return made, problems


def _mismatch(lines: Sequence[str], hunk: Hunk, begin: int) -> tuple[int, str] | None:
    """Return the line where a hunk does not match, and the reason; None if it matches."""
    for place, expected in enumerate(hunk.old, begin):
        if place >= len(lines):
            return place + 1, f"the file ends before {_quoted(expected)}"
        if lines[place] != expected:
            found = _quoted(lines[place])
            return place + 1, f"it expects {_quoted(expected)}, and there is {found}"
    if begin > len(lines):
        return begin + 1, f"the file has {len(lines)} lines"
    return None


def _quoted(line: str) -> str:
    text = repr(line)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


class _Reader:
    """Parser of the lines of a patch, from the first to the last."""

    def __init__(self, lines: list[str], name: str) -> None:
        self._lines = lines
        self._name = name
        self._place = 0

    def files(self) -> list[FilePatch]:
        found: list[FilePatch] = []
        while self._place < len(self._lines):
            line = self._line()
            if line.startswith("diff --git "):
                found.append(self._git_section())
            elif line.startswith("--- ") and self._line(1).startswith("+++ "):
                found.append(self._section(self._place))
            elif line.startswith(("@@ ", "+", "-", " ")) and found and line != _SIGNATURE:
                self._refuse("this line is behind the end of its hunk: correct the hunk's header")
            elif line.startswith("@@ -"):
                self._refuse("a hunk without the lines '--- a/file' and '+++ b/file' above it")
            else:
                self._place += 1
        if not found:
            self._place = 0
            self._refuse("no '--- a/file', '+++ b/file' and '@@ ... @@' in this patch")
        return found

    def _git_section(self) -> FilePatch:
        at = self._place
        self._place += 1
        while not (line := self._line()).startswith("--- "):
            if not line.startswith(_HARMLESS):
                self._refuse("only changed text is applied: no renames, modes and binary files")
            self._place += 1
        return self._section(at)

    def _section(self, at: int) -> FilePatch:
        old, new = self._file("--- "), self._file("+++ ")
        if old is None and new is None:
            self._place -= 1
            self._refuse("a file from nowhere to nowhere")
        if (old or "a/").startswith("a/") and (new or "b/").startswith("b/"):
            old, new = old and old[2:], new and new[2:]
        if old is not None and new is not None and old != new:
            self._place -= 1
            self._refuse(f"a rename of {old!r} to {new!r}: only changed text is applied")
        hunks: list[Hunk] = []
        while self._line().startswith("@@ "):
            hunks.append(self._hunk())
        if not hunks:
            self._refuse("a hunk was expected: '@@ -1,3 +1,4 @@'")
        return FilePatch(at + 1, old, new, tuple(hunks))

    def _file(self, mark: str) -> str | None:
        """Read the file name of a header line, and go to the next line; None for ``/dev/null``."""
        line = self._line()
        if not line.startswith(mark):
            self._refuse(f"a line '{mark}file' was expected")
        rest = line[len(mark) :].removesuffix("\n").removesuffix("\r")
        if quoted := _QUOTED.match(rest):
            name = self._unquoted(quoted[1])
        else:
            name = rest.partition("\t")[0]
        if not name:
            self._refuse(f"a file's name was expected behind '{mark}'")
        self._place += 1
        return None if name == NOWHERE else name

    def _unquoted(self, text: str) -> str:
        """Return a quoted name without its escapes; octal escapes are bytes of UTF-8."""
        made = _ESCAPE.sub(
            lambda sign: chr(_SIGNS.get(sign[1]) or int(sign[1], 8)),
            text.encode().decode("latin-1"),
        )
        try:
            return made.encode("latin-1").decode()
        except UnicodeDecodeError:
            self._refuse("the name in quotes is not UTF-8")

    def _hunk(self) -> Hunk:
        """Read a hunk; its header has the number of lines of both files, which determines its end."""
        at = self._place
        header = _HUNK.match(self._line())
        if header is None:
            self._refuse("this is no hunk header such as '@@ -1,3 +1,4 @@'")
        start, old_size, _, new_size = (
            int(number) if number else 1 for number in header.groups(default="")
        )
        self._place += 1
        sides: dict[str, list[str]] = {"-": [], "+": []}
        added = removed = 0
        while len(sides["-"]) < old_size or len(sides["+"]) < new_size:
            # Editors that strip trailing blanks remove the space of an empty line.
            line = self._line() if self._line() != "\n" else " \n"
            sign, text = line[:1], line[1:]
            if sign not in {"-", "+", " "}:
                self._refuse(
                    "a line of the hunk was expected, beginning with ' ', '-' or '+': "
                    f"the header of line {at + 1} promises {old_size} old and {new_size} new ones"
                )
            added, removed = added + (sign == "+"), removed + (sign == "-")
            self._place += 1
            if self._line().startswith("\\ "):
                text = text.removesuffix("\n")
                self._place += 1
            for side in sides if sign == " " else (sign,):
                sides[side].append(text)
        if len(sides["-"]) > old_size or len(sides["+"]) > new_size:
            self._place = at
            self._refuse("the hunk has other numbers of lines than its header says")
        # If a file has no lines in the hunk, its header has the number of the line before.
        return Hunk(
            at + 1,
            start + (old_size == 0),
            tuple(sides["-"]),
            tuple(sides["+"]),
            added,
            removed,
        )

    def _line(self, ahead: int = 0) -> str:
        place = self._place + ahead
        return self._lines[place] if place < len(self._lines) else ""

    def _refuse(self, why: str) -> NoReturn:
        raise ValueError(f"{self._name}:{self._place + 1}: {why}")
