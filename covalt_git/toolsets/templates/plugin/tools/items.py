"""The tools of my-toolset: the items of a service, with the token of the user's sign-in."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from covalt_toolset import get_context, tool

API = "https://api.example.com"


@tool(name="List Items")
def list_items(limit: int = 10) -> list[dict[str, Any]]:
    """List items of the service.

    Args:
        limit: The most items to return.
    """
    items: list[dict[str, Any]] = _request("GET", f"/items?limit={limit}")["items"]
    return items


@tool(name="Create Item")
def create_item(name: str) -> dict[str, Any]:
    """Create an item of the service.

    Args:
        name: Its name.
    """
    item: dict[str, Any] = _request("POST", "/items", {"name": name})
    return item


def _request(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    # For each request: the token may be renewed meanwhile.
    token = get_context().auth.get_token("my-toolset")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{API}{path}", data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
