"""A text that came back from a form: browsers send every line break as CR LF, whatever it was."""

from __future__ import annotations

import re
from collections import Counter

from covalt_git.text.line_diff import lines_that_stay

_BREAK = re.compile(r"\r\n|\r|\n")


def with_breaks_of(before: str, typed: str) -> str:
    """Return what was typed with the line breaks that the text had ``before``.

    Where it had several kinds, a line that was not touched keeps its own, and a new one gets the
    kind that most lines have.
    """
    lines = _BREAK.split(typed)
    breaks = _BREAK.findall(before)
    usual = Counter(breaks).most_common(1)[0][0] if breaks else "\n"
    if len(set(breaks)) <= 1:
        return usual.join(lines)
    kept = [usual] * (len(lines) - 1)
    for old, new in lines_that_stay(_BREAK.split(before), lines):
        if old < len(breaks) and new < len(kept):
            kept[new] = breaks[old]
    for at, (end, line, following) in enumerate(zip(kept, lines[1:], kept[1:], strict=False)):
        if (end, line, following) == ("\r", "", "\n"):  # which would be one break
            kept[at] = "\n"
    return "".join(line + end for line, end in zip(lines, [*kept, ""], strict=True))
