"""Toolsets over the API: what is in them, what is wrong with them, on and off, and who sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from covalt_git.grants.grants import grant_process, grant_server
from tests.api_client import HOME, Api, configure, refused

FORECAST = """\
manifest_version: "1"
id: forecast
name: Forecast
version: "1"
tools:
  - {id: city, http: {url: "https://example.com/{city}"}, input_schema: {type: object}}
mcp_servers:
  - {id: maps, command: maps-server, args: [--stdio], env: {KEY: "${MAPS_KEY}"}}
  - {id: far, url: "https://example.com/mcp", requires_confirmation: false}
"""
ROLES = """\
default_role: reader
roles:
  reader: {allow: ["app-builder.read_file", "app-builder.list_files", "data-lab.**"]}
  owner: {admin: true}
"""


def write(root: Path, path: str, text: str) -> None:
    file = root / "toolsets" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_the_toolsets_are_listed_with_their_tools_counted(api: Api) -> None:
    rows = {row["id"]: row for row in api.get("list_toolsets")["toolsets"]}

    assert {name: row["tools"] for name, row in rows.items()} == {
        "app-builder": 6,
        "data-lab": 4,
        "text-kit": 5,
    }
    assert rows["app-builder"]["name"] == "App Builder"
    assert rows["app-builder"]["enabled"] is rows["app-builder"]["sound"] is True
    assert rows["app-builder"]["imported"] is False
    assert rows["app-builder"]["digest"].startswith("sha256:")


def test_a_toolset_tells_its_tools_files_and_servers(api: Api) -> None:
    write(api.root, "forecast/toolset.yaml", FORECAST)
    told = api.get("get_toolset", toolset_id="forecast")

    assert [tool["tool_id"] for tool in told["tools"]] == ["forecast:city"]
    assert [(file["path"], file["kind"]) for file in told["files"]] == [("toolset.yaml", "config")]
    assert [server["id"] for server in told["mcp_servers"]] == ["maps", "far"]
    assert told["mcp_servers"][0]["server_type"] == "stdio"
    assert told["mcp_servers"][0]["command"] == "maps-server"
    assert told["mcp_servers"][1]["server_type"] == "streamable-http"
    assert told["mcp_servers"][1]["requires_confirmation"] is False
    assert told["problems"] == []


def test_a_mistake_is_told_with_its_place_and_its_hint(api: Api) -> None:
    assert api.get("get_toolset", toolset_id="app-builder")["sound"]
    file = api.root / "toolsets/app-builder/toolset.yaml"
    file.write_text(file.read_text().replace("entrypoint: tools.files:read_file", "entrypont: x"))
    told = api.get("get_toolset", toolset_id="app-builder")
    row = next(row for row in api.get("list_toolsets")["toolsets"] if row["id"] == "app-builder")
    problem = next(one for one in told["problems"] if one["code"] == "CG201")

    assert told["sound"] is row["sound"] is False
    assert problem["path"] == "toolsets/app-builder/toolset.yaml"
    assert problem["line"] > 1
    assert problem["hint"].startswith("write 'entrypoint'")
    assert told["errors"] == row["errors"] == len(told["problems"])
    assert told["name"] == row["name"] == "App Builder"


def test_a_toolset_that_was_never_sound_is_listed_under_its_id(api: Api) -> None:
    write(api.root, "odd/toolset.yaml", "id: [")
    row = next(row for row in api.get("list_toolsets")["toolsets"] if row["id"] == "odd")

    assert (row["name"], row["version"], row["sound"], row["digest"]) == ("odd", "", False, None)
    assert api.get("get_toolset", toolset_id="odd")["errors"] == 1


def test_a_toolset_is_switched_off_and_on(api: Api) -> None:
    state = api.root / "toolsets/state/data-lab.yaml"
    off = {"toolset_id": "data-lab", "enabled": False}

    assert api.post("enable_toolset", **off) == off | {"changed": True}
    assert api.post("enable_toolset", **off) == off | {"changed": False}
    assert "enabled: false" in state.read_text()
    assert api.get("get_toolset", toolset_id="data-lab")["enabled"] is False
    refused(
        api.tell("call_tool", chat_id="c1", tool_id="data-lab:load_sample", args={}),
        403,
        "tool_disabled",
    )
    api.post("enable_toolset", toolset_id="data-lab", enabled=True)
    assert not state.exists()


def test_a_state_file_with_errors_is_not_overwritten(api: Api) -> None:
    write(api.root, "state/data-lab.yaml", "enabld: false\n")
    told = refused(
        api.tell("enable_toolset", toolset_id="data-lab", enabled=True), 400, "invalid_request"
    )

    assert told["problems"][0]["path"] == "toolsets/state/data-lab.yaml"
    assert (api.root / "toolsets/state/data-lab.yaml").read_text() == "enabld: false\n"


def test_a_name_that_is_none_meets_the_nearest(api: Api) -> None:
    told = refused(api.ask("get_toolset", toolset_id="data-lap"), 404, "unknown_toolset")

    assert told["hint"].startswith("did you mean 'data-lab'?")


def test_the_etag_changes_with_whatever_the_answer_tells(api: Api) -> None:
    def etag() -> str:
        return str(api.ask("get_toolset", toolset_id="data-lab").headers["ETag"])

    first = etag()
    again = api.ask("get_toolset", toolset_id="data-lab", headers={"If-None-Match": first})
    api.post("enable_toolset", toolset_id="data-lab", enabled=False)

    assert again.status_code == 304
    assert again.get_data() == b""
    assert re.fullmatch(r'"[0-9a-f]{40}"', first)
    assert etag() != first


@pytest.mark.parametrize(
    ("body", "name"),
    [
        pytest.param({"toolset_id": "data-lab"}, "enabled", id="missing"),
        pytest.param({"toolset_id": "data-lab", "enabled": "yes"}, "enabled", id="type"),
        pytest.param({"toolset_id": "data-lab", "enabled": 1}, "enabled", id="number"),
        pytest.param({"toolset_id": 1, "enabled": True}, "toolset_id", id="no-text"),
        pytest.param({"toolset_id": "x", "enabled": True, "x": 1}, "x", id="unknown"),
    ],
)
def test_a_request_that_says_something_else_is_told_what(
    api: Api, body: dict[str, object], name: str
) -> None:
    told = refused(api.tell("enable_toolset", **body), 400, "invalid_request")

    assert [problem["path"] for problem in told["problems"]] == [name]


def test_a_misspelt_name_of_a_value_meets_the_right_one(api: Api) -> None:
    told = refused(api.ask("get_toolset", toolset="x"), 400, "invalid_request")
    hints = {problem["path"]: problem["hint"] for problem in told["problems"]}

    assert hints == {"toolset": "did you mean 'toolset_id'?", "toolset_id": ""}


@pytest.mark.parametrize(
    ("content", "kind", "status", "code"),
    [
        pytest.param(b"{", "application/json", 400, "invalid_request", id="no-json"),
        pytest.param(b"[]", "application/json", 400, "invalid_request", id="list"),
        pytest.param(b'{"a": 1, "a": 2}', "application/json", 400, "invalid_request", id="twice"),
        pytest.param(b'{"a": NaN}', "application/json", 400, "invalid_request", id="nan"),
        pytest.param(b'{"a": "\xff"}', "application/json", 400, "invalid_request", id="no-utf-8"),
        pytest.param(b'{"a": "\\ud800"}', "application/json", 400, "invalid_request", id="half"),
        pytest.param(b"[" * 99_999, "application/json", 400, "invalid_request", id="deep"),
        pytest.param(b"a=1", "text/plain", 415, "unsupported_media_type", id="form"),
        pytest.param(b"x" * (16 << 20), "application/json", 400, "invalid_request", id="large"),
        pytest.param(
            b"x" * ((16 << 20) + 1),
            "application/json",
            413,
            "request_entity_too_large",
            id="too-large",
        ),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(
    api: Api, content: bytes, kind: str, status: int, code: str
) -> None:
    response = api.client().post(
        "/api/enable_toolset",
        base_url=HOME,
        data=content,
        content_type=kind,
        headers={"Authorization": "Bearer the-token-of-this-test"},
    )

    refused(response, status, code)


def test_a_hidden_toolset_does_not_exist(api: Api) -> None:
    configure(api.root, 'default_role: r\nroles: {r: {allow: ["app-builder.**"]}}')

    assert [row["id"] for row in api.get("list_toolsets")["toolsets"]] == ["app-builder"]
    hidden = refused(api.ask("get_toolset", toolset_id="data-lab"), 404, "unknown_toolset")
    none = refused(api.ask("get_toolset", toolset_id="data-lob"), 404, "unknown_toolset")
    assert hidden["hint"] == none["hint"]
    refused(api.tell("enable_toolset", toolset_id="data-lab", enabled=False), 403, "forbidden")
    assert not (api.root / "toolsets/state").exists()


def test_only_who_may_do_everything_switches_toolsets(api: Api) -> None:
    configure(api.root, ROLES)
    owner = Api.of(api.root, role="owner")
    off = {"toolset_id": "app-builder", "enabled": False}

    refused(api.tell("enable_toolset", **off), 403, "forbidden")
    assert not (api.root / "toolsets/state").exists()
    assert owner.post("enable_toolset", **off)["changed"]
    refused(api.tell("enable_toolset", **off | {"enabled": True}), 403, "forbidden")
    assert owner.get("get_toolset", toolset_id="app-builder")["enabled"] is False


def test_of_a_toolset_with_a_hidden_tool_nothing_tells_of_it(api: Api) -> None:
    write(api.root, "forecast/toolset.yaml", FORECAST)
    configure(api.root, ROLES)
    told = api.ask("get_toolset", toolset_id="app-builder")
    row = next(row for row in api.get("list_toolsets")["toolsets"] if row["id"] == "app-builder")

    assert "run_command" not in told.get_data(as_text=True)
    assert "write_file" not in told.get_data(as_text=True)
    assert told.json is not None
    assert told.json["files"] == told.json["problems"] == told.json["mcp_servers"] == []
    assert row["tools"] == len(told.json["tools"]) == 2
    refused(api.ask("get_toolset", toolset_id="forecast"), 404, "unknown_toolset")


def test_errors_of_a_toolset_that_cannot_be_read_are_for_whom_nothing_is_hidden(api: Api) -> None:
    configure(api.root, ROLES)
    write(api.root, "data-lab/toolset.yaml", "id: [")
    owner = Api.of(api.root, role="owner")

    assert api.get("get_toolset", toolset_id="data-lab")["problems"] == []
    assert api.get("list_toolsets")["toolsets"][1]["errors"] == 0
    assert len(owner.get("get_toolset", toolset_id="data-lab")["problems"]) == 1
    assert owner.get("list_toolsets")["toolsets"][1]["errors"] == 1


def test_a_role_that_nobody_defined_may_do_nothing(api: Api) -> None:
    nobody = Api.of(api.root, role="nobody")

    for operation in ("list_toolsets", "list_tools", "get_available_tools"):
        refused(nobody.ask(operation), 403, "unknown_role")


def test_what_covalt_yaml_cannot_say_is_told_for_every_request(api: Api) -> None:
    configure(api.root, "rolls: {}\n")
    told = refused(api.ask("list_toolsets"), 400, "broken_config")

    assert told["problems"][0]["path"] == "covalt.yaml"


def test_the_grant_of_a_server_that_a_role_does_not_see_is_not_told(api: Api) -> None:
    write(api.root, "forecast/toolset.yaml", FORECAST)
    for server_id, kind in (("maps", "process"), ("far", "server")):
        decide = grant_process if kind == "process" else grant_server
        decide(api.root, "forecast", server_id, by="me")
    configure(api.root, 'default_role: a\nroles: {a: {allow: ["forecast.**", "far.**"]}}\n')

    told = api.get("get_toolset", toolset_id="forecast")

    assert [one["id"] for one in told["mcp_servers"]] == ["far"]
    assert list(told["grants"]) == ["server-far"]
