"""Hints of errors, rewritten for agents: a command becomes the built-in tool that does the same.

Any other command is marked as one that the user can run, in each line: a model may read or repeat one line alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covalt_git.catalog import tool_names
from covalt_git.names import BUILTIN_NAMESPACE

if TYPE_CHECKING:
    from covalt_git.catalog.tool_names import Style
    from covalt_git.errors import CovaltError
    from covalt_git.json_values import JsonObject

_WITHOUT_TOOL = re.compile(
    r"(list them with )?`?covalt-git (chat list|tool list|tool (show|schema|describe) \S+)`?"
)
"""An agent cannot list chats, and it has the list of tools and their schemas."""

_ARGUMENTS = r"(?: [^`;]*)?"
_TOOLS = {
    rf"files{_ARGUMENTS}": "list_files",
    rf"log{_ARGUMENTS}": "log",
    rf"diff{_ARGUMENTS}": "diff",
    rf"upload{_ARGUMENTS}": "write_file",
    rf"restore{_ARGUMENTS}": "restore",
    rf"checkout{_ARGUMENTS}": "checkout",
    r"branch (?:list )?[^\s`]+(?=$|`| lists)": "log",
    r"branch (?!delete|rename)\S+ [^`;]+": "branch",
}
"""The built-in tool that does the same as a command ``covalt-git chat ...``."""

_REPLACED = [(re.compile(f"`?covalt-git chat {args}`?"), tool) for args, tool in _TOOLS.items()]


def for_agent(hint: str, style: Style = "dots") -> str:
    """Return a hint for an agent, with the names of tools in the agent's style."""
    lines = (_line_for_agent(line, style) for line in hint.splitlines())
    return "\n".join(filter(None, lines))


def _line_for_agent(hint: str, style: Style) -> str:
    # First, so that no rule below takes a part of such a command for one with a tool.
    hint = _WITHOUT_TOOL.sub("", hint).strip()
    for command, tool in _REPLACED:
        (name,) = tool_names.names([f"{BUILTIN_NAMESPACE}:{tool}"], style)
        hint = command.sub(name, hint)
    return f"for the user: {hint}" if "covalt-git" in hint else hint


def error_facts(error: CovaltError, style: Style = "dots") -> JsonObject:
    """Return an error as JSON for an agent."""
    return {**error.as_json(), "hint": for_agent(error.hint, style)}
