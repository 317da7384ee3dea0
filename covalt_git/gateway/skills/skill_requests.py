"""Requests of the MCP extension for skills: ``skills/list``, ``skills/get`` and ``resources/directory/read`` (SEP-2640)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import mcp_types as types
from mcp import MCPError

from covalt_git.gateway import tool_listing
from covalt_git.gateway.protocol import is_modern
from covalt_git.gateway.skills.offered_skills import MARKDOWN, media_type_of
from covalt_git.models.sources.skill_entry import EXTENSION, SCHEME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server import Server, ServerRequestContext

    from covalt_git.json_values import JsonObject
    from covalt_git.models.sources.skill_entry import SkillEntry

    Request = ServerRequestContext[None]
    Visible = Callable[[Request], Awaitable[Mapping[str, SkillEntry]]]
    """Returns the skills for the client of a request, by their URIs."""

TTL_MS = 5_000
"""Time that clients may cache skills, in milliseconds, as other lists."""

DIRECTORY = "inode/directory"
MOST_ON_A_PAGE = 100
"""Most skills on a page: an entry has up to 512 files, so a page has at most some megabytes."""


class _OfUri(types.RequestParams):
    uri: str


class _OfDirectory(types.PaginatedRequestParams):
    uri: str


def add_to(server: Server[None], visible: Visible) -> None:
    """Declare the extension, and add the handlers of its requests."""

    async def list_skills(ctx: Request, params: types.PaginatedRequestParams) -> JsonObject:
        entries = await visible(ctx)
        listed = {uri: partial(getattr, entry, "as_json") for uri, entry in entries.items()}
        page, cursor = tool_listing.page_of(listed, params, MOST_ON_A_PAGE)
        return _cacheable(ctx, {"skills": page, **_next(cursor)})

    async def get_skill(ctx: Request, params: _OfUri) -> JsonObject:
        entry = (await visible(ctx)).get(params.uri)
        if entry is None:
            raise MCPError(types.INVALID_PARAMS, f"no skill is served at {params.uri!r}")
        return _cacheable(ctx, {"skill": entry.as_json})

    async def read_directory(ctx: Request, params: _OfDirectory) -> JsonObject:
        children = children_of(params.uri, await visible(ctx))
        if not children:
            raise MCPError(types.INVALID_PARAMS, f"{params.uri!r} is not a directory")
        page, cursor = tool_listing.page_of(children, params)
        resources = [
            child.model_dump(mode="json", by_alias=True, exclude_none=True) for child in page
        ]
        return {"resources": resources, **_next(cursor), **_complete(ctx)}

    server.extensions[EXTENSION] = {"directoryRead": True}
    server.add_request_handler("skills/list", types.PaginatedRequestParams, list_skills)
    server.add_request_handler("skills/get", _OfUri, get_skill)
    server.add_request_handler("resources/directory/read", _OfDirectory, read_directory)


def children_of(
    directory: str, skills: Mapping[str, SkillEntry]
) -> dict[str, Callable[[], types.Resource]]:
    """Return the direct children of a directory of skills, by their sorted URIs; none if it is no directory.

    The folders above the skills, such as that of a toolset, are directories too.
    """
    # The URI of the empty path would be that of all toolsets.
    if not directory.startswith(f"{SCHEME}://") or directory.endswith("/"):
        return {}
    children: dict[str, Callable[[], types.Resource]] = {}
    for entry in skills.values():
        for file in entry.files:
            if not file.uri.startswith(f"{directory}/"):
                continue
            name, _, below = file.uri.removeprefix(f"{directory}/").partition("/")
            uri = f"{directory}/{name}"
            children[uri] = partial(_child, entry, uri, is_directory=bool(below))
    return dict(sorted(children.items()))


def _child(entry: SkillEntry, uri: str, *, is_directory: bool) -> types.Resource:
    name = unquote(uri.rpartition("/")[2])
    if is_directory:
        return types.Resource(uri=uri, name=name, mime_type=DIRECTORY)
    if uri == entry.uri:
        description = str(entry.frontmatter["description"])
        return types.Resource(uri=uri, name=entry.name, description=description, mime_type=MARKDOWN)
    return types.Resource(uri=uri, name=name, mime_type=media_type_of(uri))


def _next(cursor: str | None) -> dict[str, str]:
    return {} if cursor is None else {"nextCursor": cursor}


def _complete(ctx: Request) -> dict[str, Any]:
    """Return what each result has since protocol version 2026-07-28."""
    return {"resultType": "complete"} if is_modern(ctx) else {}


def _cacheable(ctx: Request, result: JsonObject) -> JsonObject:
    # Private: roles see different skills.
    cache = {"ttlMs": TTL_MS, "cacheScope": "private"} if is_modern(ctx) else {}
    return {**result, **_complete(ctx), **cache}
