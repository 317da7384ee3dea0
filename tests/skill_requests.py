"""Requests of the MCP extension for skills, which the SDK's client has no methods for."""

from typing import Any

import mcp_types as types
from mcp import Client
from pydantic import ConfigDict


class Answer(types.Result):
    """Any result, with all of its keys."""

    model_config = ConfigDict(extra="allow")


async def request(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """Return the result of a request by the raw method of the SDK."""
    model = type("Params", (types.RequestParams,), {"model_config": ConfigDict(extra="allow")})
    sent: types.Request[Any, Any] = types.Request(method=method, params=model(**params))
    answer = await client.session.send_request(sent, Answer)
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


async def list_skills(client: Client) -> list[dict[str, Any]]:
    """Return the entries of all pages."""
    entries: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await request(client, "skills/list", **cursor)
        entries += page["skills"]
        if "nextCursor" not in page:
            return entries
        cursor = {"cursor": page["nextCursor"]}


async def get_skill(client: Client, uri: str) -> dict[str, Any]:
    """Return the entry of a skill."""
    entry: dict[str, Any] = (await request(client, "skills/get", uri=uri))["skill"]
    return entry


async def read_directory(client: Client, uri: str) -> list[dict[str, Any]]:
    """Return the children of a directory."""
    answer = await request(client, "resources/directory/read", uri=uri)
    children: list[dict[str, Any]] = answer["resources"]
    return children
