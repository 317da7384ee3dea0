"""Tools: listed, searched and described, whether each can be called, and what the project overrides."""

from pathlib import Path
from typing import Any

import pytest

from tests.api_client import configure
from tests.examples import rest
from tests.operations_client import Operations

BROKEN = "id: ["


def write_toolset(operate: Operations, toolset_id: str, text: str) -> Path:
    """Write the manifest of a toolset; return its path."""
    file = operate.root / "toolsets" / toolset_id / "toolset.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def rows(operate: Operations, **request: object) -> dict[str, Any]:
    """Return the listed tools by id."""
    groups = operate("list_tools", **request)["groups"]
    return {tool["tool_id"]: tool for group in groups for tool in group["tools"]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        rest("run_command", {"app-builder:run_command"}),
        rest("SUMMARIZE", {"data-lab:summarize"}),
        ("shell workspace", {"app-builder:run_command"}),
        ("no such thing", set()),
    ],
)
def test_a_filter_keeps_tools_that_have_every_word(
    operate: Operations, text: str, found: set[str]
) -> None:
    assert rows(operate, q=text).keys() == found
    assert all(group["tools"] for group in operate("list_tools", q=text)["groups"])


def test_a_tool_is_described_as_it_is_effective_here(operate: Operations) -> None:
    configure(operate.root, "limits: {timeout_s: 7}")
    told = operate("get_tool", tool_id="app-builder:write_file")

    assert (told["toolset_name"], told["path"]) == ("App Builder", "app-builder.write_file")
    assert told["annotations"]["destructive"] is True
    assert told["limits"]["timeout_s"] == 7


def test_an_http_tool_is_callable_while_its_host_is_granted(operate: Operations) -> None:
    operate("add_grant", toolset_id="demo", kind="secret", name="A_KEY", hosts=["api.example"])
    assert rows(operate)["demo:web"]["callable"] is True
    assert "demo.web" in [tool["name"] for tool in operate("get_available_tools")["tools"]]
    operate("revoke_grant", toolset_id="demo", key="network")
    told = operate("get_tool", tool_id="demo.web")

    assert (told["kind"], told["http"]["url"]) == ("http", "https://api.example/")
    assert told["callable"] is False
    assert "https://api.example" in told["why_not"]
    assert rows(operate)["demo:web"]["why_not"] == told["why_not"]
    error = operate.error("call_tool", chat_id="c1", tool_id="demo:web", args={})
    assert error.code == "grant_needed"
    assert "demo.web" not in [tool["name"] for tool in operate("get_available_tools")["tools"]]


def test_tools_of_a_broken_toolset_are_listed_and_not_available(operate: Operations) -> None:
    before = rows(operate)
    available = operate("get_available_tools")["tools"]
    write_toolset(operate, "data-lab", BROKEN)
    row = rows(operate)["data-lab:summarize"]

    assert rows(operate).keys() == before.keys()
    assert (row["callable"], bool(row["why_not"])) == (False, True)
    assert {group["id"] for group in operate("list_tools")["groups"] if not group["sound"]} == {
        "data-lab"
    }
    assert len(operate("get_available_tools")["tools"]) == len(available) - 4
    assert operate.error("get_tool", tool_id="data-lab:summarize").code == "broken_toolset"


def test_arguments_are_checked_without_a_call(operate: Operations) -> None:
    configure(operate.root, 'approvals: [{pattern: "**", when: {args: {path: "*.env"}}}]')
    before = operate("list_calls", chat_id="c1")
    tool = "app-builder:write_file"
    bad = operate("check_arguments", tool_id=tool, args={"path": 1})
    good = operate("check_arguments", tool_id=tool, args={"path": "x.env", "content": "1"})
    other = operate("check_arguments", tool_id=tool, args={"path": "x", "content": "1"})

    assert [problem["path"] for problem in bad["problems"]] == ["$", "$.path"]
    assert (good["problems"], len(good["confirmation"])) == ([], 1)
    assert other == {"problems": [], "confirmation": []}
    assert operate("list_calls", chat_id="c1") == before


def test_a_hidden_tool_is_reported_as_unknown(operate: Operations) -> None:
    allowed = '["app-builder.read_file", "app-builder.list_files", "data-lab.**"]'
    configure(operate.root, f"default_role: reader\nroles: {{reader: {{allow: {allowed}}}}}\n")
    hidden = operate.error("get_tool", tool_id="app-builder:write_file")
    unknown = operate.error("get_tool", tool_id="app-builder:write_fila")
    found = operate("search_tools", query="write a file in the workspace")["tools"]
    visible = {
        *("app-builder:list_files", "app-builder:read_file", "data-lab:load_sample"),
        *("data-lab:report", "data-lab:select_rows", "data-lab:summarize"),
    }

    assert rows(operate).keys() == visible
    assert rows(operate, q="write file workspace").keys() <= visible
    assert {tool["tool_id"] for tool in found} <= visible
    assert (hidden.code, hidden.hint) == (unknown.code, unknown.hint)
    assert len(operate("get_available_tools")["tools"]) == len(visible)
    for name in ("check_arguments", "call_tool"):
        request = {"chat_id": "c1"} if name == "call_tool" else {}
        error = operate.error(name, tool_id="app-builder:write_file", args={}, **request)
        assert error.code == "unknown_tool"


def test_a_server_is_listed_where_one_of_its_tools_would_be_visible(operate: Operations) -> None:
    configure(
        operate.root,
        'default_role: r\nroles: {r: {allow: ["demo.**", "far.**", "given.**", "pets.**"]}}',
    )

    assert [group["id"] for group in operate("list_tools")["groups"]] == ["demo", "far"]
    servers = operate("get_toolset", toolset_id="demo")["mcp_servers"]
    assert [server["id"] for server in servers] == ["far", "given"]
