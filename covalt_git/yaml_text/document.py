"""Document of a YAML text: its value with the place of every part; or the problems of the text."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from covalt_git.errors import CovaltError, Problem, in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_DEPTH: Final = 64
"""The maximum depth of nested dicts and lists, for reading and for writing."""

Place = int | tuple[int, "Places"]
"""The index in the text where a value starts; for a dict or a list also the places in it."""

Places = dict[str, tuple[int, Place]] | list[Place]
"""The index of each key with the place of its value, or the place of each list item."""

# As editors count lines; `str.splitlines` also ends one at a form feed or U+2028.
_LINE_END = re.compile(r"\r\n?|\n")


class Lines:
    """The lines of a text."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def locate(self, at: int) -> tuple[int, int]:
        """Return line and column, from 1, of the index ``at``."""
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1


@dataclass(frozen=True)
class YamlDocument:
    """The value of one YAML text, and the places of its parts.

    Do not change ``data``: an alias and its anchor are the same object, as in other YAML readers.
    """

    path: str
    data: Any
    _text: str = field(repr=False, compare=False)
    _place: Place = field(repr=False, compare=False)
    values: int = field(default=0, compare=False)
    """The number of values, where those of an alias are counted each time."""

    @property
    def text(self) -> str:
        """The text, without a byte order mark and with a line break at the end."""
        return self._text

    def locate(self, loc: Sequence[str | int], *, key: bool = False) -> tuple[int, int]:
        """Return line and column, from 1, of the value at ``loc``, or with ``key`` of its key.

        Parts of ``loc`` that the document does not have are skipped: pydantic includes the names of
        union members and missing keys.  The result is the place of the deepest existing value.
        """
        return self._lines.locate(self.offset(loc, key=key))

    def offset(self, loc: Sequence[str | int], *, key: bool = False) -> int:
        """Return the index in ``text`` for :meth:`locate`."""
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


class YamlProblems(CovaltError):  # noqa: N818 - it contains one or more problems
    """A text is not YAML, or YAML that parsers read differently."""

    code = "invalid_yaml"

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        ordered = in_order(problems)
        count = "1 problem" if len(ordered) == 1 else f"{len(ordered)} problems"
        super().__init__(f"{count} in {path!r}", problems=ordered)
