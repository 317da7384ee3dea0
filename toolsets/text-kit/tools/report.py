"""Markdown report of an applied patch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.diffs import header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.changes import Change

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def report(changes: Sequence[Change], *, dry_run: bool) -> str:
    """Return a table of the files, with the numbers of added and removed lines."""
    title = "Patch applies" if dry_run else "Patch applied"
    kept = "Nothing was written: this was a dry run.\n\n" if dry_run else ""
    rows = "".join(
        f"| {_escaped(change.patch.path)} | {change.what} | {change.added} | {change.removed} |\n"
        for change in changes
    )
    return f"# {title}\n\n{kept}| file | | added | removed |\n| --- | --- | ---: | ---: |\n{rows}"


def _escaped(name: str) -> str:
    """Return a file name, escaped so that Markdown shows it unchanged."""
    return _PUNCTUATION.sub(r"\\\1", header(name).rstrip("\t"))
