"""Removed options and values of options, and what to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

REPLACEMENTS = {
    ("mcp", "--mode both"): "use --mode search, or --mode direct to list every tool",
    ("mcp", "--names short"): "use --names underscore",
    ("tool schema", "--exact"): "leave it out, calls are checked by the schema that is printed",
    ("validate", "--update-baseline"): "use --write-baseline",
}
"""What to do instead, by the command and the words that were removed."""


def explained(error: click.ClickException, argv: Sequence[str]) -> click.ClickException:
    """Return the usage error of a removed spelling that ``argv`` contains; else ``error``."""
    if not isinstance(error, click.UsageError):
        return error
    names, ctx = list[str](), error.ctx
    while ctx is not None and ctx.parent is not None:
        names.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    typed = f"{' '.join(argv).replace('=', ' ')} "
    for (command, spelling), replacement in REPLACEMENTS.items():
        if command == " ".join(names) and f" {spelling} " in typed:
            return click.UsageError(f"{spelling} was removed: {replacement}", error.ctx)
    return error
