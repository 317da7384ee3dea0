"""Hints for removed options and for commands that only git has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

REPLACEMENTS = {
    ("mcp", "--mode both"): "use --mode search, or --mode direct to list every tool",
    ("mcp", "--names short"): "use --names underscore",
    ("tool schema", "--exact"): "leave it out; calls are checked by the printed schema",
    ("validate", "--update-baseline"): "use --write-baseline",
}
"""Replacements, by command and removed option."""

GIT_COMMANDS = {
    "blame": "covalt-git chat log CHAT -- PATH, then chat show CHAT COMMIT",
    "cherry-pick": "covalt-git chat restore CHAT COMMIT PATH, which copies files of a commit",
    "commit": "covalt-git chat status CHAT; changed files are committed before the next call",
    "pull": "git pull in a clone of the chat",
    "rebase": "covalt-git chat merge CHAT BRANCH",
    "reset": "covalt-git chat restore CHAT COMMIT, which keeps the history",
    "revert": "covalt-git chat undo CHAT, or covalt-git chat restore CHAT COMMIT",
    "rm": "covalt-git chat delete CHAT, or delete files in the chat's folder",
    "stash": "covalt-git chat branch CHAT NAME and chat checkout: each branch keeps its own files",
    "switch": "covalt-git chat checkout CHAT BRANCH",
}
"""Replacements of commands that only git has, for the program and for ``chat``."""

_UNKNOWN = re.compile(r"No such command '(?P<word>[\w-]+)'")


def explained(error: click.ClickException, argv: Sequence[str]) -> click.ClickException:
    """Return the usage error of a removed spelling or a command of git in ``argv``; else ``error``."""
    if not isinstance(error, click.UsageError):
        return error
    names, ctx = list[str](), error.ctx
    while ctx is not None and ctx.parent is not None:
        names.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    unknown = _UNKNOWN.match(error.message)
    if unknown and unknown["word"] in GIT_COMMANDS and names in ([], ["chat"]):
        word = unknown["word"]
        return click.UsageError(f"{word} is a command of git; use {GIT_COMMANDS[word]}", error.ctx)
    typed = f"{' '.join(argv).replace('=', ' ')} "
    for (command, spelling), replacement in REPLACEMENTS.items():
        if command == " ".join(names) and f" {spelling} " in typed:
            return click.UsageError(f"{spelling} was removed: {replacement}", error.ctx)
    return error
