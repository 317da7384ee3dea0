"""Tools over the API: which there are, what they take, and why one cannot be called."""

from __future__ import annotations

from typing import Any

import pytest

from covalt_git.runtime import sandbox
from covalt_git.toolsets.toolset import read_toolset
from tests.api_client import Api, configure, refused
from tests.server.api.test_toolsets import FORECAST, ROLES, write

WHEN = 'granted_at: "2026-11-20T17:24:00Z", granted_by: local'


def rows(api: Api, **query: object) -> dict[str, Any]:
    """Return the tools that are listed, by id."""
    groups = api.get("list_tools", **query)["groups"]
    return {tool["tool_id"]: tool for group in groups for tool in group["tools"]}


def test_tools_are_grouped_by_their_owner(api: Api) -> None:
    write(api.root, "forecast/toolset.yaml", FORECAST)
    groups = api.get("list_tools")["groups"]

    assert [(group["kind"], group["id"]) for group in groups] == [
        ("toolset", "app-builder"),
        ("toolset", "data-lab"),
        ("toolset", "forecast"),
        ("toolset", "text-kit"),
        ("mcp_server", "far"),
        ("mcp_server", "maps"),
    ]
    assert groups[5]["note"] == ("declared by forecast; nobody asked it which tools it has")


def test_a_row_tells_renderer_and_who_asks(api: Api) -> None:
    found = rows(api)

    assert found["data-lab:summarize"]["renderer"] == "html"
    assert found["data-lab:summarize"]["requires_confirmation"] == []
    assert found["app-builder:run_command"]["requires_confirmation"] == ["the toolset asks"]
    assert found["app-builder:list_files"]["renderer"] is None
    assert all(tool["callable"] and tool["why_not"] == "" for tool in found.values())


def test_a_rule_of_the_project_counts_among_those_who_ask(api: Api) -> None:
    configure(api.root, 'approvals: [{pattern: "app-builder.write_*"}]')

    assert rows(api)["app-builder:write_file"]["requires_confirmation"] == [
        "rule app-builder.write_* asks"
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param("run_command", {"app-builder:run_command"}, id="id"),
        pytest.param("SUMMARIZE", {"data-lab:summarize"}, id="case"),
        pytest.param("shell workspace", {"app-builder:run_command"}, id="words"),
        pytest.param("no such thing", set(), id="nothing"),
    ],
)
def test_searching_finds_the_tools_that_have_every_word(
    api: Api, asked: str, found: set[str]
) -> None:
    assert rows(api, q=asked).keys() == found
    assert all(group["tools"] for group in api.get("list_tools", q=asked)["groups"])


def test_a_search_answers_with_the_tools_most_alike(api: Api) -> None:
    def found(query: str, **more: object) -> list[str]:
        tools = api.get("search_tools", query=query, **more)["tools"]
        return [tool["tool_id"] for tool in tools]

    assert found("How do I run a shel comand?", limit=1) == ["app-builder:run_command"]
    assert found("sumarize")[0] == "data-lab:summarize"
    assert found("summarize", toolset_id="app-builder", limit=1) != ["data-lab:summarize"]
    assert found("zeppelin") == []
    refused(api.ask("search_tools", query="a", limit=0), 400, "invalid_request")


def test_a_tool_tells_all_that_is_in_force(api: Api) -> None:
    configure(api.root, "limits: {timeout_s: 7}")
    told = api.get("get_tool", tool_id="app-builder:write_file")

    assert told["toolset_name"] == "App Builder"
    assert told["path"] == "app-builder.write_file"
    assert told["renderer"]["type"] == "code"
    assert told["renderer"]["config"]["editable"] is True
    assert told["input_schema"]["required"] == ["path", "content"]
    assert told["annotations"]["destructive"] is True
    assert told["examples"][0]["args"] == {"path": "index.html", "content": "hi"}
    assert told["limits"]["timeout_s"] == 7
    assert told["entrypoint"] == "tools.files:write_file"
    assert told["http"] is None


def test_an_http_tool_is_told_and_is_not_callable_before_its_host_is_granted(api: Api) -> None:
    write(api.root, "forecast/toolset.yaml", FORECAST)
    told = api.get("get_tool", tool_id="forecast.city")

    assert (told["kind"], told["callable"]) == ("http", False)
    assert told["http"]["url"] == "https://example.com/{city}"
    assert told["why_not"] == "the toolset 'forecast' may not reach https://example.com"
    assert rows(api)["forecast:city"]["why_not"] == told["why_not"]
    asked = api.tell("call_tool", chat_id="c1", tool_id="forecast:city", args={"city": "Kiel"})
    refused(asked, 403, "grant_needed")


def test_an_http_tool_whose_host_was_granted_is_callable(api: Api) -> None:
    write(api.root, "forecast/toolset.yaml", FORECAST)
    digest = read_toolset(api.root, "forecast").digest
    grant = f"{{kind: network, hosts: [example.com], digest: '{digest}', {WHEN}}}"
    write(api.root, "state/forecast.yaml", f"grants:\n  web: {grant}\n")

    assert rows(api)["forecast:city"]["callable"] is True
    assert api.get("get_tool", tool_id="forecast.city")["why_not"] == ""


def test_a_broken_toolset_is_told_with_all_its_errors(api: Api) -> None:
    file = api.root / "toolsets/app-builder/toolset.yaml"
    file.write_text(file.read_text().replace("entrypoint: tools.files:read_file", "entrypont: x"))
    told = refused(api.ask("get_tool", tool_id="app-builder:write_file"), 409, "broken_toolset")
    group = api.get("list_tools")["groups"][0]

    assert told["problems"][0]["code"] == "CG201"
    assert group["note"] == "it has errors, so none of its tools can be called"


def test_tools_of_a_broken_toolset_are_listed_as_they_were(api: Api) -> None:
    rows(api)
    write(api.root, "data-lab/toolset.yaml", "id: [")
    row = rows(api)["data-lab:summarize"]

    assert (row["callable"], row["why_not"]) == (False, "its toolset has errors")
    assert len(api.get("get_available_tools")["tools"]) == 11


def test_a_disabled_toolset_says_so_at_every_tool(api: Api) -> None:
    api.post("enable_toolset", toolset_id="data-lab", enabled=False)
    found = rows(api)

    assert found["data-lab:summarize"]["why_not"] == "its toolset is disabled"
    assert found["data-lab:summarize"]["enabled"] is False
    assert found["app-builder:write_file"]["callable"] is True


def test_an_imported_toolset_is_callable_where_walls_hold_and_nowhere_else(api: Api) -> None:
    digest = api.get("get_toolset", toolset_id="data-lab")["digest"]
    write(
        api.root,
        "state/data-lab.yaml",
        f'source_type: zip\nsource_ref: x.zip\ndigest: "{digest}"\nenabled: true\n',
    )
    row = rows(api)["data-lab:summarize"]

    assert api.get("get_toolset", toolset_id="data-lab")["imported"] is True
    if sandbox.level() != "process":
        assert row["callable"] is True
        assert api.call("data-lab:load_sample")["sandbox"] == sandbox.level()
        return
    assert row["callable"] is False
    assert "was imported" in row["why_not"]
    refused(
        api.tell("call_tool", chat_id="c1", tool_id="data-lab:load_sample", args={}),
        403,
        "sandbox_needed",
    )


def test_available_tools_are_named_as_agents_name_them(api: Api) -> None:
    tools = {tool["name"]: tool for tool in api.get("get_available_tools")["tools"]}

    assert len(tools) == 15
    assert tools["app-builder.write_file"]["input_schema"]["required"] == ["path", "content"]
    assert tools["app-builder.read_file"]["annotations"]["read_only"] is True


def test_arguments_are_checked_without_a_call(api: Api) -> None:
    configure(api.root, 'approvals: [{pattern: "**", when: {args: {path: "*.env"}}}]')
    tool = "app-builder:write_file"
    bad = api.post("check_arguments", tool_id=tool, args={"path": 1})
    good = api.post("check_arguments", tool_id=tool, args={"path": "x.env", "content": "1"})

    assert bad["problems"] == [
        {"path": "$", "message": "'content' is missing"},
        {"path": "$.path", "message": "must be a text, not an integer"},
    ]
    assert good == {"problems": [], "confirmation": ["rule ** asks"]}
    assert api.get("list_calls", chat_id="c1")["calls"] == []


@pytest.mark.parametrize("tool_id", ["app-builder:write_fil", "nonsense", "", "a:b:c", "../x:y"])
def test_a_tool_that_is_none_is_unknown(api: Api, tool_id: str) -> None:
    refused(api.ask("get_tool", tool_id=tool_id), 404, "unknown_tool")
    refused(api.tell("check_arguments", tool_id=tool_id), 404, "unknown_tool")


def test_a_hidden_tool_does_not_exist(api: Api) -> None:
    configure(api.root, ROLES)
    hidden = refused(api.ask("get_tool", tool_id="app-builder:write_file"), 404, "unknown_tool")
    none = refused(api.ask("get_tool", tool_id="app-builder:write_fila"), 404, "unknown_tool")

    assert rows(api).keys() == {
        "app-builder:list_files",
        "app-builder:read_file",
        "data-lab:load_sample",
        "data-lab:report",
        "data-lab:select_rows",
        "data-lab:summarize",
    }
    assert rows(api, q="write file workspace").keys() <= rows(api).keys()
    assert hidden["hint"] == none["hint"]
    assert len(api.get("get_available_tools")["tools"]) == 6
    refused(api.tell("check_arguments", tool_id="app-builder:write_file"), 404, "unknown_tool")
    refused(
        api.tell("call_tool", chat_id="c1", tool_id="app-builder:write_file", args={}),
        404,
        "unknown_tool",
    )


def test_a_server_of_which_every_tool_would_be_hidden_does_not_exist(api: Api) -> None:
    write(api.root, "forecast/toolset.yaml", FORECAST)
    configure(api.root, 'default_role: r\nroles: {r: {allow: ["forecast.**", "far.**"]}}')

    assert [group["id"] for group in api.get("list_tools")["groups"]] == ["forecast", "far"]
    servers = api.get("get_toolset", toolset_id="forecast")["mcp_servers"]
    assert [server["id"] for server in servers] == ["far"]
