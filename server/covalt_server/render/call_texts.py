"""A call as texts to copy: for a shell, ``curl``, a Python program, and its arguments as JSON.

No text has the server's token: the shell has it in ``$TOKEN``.
"""

from __future__ import annotations

import json
import shlex
from pprint import pformat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

MOST_BYTES = 100_000
"""Largest arguments that a shell accepts in one argument: Linux allows 128 KiB."""


class CallText(NamedTuple):
    """One way to make a call; ``id`` names it in the page."""

    id: str
    label: str
    text: str


def call_texts(tool_id: str, chat_id: str, args: JsonObject, address: str) -> tuple[CallText, ...]:
    """Return the texts of a call; ``address`` is the URL of the server, which ends in a slash.

    Without a chat, which the call would create, only the arguments.
    """
    compact = _compact(args)
    as_json = CallText("json", "JSON", json.dumps(args, indent=2, ensure_ascii=False))
    if not chat_id:
        return (as_json,)
    python = CallText("python", "Python", _python(tool_id, chat_id, args))
    if len(compact.encode()) > MOST_BYTES:
        return (as_json, python)
    body = _compact({"chat_id": chat_id, "tool_id": tool_id, "args": args})
    curl = (
        'curl -sS -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\\n'
        f"  -d {shlex.quote(body)} {shlex.quote(f'{address}api/call_tool')}"
    )
    command = shlex.join(("covalt-git", "call", chat_id, tool_id, compact))
    return (CallText("cli", "CLI", command), CallText("curl", "curl", curl), as_json, python)


def _compact(value: JsonObject) -> str:
    # Not canonical JSON, which writes a float over 2**53 as an integer, and covalt-git refuses such an integer.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _python(tool_id: str, chat_id: str, args: JsonObject) -> str:
    # In one line if it is short; a value of several lines is indented below its name.
    value = pformat(args, indent=1, width=88, sort_dicts=False)
    return (
        "from covalt_git import open_project\n\n"
        f"args = {value}\n"
        "with open_project() as project:\n"
        f"    result = project.open_chat({chat_id!r}).call({tool_id!r}, args)\n"
        "    print(result.status, result.value)\n"
    )
