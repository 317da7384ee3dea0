"""Tools that come from other systems' files are imported, granted and called."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http_tools.upstream import Upstream, upstream

Cli = Callable[..., tuple[int, str]]
KEY = "value-of-the-key"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, folder in (("HOME", "home"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("YOUR_API_KEY", KEY)


@pytest.fixture
def far() -> Iterator[Upstream]:
    with upstream() as made:
        yield made


def example_tool(url: str) -> Any:
    """Return a custom tool in the form of Cognipeer's documented example, with requests to another host."""

    def action(name: str, method: str, path: str, **properties: Any) -> Any:
        headers = {"Authorization": "Bearer <YOUR_API_KEY>", "Content-Type": "application/json"}
        return {
            "name": name,
            "description": f"Performs {name}.",
            "displayName": name,
            "api": {"url": f"{url}/echo/{path}", "method": method, "headers": headers},
            "parameters": {"type": "object", "properties": properties},
        }

    text = {"type": "string", "description": "A text."}
    item = {
        "type": "object",
        "description": "The item.",
        "properties": {"size": {"type": "number"}},
    }
    return {
        "name": "ExampleTool",
        "label": "Example Tool",
        "actions": [
            action("getInfo", "GET", "info", infoType=text | {"required": True}),
            action("createItem", "POST", "items", itemName=text | {"required": True}),
            action("changeItem", "PUT", "items/{id}", id=text, body=item, notify=text),
        ],
    }


@pytest.mark.requirement(
    "cognipeer-document",
    "cognipeer-api.url",
    "cognipeer-api.method",
    "cognipeer-api.headers",
    "cognipeer-flow.request",
)
def test_a_custom_tool_sends_its_arguments_where_cognipeer_does(
    root: Path, cli: Cli, far: Upstream
) -> None:
    """``{name}`` in the URL, ``body`` as JSON, all others in the query."""
    file = root / "tool.json"
    file.write_text(json.dumps(example_tool(far.url)))

    def covalt(*args: str) -> str:
        status, shown = cli(*args)
        assert status == 0, shown
        return shown

    covalt("bundle", "import", str(file))
    covalt("grant", "add", "example-tool", "network", far.address)
    covalt("grant", "add", "example-tool", "secret", "YOUR_API_KEY", far.address)
    covalt("toolset", "enable", "example-tool")
    covalt("chat", "new", "--id", "c1")
    for name in ("createItem", "changeItem"):
        covalt("tool", "override", f"example-tool:{name}", "--no-confirm")

    def sent(name: str, **args: Any) -> dict[str, Any]:
        covalt("call", "c1", f"example-tool:{name}", json.dumps(args))
        return far.last

    info = sent("getInfo", infoType="summary")
    created = sent("createItem", itemName="a b")
    changed = sent("changeItem", id="a/b", body={"size": 2}, notify="no")

    assert (info["method"], info["path"], info["query"]) == (
        "GET",
        "/echo/info",
        {"infoType": ["summary"]},
    )
    assert (created["method"], created["query"], created["body"]) == (
        "POST",
        {"itemName": ["a b"]},
        b"",
    )
    assert changed["raw"].startswith("/echo/items/a%2Fb?")
    assert (changed["query"], json.loads(changed["body"])) == ({"notify": ["no"]}, {"size": 2})
    assert {one["headers"]["authorization"] for one in far.seen} == {f"Bearer {KEY}"}
    status, shown = cli("call", "c1", "example-tool:getInfo", "{}")
    assert status != 0
    assert "infoType" in shown
