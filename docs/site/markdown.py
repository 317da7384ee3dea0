"""Texts, tables and anchors of Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def cell(text: str) -> str:
    """Return Markdown as a cell of a table: one line, without bars."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def plain(text: str) -> str:
    """Return Markdown that shows a text as it is, except for its code in backticks."""
    # Words such as <id> and *.md are texts.
    parts = re.split(r"(``[^`]+``|`[^`]+`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([<*_\[\]])", r"\\\1", part) for part in parts
    )


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown of one line."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
