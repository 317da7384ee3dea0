"""Skills that a server lists, by the MCP extension for skills (SEP-2640)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from pydantic import Field

from covalt_git.models.sources.skill_entry import (
    EXTENSION,
    BadSkillError,
    compared_uri,
    json_size,
    parsed_entry,
    unportable_files,
)
from covalt_git.models.sources.tool_lock import BadDefinitionError, locked_offer
from covalt_git.text import display

if TYPE_CHECKING:
    from mcp import Client

    from covalt_git.json_values import JsonObject

LIST_S = 60.0
"""Time limit of all pages of a server's skills, in seconds."""

MOST_SKILLS = 1000
"""The most skills of a server that its lock has."""

_MOST_BYTES = 8 << 20
"""The most bytes of their entries together, of at most 16 MiB of a lock."""

_MOST_SHOWN = 200


class _Page(types.PaginatedResult):
    # Any, because one malformed entry must not hide the others.
    skills: list[Any] = Field(default_factory=list)


async def listed_skills(client: Client, most_pages: int) -> tuple[list[JsonObject], list[str]]:
    """Return the entries of a server's skills, and why others are left out; both are empty without the extension.

    No file of a skill is read: hosts must not before it is needed.
    """
    if EXTENSION not in (client.server_capabilities.extensions or {}):
        return [], []
    entries: list[JsonObject] = []
    notes: list[str] = []
    with anyio.move_on_after(LIST_S) as limit:
        await _list(client, most_pages, entries, notes)
    if limit.cancelled_caught:
        notes.append(f"other skills are not listed: the server takes longer than {LIST_S:g} s")
    return entries, notes


async def _list(
    client: Client, most_pages: int, entries: list[JsonObject], notes: list[str]
) -> None:
    uris = set[str]()
    left = _MOST_BYTES
    cursor: str | None = None
    for _ in range(most_pages):
        params = types.PaginatedRequestParams(cursor=cursor)
        request: types.Request[Any, Any] = types.Request(method="skills/list", params=params)
        page = await client.session.send_request(request, _Page)
        for entry in page.skills:
            fields = entry if isinstance(entry, dict) else {}
            uri = display.in_line(display.shorten(str(fields.get("uri")), _MOST_SHOWN))
            try:
                skill = parsed_entry(fields)
                locked_offer("skill", fields)
            except (BadSkillError, BadDefinitionError) as error:
                notes.append(f"the skill {uri} is not listed: {error.message}")
            else:
                # Two folders with one spelling would be one folder of the reviewer.
                if (spelling := compared_uri(fields["uri"])) in uris:
                    notes.append(f"the skill {uri} is not listed again: its URI is listed twice")
                    continue
                if len(entries) == MOST_SKILLS:
                    notes.append(f"other skills are not listed: at most {MOST_SKILLS:,} are")
                    return
                left -= json_size(fields)
                if left < 0:
                    notes.append(
                        f"other skills are not listed: the entries have more than {_MOST_BYTES:,} bytes"
                    )
                    return
                uris.add(spelling)
                entries.append(fields)
                for path, reason in unportable_files(skill).items():
                    name = display.in_line(display.shorten(path, _MOST_SHOWN))
                    notes.append(f"the skill {uri} is listed, but its file {name!r}: {reason}")
        cursor = page.next_cursor
        if cursor is None:
            return
