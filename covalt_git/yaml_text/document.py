"""What reading a text gives: its value with the place of every part, or its problems."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from covalt_git.errors import CovaltError, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_DEPTH: Final = 64
"""Dicts and lists inside each other, of what is read and of what is written."""

Place = int | tuple[int, "Places"]
"""Where a value starts, as a character of the text; for a dict or a list with those inside it."""

Places = dict[str, tuple[int, Place]] | list[Place]
"""For each key where it starts and the place of its value, or the place of each list item."""

_LINE_END = re.compile(r"\r\n?|\n")


class Lines:
    """The lines of a text."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def locate(self, at: int) -> tuple[int, int]:
        """Return line and column, from 1, of the character ``at``."""
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1


@dataclass(frozen=True)
class Document:
    """The value of one YAML text, which can say where each of its parts stands.

    What an alias repeats is one object in ``data``, as in every YAML reader: do not change it.
    """

    path: str
    data: Any
    _text: str = field(repr=False, compare=False)
    _place: Place = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """The text that was read, without a byte order mark and with a line end at its end."""
        return self._text

    def locate(self, loc: Sequence[str | int], *, key: bool = False) -> tuple[int, int]:
        """Return line and column, from 1, of the value at ``loc``, or with ``key`` of its key.

        Parts that the document does not have are skipped, because pydantic puts the names of
        union members and of missing keys into ``loc``; so the answer is the deepest value that
        is there.
        """
        return self._lines.locate(self.offset(loc, key=key))

    def offset(self, loc: Sequence[str | int], *, key: bool = False) -> int:
        """Return the character of ``text`` where :meth:`locate` points, from 0."""
        place = self._place
        key_at: int | None = None
        for part in loc:
            inside = place[1] if isinstance(place, tuple) else []
            if isinstance(inside, dict) and isinstance(part, str) and part in inside:
                key_at, place = inside[part]
            elif isinstance(inside, list) and isinstance(part, int) and 0 <= part < len(inside):
                key_at, place = None, inside[part]
        value_at = place[0] if isinstance(place, tuple) else place
        return value_at if key_at is None or not key else key_at

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self._text)


class YamlProblems(CovaltError):  # noqa: N818 - it names what it holds, often more than one
    """A text that is not YAML, or not YAML that every reader understands alike."""

    code = "invalid_yaml"

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        found = sorted(set(problems))
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        super().__init__(f"{count} in {path!r}", problems=found)
